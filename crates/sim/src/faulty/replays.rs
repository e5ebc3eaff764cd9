//! What a chunk of a replay has made.

use super::{Site, finish, queue::number};
use crate::{log::What, scene::count};
use store::{ReplayChunk, Replayed};

/// Tells the book of the deliveries that are there now.
pub(super) fn replayed(site: &Site, chunk: &ReplayChunk, made: &Option<u32>) {
    let Site { store, scene, node } = site;
    let Some(made) = *made else { return };
    scene.note(What::Replayed { node: *node, replay: chunk.replay_id, deliveries: made as usize });
    for Replayed { delivery, .. } in &chunk.deliveries {
        let account = scene.book().account_of(delivery.destination_id);
        // One that its replay had made before is not made again.
        if finish(store.delivery(account, delivery.id)).is_err() {
            continue;
        }
        count(&scene.counts.replayed);
        scene.book().promised(account, delivery);
        if delivery.sequenced {
            number(store, scene, account, delivery.id);
        }
    }
}
