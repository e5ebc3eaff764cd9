//! Committing: prepared statements in a loop, which is the fast way here; the flush is shared by the writer.

use super::{
    SqliteStore, Trouble,
    keys::Keys,
    promise::{Facts, Promises},
    row::{Key as _, blob, micros},
    tally,
    trouble::Reach,
    writer::Turn,
};
use crate::{Committed, IdempotencyKey, Ingest, NewEvent, StoreError, kept::Kept};
use async_trait::async_trait;
use domain::{
    id::{AccountId, EventId},
    time::Timestamp,
};
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, params};
use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
};

#[async_trait]
impl Ingest for SqliteStore {
    async fn commit(&self, batch: &[NewEvent], now: Timestamp) -> Result<Vec<Committed>, StoreError> {
        self.ingested_at.store(now.micros(), Ordering::Relaxed);
        // Documents are written here, not by the one thread everybody waits for.
        let entries: Arc<[Entry]> = batch.iter().map(Entry::new).collect();
        // All at once; only if SQLite will not take one of them, one by one, so that it is alone in its trouble.
        let mut one_by_one = false;
        let keys = Arc::clone(&self.keys);
        let work = move |connection: &Connection| {
            let mut hand = Hand::new(connection, &keys, now)?;
            let committed: Result<Vec<_>, Trouble> = match one_by_one {
                false => entries.iter().map(|entry| hand.commit(entry)).collect(),
                true => entries.iter().map(|entry| commit_alone(connection, &mut hand, entry)).collect(),
            };
            // The writer rolls back what has failed and asks once more.
            one_by_one |= committed.is_err();
            Ok((committed?, keys.index_some(connection, entries.len())?))
        };
        let (committed, progress) = self.write(Turn::Ingest, work).await?;
        self.keys.flushed(progress);
        Ok(committed)
    }

    async fn prune_idempotency(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.write(Turn::Bulk, move |connection| Keys::prune(connection, before, limit)).await
    }
}

/// An event and what is to be written of it.
struct Entry {
    new: NewEvent,
    headers: String,
    metadata: String,
    payload: Kept,
}

impl Entry {
    fn new(new: &NewEvent) -> Self {
        let json = "texts and JSON values are always JSON";
        Self {
            headers: serde_json::to_string(&new.event.headers).expect(json),
            metadata: serde_json::to_string(&new.event.metadata).expect(json),
            payload: Kept::of(&new.event.payload),
            new: new.clone(),
        }
    }
}

fn commit_alone(connection: &Connection, hand: &mut Hand<'_>, entry: &Entry) -> Result<Committed, Trouble> {
    connection.prepare_cached("savepoint event")?.execute([])?;
    let mark = tally::mark();
    let result = match hand.commit(entry) {
        Err(trouble) if trouble.reach() == Reach::Row && !connection.is_autocommit() => {
            connection.prepare_cached("rollback to event")?.execute([])?;
            tally::back_to(mark);
            Committed::Refused(StoreError::from(trouble).to_string())
        }
        result => result?,
    };
    connection.prepare_cached("release event")?.execute([])?;
    Ok(result)
}

/// The statements of a commit, ready.
struct Hand<'c> {
    connection: &'c Connection,
    keys: &'c Keys,
    now: Timestamp,
    versions: HashMap<AccountId, Option<i64>>,
    insert_event: CachedStatement<'c>,
    promises: Promises<'c>,
}

impl<'c> Hand<'c> {
    fn new(connection: &'c Connection, keys: &'c Keys, now: Timestamp) -> Result<Self, Trouble> {
        Ok(Self {
            connection,
            keys,
            now,
            versions: HashMap::new(),
            insert_event: connection.prepare_cached(include_str!("sql/insert_event.sql"))?,
            promises: Promises::new(connection)?,
        })
    }

    fn commit(&mut self, entry: &Entry) -> Result<Committed, Trouble> {
        let event = &*entry.new.event;
        // Whether the event is there already comes first, but is rarely so: it is asked only where it would matter.
        let refused = match self.version(event.account_id)? {
            None => Some(Committed::NoAccount(event.account_id)),
            Some(version) if version != entry.new.account_version => Some(Committed::Stale),
            Some(_) => self.use_key(event.id, entry.new.key.as_ref())?,
        };
        if let Some(refused) = refused {
            return Ok(if self.is_there(event.id)? { Committed::New } else { refused });
        }
        if !self.insert_event(entry)? {
            self.forget_key(event.id, entry.new.key.as_ref())?;
            return Ok(Committed::New);
        }
        if entry.new.expands {
            self.insert_expansion(entry)?;
        }
        let facts = Facts::of(event);
        for delivery in &entry.new.deliveries {
            self.promises.make(&facts, delivery)?;
        }
        Ok(Committed::New)
    }

    fn version(&mut self, account: AccountId) -> Result<Option<i64>, Trouble> {
        if let Some(version) = self.versions.get(&account) {
            return Ok(*version);
        }
        let mut select = self
            .connection
            .prepare_cached("select version from accounts where id = ?1 and deleted_at is null")?;
        let version = select.query_row([account.blob()], |row| row.get(0)).optional()?;
        self.versions.insert(account, version);
        Ok(version)
    }

    /// The duplicate this would be, if its key was used before.
    fn use_key(
        &mut self,
        event: EventId,
        key: Option<&IdempotencyKey>,
    ) -> Result<Option<Committed>, Trouble> {
        let Some(key) = key else { return Ok(None) };
        let Some(user) = self.keys.claim(self.connection, key, event, self.now)? else { return Ok(None) };
        let mut select = self.connection.prepare_cached("select deliveries from events where id = ?1")?;
        // A key may outlive its event.
        let deliveries =
            select.query_row([user.event.blob()], |row| row.get(0)).optional()?.unwrap_or(Some(0));
        Ok(Some(Committed::Duplicate { of: user.event, deliveries, body_hash: user.body_hash }))
    }

    fn forget_key(&mut self, event: EventId, key: Option<&IdempotencyKey>) -> Result<(), Trouble> {
        key.map_or(Ok(()), |key| self.keys.unclaim(self.connection, key, event))
    }

    fn is_there(&self, event: EventId) -> Result<bool, Trouble> {
        let mut select = self.connection.prepare_cached("select 1 from events where id = ?1")?;
        Ok(select.exists([event.blob()])?)
    }

    /// False if it is there already.
    fn insert_event(&mut self, entry: &Entry) -> Result<bool, Trouble> {
        let event = &*entry.new.event;
        let inserted = self.insert_event.execute(params![
            event.id.blob(),
            event.account_id.blob(),
            blob(event.source_id),
            event.event_type.as_str(),
            event.idempotency_key,
            event.content_type,
            event.ordering_key,
            event.received_at.micros(),
            micros(event.deliver_at),
            (!entry.new.expands).then_some(entry.new.deliveries.len() as i64),
            event.payload.len() as i64,
            entry.headers,
            entry.metadata,
            entry.payload.bytes(&event.payload),
            entry.payload.crc,
        ])?;
        Ok(inserted == 1)
    }

    fn insert_expansion(&mut self, entry: &Entry) -> Result<(), Trouble> {
        let event = &*entry.new.event;
        let mut insert = self.connection.prepare_cached(
            "insert into expansions (event_id, account_id, account_version, deliveries, inline_routes, created_at)
             values (?1, ?2, ?3, ?4, ?5, ?6)",
        )?;
        let deliveries = &entry.new.deliveries;
        let routes: Vec<u8> = deliveries.iter().flat_map(|delivery| delivery.route_id.blob()).collect();
        insert.execute(params![
            event.id.blob(),
            event.account_id.blob(),
            entry.new.account_version,
            deliveries.len() as i64,
            routes,
            self.now.micros(),
        ])?;
        Ok(())
    }
}
