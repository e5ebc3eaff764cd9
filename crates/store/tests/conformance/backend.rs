//! The stores there are, each opened fresh for one test and cleaned up behind it.

use crate::fixtures::World;
use domain::{
    id::NodeId,
    time::{Clock, Timestamp},
};
use futures_util::FutureExt;
use std::{
    future::Future,
    panic::{AssertUnwindSafe, resume_unwind},
    sync::{Arc, LazyLock},
    time::SystemTime,
};
use store::{Joined, NodeRecord, OpenOptions, Store, memory::MemoryStore};
use tempfile::TempDir;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Backend {
    Memory,
    Sqlite,
    Postgres,
}

impl Backend {
    /// Whether a settlement of a node whose row is gone moves nothing. SQLite has one process at a time, and the lock
    /// on its file is the fence.
    pub(crate) fn fences_nodes(self) -> bool {
        self != Self::Sqlite
    }
}

/// Runs one promise against a new store that one node has joined.
pub(crate) fn check<F: Future<Output = ()>>(backend: Backend, promise: impl FnOnce(World) -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime starts").block_on(async {
        let opened = Opened::new(backend).await;
        let world = World { store: opened.store.clone(), backend: opened.backend, node: opened.node.clone() };
        let kept = AssertUnwindSafe(promise(world)).catch_unwind().await;
        opened.clean_up().await;
        kept.unwrap_or_else(|broken| resume_unwind(broken));
    });
}

/// A store, and what must go when it is no longer needed.
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) backend: Backend,
    /// It has joined, and may settle.
    pub(crate) node: NodeRecord,
    schema: Option<String>,
    _folder: Option<TempDir>,
}

impl Opened {
    pub(crate) async fn new(backend: Backend) -> Self {
        let (store, schema, folder): (Arc<dyn Store>, _, _) = match backend {
            Backend::Memory => (Arc::new(MemoryStore::new(Arc::new(MachineClock))), None, None),
            Backend::Sqlite => {
                let folder = tempfile::tempdir().expect("a folder for the database");
                let url = format!("sqlite:{}", folder.path().join("posthaste.db").display());
                (open(url).await, None, Some(folder))
            }
            Backend::Postgres => {
                let schema = format!("t_{}", NodeId::at(MachineClock.now(), rand::random()));
                (open(format!("{}?schema={schema}", server())).await, Some(schema), None)
            }
        };
        let id = NodeId::at(MachineClock.now(), rand::random());
        let node = NodeRecord { id, label: "first".into(), proof: "first".into(), version: "1.0.0".into() };
        let joined = store.join(&node, domain::limits::LEASE).await.expect("the first node joins");
        assert!(matches!(joined, Joined::Yes { .. }), "{joined:?}");
        Self { store, backend, node, schema, _folder: folder }
    }

    pub(crate) async fn clean_up(self) {
        let Some(schema) = self.schema else { return };
        let (client, connection) = tokio_postgres::connect(&server(), tokio_postgres::NoTls)
            .await
            .expect("the server is still there");
        tokio::spawn(connection);
        client
            .batch_execute(&format!("drop schema if exists {schema} cascade"))
            .await
            .expect("the schema is dropped");
    }
}

async fn open(url: String) -> Arc<dyn Store> {
    let options = OpenOptions { url, pool: 4, accept_data_loss: false };
    store::open(&options).await.unwrap_or_else(|error| panic!("{} does not open: {error}", options.url))
}

/// Never skipped: a store that was not tried is not proven.
fn server() -> String {
    std::env::var("POSTHASTE_TEST_POSTGRES")
        .expect("these tests need PostgreSQL: run `scripts/postgres with cargo test`, which sets POSTHASTE_TEST_POSTGRES")
}

/// The time of this machine, which the database servers on it share.
pub(crate) struct MachineClock;

impl Clock for MachineClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "somebody must know the day: PostgreSQL keeps its rows by it"
    )]
    fn now(&self) -> Timestamp {
        let since_1970 =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is later than 1970");
        Timestamp::MIN.plus(since_1970)
    }
}

/// The whole second in which the tests started: all their times count from here.
pub(crate) static START: LazyLock<Timestamp> =
    LazyLock::new(|| Timestamp::from_seconds(MachineClock.now().seconds()));
