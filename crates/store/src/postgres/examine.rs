//! A look at the database from outside: the same connections as a server's, and nothing but reads.

use super::{
    PostgresStore, durability, open,
    statement::{Statement, params, sql},
    url::Address,
};
use crate::{
    Audit, FactKey, KnownLane, Look, OpenError, OpenOptions, Roll, SchemaVersion, StoreError, StrayFact,
    TrackPlace, UnevenFanOut, UnsafeSetting, WaitingHead, Walked,
    migrations::{KNOWN_VERSION, MIGRATIONS_TABLE},
};
use async_trait::async_trait;
use domain::{
    id::{DestinationId, EventId},
    time::Timestamp,
};
use std::sync::LazyLock;

static SETTING: LazyLock<Statement> = sql!("setting": "select value from settings where name = :name");

pub struct PostgresLook {
    store: PostgresStore,
}

impl PostgresLook {
    /// Connects when it is asked something.
    pub fn open(options: &OpenOptions) -> Result<Self, OpenError> {
        let address = Address::parse(&options.url)?;
        Ok(Self { store: PostgresStore::at(&address, None, 1)? })
    }
}

#[async_trait]
impl Look for PostgresLook {
    async fn schema(&self) -> Result<SchemaVersion, StoreError> {
        let connection = self.store.pools.general().await?;
        let params = params![migrations_table: MIGRATIONS_TABLE => TEXT];
        let found = match connection.read(&open::FOUND_TABLES, params).await?.one(open::without_list)? {
            Some(found) => found,
            None => open::last_migration(&connection.read(&open::LAST_MIGRATION, params![]).await?)?,
        };
        Ok(SchemaVersion { found, known: KNOWN_VERSION })
    }

    async fn setting(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let connection = self.store.pools.general().await?;
        Ok(connection.read(&SETTING, params![name: name => TEXT]).await?.first_value("value")?)
    }

    async fn unsafe_settings(&self) -> Result<Vec<UnsafeSetting>, StoreError> {
        let connection = self.store.pools.general().await?;
        Ok(durability::unsafe_settings(&connection.read(&durability::UNSAFE_SETTINGS, params![]).await?)?)
    }
}

#[async_trait]
impl Audit for PostgresLook {
    async fn audit_roll(&self) -> Result<Roll, StoreError> {
        self.store.audit_roll().await
    }

    async fn audit_heads(
        &self,
        from: TrackPlace,
        limit: usize,
    ) -> Result<Walked<TrackPlace, WaitingHead>, StoreError> {
        self.store.audit_heads(from, limit).await
    }

    async fn audit_lanes(
        &self,
        ids: &[DestinationId],
        newer_than: Timestamp,
    ) -> Result<Vec<KnownLane>, StoreError> {
        self.store.audit_lanes(ids, newer_than).await
    }

    async fn audit_fan_outs(
        &self,
        from: EventId,
        limit: usize,
        deliveries: u64,
    ) -> Result<Walked<EventId, UnevenFanOut>, StoreError> {
        self.store.audit_fan_outs(from, limit, deliveries).await
    }

    async fn audit_facts(
        &self,
        from: FactKey,
        limit: usize,
    ) -> Result<Walked<FactKey, StrayFact>, StoreError> {
        self.store.audit_facts(from, limit).await
    }
}
