//! What has just happened, numbered as it did.

use super::{MemoryStore, Tables};
use crate::{
    EventRecord, FactAttempt, FactRecord, Feed, FeedChange, FeedEntry, FeedPage, FeedPlace, FeedStamp,
    Followed, Resumption, StoreError,
    feed::{FeedProgress, LastNumbers, WriteNumber},
};
use async_trait::async_trait;
use domain::{
    delivery::{Delivery, Ending},
    id::{AttemptId, DestinationId, EventId},
    time::Timestamp,
};

/// A delivery as a fact left it.
pub(super) struct WrittenFact {
    pub(super) delivery: Delivery,
    pub(super) fact: AttemptId,
    pub(super) ending: Option<(Ending, Timestamp)>,
}

/// A line of a destination's history that was written.
pub(super) type WrittenHold = (DestinationId, (Timestamp, &'static str));

#[async_trait]
impl Feed for MemoryStore {
    async fn feed_end(&self, now: Timestamp) -> Result<FeedPlace, StoreError> {
        Ok(FeedPlace::numbers(now, self.tables().numbers()))
    }

    async fn feed_place(&self, text: &str) -> Result<Resumption, StoreError> {
        let last = self.tables().numbers();
        let known =
            |seen: LastNumbers| seen.fact <= last.fact && seen.hold <= last.hold && seen.event <= last.event;
        Ok(match FeedPlace::parse(text) {
            Some(place) => match place.seen {
                FeedProgress::Numbers(seen) if known(seen) => Resumption::At(place),
                _ => Resumption::Lost,
            },
            None => Resumption::Malformed,
        })
    }

    async fn feed(
        &self,
        Followed { accounts, events }: Followed<'_>,
        after: &FeedPlace,
        limit: usize,
        now: Timestamp,
    ) -> Result<FeedPage, StoreError> {
        self.interrupted("feed")?;
        let tables = self.tables();
        let FeedProgress::Numbers(mut seen) = after.seen else {
            return Err(StoreError::Refused("a place of another store".into()));
        };
        let mut entries = Vec::new();
        for written in tables.written_facts.iter().skip(seen.fact as usize).take(limit) {
            seen.fact += 1;
            let account_id = written.delivery.account_id;
            if accounts.contains(&account_id)
                && let Some(record) = tables.fact_record(written)
            {
                let place = FeedPlace::numbers(after.at, seen);
                let (stamp, change) =
                    (FeedStamp(WriteNumber::Fact(seen.fact)), FeedChange::Delivery(Box::new(record)));
                entries.push(FeedEntry { account_id, place, stamp, change });
            }
        }
        if !events {
            seen.event = tables.written_events.len() as i64;
        }
        for id in tables.written_events.iter().skip(seen.event as usize).take(limit) {
            seen.event += 1;
            let Some(record) = tables.received_record(*id) else { continue };
            let account_id = record.event.account_id;
            if accounts.contains(&account_id) {
                let place = FeedPlace::numbers(after.at, seen);
                let (stamp, change) =
                    (FeedStamp(WriteNumber::Event(seen.event)), FeedChange::Event(Box::new(record)));
                entries.push(FeedEntry { account_id, place, stamp, change });
            }
        }
        for written in tables.written_holds.iter().skip(seen.hold as usize).take(limit) {
            seen.hold += 1;
            let (id, key) = written;
            let overtaken =
                tables.written_holds.iter().skip(seen.hold as usize).any(|later| later == written);
            let account = tables.destinations.0.get(id).map(|kept| kept.row.account_id);
            let entry = tables.holds.get(id).and_then(|kept| kept.get(key));
            if let (Some(account_id), Some(entry), false) = (account, entry, overtaken)
                && accounts.contains(&account_id)
            {
                let place = FeedPlace::numbers(after.at, seen);
                let (stamp, change) =
                    (FeedStamp(WriteNumber::Hold(seen.hold)), FeedChange::Hold(*id, entry.clone()));
                entries.push(FeedEntry { account_id, place, stamp, change });
            }
        }
        let more = seen != tables.numbers();
        Ok(FeedPage { entries, next: FeedPlace::numbers(if more { after.at } else { now }, seen), more })
    }

    async fn feed_written(&self) {
        self.feed_signal.notified().await;
    }
}

impl Tables {
    fn numbers(&self) -> LastNumbers {
        let (fact, hold, event) =
            (self.written_facts.len(), self.written_holds.len(), self.written_events.len());
        LastNumbers { fact: fact as i64, hold: hold as i64, event: event as i64 }
    }

    /// None once it is forgotten.
    fn received_record(&self, id: EventId) -> Option<EventRecord> {
        let kept = self.events.get(&id)?;
        let made = (!self.expansions.contains_key(&id)).then_some(kept.deliveries.len() as u32);
        let size = kept.event.payload.len() as u64;
        Some(EventRecord::received(kept.outside(), size, made, kept.other_routes.clone()))
    }

    pub(super) fn tell(&mut self, delivery: &Delivery, fact: AttemptId, ending: Option<(Ending, Timestamp)>) {
        self.written_facts.push(WrittenFact { delivery: delivery.clone(), fact, ending });
    }

    /// None once it is forgotten.
    fn fact_record(&self, written: &WrittenFact) -> Option<FactRecord> {
        let WrittenFact { delivery, fact, ending } = written;
        let waits = self.waiting.get(delivery.id);
        if waits.is_none() && !self.ended.contains_key(&delivery.id) {
            return None;
        }
        let event = self.events.get(&delivery.event_id).map(|kept| &kept.event);
        let attempt = self.attempts.get(&(delivery.id, *fact)).map(|kept| &kept.record);
        Some(FactRecord {
            delivery_id: delivery.id,
            event_id: delivery.event_id,
            event_type: event.map_or("unknown".into(), |event| event.event_type.to_string()),
            source_id: event.and_then(|event| event.source_id),
            ordering_key: event.and_then(|event| event.ordering_key.clone()),
            route_id: delivery.route_id,
            destination_id: delivery.destination_id,
            replay_id: delivery.replay_id,
            origin: delivery.origin,
            attempts: delivery.attempts,
            spent: delivery.spent,
            sequence: delivery.sequence,
            outcome: delivery.last_outcome,
            http_status: delivery.last_http_status,
            attempt: attempt.map(|attempt| FactAttempt {
                id: attempt.id,
                started_at: attempt.started_at,
                duration: attempt.duration,
            }),
            ending: *ending,
            next_attempt_at: waits
                .filter(|row| ending.is_none() && row.attempts == delivery.attempts)
                .map(|row| row.due_at),
        })
    }
}
