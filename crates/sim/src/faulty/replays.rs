//! What a chunk of a replay has made, or of a backfill.

use super::{FaultyStore, TrueStore, finish};
use crate::{log::Occurrence, planted_bug::PlantedBug, shared_world::count};
use async_trait::async_trait;
use domain::id::{DeliveryId, DestinationId, EventId};
use store::{
    BackfillChunk, BackfillEvents, BackfillWalk, Backfilled, Backfills, NewDelivery, ReplayChunk, Replayed,
    StoreError,
};

#[async_trait]
impl Backfills for FaultyStore {
    async fn backfill_events(&self, walk: &BackfillWalk) -> Result<BackfillEvents, StoreError> {
        self.read("backfill_events", self.inner.backfill_events(walk)).await
    }

    async fn had(&self, pairs: &[(EventId, DestinationId)]) -> Result<Vec<bool>, StoreError> {
        self.read("had", self.inner.had(pairs)).await
    }

    async fn write_backfill(&self, chunk: &BackfillChunk) -> Result<Option<Vec<DeliveryId>>, StoreError> {
        let mut chunk = chunk.clone();
        let write = move |true_store: &TrueStore| {
            if true_store.shared.has(PlantedBug::BackfillLeavesOut) {
                chunk.deliveries.pop();
            }
            let made = finish(true_store.store.write_backfill(&chunk))?;
            backfilled(true_store, &chunk, &made);
            Ok(made)
        };
        self.write("write_backfill", write).await
    }
}

/// Notes the deliveries that are there now.
pub(super) fn replayed(true_store: &TrueStore, chunk: &ReplayChunk, made: &Option<u32>) {
    let TrueStore { shared, node, .. } = true_store;
    let Some(made) = *made else { return };
    shared.note(Occurrence::Replayed { node: *node, replay: chunk.replay_id, deliveries: made as usize });
    made_of(true_store, chunk.deliveries.iter().map(|Replayed { delivery, .. }| delivery));
}

/// The same of a chunk of a backfill.
fn backfilled(true_store: &TrueStore, chunk: &BackfillChunk, made: &Option<Vec<DeliveryId>>) {
    let TrueStore { shared, node, .. } = true_store;
    let Some(made) = made else { return };
    shared.note(Occurrence::Replayed { node: *node, replay: chunk.replay_id, deliveries: made.len() });
    made_of(true_store, chunk.deliveries.iter().map(|Backfilled { delivery, .. }| delivery));
}

fn made_of<'d>(true_store: &TrueStore, deliveries: impl Iterator<Item = &'d NewDelivery>) {
    let TrueStore { store, shared, .. } = true_store;
    for delivery in deliveries {
        let account = shared.observed().account_of(delivery.destination_id);
        // One that was made before is not made again.
        if finish(store.delivery(account, delivery.id)).is_err() {
            continue;
        }
        count(&shared.counts.replayed);
        true_store.promised(account, delivery);
    }
}
