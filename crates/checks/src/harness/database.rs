//! Where a testbed keeps its rows, and reading them without asking the node.
//!
//! The statements here are plain enough to be the same text on both stores; what comes back is made the same too:
//! an id is sixteen bytes, a truth value is a number.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use rusqlite::OpenFlags;
use rusqlite::types::ValueRef;
use serde::Serialize;
use tokio_postgres::NoTls;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::postgres_server::PostgresServer;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StoreKind {
    Sqlite,
    Postgres,
}

impl StoreKind {
    /// A table in SQL: `name(i)` from `first` to `last`.
    pub(crate) fn numbers(self, name: &str, first: u64, last: u64) -> String {
        match self {
            StoreKind::Sqlite => format!(
                "with recursive {name}(i) as (select {first} union all select i + 1 from {name} where i < {last})"
            ),
            StoreKind::Postgres => {
                format!("with {name}(i) as (select generate_series({first}::bigint, {last}))")
            }
        }
    }

    /// An id in SQL: twelve hex digits that are its milliseconds, eight that are given, and a number.
    pub(crate) fn id(self, time: &str, given: &str, number: &str) -> String {
        match self {
            StoreKind::Sqlite => format!("unhex({time} || '{given}' || printf('%012x', {number}))"),
            StoreKind::Postgres => {
                format!("({time} || '{given}' || lpad(to_hex({number}), 12, '0'))::uuid")
            }
        }
    }
}

/// A store of one testbed.
#[derive(Debug, Clone)]
pub(crate) enum Database {
    Sqlite {
        file: PathBuf,
    },
    /// In a schema of its own, or with the whole database to itself.
    Postgres {
        server: PostgresServer,
        schema: Option<String>,
    },
}

/// A value of a row.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum SqlValue {
    Null,
    Number(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl SqlValue {
    pub(crate) fn number(&self) -> Option<i64> {
        if let SqlValue::Number(number) = self { Some(*number) } else { None }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        if let SqlValue::Text(text) = self { Some(text) } else { None }
    }

    pub(crate) fn id(&self) -> Option<[u8; 16]> {
        if let SqlValue::Bytes(bytes) = self { bytes.as_slice().try_into().ok() } else { None }
    }
}

impl Database {
    /// As the node is told it.
    pub(crate) fn url(&self) -> String {
        match self {
            Database::Sqlite { file } => format!("sqlite:{}", file.display()),
            Database::Postgres { server, schema: Some(schema) } => {
                format!("{}?schema={schema}", server.url())
            }
            Database::Postgres { server, schema: None } => server.url().to_owned(),
        }
    }

    pub(crate) fn kind(&self) -> StoreKind {
        match self {
            Database::Sqlite { .. } => StoreKind::Sqlite,
            Database::Postgres { .. } => StoreKind::Postgres,
        }
    }

    pub(crate) fn server(&self) -> Option<&PostgresServer> {
        if let Database::Postgres { server, .. } = self { Some(server) } else { None }
    }

    /// Rows of a statement that reads.
    pub(crate) async fn rows(&self, sql: &str) -> Result<Vec<Vec<SqlValue>>> {
        match self {
            Database::Sqlite { file } => {
                let connection = open_read_only(file)?;
                connection.busy_timeout(std::time::Duration::from_secs(5))?;
                sqlite_rows(&connection, sql).with_context(|| sql.to_owned())
            }
            Database::Postgres { .. } => {
                let rows = self.connect().await?.query(sql, &[]).await.with_context(|| sql.to_owned())?;
                rows.iter().map(postgres_row).collect()
            }
        }
    }

    /// The one number a statement gives.
    pub(crate) async fn number(&self, sql: &str) -> Result<u64> {
        let rows = self.rows(sql).await?;
        let number = rows.first().and_then(|row| row.first()?.number());
        Ok(number.with_context(|| format!("no number from {sql}"))?.max(0) as u64)
    }

    /// Statements that write; for use while no node runs.
    pub(crate) async fn write(&self, sql: &str) -> Result<()> {
        match self {
            Database::Sqlite { file } => {
                let connection = rusqlite::Connection::open(file)?;
                connection.pragma_update(None, "synchronous", "normal")?;
                connection.execute_batch(sql).with_context(|| sql.to_owned())
            }
            Database::Postgres { .. } => {
                self.connect().await?.batch_execute(sql).await.with_context(|| sql.to_owned())
            }
        }
    }

    /// Leaves the tables as a store that has been up for a while would have them; on PostgreSQL by these statements.
    pub(crate) async fn tidy(&self, statements: &[&str]) -> Result<()> {
        match self {
            Database::Sqlite { file } => checkpoint(file),
            Database::Postgres { .. } => {
                // One by one: a vacuum runs in no transaction.
                for statement in statements.iter().chain(&["checkpoint"]) {
                    self.write(statement).await?;
                }
                Ok(())
            }
        }
    }

    /// How many rows a table has.
    pub(crate) async fn count(&self, table: &str) -> Result<u64> {
        self.number(&format!("select count(*) from {table}")).await
    }

    /// An id as this store's SQL writes it.
    pub(crate) fn literal(&self, id: &[u8; 16]) -> String {
        let uuid = Uuid::from_bytes(*id);
        match self {
            Database::Sqlite { .. } => format!("x'{}'", uuid.simple()),
            Database::Postgres { .. } => format!("'{uuid}'::uuid"),
        }
    }

    pub(crate) async fn drop_schema(&self) -> Result<()> {
        match self {
            Database::Sqlite { .. } => Ok(()),
            Database::Postgres { schema: Some(schema), .. } => {
                let sql = format!("drop schema if exists {schema} cascade");
                Ok(self.connect().await?.batch_execute(&sql).await?)
            }
            Database::Postgres { server, schema: None } => server.drop_database().await,
        }
    }

    pub(crate) async fn connect(&self) -> Result<tokio_postgres::Client> {
        let Database::Postgres { server, schema } = self else { bail!("SQLite is opened, not connected to") };
        let client = connect(server.url()).await?;
        if let Some(schema) = schema {
            client.batch_execute(&format!("set search_path = {schema}")).await?;
        }
        Ok(client)
    }
}

pub(crate) async fn connect(url: &str) -> Result<tokio_postgres::Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    // Ends with its client; what went wrong the client says.
    tokio::spawn(connection);
    Ok(client)
}

/// Writes SQLite's log into the database.
pub(crate) fn checkpoint(file: &Path) -> Result<()> {
    Ok(rusqlite::Connection::open(file)?.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(()))?)
}

/// A file that is only looked at: a checkpoint or a rollback of what the node left must never be the check's doing.
pub(crate) fn open_read_only(file: &Path) -> Result<rusqlite::Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Ok(rusqlite::Connection::open_with_flags(file, flags)?)
}

fn sqlite_rows(connection: &rusqlite::Connection, sql: &str) -> rusqlite::Result<Vec<Vec<SqlValue>>> {
    let mut statement = connection.prepare(sql)?;
    let width = statement.column_count();
    let row = |row: &rusqlite::Row<'_>| (0..width).map(|at| Ok(sqlite_cell(row.get_ref(at)?))).collect();
    statement.query_map([], row)?.collect()
}

fn sqlite_cell(value: ValueRef<'_>) -> SqlValue {
    match value {
        ValueRef::Null => SqlValue::Null,
        ValueRef::Integer(number) => SqlValue::Number(number),
        ValueRef::Real(number) => SqlValue::Number(number as i64),
        ValueRef::Text(text) => SqlValue::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => SqlValue::Bytes(bytes.to_vec()),
    }
}

fn postgres_row(row: &tokio_postgres::Row) -> Result<Vec<SqlValue>> {
    let cell = |at: usize| -> Result<Option<SqlValue>> {
        Ok(match row.columns()[at].type_() {
            &Type::INT2 => row.try_get::<_, Option<i16>>(at)?.map(|number| SqlValue::Number(number.into())),
            &Type::INT4 => row.try_get::<_, Option<i32>>(at)?.map(|number| SqlValue::Number(number.into())),
            &Type::INT8 => row.try_get::<_, Option<i64>>(at)?.map(SqlValue::Number),
            &Type::BOOL => row.try_get::<_, Option<bool>>(at)?.map(|flag| SqlValue::Number(flag.into())),
            &Type::TEXT | &Type::VARCHAR | &Type::NAME => {
                row.try_get::<_, Option<String>>(at)?.map(SqlValue::Text)
            }
            &Type::BYTEA => row.try_get::<_, Option<Vec<u8>>>(at)?.map(SqlValue::Bytes),
            &Type::UUID => {
                row.try_get::<_, Option<Uuid>>(at)?.map(|id| SqlValue::Bytes(id.into_bytes().to_vec()))
            }
            other => bail!("no cell for a column of type {other}"),
        })
    };
    (0..row.len()).map(|at| Ok(cell(at)?.unwrap_or(SqlValue::Null))).collect()
}
