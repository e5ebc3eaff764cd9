//! The lanes worth looking at, published for the API of the other nodes: changed ones, a bounded number a second, and
//! none where there is no other node.

use crate::{dispatcher::Message, ownership_view::OwnershipView, sender::Sender};
use domain::limits;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// Publishes for ever.
pub(crate) async fn run(
    sender: Arc<Sender>,
    ownership_view: Arc<OwnershipView>,
    dispatcher: mpsc::Sender<Message>,
) {
    loop {
        tokio::time::sleep(limits::LANES_PUBLISH).await;
        supervisor::failpoint();
        if ownership_view.is_alone() || ownership_view.owned().is_empty() {
            continue;
        }
        let (answer, answered) = oneshot::channel();
        let _ = dispatcher.send(Message::Changes(answer)).await;
        let Ok(mut lanes) = answered.await else { return };
        for lane in &mut lanes {
            lane.open.retain(|delivery| !sender.large_payloads.is_waiting(*delivery));
        }
        if lanes.is_empty() {
            continue;
        }
        // What is lost here is said again in a few seconds, if it is still worth it.
        let node = ownership_view.membership().node;
        if let Err(error) = sender.store.publish_lanes(node, &lanes, sender.clock.now()).await {
            tracing::debug!(%error, "lanes could not be published");
        }
    }
}
