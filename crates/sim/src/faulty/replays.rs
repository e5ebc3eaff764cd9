//! What a chunk of a replay has made.

use super::{TrueStore, finish};
use crate::{log::Occurrence, shared_world::count};
use store::{ReplayChunk, Replayed};

/// Notes the deliveries that are there now.
pub(super) fn replayed(true_store: &TrueStore, chunk: &ReplayChunk, made: &Option<u32>) {
    let TrueStore { store, shared, node, .. } = true_store;
    let Some(made) = *made else { return };
    shared.note(Occurrence::Replayed { node: *node, replay: chunk.replay_id, deliveries: made as usize });
    for Replayed { delivery, .. } in &chunk.deliveries {
        let account = shared.observed().account_of(delivery.destination_id);
        // One that its replay had made before is not made again.
        if finish(store.delivery(account, delivery.id)).is_err() {
            continue;
        }
        count(&shared.counts.replayed);
        true_store.promised(account, delivery);
    }
}
