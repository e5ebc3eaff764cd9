//! Committing.

use super::{KeptEvent, MemoryStore, Tables, UsedKey};
use crate::{Committed, Expansion, Ingest, NewDelivery, NewEvent, Replayed, StoreError, checksum};
use async_trait::async_trait;
use bytes::Bytes;
use domain::{
    delivery::Delivery,
    event::Event,
    id::{DestinationId, ReplayId},
    time::Timestamp,
};

#[async_trait]
impl Ingest for MemoryStore {
    async fn commit(&self, batch: &[NewEvent], now: Timestamp) -> Result<Vec<Committed>, StoreError> {
        let mut tables = self.tables();
        Ok(batch.iter().map(|new| tables.commit(new, now)).collect())
    }

    async fn prune_idempotency(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let mut tables = self.tables();
        let mut old: Vec<_> = tables.used_keys.iter().filter(|(_, key)| key.committed_at < before).collect();
        old.sort_by_key(|(_, key)| key.committed_at);
        let forgotten: Vec<_> = old.into_iter().take(limit).map(|(place, _)| *place).collect();
        for place in &forgotten {
            tables.used_keys.remove(place);
        }
        Ok(forgotten.len())
    }
}

impl Tables {
    fn commit(&mut self, new: &NewEvent, now: Timestamp) -> Committed {
        let event = &new.event;
        if self.events.contains_key(&event.id) {
            return Committed::New;
        }
        match self.accounts.get(&event.account_id) {
            None => return Committed::NoAccount(event.account_id),
            Some(account) if account.version != new.account_version => return Committed::Stale,
            Some(_) => {}
        }
        if let Some(key) = &new.key {
            if let Some(used) = self.used_keys.get(&(key.scope, key.hash)) {
                let expanding = self.expansions.contains_key(&used.event_id);
                // A key may outlive its event.
                let made = || self.events.get(&used.event_id).map_or(0, |kept| kept.deliveries.len() as u32);
                let deliveries = (!expanding).then(made);
                return Committed::Duplicate { of: used.event_id, deliveries, body_hash: used.body_hash };
            }
            let used = UsedKey { event_id: event.id, body_hash: key.body_hash, committed_at: now };
            self.used_keys.insert((key.scope, key.hash), used);
        }
        if new.expands {
            let expansion = Expansion {
                event_id: event.id,
                account_id: event.account_id,
                account_version: new.account_version,
                cursor: None,
                deliveries: new.deliveries.len() as u32,
                inline_destinations: new.deliveries.iter().map(|promise| promise.destination_id).collect(),
                other_routes: new.other_routes.clone(),
                created_at: now,
            };
            self.expansions.insert(event.id, expansion);
        }
        for promise in &new.deliveries {
            self.promise(event, promise);
        }
        let deliveries = new.deliveries.iter().map(|delivery| delivery.id).collect();
        let sealed = event.sealed_headers().map(|headers| {
            let payload = Bytes::copy_from_slice(event.payload_bytes());
            (payload, headers.clone())
        });
        let payload_crc = match &sealed {
            None => checksum::of(&event.payload),
            Some(_) => event.payload_crc(),
        };
        let other_routes = new.other_routes.clone();
        let kept = KeptEvent {
            event: event.event().clone(),
            payload_crc,
            sealed,
            deliveries,
            backfilled: Vec::new(),
            other_routes,
            size_bytes: event.payload.len(),
            payload_erased_at: None,
        };
        self.events.insert(event.id, kept);
        self.written_events.push(event.id);
        Committed::New
    }

    /// Puts a new delivery into its lane, with its number if it takes one.
    pub(super) fn promise(&mut self, event: &Event, promise: &NewDelivery) {
        self.wait(promise.of(event), promise);
    }

    /// The same for one that a replay makes: its time is now, whenever its event's was.
    pub(super) fn promise_again(&mut self, event: &Event, one: &Replayed, replay: ReplayId) {
        let first = one.delivery.of(event);
        let available_at = first.created_at;
        let again = Delivery { replay_id: Some(replay), origin: one.origin, available_at, ..first };
        self.wait(again, &one.delivery);
    }

    /// The first delivery to a destination, that a backfill makes.
    pub(super) fn promise_late(&mut self, event: &Event, promise: &NewDelivery, replay: ReplayId) {
        self.wait(Delivery { replay_id: Some(replay), ..promise.of(event) }, promise);
    }

    fn wait(&mut self, mut delivery: Delivery, promise: &NewDelivery) {
        if promise.sequenced {
            let sequence = self.next_sequence(promise.destination_id);
            delivery.position = promise.position.numbered(sequence);
            delivery.sequence = Some(sequence);
        }
        self.waiting.insert(promise.shard, delivery);
    }

    pub(super) fn next_sequence(&mut self, id: DestinationId) -> i64 {
        let last = self.sequences.entry(id).or_default();
        *last += 1;
        *last
    }
}
