//! The lanes worth looking at, published for the API of the other nodes: changed ones, a bounded number a second, and
//! none where there is no other node.

use crate::{dispatcher::Message, ownership_view::OwnershipView};
use domain::{limits, time::Clock};
use std::sync::Arc;
use store::Store;
use tokio::sync::{mpsc, oneshot};

/// Publishes for ever.
pub(crate) async fn run(
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
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
        let Ok(lanes) = answered.await else { return };
        if lanes.is_empty() {
            continue;
        }
        // What is lost here is said again in a few seconds, if it is still worth it.
        if let Err(error) = store.publish_lanes(ownership_view.membership().node, &lanes, clock.now()).await {
            tracing::debug!(%error, "lanes could not be published");
        }
    }
}
