//! Committing: prepared statements in a loop, which is the fast way here; the flush is shared by the writer.

use super::{
    SqliteStore, Trouble,
    idempotency::Keys,
    new_deliveries::{DeliveredEvent, DeliveryInserter},
    statement::{bound, sql},
    tally,
    trouble::Reach,
    writer::Priority,
};
use crate::{Committed, IdempotencyKey, Ingest, NewEvent, StoreError, other_routes};
use async_trait::async_trait;
use domain::{
    id::{AccountId, EventId},
    time::Timestamp,
};
use rusqlite::{CachedStatement, Connection};
use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
};

const INSERT_EVENT: &str = sql!("insert_event");
const INSERT_TAG: &str =
    "insert into event_tags (account_id, tag, event_id) values (:account_id, :tag, :event_id)";
const INSERT_EXPANSION: &str = sql!("insert_expansion");

#[async_trait]
impl Ingest for SqliteStore {
    async fn commit(&self, batch: &[NewEvent], now: Timestamp) -> Result<Vec<Committed>, StoreError> {
        self.ingested_at.store(now.micros(), Ordering::Relaxed);
        let events: Arc<[NewEvent]> = batch.into();
        // All at once; only if SQLite will not take one of them, one by one, so that it is alone in its trouble.
        let mut one_by_one = false;
        let keys = Arc::clone(&self.keys);
        let work = move |connection: &Connection| {
            let mut commit = BatchCommit::new(connection, &keys, now)?;
            let committed: Result<Vec<_>, Trouble> = match one_by_one {
                false => events.iter().map(|event| commit.add(event)).collect(),
                true => events.iter().map(|event| commit.add_alone(event)).collect(),
            };
            // The writer rolls back what has failed and asks once more.
            one_by_one |= committed.is_err();
            Ok((committed?, keys.index_some(connection, events.len())?))
        };
        let (committed, progress) = self.write(Priority::Ingest, work).await?;
        self.keys.flushed(progress);
        Ok(committed)
    }

    async fn prune_idempotency(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.write(Priority::Bulk, move |connection| Keys::prune(connection, before, limit)).await
    }
}

/// A commit under way, with its statements ready.
struct BatchCommit<'c> {
    connection: &'c Connection,
    keys: &'c Keys,
    now: Timestamp,
    versions: HashMap<AccountId, Option<i64>>,
    insert_event: CachedStatement<'c>,
    deliveries: DeliveryInserter<'c>,
}

impl<'c> BatchCommit<'c> {
    fn new(connection: &'c Connection, keys: &'c Keys, now: Timestamp) -> Result<Self, Trouble> {
        Ok(Self {
            connection,
            keys,
            now,
            versions: HashMap::new(),
            insert_event: connection.prepare_cached(INSERT_EVENT)?,
            deliveries: DeliveryInserter::new(connection)?,
        })
    }

    fn add(&mut self, new: &NewEvent) -> Result<Committed, Trouble> {
        let event = &**new.event.event();
        // Whether the event is there already comes first, but is rarely so: it is asked only where it would matter.
        let refused = match self.version(event.account_id)? {
            None => Some(Committed::NoAccount(event.account_id)),
            Some(version) if version != new.account_version => Some(Committed::Stale),
            Some(_) => self.use_key(event.id, new.key.as_ref())?,
        };
        if let Some(refused) = refused {
            return Ok(if self.is_there(event.id)? { Committed::New } else { refused });
        }
        if !self.insert_event(new)? {
            self.forget_key(event.id, new.key.as_ref())?;
            return Ok(Committed::New);
        }
        if new.expands {
            self.insert_expansion(new)?;
        }
        for tag in &event.tags {
            bound!(INSERT_TAG, account_id: event.account_id, tag: tag, event_id: event.id)
                .execute(self.connection)?;
        }
        let delivered = DeliveredEvent::of(event);
        for delivery in &new.deliveries {
            self.deliveries.insert(&delivered, delivery)?;
        }
        Ok(Committed::New)
    }

    /// What SQLite will not take is refused, and its neighbours go on.
    fn add_alone(&mut self, new: &NewEvent) -> Result<Committed, Trouble> {
        self.connection.prepare_cached("savepoint event")?.execute([])?;
        let mark = tally::mark();
        let committed = match self.add(new) {
            Err(trouble) if trouble.reach() == Reach::Row && !self.connection.is_autocommit() => {
                self.connection.prepare_cached("rollback to event")?.execute([])?;
                tally::back_to(mark);
                Committed::Refused(StoreError::from(trouble).to_string())
            }
            committed => committed?,
        };
        self.connection.prepare_cached("release event")?.execute([])?;
        Ok(committed)
    }

    fn version(&mut self, account: AccountId) -> Result<Option<i64>, Trouble> {
        if let Some(version) = self.versions.get(&account) {
            return Ok(*version);
        }
        let version =
            bound!("select version from accounts where id = :id and deleted_at is null", id: account)
                .first(self.connection, |columns| Ok(columns.get()?))?;
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
        let Some(used) = self.keys.claim(self.connection, key, event, self.now)? else { return Ok(None) };
        let deliveries = bound!("select deliveries from events where id = :id", id: used.event_id)
            .first(self.connection, |columns| Ok(columns.get()?))?;
        // A key may outlive its event.
        let deliveries = deliveries.unwrap_or(Some(0));
        Ok(Some(Committed::Duplicate { of: used.event_id, deliveries, body_hash: used.body_hash }))
    }

    fn forget_key(&mut self, event: EventId, key: Option<&IdempotencyKey>) -> Result<(), Trouble> {
        key.map_or(Ok(()), |key| self.keys.unclaim(self.connection, key, event))
    }

    fn is_there(&self, event: EventId) -> Result<bool, Trouble> {
        Ok(bound!("select 1 from events where id = :id", id: event).exists(self.connection)?)
    }

    /// False if it is there already.
    fn insert_event(&mut self, new: &NewEvent) -> Result<bool, Trouble> {
        let event = &**new.event.event();
        let inserted = bound!(
            INSERT_EVENT,
            id: event.id,
            account_id: event.account_id,
            source_id: event.source_id,
            type: event.event_type.as_str(),
            idempotency_key: event.idempotency_key,
            content_type: event.content_type,
            ordering_key: event.ordering_key,
            received_at: event.received_at,
            deliver_at: event.deliver_at,
            deliveries: (!new.expands).then_some(new.deliveries.len()),
            size_bytes: event.payload.len(),
            headers: new.event.headers_text,
            metadata: new.event.metadata_text,
            payload: new.event.payload_bytes(),
            payload_crc: new.event.payload_crc(),
            other_routes: other_routes::packed(&new.other_routes),
            tags: new.event.tags_text,
            sealed_headers: new.event.sealed_headers().map(|sealed| sealed.0.as_slice()),
        )
        .execute_on(&mut self.insert_event)?;
        Ok(inserted == 1)
    }

    fn insert_expansion(&mut self, new: &NewEvent) -> Result<(), Trouble> {
        let (event, deliveries) = (&new.event, &new.deliveries);
        let inline: Vec<u8> =
            deliveries.iter().flat_map(|delivery| *delivery.destination_id.bytes()).collect();
        bound!(
            INSERT_EXPANSION,
            event_id: event.id,
            account_id: event.account_id,
            account_version: new.account_version,
            deliveries: deliveries.len(),
            inline_destinations: inline,
            other_routes: other_routes::packed(&new.other_routes),
            now: self.now,
        )
        .execute(self.connection)?;
        Ok(())
    }
}
