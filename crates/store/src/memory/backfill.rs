//! Backfills.

use super::{MemoryStore, Tables, history::wanted_event};
use crate::{
    BackfillChunk, BackfillEvent, BackfillEvents, BackfillWalk, Backfilled, Backfills, EventFilter,
    ReplayStatus, StoreError,
};
use async_trait::async_trait;
use domain::{
    delivery::Delivery,
    id::{DeliveryId, DestinationId, EventId, ReplayId},
    limits,
    operations::OperationalNote,
};
use std::sync::Arc;

#[async_trait]
impl Backfills for MemoryStore {
    async fn backfill_events(&self, walk: &BackfillWalk) -> Result<BackfillEvents, StoreError> {
        let (tables, mut found) = (self.tables(), BackfillEvents::default());
        let (from, below) = walk.range();
        if from >= below {
            return Ok(found);
        }
        let own = |(_, kept): &(_, &super::KeptEvent)| kept.event.account_id == walk.account_id;
        let mut entries = tables.events.range(from..below).filter(own);
        let filter = EventFilter { unmatched: false, ..walk.selection.filter.clone() };
        let mut last = None;
        for (id, kept) in entries.by_ref().take(limits::PAGE_SCAN) {
            last = Some(*id);
            let expanding = tables.expansions.contains_key(id);
            let unmatched = kept.deliveries.is_empty() && !expanding;
            let wanted = wanted_event(&filter, &tables.event_record(kept, None))
                && (unmatched || !walk.selection.filter.unmatched)
                && walk.selection.wants(&kept.event);
            if wanted {
                let erased = kept.payload_erased_at.is_some();
                let has_payload = walk.payloads && kept.is_carried();
                let event = if has_payload { kept.event.clone() } else { Arc::new(kept.outside()) };
                let payload_bytes = kept.size_bytes as u32;
                found.events.push(BackfillEvent { event, has_payload, payload_bytes, expanding, erased });
            }
            if found.events.len() == walk.limit {
                break;
            }
        }
        found.next = entries.next().and(last);
        Ok(found)
    }

    async fn had(&self, pairs: &[(EventId, DestinationId)]) -> Result<Vec<bool>, StoreError> {
        let tables = self.tables();
        Ok(pairs.iter().map(|(event, destination)| tables.had(*event, *destination)).collect())
    }

    async fn write_backfill(&self, chunk: &BackfillChunk) -> Result<Option<Vec<DeliveryId>>, StoreError> {
        Ok(self.tables().write_backfill(chunk))
    }
}

impl Tables {
    /// Whether any delivery of the event is, or was, for the destination.
    fn had(&self, event: EventId, destination: DestinationId) -> bool {
        let its = |delivery: &Delivery| delivery.event_id == event && delivery.destination_id == destination;
        self.waiting.newest_first(None).any(its) || self.ended.values().any(|ended| its(&ended.delivery))
    }

    fn write_backfill(&mut self, chunk: &BackfillChunk) -> Option<Vec<DeliveryId>> {
        let kept = self.replays.get(&chunk.replay_id)?;
        let holds = kept.held.is_some_and(|(node, _)| node == chunk.node);
        if kept.replay.status != ReplayStatus::Running || !holds || kept.backfill_cursor != chunk.from {
            return None;
        }
        let made = chunk.deliveries.iter().filter(|one| self.backfill(chunk.replay_id, one));
        let made: Vec<DeliveryId> = made.map(|one| one.delivery.id).collect();
        let kept = self.replays.get_mut(&chunk.replay_id).expect("found above");
        (kept.backfill_cursor, kept.held) = (chunk.to, Some((chunk.node, chunk.until)));
        kept.replay.created += made.len() as u64;
        kept.replay.skipped += u64::from(chunk.skipped);
        if chunk.done {
            kept.held = None;
            let gone = kept.replay.matched.saturating_sub(kept.replay.created);
            kept.replay.skipped = kept.replay.skipped.max(gone);
            (kept.replay.status, kept.replay.finished_at) = (ReplayStatus::Completed, Some(chunk.now));
            let note = OperationalNote::of_replay(chunk.account_id, chunk.replay_id, chunk.now);
            self.note_operational(&note);
        }
        Some(made)
    }

    fn backfill(&mut self, id: ReplayId, one: &Backfilled) -> bool {
        let Backfilled { event_id, delivery } = one;
        if self.expansions.contains_key(event_id) || self.had(*event_id, delivery.destination_id) {
            return false;
        }
        let there = self.events.get_mut(event_id).filter(|kept| kept.payload_erased_at.is_none());
        let Some(kept) = there else { return false };
        kept.backfilled.push(delivery.id);
        let event = kept.event.clone();
        self.replays.get_mut(&id).expect("the caller has found it").made.insert(delivery.id, delivery.id);
        self.promise_late(&event, delivery, id);
        true
    }
}
