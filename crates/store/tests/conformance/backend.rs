//! The stores there are, each opened fresh for one test and cleaned up behind it.

use crate::fixtures::World;
use domain::{
    audit::AuditRecord,
    id::{AccountId, AuditId, DeliveryId, EventId, NodeId},
    member::Role,
    time::{Clock, Timestamp},
};
use futures_util::FutureExt;
use std::{
    future::Future,
    panic::{AssertUnwindSafe, resume_unwind},
    path::PathBuf,
    sync::{Arc, LazyLock},
    time::SystemTime,
};
use store::{Audit, ChainOwner, NodeRecord, OpenOptions, Store, memory::MemoryStore};
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

    /// Whether several nodes share it. With SQLite the lock on the file proves that all others are dead.
    pub(crate) fn has_many_nodes(self) -> bool {
        self != Self::Sqlite
    }
}

/// Runs one promise against a new store that one node has joined.
pub(crate) fn check<F: Future<Output = ()>>(backend: Backend, promise: impl FnOnce(World) -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime starts").block_on(async {
        let opened = Opened::new(backend).await;
        let world = World {
            store: opened.store.clone(),
            backend: opened.backend,
            node: opened.node.clone(),
            other_nodes: opened.other_nodes.clone(),
            outside: opened.outside.clone(),
        };
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
    pub(crate) other_nodes: OtherNodes,
    pub(crate) outside: Outside,
    schema: Option<String>,
    _folder: Option<TempDir>,
}

/// How another node comes to the same store.
#[derive(Clone)]
pub(crate) enum OtherNodes {
    Memory(Arc<MemoryStore>),
    /// It does not.
    Impossible,
    Url(String),
}

impl OtherNodes {
    /// The store as another node has it; None where there can be one node only.
    pub(crate) async fn open(&self) -> Option<Arc<dyn Store>> {
        match self {
            Self::Memory(store) => Some(Arc::new(store.another())),
            Self::Impossible => None,
            Self::Url(url) => Some(open(url.clone()).await),
        }
    }
}

/// The store past its promises: looked at beside whoever has it, and damaged on purpose.
#[derive(Clone)]
pub(crate) enum Outside {
    Memory(Arc<MemoryStore>),
    Sqlite(PathBuf),
    Postgres { url: String, schema: String },
}

impl Outside {
    pub(crate) async fn look(&self) -> Arc<dyn Audit> {
        let url = match self {
            Self::Memory(store) => return store.clone(),
            Self::Sqlite(path) => format!("sqlite:{}", path.display()),
            Self::Postgres { url, .. } => url.clone(),
        };
        store::open_read_only(&options(url))
            .await
            .unwrap_or_else(|error| panic!("it cannot be looked at: {error}"))
    }

    /// A delivery that waits is not there any more, and has not ended.
    pub(crate) async fn lose_waiting(&self, id: DeliveryId) {
        match self {
            Self::Memory(store) => store.lose_waiting(id),
            _ => self.delete("queue", "delivery_id", id.uuid()).await,
        }
    }

    /// An event is gone, by its retention or by damage; what became of its deliveries is still told.
    pub(crate) async fn lose_event(&self, id: EventId) {
        match self {
            Self::Memory(store) => store.lose_event(id),
            _ => self.delete("events", "id", id.uuid()).await,
        }
    }

    /// One bit of an event's payload is turned over.
    pub(crate) async fn alter_payload(&self, id: EventId) {
        match self {
            Self::Memory(store) => store.alter_payload(id),
            Self::Sqlite(_) => {
                // The first byte of what the tests send is a brace or an x.
                let sql =
                    "update events set payload = cast(x'7a' || substr(payload, 2) as blob) where id = ?1";
                self.damage(sql, id.uuid()).await;
            }
            Self::Postgres { schema, .. } => {
                let sql = format!(
                    "update {schema}.events set payload = set_bit(payload, 0, 1 - get_bit(payload, 0)) where id = $1"
                );
                self.damage(&sql, id.uuid()).await;
            }
        }
    }

    /// An entry of the audit log says something else.
    pub(crate) async fn alter_entry(&self, owner: ChainOwner, id: AuditId) {
        match self {
            Self::Memory(store) => {
                entry_of(store, owner, id, |record| record.entry.action = "nothing".into())
            }
            _ => self.update_entry("action = 'nothing'", id).await,
        }
    }

    /// It stands at another place.
    pub(crate) async fn move_entry(&self, owner: ChainOwner, id: AuditId, number: i64) {
        match self {
            Self::Memory(store) => {
                entry_of(store, owner, id, |record| record.number = number);
                store.alter_audit(owner, |records| records.sort_by_key(|record| record.number));
            }
            _ => self.update_entry(&format!("number = {number}"), id).await,
        }
    }

    /// It is not there any more.
    pub(crate) async fn lose_entry(&self, owner: ChainOwner, id: AuditId) {
        match self {
            Self::Memory(store) => {
                store.alter_audit(owner, |records| records.retain(|record| record.entry.id != id));
            }
            _ => self.delete("audit_entries", "id", id.uuid()).await,
        }
    }

    /// It is there a second time, at another place.
    pub(crate) async fn copy_entry(&self, owner: ChainOwner, id: AuditId, number: i64) {
        const MEMBERS: &str =
            "id, at, actor, key_id, action, object_id, client, request_id, difference, count, hash";
        let copied = |table: &str, place: &str| {
            format!(
                "insert into {table} (account_id, number, {MEMBERS}) \
                 select account_id, {number}, {MEMBERS} from {table} where id = {place}"
            )
        };
        match self {
            Self::Memory(store) => store.alter_audit(owner, |records| {
                let found = records.iter().find(|record| record.entry.id == id).expect("an entry");
                let copy = AuditRecord { number, ..found.clone() };
                records.push(copy);
                records.sort_by_key(|record| record.number);
            }),
            Self::Sqlite(_) => self.damage(&copied("audit_entries", "?1"), id.uuid()).await,
            Self::Postgres { schema, .. } => {
                self.damage(&copied(&format!("{schema}.audit_entries"), "$1"), id.uuid()).await;
            }
        }
    }

    async fn update_entry(&self, set: &str, id: AuditId) {
        let sql = match self {
            Self::Postgres { schema, .. } => format!("update {schema}.audit_entries set {set} where id = $1"),
            _ => format!("update audit_entries set {set} where id = ?1"),
        };
        self.damage(&sql, id.uuid()).await;
    }

    /// How many rows each table has that says whose its rows are. Which ones these are is read from the schema; the model
    /// in memory has none.
    pub(crate) async fn rows_of(&self, account: AccountId) -> Vec<(String, i64)> {
        match self {
            Self::Memory(_) => Vec::new(),
            Self::Sqlite(path) => {
                let connection = rusqlite::Connection::open(path).expect("the file");
                let tables = "select m.name from sqlite_master m join pragma_table_info(m.name) c \
                              where m.type = 'table' and c.name = 'account_id' \
                              union select 'accounts' order by 1";
                let mut tables = connection.prepare(tables).expect("a statement");
                let tables = tables.query_map([], |row| row.get::<_, String>(0)).expect("tables");
                let count = |table: String| {
                    let key = if table == "accounts" { "id" } else { "account_id" };
                    let sql = format!("select count(*) from {table} where {key} = ?1");
                    let id = account.bytes();
                    (table, connection.query_row(&sql, [id], |row| row.get(0)).expect("a count"))
                };
                tables.map(|table| count(table.expect("a name"))).collect()
            }
            Self::Postgres { schema, .. } => {
                let (client, connection) =
                    tokio_postgres::connect(&server(), tokio_postgres::NoTls).await.expect("the server");
                tokio::spawn(connection);
                let tables = "select c.relname::text from pg_class c join pg_attribute a on a.attrelid = c.oid \
                              where c.relnamespace = $1::text::regnamespace and c.relkind in ('r', 'p') \
                              and not c.relispartition and a.attname = 'account_id' \
                              union select 'accounts' order by 1";
                let mut counts = Vec::new();
                for row in client.query(tables, &[schema]).await.expect("tables") {
                    let table: String = row.get(0);
                    let key = if table == "accounts" { "id" } else { "account_id" };
                    let sql = format!("select count(*) from {schema}.{table} where {key} = $1");
                    let count = client.query_one(&sql, &[&account.uuid()]).await.expect("a count").get(0);
                    counts.push((table, count));
                }
                counts
            }
        }
    }

    async fn delete(&self, table: &str, column: &str, id: uuid::Uuid) {
        let sql = match self {
            Self::Postgres { schema, .. } => format!("delete from {schema}.{table} where {column} = $1"),
            _ => format!("delete from {table} where {column} = ?1"),
        };
        self.damage(&sql, id).await;
    }

    /// Past the store, to one row.
    async fn damage(&self, sql: &str, id: uuid::Uuid) {
        let changed = match self {
            Self::Memory(_) => unreachable!("it has no tables"),
            Self::Sqlite(path) => {
                let connection = rusqlite::Connection::open(path).expect("the file");
                connection.busy_timeout(std::time::Duration::from_secs(5)).expect("a setting");
                connection.execute(sql, [id.as_bytes()]).expect("damage") as u64
            }
            Self::Postgres { .. } => {
                let (client, connection) =
                    tokio_postgres::connect(&server(), tokio_postgres::NoTls).await.expect("the server");
                tokio::spawn(connection);
                client.execute(sql, &[&id]).await.expect("damage")
            }
        };
        assert_eq!(changed, 1, "there was nothing to damage");
    }
}

fn entry_of(store: &MemoryStore, owner: ChainOwner, id: AuditId, change: impl FnOnce(&mut AuditRecord)) {
    let found = |records: &mut Vec<AuditRecord>| {
        change(records.iter_mut().find(|record| record.entry.id == id).expect("an entry"));
    };
    store.alter_audit(owner, found);
}

impl Opened {
    pub(crate) async fn new(backend: Backend) -> Self {
        let (store, other_nodes, outside, schema, folder): (Arc<dyn Store>, _, _, _, _) = match backend {
            Backend::Memory => {
                let store = Arc::new(MemoryStore::new(Arc::new(MachineClock)));
                (store.clone(), OtherNodes::Memory(store.clone()), Outside::Memory(store), None, None)
            }
            Backend::Sqlite => {
                let folder = tempfile::tempdir().expect("a folder for the database");
                let path = folder.path().join("posthaste.db");
                let url = format!("sqlite:{}", path.display());
                (open(url).await, OtherNodes::Impossible, Outside::Sqlite(path), None, Some(folder))
            }
            Backend::Postgres => {
                let schema = format!("t_{}", NodeId::at(MachineClock.now(), rand::random()));
                let url = format!("{}?schema={schema}", server());
                let outside = Outside::Postgres { url: url.clone(), schema: schema.clone() };
                (open(url.clone()).await, OtherNodes::Url(url), outside, Some(schema), None)
            }
        };
        let id = NodeId::at(MachineClock.now(), rand::random());
        let node = node(id, "first");
        store.join(&node, domain::limits::LEASE).await.expect("the first node joins");
        Self { store, backend, node, other_nodes, outside, schema, _folder: folder }
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

pub(crate) fn node(id: NodeId, name: &str) -> NodeRecord {
    NodeRecord {
        id,
        label: name.into(),
        proof: name.into(),
        version: "1.0.0".into(),
        role: Role::All,
        address: None,
        master_keys: "k1".into(),
    }
}

fn options(url: String) -> OpenOptions {
    OpenOptions { url, pool: 4, listen_url: None, accept_data_loss: false }
}

async fn open(url: String) -> Arc<dyn Store> {
    let options = options(url);
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
