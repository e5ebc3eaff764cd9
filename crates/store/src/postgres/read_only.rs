//! The database beside the servers that use it: the same connections as theirs, and nothing but reads.

use super::{
    PostgresStore,
    catalog::SETTING,
    durability, open, rights,
    statement::{Statement, params, sql},
    url::Address,
};
use crate::{
    Extent, KeptCertificate, MissingRight, OpenError, OpenOptions, ReadOnlyStore, SchemaVersion, StoreError,
    UnsafeSetting,
    migrations::{KNOWN_VERSION, MIGRATIONS_TABLE},
    read_only::{WITH_CERTIFICATE, kept_certificates},
};
use async_trait::async_trait;
use std::sync::LazyLock;

static EXTENT: LazyLock<Statement> = sql!("extent");
static CERTIFIED: LazyLock<Statement> = sql!(
    "certified_destinations":
        "select doc from destinations where deleted_at is null and doc like :pattern limit :limit"
);

impl PostgresStore {
    /// Connects when it is asked something.
    pub fn open_read_only(options: &OpenOptions) -> Result<Self, OpenError> {
        Self::at(&Address::parse(&options.url)?, None, 1)
    }
}

#[async_trait]
impl ReadOnlyStore for PostgresStore {
    async fn schema(&self) -> Result<SchemaVersion, StoreError> {
        let connection = self.pools.general().await?;
        let params = params![migrations_table: MIGRATIONS_TABLE => TEXT];
        let found = match connection.read(&open::FOUND_TABLES, params).await?.one(open::without_list)? {
            Some(found) => found,
            None => open::last_migration(&connection.read(&open::LAST_MIGRATION, params![]).await?)?,
        };
        Ok(SchemaVersion { found, known: KNOWN_VERSION })
    }

    async fn setting(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let connection = self.pools.general().await?;
        Ok(connection.read(&SETTING, params![name: name => TEXT]).await?.first_value("value")?)
    }

    async fn missing_right(&self) -> Result<Option<MissingRight>, StoreError> {
        let connection = self.pools.general().await?;
        Ok(rights::missing(&connection.read(&rights::RIGHTS, params![]).await?)?)
    }

    async fn unsafe_settings(&self) -> Result<Vec<UnsafeSetting>, StoreError> {
        let connection = self.pools.general().await?;
        Ok(durability::unsafe_settings(&connection.read(&durability::UNSAFE_SETTINGS, params![]).await?)?)
    }

    async fn extent(&self) -> Result<Extent, StoreError> {
        let connection = self.pools.general().await?;
        let rows = connection.read(&EXTENT, params![]).await?;
        Ok(rows.one(|cells| {
            let (bytes, partitions): (i64, i64) = (cells.get("bytes")?, cells.get("partitions")?);
            Ok(Extent::Database { bytes: bytes.max(0) as u64, partitions: partitions.max(0) as u64 })
        })?)
    }

    async fn client_certificates(&self, limit: usize) -> Result<Vec<KeptCertificate>, StoreError> {
        let connection = self.pools.general().await?;
        let params = params![pattern: WITH_CERTIFICATE => TEXT, limit: limit as i64 => INT8];
        Ok(kept_certificates(connection.read(&CERTIFIED, params).await?.column("doc")?))
    }
}
