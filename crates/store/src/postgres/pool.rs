//! Connections. Ingest, settlements, renewals, the engine's reads and what nodes say to each other have their own, so
//! that a crowd of API reads never stands before them; all are made when they are needed and made again when they are lost.
//!
//! Statements are unnamed and carry their types, and nothing is set on a session: everything here passes through a
//! pooler in transaction mode. Every wait has an end: a stalled database is noticed, and a connection whose last word
//! was not heard is never used again; the server is told to stop what it still does there.

use super::{
    rows::Rows,
    statement::{Params, Statement},
    tls,
    trouble::{Doubt, Trouble, in_full},
    url::Address,
};
use crate::{OpenError, StoreError};
use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use domain::limits;
use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};
use tokio::{runtime::Handle, sync::Semaphore, time::timeout};
use tokio_postgres::error::Severity;
use tokio_postgres_rustls::MakeRustlsConnect;

pub(super) struct Pools {
    general: Pool,
    ingest: Pool,
    settle: Pool,
    lease: Pool,
    engine: Pool,
    nodes: Pool,
    canceller: Canceller,
}

/// For the engine's reads: a fetch, destinations and a large payload at a time; and for a chunk of an expansion.
const ENGINE_CONNECTIONS: usize = 4;
/// For what nodes say to each other: a wake-up does not wait while shards are handed over.
const NODES_CONNECTIONS: usize = 2;
/// Statements that the server is being asked to stop. What exceeds it runs to its own end.
const CANCELS_AT_ONCE: usize = 4;

impl Pools {
    pub(super) fn new(address: &Address, size: usize) -> Result<Self, OpenError> {
        let pool = |size| {
            let config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
            let manager =
                Manager::from_config(address.config.clone(), tls::connector(address.verify)?, config);
            let pool = Pool::builder(manager)
                .max_size(size)
                .wait_timeout(Some(limits::STORE_CONNECT))
                .create_timeout(Some(limits::STORE_CONNECT))
                .runtime(Runtime::Tokio1)
                .build();
            Ok(pool.expect("a runtime is given for the timeouts"))
        };
        // Three to ingest: two commits may be under way, and the chore that forgets old keys does not make them wait.
        Ok(Self {
            general: pool(size.max(1))?,
            ingest: pool(3)?,
            settle: pool(1)?,
            lease: pool(1)?,
            engine: pool(ENGINE_CONNECTIONS)?,
            nodes: pool(NODES_CONNECTIONS)?,
            canceller: Canceller {
                tls: tls::connector(address.verify)?,
                permits: Arc::new(Semaphore::new(CANCELS_AT_ONCE)),
            },
        })
    }

    /// For the API, health checks and chores.
    pub(super) async fn general(&self) -> Result<Connection, StoreError> {
        self.take(&self.general).await
    }

    pub(super) async fn ingest(&self) -> Result<Connection, StoreError> {
        self.take(&self.ingest).await
    }

    pub(super) async fn settle(&self) -> Result<Connection, StoreError> {
        self.take(&self.settle).await
    }

    /// For renewals, and for nothing else: a node that cannot renew is replaced.
    pub(super) async fn lease(&self) -> Result<Connection, StoreError> {
        self.take(&self.lease).await
    }

    /// For what the engine reads to deliver.
    pub(super) async fn engine(&self) -> Result<Connection, StoreError> {
        self.take(&self.engine).await
    }

    /// For wake-ups, shards, published lanes and versions: what nodes say to each other.
    pub(super) async fn nodes(&self) -> Result<Connection, StoreError> {
        self.take(&self.nodes).await
    }

    async fn take(&self, pool: &Pool) -> Result<Connection, StoreError> {
        // Over all: waiting, looking whether an old one still lives, and making a new one.
        let taken = timeout(limits::STORE_CONNECT, pool.get()).await;
        match taken {
            Ok(Ok(object)) => Ok(Connection {
                object: Some(object),
                open: AtomicU32::new(0),
                canceller: self.canceller.clone(),
            }),
            Ok(Err(error)) => Err(StoreError::Unavailable(in_full(&error))),
            Err(_) => Err(Trouble::deadline(Doubt::Harmless).into()),
        }
    }
}

/// Tells the server that a statement is no longer waited for: closing the connection alone would not stop it.
#[derive(Clone)]
struct Canceller {
    tls: MakeRustlsConnect,
    permits: Arc<Semaphore>,
}

impl Canceller {
    fn cancel(&self, client: &tokio_postgres::Client) {
        let (Ok(permit), Ok(runtime)) = (self.permits.clone().try_acquire_owned(), Handle::try_current())
        else {
            return;
        };
        let (token, tls) = (client.cancel_token(), self.tls.clone());
        runtime.spawn(async move {
            // It travels on a connection of its own. If it does not arrive, the statement ends by itself.
            if !matches!(timeout(limits::STORE_CONNECT, token.cancel_query(tls)).await, Ok(Ok(()))) {
                tracing::debug!("a statement that was given up could not be cancelled");
            }
            drop(permit);
        });
    }
}

/// A connection that goes back to its pool, unless something on it was left unfinished.
pub(super) struct Connection {
    object: Option<Object>,
    /// Statements and transactions that were begun and have not ended.
    open: AtomicU32,
    canceller: Canceller,
}

impl Connection {
    fn client(&self) -> &tokio_postgres::Client {
        self.object.as_ref().expect("there until it is dropped")
    }

    pub(super) async fn read(&self, statement: &Statement, params: Params<'_, '_>) -> Result<Rows, Trouble> {
        self.run(Doubt::Harmless, statement, params).await
    }

    /// One statement that is its own transaction: answered means committed and flushed.
    pub(super) async fn write(&self, statement: &Statement, params: Params<'_, '_>) -> Result<Rows, Trouble> {
        self.run(Doubt::Writes, statement, params).await
    }

    async fn run(
        &self,
        doubt: Doubt,
        statement: &Statement,
        params: Params<'_, '_>,
    ) -> Result<Rows, Trouble> {
        let values = statement.values(&params);
        let rows = self.answered(doubt, self.client().query_typed(&statement.text, &values)).await?;
        Ok(Rows::new(statement.name, rows))
    }

    /// Several statements that hold together or not at all: see [`Transaction::end`]. A node that falls asleep in between
    /// does not keep the others from what it has locked: the server ends its transaction.
    pub(super) async fn begin(&self) -> Result<Transaction<'_>, Trouble> {
        let guard = OpenStatement::of(self);
        let idle = limits::STORE_TRANSACTION_IDLE.as_millis();
        let begin = format!("begin; set local idle_in_transaction_session_timeout = {idle}");
        self.answered(Doubt::Harmless, self.client().batch_execute(&begin)).await?;
        Ok(Transaction { connection: self, guard })
    }

    async fn answered<T>(
        &self,
        doubt: Doubt,
        statement: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Trouble> {
        let guard = OpenStatement::of(self);
        match timeout(limits::STORE_STATEMENT, statement).await {
            Ok(Ok(answer)) => {
                guard.ended();
                Ok(answer)
            }
            Ok(Err(error)) => {
                if survives(&error) {
                    guard.ended();
                }
                Err(Trouble::of(error, doubt))
            }
            Err(_) => Err(Trouble::deadline(doubt)),
        }
    }
}

/// Whether the connection is good after this: the server spoke, and did not say good-bye.
fn survives(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|word| word.parsed_severity() == Some(Severity::Error))
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(object) = self.object.take()
            && *self.open.get_mut() > 0
        {
            // Closes it.
            drop(Object::take(object));
        }
    }
}

/// Something under way on a connection. If it never ends (deadline, caller gone), it is cancelled and the connection
/// closed.
struct OpenStatement<'a> {
    connection: &'a Connection,
    ended: bool,
}

impl<'a> OpenStatement<'a> {
    fn of(connection: &'a Connection) -> Self {
        connection.open.fetch_add(1, Ordering::Relaxed);
        Self { connection, ended: false }
    }

    fn ended(mut self) {
        self.ended = true;
    }
}

impl Drop for OpenStatement<'_> {
    fn drop(&mut self) {
        let client = self.connection.client();
        if self.ended {
            self.connection.open.fetch_sub(1, Ordering::Relaxed);
        } else if !client.is_closed() {
            self.connection.canceller.cancel(client);
        }
    }
}

pub(super) struct Transaction<'a> {
    connection: &'a Connection,
    guard: OpenStatement<'a>,
}

impl Transaction<'_> {
    pub(super) async fn run(&self, statement: &Statement, params: Params<'_, '_>) -> Result<Rows, Trouble> {
        self.connection.read(statement, params).await
    }

    /// A statement that has no parameters and answers nothing, as those that change tables.
    pub(super) async fn execute(&self, sql: &str) -> Result<(), Trouble> {
        self.connection.answered(Doubt::Harmless, self.connection.client().batch_execute(sql)).await
    }

    /// Commits what went well and rolls back what did not.
    pub(super) async fn end<T, E: From<Trouble>>(self, result: Result<T, E>) -> Result<T, E> {
        let Self { connection, guard } = self;
        let (word, doubt) = match &result {
            Ok(_) => ("commit", Doubt::Writes),
            Err(_) => ("rollback", Doubt::Harmless),
        };
        let ended = connection.answered(doubt, connection.client().batch_execute(word)).await;
        if ended.is_ok() {
            guard.ended();
        }
        match result {
            Ok(value) => ended.map(|()| value).map_err(E::from),
            Err(error) => Err(error),
        }
    }
}
