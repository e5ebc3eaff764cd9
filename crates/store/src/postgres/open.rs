//! Opening: is this a server that keeps what it acknowledges, and has it our tables?

use super::{
    backfill, catalog, dead_letters, durability, expand, history, ingest, order, planned, queue, rights,
    rows::{Cells, Rows, Unreadable},
    settle,
    statement::{Params, Statement, params, sql},
    tls,
    trouble::in_full,
    url::Address,
};
use crate::{
    BoxError, FoundTables, OpenError, StoreError, UnsafeSetting,
    migrations::{self, KNOWN_VERSION, MIGRATIONS_TABLE},
};
use domain::limits;
use std::{sync::LazyLock, time::Duration};
use tokio::task::JoinHandle;
use tokio_postgres::Client;

static LOCK_SCHEMA: LazyLock<Statement> =
    sql!("lock_schema": "select pg_advisory_xact_lock(1886350452, hashtext(:schema))"); // "post", and which schema
static SCHEMA_MISSING: LazyLock<Statement> =
    sql!("schema_missing": "select to_regnamespace(:schema) is null as missing");
pub(super) static FOUND_TABLES: LazyLock<Statement> = sql!("found_tables");
pub(super) static LAST_MIGRATION: LazyLock<Statement> = LazyLock::new(|| {
    let sql = format!("select max(version)::bigint as version from {MIGRATIONS_TABLE}");
    Statement::new("last_migration", &sql)
});

pub(super) async fn check_and_migrate(address: &Address, accept_data_loss: bool) -> Result<(), OpenError> {
    let mut connection = SetupConnection::open(address).await?;
    check(&connection.client, accept_data_loss).await?;
    // The migrations run on `connection`, while `lock` keeps all other nodes out: the lock must outlive each of their
    // transactions, and a lock of a session would not survive a pooler.
    let lock = SetupConnection::open(address).await?;
    let seconds = limits::MIGRATION_WAIT.as_secs();
    let place = address.schema.as_deref().unwrap_or_default();
    answer_in_time(
        seconds,
        lock.client.batch_execute(&format!(
            "begin; set local lock_timeout = '{seconds}s'; set local idle_in_transaction_session_timeout = 0"
        )),
    )
    .await?;
    answer_in_time(seconds + 1, ask(&lock.client, &LOCK_SCHEMA, params![schema: place => TEXT])).await?;
    let migrated = async {
        migrate(&mut connection.client, address).await?;
        let all: [&planned::Planned; 20] = [
            &ingest::COMMIT,
            &ingest::COMMIT_KEYED,
            &ingest::COMMIT_PLAIN,
            &ingest::COMMIT_TAGGED,
            &catalog::DESTINATION_RECORDS,
            &expand::ROUTES_AFTER,
            &expand::NUMBERINGS_OF,
            &queue::FETCH,
            &queue::FETCH_EVENTS,
            &queue::LANES,
            &queue::BACKLOG,
            &settle::SETTLE,
            &settle::SETTLE_TOLD,
            &dead_letters::RESOLVE_CHAINS,
            &order::TAKE_TURNS,
            &order::TRACKS,
            &history::FANOUT_COUNTS,
            &backfill::BACKFILL_EVENTS,
            &backfill::BACKFILL,
            &settle::SETTLE_REPLAYED,
        ];
        planned::make(&connection.client, &all).await.map_err(refused)
    };
    let migrated = migrated.await;
    // Nothing was written on it: whether the rollback arrives or the connection ends, the lock is free.
    let _ = answer_in_time(1, lock.client.batch_execute("rollback")).await;
    migrated
}

async fn migrate(client: &mut Client, address: &Address) -> Result<(), OpenError> {
    let rights = ask(client, &rights::RIGHTS, params![]).await.map_err(refused)?;
    if let Some(missing) = rights::missing(&rights).map_err(unreadable)? {
        return Err(OpenError::NotPermitted(missing.to_string()));
    }
    if let Some(schema) = &address.schema {
        let params = params![schema: schema => TEXT];
        let found = ask(client, &SCHEMA_MISSING, params).await.map_err(refused)?;
        if found.value("missing").map_err(unreadable)? {
            client.batch_execute(&format!("create schema {schema}")).await.map_err(refused)?;
        }
    }
    let found = found_tables(client).await?;
    match found {
        FoundTables::Unreleased => {
            return Err(OpenError::unreleased(
                "the database",
                "an empty one, or in another schema (`?schema=NAME`)",
            ));
        }
        FoundTables::Version(found) if found > KNOWN_VERSION => {
            return Err(OpenError::TooOld(format!(
                "the database has schema version {found}, this binary knows {KNOWN_VERSION}: use a newer binary"
            )));
        }
        _ => {}
    }
    for migration in migrations::missing(migrations::POSTGRES, &found) {
        let transaction = client.transaction().await.map_err(refused)?;
        transaction.batch_execute(&migration.script()).await.map_err(refused)?;
        transaction.commit().await.map_err(refused)?;
    }
    Ok(())
}

async fn found_tables(client: &Client) -> Result<FoundTables, OpenError> {
    let params = params![migrations_table: MIGRATIONS_TABLE => TEXT];
    let tables = ask(client, &FOUND_TABLES, params).await.map_err(refused)?;
    match tables.one(without_list).map_err(unreadable)? {
        Some(found) => Ok(found),
        None => {
            let last = ask(client, &LAST_MIGRATION, params![]).await.map_err(refused)?;
            last_migration(&last).map_err(unreadable)
        }
    }
}

/// None where there is a list of migrations. It comes before any other table: ours without it are from before the first
/// release.
pub(super) fn without_list(cells: &mut Cells<'_, '_>) -> Result<Option<FoundTables>, Unreadable> {
    let found = if cells.get("has_others")? { FoundTables::Unreleased } else { FoundTables::None };
    Ok(if cells.get("has_list")? { None } else { Some(found) })
}

/// The version in the newest entry.
pub(super) fn last_migration(rows: &Rows) -> Result<FoundTables, Unreadable> {
    Ok(rows.value::<Option<i64>>("version")?.map_or(FoundTables::None, FoundTables::Version))
}

/// A server that forgets is no place for promises.
async fn check(client: &Client, accept_data_loss: bool) -> Result<(), OpenError> {
    let rows = ask(client, &durability::UNSAFE_SETTINGS, params![]).await.map_err(refused)?;
    let found = durability::unsafe_settings(&rows).map_err(unreadable)?;
    if !found.is_empty() && !accept_data_loss {
        return Err(OpenError::Unsafe(format!("PostgreSQL: {}", UnsafeSetting::refusal(&found))));
    }
    for found in found {
        tracing::warn!("PostgreSQL runs with {found}. That was accepted");
    }
    Ok(())
}

/// Runs a statement on a connection outside the pools.
async fn ask(
    client: &Client,
    statement: &Statement,
    params: Params<'_, '_>,
) -> Result<Rows, tokio_postgres::Error> {
    let rows = client.query_typed(&statement.text, &statement.values(&params)).await?;
    Ok(Rows::new(statement.name, rows))
}

/// A connection outside the pools: migrations may take longer than any statement of the service.
pub(super) struct SetupConnection {
    pub(super) client: Client,
    task: JoinHandle<()>,
}

impl SetupConnection {
    pub(super) async fn open(address: &Address) -> Result<Self, OpenError> {
        let tls = tls::connector(address.verify)?;
        // The driver's own timeout ends with the TCP handshake.
        let connected = tokio::time::timeout(limits::STORE_STATEMENT, address.config.connect(tls)).await;
        let (client, connection) = connected.map_err(|_| late())?.map_err(refused)?;
        let task = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "the connection for migrations ended");
            }
        });
        Ok(Self { client, task })
    }
}

impl Drop for SetupConnection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(super) async fn answer_in_time<T>(
    seconds: u64,
    statement: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, OpenError> {
    tokio::time::timeout(Duration::from_secs(seconds), statement).await.map_err(|_| late())?.map_err(refused)
}

/// A wrong password or database name does not get better by waiting, nor does a right that is missing.
fn refused(error: tokio_postgres::Error) -> OpenError {
    let word = error.as_db_error().map_or("", |word| word.message());
    match error.code().map(|code| code.code()) {
        Some(code) if code.starts_with("28") || code == "3D000" => {
            OpenError::BadUrl(format!("PostgreSQL does not let us in: {word}"))
        }
        Some(INSUFFICIENT_PRIVILEGE) => {
            OpenError::NotPermitted(format!("PostgreSQL does not permit it: {word}"))
        }
        _ => OpenError::Unavailable(StoreError::Unavailable(in_full(&error))),
    }
}

const INSUFFICIENT_PRIVILEGE: &str = "42501";

fn unreadable(error: impl Into<StoreError>) -> OpenError {
    OpenError::Unavailable(error.into())
}

fn late() -> OpenError {
    OpenError::Unavailable(StoreError::Unavailable(BoxError::from("the database did not answer in time")))
}
