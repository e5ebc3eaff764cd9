//! "sqlite:…" | "postgres:…" -> a store, migrated and ready.

use crate::{Store, StoreError, postgres, sqlite};
use std::{fmt, path::PathBuf, sync::Arc};

#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// `sqlite:PATH`, `postgres://…` or `postgresql://…`.
    pub url: String,
    /// Connections of the pool (PostgreSQL), reading connections (SQLite).
    pub pool: usize,
    /// Where to listen for other nodes, if not at `url`: past a pooler that does not deliver notifications (PostgreSQL).
    pub listen_url: Option<String>,
    /// Start in spite of settings that can lose acknowledged events.
    pub accept_data_loss: bool,
}

/// Why a store could not be opened; each has its own exit code.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{0}")]
    BadUrl(String),
    /// A right is missing; the mend is in the words.
    #[error("{0}")]
    NotPermitted(String),
    /// Exit 5.
    #[error("{0}")]
    InUse(String),
    /// Exit 4.
    #[error("{0}")]
    Unsafe(String),
    /// Exit 3.
    #[error("{0}")]
    Damaged(String),
    /// The schema is newer than this binary.
    #[error("{0}")]
    TooOld(String),
    /// Its tables are those of a version from before the first release: nothing leads from them to ours.
    #[error("{0}")]
    Unreleased(String),
    /// Worth trying again: the server is not there (yet).
    #[error(transparent)]
    Unavailable(StoreError),
}

impl OpenError {
    /// `instead` is what to begin with, as in "an empty folder".
    pub(crate) fn unreleased(store: impl fmt::Display, instead: &str) -> Self {
        Self::Unreleased(format!(
            "{store} has the tables of a development version from before the first release, which cannot be brought up \
             to date: start with {instead}"
        ))
    }
}

pub async fn open(options: &OpenOptions) -> Result<Arc<dyn Store>, OpenError> {
    match parse_url(&options.url)? {
        StoreUrl::Sqlite(path) => Ok(Arc::new(sqlite::SqliteStore::open(&path, options).await?)),
        StoreUrl::Postgres => Ok(Arc::new(postgres::PostgresStore::open(options).await?)),
    }
}

/// Which store a URL means.
pub(crate) enum StoreUrl {
    /// With what the URL says behind the path.
    Sqlite(PathBuf),
    Postgres,
}

pub(crate) fn parse_url(url: &str) -> Result<StoreUrl, OpenError> {
    match url.split_once(':') {
        Some(("sqlite", path)) if !path.is_empty() => {
            Ok(StoreUrl::Sqlite(PathBuf::from(path.strip_prefix("//").unwrap_or(path))))
        }
        Some(("postgres" | "postgresql", _)) => Ok(StoreUrl::Postgres),
        _ => Err(OpenError::BadUrl(format!(
            "`{}` is not a database: use sqlite:PATH or postgres://USER@HOST/NAME",
            url.split('@').next_back().unwrap_or_default()
        ))),
    }
}
