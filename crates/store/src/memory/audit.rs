//! What must never be; and ways to make it so, for tests that try whether it is found.

use super::{EndedDelivery, MemoryStore, Tables};
use crate::{
    Audit, Catalog as _, FactKey, KnownLane, Membership as _, PublishedLanes as _, Roster, StoreError,
    StrayFact, TrackPlace, UnevenFanOut, WaitingHead, Walked,
    audit::{FactWord, after_event, after_fact, after_track, walked},
};
use async_trait::async_trait;
use domain::{
    delivery::Delivery,
    event::Event,
    id::{DeliveryId, DestinationId, EventId},
    time::Timestamp,
};
use std::{collections::BTreeSet, sync::Arc};

#[async_trait]
impl Audit for MemoryStore {
    async fn audit_roster(&self) -> Result<Roster, StoreError> {
        self.roster().await
    }

    async fn audit_heads(
        &self,
        from: TrackPlace,
        limit: usize,
    ) -> Result<Walked<TrackPlace, WaitingHead>, StoreError> {
        let tables = self.tables();
        let (mut next, mut heads) = (Some(from), Vec::new());
        while heads.len() < limit
            && let Some((shard, row)) = next.and_then(|place| tables.waiting.first_from(place))
        {
            let place = (shard, row.destination_id, row.position.track);
            heads.push(WaitingHead {
                place,
                delivery_id: row.id,
                due_at: row.due_at,
                attempts: row.attempts,
            });
            next = after_track(place);
        }
        Ok(walked(heads.len(), limit, heads.last().map(|head| head.place), after_track, heads))
    }

    async fn audit_lanes(
        &self,
        ids: &[DestinationId],
        newer_than: Timestamp,
    ) -> Result<Vec<KnownLane>, StoreError> {
        let published = self.published_lanes(ids, newer_than).await?;
        let known = self.destination_records(ids).await?.into_iter().zip(published);
        Ok(known.map(|(record, published)| KnownLane { record, published }).collect())
    }

    async fn audit_fan_outs(
        &self,
        from: EventId,
        limit: usize,
        deliveries: u64,
    ) -> Result<Walked<EventId, UnevenFanOut>, StoreError> {
        let tables = self.tables();
        let (mut found, mut looked_at, mut left, mut last) = (Vec::new(), 0, deliveries, None);
        for (id, kept) in tables.events.range(from..).take(limit) {
            let expanding = tables.expansions.get(id).map(|expansion| expansion.deliveries);
            let promised = expanding.unwrap_or(kept.deliveries.len() as u32);
            if looked_at > 0 && left < u64::from(promised) {
                return Ok(Walked { looked_at, found, next: Some(*id) });
            }
            left = left.saturating_sub(u64::from(promised));
            (looked_at, last) = (looked_at + 1, Some(*id));
            let there = tables.deliveries_of(*id);
            if there != promised {
                let account_id = kept.event.account_id;
                found.push(UnevenFanOut {
                    event_id: *id,
                    account_id,
                    promised: Some(promised),
                    found: there,
                });
            }
        }
        Ok(walked(looked_at, limit, last, after_event, found))
    }

    async fn audit_facts(
        &self,
        from: FactKey,
        limit: usize,
    ) -> Result<Walked<FactKey, StrayFact>, StoreError> {
        let tables = self.tables();
        // Attempts have records; an ending without one is only noted as a fact.
        let keys: BTreeSet<FactKey> =
            tables.facts.range(from..).map(|(key, _)| *key).chain(tables.attempts_from(from)).collect();
        let keys: Vec<FactKey> = keys.into_iter().take(limit).collect();
        let found = keys.iter().filter_map(|key| tables.stray(*key)).collect();
        Ok(walked(keys.len(), limit, keys.last().copied(), after_fact, found))
    }
}

impl MemoryStore {
    /// Damage on purpose: a delivery that waits is not there any more, and has not ended.
    pub fn lose_waiting(&self, id: DeliveryId) {
        self.tables().waiting.remove(id);
    }

    /// An event is not there any more: by its retention or by damage. What became of its deliveries is still told.
    pub fn lose_event(&self, id: EventId) {
        self.tables().events.remove(&id);
    }

    /// Damage on purpose: one bit of an event's payload is turned over.
    pub fn alter_payload(&self, id: EventId) {
        if let Some(kept) = self.tables().events.get_mut(&id) {
            if let Some((sealed, _)) = &mut kept.sealed {
                let mut altered = sealed.to_vec();
                altered[0] ^= 1;
                *sealed = altered.into();
                return;
            }
            let mut payload = kept.event.payload.to_vec();
            payload[0] ^= 1;
            kept.event = Arc::new(Event { payload: payload.into(), ..(*kept.event).clone() });
        }
    }
}

impl Tables {
    /// Those that wait and those that have ended, replays left out.
    fn deliveries_of(&self, event: EventId) -> u32 {
        let its = |delivery: &&Delivery| delivery.event_id == event && delivery.replay_id.is_none();
        let waiting = self.waiting.newest_first(None).filter(its).count();
        let ended = self.ended.values().map(|ended| &ended.delivery).filter(its).count();
        (waiting + ended) as u32
    }

    fn attempts_from(&self, from: FactKey) -> impl Iterator<Item = FactKey> {
        self.attempts.range(from..).map(|(key, _)| *key)
    }

    fn stray(&self, key: FactKey) -> Option<StrayFact> {
        let (waits, ended) = (self.waiting.get(key.0), self.ended.get(&key.0));
        let attempt = self.attempts.get(&key).map(|kept| kept.record.event_id);
        let delivery = waits.or_else(|| ended.map(|ended| &ended.delivery)).map(|delivery| delivery.event_id);
        // Nothing else is known of a fact whose delivery is nowhere.
        let event_id = attempt.or(delivery).unwrap_or(EventId::MIN);
        let ending = ended.map(|EndedDelivery { ending, .. }| *ending);
        let attempted = self.attempts.range((key.0, domain::id::AttemptId::MIN)..);
        FactWord {
            key,
            event_id,
            has_event: self.events.contains_key(&event_id),
            has_delivery: waits.is_some() || ended.is_some(),
            has_attempts: attempted.take_while(|((id, _), _)| *id == key.0).next().is_some(),
            ending: ending.map(|ending| ending.status().as_str()),
            reason: ending.and_then(|ending| ending.reason()),
        }
        .stray()
    }
}
