//! The file beside the server that uses it: read-only connections, and no lock.

use super::{
    audit, open,
    readers::Readers,
    statement::bound,
    trouble::{Trouble, unreadable},
};
use crate::{
    Audit, Extent, FactKey, KeptCertificate, KnownLane, MissingRight, OpenError, ReadOnlyStore, Roster,
    SchemaVersion, StoreError, StrayFact, TrackPlace, UnevenFanOut, UnsafeSetting, WaitingHead, Walked,
    migrations::KNOWN_VERSION,
    read_only::{WITH_CERTIFICATE, kept_certificates},
};
use async_trait::async_trait;
use domain::{
    id::{AttemptId, DestinationId, EventId},
    time::Timestamp,
};
use rusqlite::Connection;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

pub struct SqliteReadOnly {
    pub(super) readers: Arc<Readers>,
    path: PathBuf,
    /// What a server would be told.
    synchronous: &'static str,
}

impl SqliteReadOnly {
    /// The path may say `?synchronous=…`, as for a server.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let (path, synchronous) = open::parse(path)?;
        Ok(Self { readers: Arc::new(Readers::read_only(path.clone())), path, synchronous })
    }

    /// The newest time at which anything here was made: no clock that is right is behind it. None where nothing is.
    pub async fn newest_at(&self) -> Result<Option<Timestamp>, StoreError> {
        let read = |connection: &Connection| {
            let event = bound!("select id from events order by id desc limit 1")
                .first(connection, |columns| Ok(columns.id::<EventId>()?))?;
            let attempt = bound!("select attempt_id from attempts order by rowid desc limit 1")
                .first(connection, |columns| Ok(columns.id::<AttemptId>()?))?;
            Ok(event.map(EventId::made_at).max(attempt.map(AttemptId::made_at)))
        };
        self.readers.read(read).await
    }
}

#[async_trait]
impl ReadOnlyStore for SqliteReadOnly {
    async fn schema(&self) -> Result<SchemaVersion, StoreError> {
        let read = |connection: &Connection| {
            Ok(SchemaVersion { found: open::found_tables(connection)?, known: KNOWN_VERSION })
        };
        self.readers.read(read).await
    }

    async fn setting(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let name = name.to_owned();
        let read = move |connection: &Connection| {
            bound!("select value from settings where name = :name", name: name)
                .first(connection, |columns| Ok(columns.get()?))
        };
        self.readers.read(read).await
    }

    async fn missing_right(&self) -> Result<Option<MissingRight>, StoreError> {
        Ok(None)
    }

    async fn unsafe_settings(&self) -> Result<Vec<UnsafeSetting>, StoreError> {
        let synchronous = self.synchronous;
        let read = move |connection: &Connection| {
            let journal_mode: String =
                connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
            let level =
                open::synchronous_level(synchronous).ok_or_else(|| unreadable("setting", synchronous))?;
            Ok::<_, Trouble>(open::unsafe_settings(level, &journal_mode))
        };
        self.readers.read(read).await
    }

    async fn extent(&self) -> Result<Extent, StoreError> {
        // One that is not there has no bytes: that is told elsewhere.
        let bytes = |path: &Path| fs::metadata(path).map_or(0, |found| found.len());
        let mut log = self.path.clone().into_os_string();
        log.push("-wal");
        Ok(Extent::File { bytes: bytes(&self.path), log_bytes: bytes(Path::new(&log)) })
    }

    async fn client_certificates(&self, limit: usize) -> Result<Vec<KeptCertificate>, StoreError> {
        let read = move |connection: &Connection| {
            let (pattern, limit) = (WITH_CERTIFICATE.to_owned(), limit as i64);
            bound!(
                "select doc from destinations where deleted_at is null and doc like :pattern limit :limit",
                pattern: pattern,
                limit: limit,
            )
            .all(connection, |columns| Ok(columns.get()?))
        };
        Ok(kept_certificates(self.readers.read(read).await?))
    }
}

#[async_trait]
impl Audit for SqliteReadOnly {
    async fn audit_roster(&self) -> Result<Roster, StoreError> {
        self.readers.read(audit::roster).await
    }

    async fn audit_heads(
        &self,
        from: TrackPlace,
        limit: usize,
    ) -> Result<Walked<TrackPlace, WaitingHead>, StoreError> {
        self.readers.read(move |connection| audit::heads(connection, from, limit)).await
    }

    async fn audit_lanes(
        &self,
        ids: &[DestinationId],
        newer_than: Timestamp,
    ) -> Result<Vec<KnownLane>, StoreError> {
        let ids = ids.to_owned();
        self.readers.read(move |connection| audit::known(connection, &ids, newer_than)).await
    }

    async fn audit_fan_outs(
        &self,
        from: EventId,
        limit: usize,
        deliveries: u64,
    ) -> Result<Walked<EventId, UnevenFanOut>, StoreError> {
        self.readers.read(move |connection| audit::fan_outs(connection, from, limit, deliveries)).await
    }

    async fn audit_facts(
        &self,
        from: FactKey,
        limit: usize,
    ) -> Result<Walked<FactKey, StrayFact>, StoreError> {
        self.readers.read(move |connection| audit::facts(connection, from, limit)).await
    }
}
