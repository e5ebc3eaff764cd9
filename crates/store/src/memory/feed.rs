//! What has just happened, numbered as it did.

use super::{MemoryStore, State};
use crate::{
    FactAttempt, FactRecord, Fed, Feed, Fresh, Place, Resumption, Stamp, StoreError, What,
    feed::{Seen, Written},
};
use async_trait::async_trait;
use domain::{
    delivery::{Delivery, Ending},
    id::{AccountId, AttemptId, DestinationId},
    time::Timestamp,
};

/// A delivery as a fact left it.
pub(super) struct Told {
    pub(super) delivery: Delivery,
    pub(super) fact: AttemptId,
    pub(super) ending: Option<(Ending, Timestamp)>,
}

/// A line of a destination's history that was written.
pub(super) type Held = (DestinationId, (Timestamp, &'static str));

#[async_trait]
impl Feed for MemoryStore {
    async fn feed_end(&self, now: Timestamp) -> Result<Place, StoreError> {
        let state = self.state();
        Ok(Place::numbers(now, state.told.len() as i64, state.held.len() as i64))
    }

    async fn feed_place(&self, text: &str) -> Result<Resumption, StoreError> {
        let state = self.state();
        let (told, held) = (state.told.len() as i64, state.held.len() as i64);
        Ok(match Place::parse(text) {
            Some(place) => match place.seen {
                Seen::Numbers { fact, hold } if fact <= told && hold <= held => Resumption::At(place),
                _ => Resumption::Lost,
            },
            None => Resumption::Malformed,
        })
    }

    async fn feed(
        &self,
        accounts: &[AccountId],
        after: &Place,
        limit: usize,
        now: Timestamp,
    ) -> Result<Fed, StoreError> {
        self.interrupted("feed")?;
        let state = self.state();
        let Seen::Numbers { mut fact, mut hold } = after.seen else {
            return Err(StoreError::Refused("a place of another store".into()));
        };
        let mut fresh = Vec::new();
        for told in state.told.iter().skip(fact as usize).take(limit) {
            fact += 1;
            let account_id = told.delivery.account_id;
            if accounts.contains(&account_id)
                && let Some(record) = state.fact_record(told)
            {
                let place = Place::numbers(after.at, fact, hold);
                let (stamp, what) = (Stamp(Written::Fact(fact)), What::Delivery(Box::new(record)));
                fresh.push(Fresh { account_id, place, stamp, what });
            }
        }
        for held in state.held.iter().skip(hold as usize).take(limit) {
            hold += 1;
            let (id, key) = held;
            let overtaken = state.held.iter().skip(hold as usize).any(|later| later == held);
            let account = state.destinations.0.get(id).map(|kept| kept.row.account_id);
            let entry = state.holds.get(id).and_then(|kept| kept.get(key));
            if let (Some(account_id), Some(entry), false) = (account, entry, overtaken)
                && accounts.contains(&account_id)
            {
                let place = Place::numbers(after.at, fact, hold);
                let (stamp, what) = (Stamp(Written::Hold(hold)), What::Hold(*id, entry.clone()));
                fresh.push(Fresh { account_id, place, stamp, what });
            }
        }
        let more = fact < state.told.len() as i64 || hold < state.held.len() as i64;
        Ok(Fed { fresh, next: Place::numbers(if more { after.at } else { now }, fact, hold), more })
    }

    async fn feed_stirred(&self) {
        self.stir.heard().await;
    }
}

impl State {
    pub(super) fn tell(&mut self, delivery: &Delivery, fact: AttemptId, ending: Option<(Ending, Timestamp)>) {
        self.told.push(Told { delivery: delivery.clone(), fact, ending });
    }

    /// None once it is forgotten.
    fn fact_record(&self, told: &Told) -> Option<FactRecord> {
        let Told { delivery, fact, ending } = told;
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
