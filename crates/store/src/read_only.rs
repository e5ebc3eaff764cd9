//! A store beside the server that uses it, without its lock. Nothing is written and nothing migrated.

use crate::{Audit, AuditChains, KeptSeals, OpenError, OpenOptions, StoreError, open, postgres, sqlite};
use async_trait::async_trait;
use domain::{
    destination::{Auth, Destination},
    id::DestinationId,
    time::Timestamp,
};
use std::{fmt, sync::Arc};

#[async_trait]
pub trait ReadOnlyStore: Audit + AuditChains + KeptSeals {
    /// The version of its tables, and the one this program knows.
    async fn schema(&self) -> Result<SchemaVersion, StoreError>;

    /// A setting of the installation as it is kept.
    async fn setting(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// What the role we log in as may not do and must; nothing of that kind on an embedded store.
    async fn missing_right(&self) -> Result<Option<MissingRight>, StoreError>;

    /// What lets the store lose what it has acknowledged, on a connection as a server gets it.
    async fn unsafe_settings(&self) -> Result<Vec<UnsafeSetting>, StoreError>;

    /// How large it is.
    async fn extent(&self) -> Result<Extent, StoreError>;

    /// The client certificates of destinations, at most so many.
    async fn client_certificates(&self, limit: usize) -> Result<Vec<KeptCertificate>, StoreError>;
}

/// When a destination's client certificate ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptCertificate {
    pub destination_id: DestinationId,
    pub destination_name: String,
    pub expires_at: Timestamp,
}

/// What stands in the documents of destinations that have one, and in no other: a quote within a text is written otherwise.
pub(crate) const WITH_CERTIFICATE: &str = "%\"auth\":{\"type\":\"mtls\"%";

/// Of such documents; one that does not read is told of elsewhere.
pub(crate) fn kept_certificates(documents: Vec<String>) -> Vec<KeptCertificate> {
    let of = |document: String| {
        let destination: Destination = serde_json::from_str(&document).ok()?;
        let Auth::Mtls(certificate) = destination.auth else { return None };
        Some(KeptCertificate {
            destination_id: destination.id,
            destination_name: destination.name,
            expires_at: certificate.expires_at,
        })
    };
    documents.into_iter().filter_map(of).collect()
}

/// How much room a store takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The file, and the log beside it that is not in the file yet.
    File { bytes: u64, log_bytes: u64 },
    /// The database with everything in it, and the partitions that days are kept in.
    Database { bytes: u64, partitions: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchemaVersion {
    pub found: FoundTables,
    pub known: i64,
}

/// Which tables a store has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundTables {
    None,
    /// Those of a version from before the first release: nothing leads from them to ours.
    Unreleased,
    Version(i64),
}

/// What a database server does not let us do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingRight {
    /// As a sentence.
    pub what: String,
    /// The statement that mends it.
    pub grant: String,
}

impl fmt::Display for MissingRight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}. As the owner of the database, run: {}", self.what, self.grant)
    }
}

/// A setting under which acknowledged events can be lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsafeSetting {
    /// As in `synchronous_commit = off`.
    pub setting: String,
    /// What it can do, as a sentence.
    pub harm: &'static str,
    /// What to do about it, as a sentence.
    pub fix: String,
}

impl fmt::Display for UnsafeSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}. {}", self.setting, self.harm, self.fix)
    }
}

impl UnsafeSetting {
    /// All of them, in the way of a start.
    pub(crate) fn refusal(found: &[Self]) -> String {
        let all: Vec<String> = found.iter().map(Self::to_string).collect();
        format!(
            "the store can lose acknowledged events. {}. To start all the same: --accept-data-loss",
            all.join(". ")
        )
    }
}

/// The store of this URL, which must be there.
pub async fn open_read_only(options: &OpenOptions) -> Result<Arc<dyn ReadOnlyStore>, OpenError> {
    match open::parse_url(&options.url)? {
        open::StoreUrl::Sqlite(path) => Ok(Arc::new(sqlite::SqliteReadOnly::open(&path)?)),
        open::StoreUrl::Postgres => Ok(Arc::new(postgres::PostgresStore::open_read_only(options)?)),
    }
}
