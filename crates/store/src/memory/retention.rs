//! Forgetting.

use super::{MemoryStore, Tables};
use crate::{EventWalk, FactWalk, Pruned, ReplayPlace, ReplayWalk, Retention, StoreError, Term};
use async_trait::async_trait;
use domain::id::{AttemptId, DeliveryId, EventId, ReplayId};

#[async_trait]
impl Retention for MemoryStore {
    async fn prune_events(&self, term: Term, walk: EventWalk) -> Result<Option<Pruned<EventId>>, StoreError> {
        let mut tables = self.tables();
        if !tables.stands(term) {
            return Ok(None);
        }
        let old = tables.events.range(walk.from..EventId::at(walk.before, 0));
        let old = old.filter(|(_, kept)| kept.event.account_id == walk.account_id).map(|(id, _)| *id);
        let mut looked_at: Vec<EventId> = old.take(walk.events + 1).collect();
        let mut next = (looked_at.len() > walk.events).then(|| looked_at.pop()).flatten();
        let mut rows = 0;
        for id in looked_at {
            if rows >= walk.rows {
                next = Some(id);
                break;
            }
            if !tables.is_needed(id) && !tables.forget(id, walk.rows, &mut rows) {
                next = Some(id);
                break;
            }
        }
        Ok(Some(Pruned { rows, next }))
    }

    async fn prune_facts(
        &self,
        term: Term,
        walk: FactWalk,
    ) -> Result<Option<Pruned<DeliveryId>>, StoreError> {
        let mut tables = self.tables();
        if !tables.stands(term) {
            return Ok(None);
        }
        let old = (walk.from, AttemptId::MIN)..(DeliveryId::at(walk.before, 0), AttemptId::MIN);
        let mut deliveries: Vec<(DeliveryId, EventId)> =
            tables.attempts.range(old).map(|((id, _), kept)| (*id, kept.record.event_id)).collect();
        deliveries.dedup();
        let next = deliveries.get(walk.deliveries).map(|(id, _)| *id);
        deliveries.truncate(walk.deliveries);
        deliveries.retain(|(_, event)| !tables.events.contains_key(event));
        let rows = deliveries.into_iter().map(|(id, _)| tables.forget_delivery(id)).sum();
        Ok(Some(Pruned { rows, next }))
    }

    async fn prune_replays(
        &self,
        term: Term,
        walk: ReplayWalk,
    ) -> Result<Option<Pruned<ReplayPlace>>, StoreError> {
        let mut tables = self.tables();
        Ok(tables.stands(term).then(|| tables.forget_replays(&walk)))
    }
}

impl Tables {
    /// Something of it waits, or is yet to be made.
    pub(super) fn is_needed(&self, id: EventId) -> bool {
        self.expansions.contains_key(&id) || self.waiting.newest_first(None).any(|row| row.event_id == id)
    }

    /// True once the event itself is gone.
    fn forget(&mut self, id: EventId, most: usize, rows: &mut usize) -> bool {
        let of_event = self.ended.iter().filter(|(_, ended)| ended.delivery.event_id == id);
        let deliveries: Vec<DeliveryId> = of_event.map(|(delivery, _)| *delivery).collect();
        for delivery in deliveries {
            if *rows >= most {
                return false;
            }
            *rows += self.forget_delivery(delivery);
        }
        self.events.remove(&id);
        *rows += 1;
        true
    }

    fn forget_replays(&mut self, walk: &ReplayWalk) -> Pruned<ReplayPlace> {
        let old = self.replays.range(walk.from.0..ReplayId::at(walk.before, 0)).filter(|(_, kept)| {
            kept.replay.account_id == walk.account_id
                && kept.replay.finished_at.is_some_and(|at| at < walk.before)
        });
        let old: Vec<ReplayId> = old.map(|(id, _)| *id).take(walk.replays + 1).collect();
        let (mut rows, mut room) = (0, walk.rows);
        for (place, id) in old.into_iter().enumerate() {
            let from = if id == walk.from.0 { walk.from.1 } else { DeliveryId::MIN };
            if place == walk.replays || room == 0 {
                return Pruned { rows, next: Some((id, from)) };
            }
            let made = &self.replays[&id].made;
            let mut looked_at: Vec<(DeliveryId, DeliveryId)> = made
                .iter()
                .map(|(origin, made)| (*made, *origin))
                .filter(|(made, _)| *made >= from)
                .collect();
            looked_at.sort_unstable();
            let left = looked_at.get(room).map(|(made, _)| *made);
            looked_at.truncate(room);
            room -= looked_at.len();
            looked_at.retain(|(made, _)| self.waiting.get(*made).is_none());
            rows += looked_at.len();
            let made = &mut self.replays.get_mut(&id).expect("found above").made;
            for (_, origin) in looked_at {
                made.remove(&origin);
            }
            if let Some(left) = left {
                return Pruned { rows, next: Some((id, left)) };
            }
            if made.is_empty() {
                self.replays.remove(&id);
                rows += 1;
            }
        }
        Pruned { rows, next: None }
    }

    pub(super) fn forget_delivery(&mut self, id: DeliveryId) -> usize {
        let before = self.facts.len() + self.attempts.len();
        self.ended.remove(&id);
        self.settled.remove(&id);
        self.facts.retain(|(delivery, _), _| *delivery != id);
        self.attempts.retain(|(delivery, _), _| *delivery != id);
        (before - self.facts.len() - self.attempts.len()).max(1)
    }
}
