//! A look at the database from outside: the same connections as a server's, and nothing but reads.

use super::{PostgresStore, durability, pool::params, start, url::Address};
use crate::{
    Audit, FactKey, FoundTables, KnownLane, Look, OpenError, OpenOptions, Roll, SchemaVersion, StoreError,
    StrayFact, TrackPlace, UnevenFanOut, UnsafeSetting, WaitingHead, Walked,
};
use async_trait::async_trait;
use domain::{
    id::{DestinationId, EventId},
    time::Timestamp,
};

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
        let known = start::known_schema_version();
        let there = connection.read("select to_regclass('refinery_schema_history') is not null", &[]).await?;
        if !there[0].get::<_, bool>(0) {
            return Ok(SchemaVersion { found: FoundTables::None, known });
        }
        let found = connection
            .read("select coalesce(max(version), 0)::bigint from refinery_schema_history", &[])
            .await?;
        Ok(SchemaVersion { found: FoundTables::Version(found[0].get(0)), known })
    }

    async fn setting(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let connection = self.store.pools.general().await?;
        let row =
            connection.read_opt("select value from settings where name = $1", params![name => TEXT]).await?;
        Ok(row.map(|row| row.get(0)))
    }

    async fn unsafe_settings(&self) -> Result<Vec<UnsafeSetting>, StoreError> {
        let connection = self.store.pools.general().await?;
        Ok(durability::unsafe_settings(&connection.read(durability::SETTINGS, &[]).await?))
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
