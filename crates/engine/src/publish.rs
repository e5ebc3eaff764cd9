//! The lanes worth looking at, said aloud for the API of the other nodes: changed ones, a bounded number a second, and
//! none when there is nobody to read them.

use crate::{board::Board, dispatcher::Message};
use domain::{limits, time::Clock};
use std::sync::Arc;
use store::Store;
use tokio::sync::{mpsc, oneshot};

/// Publishes for ever.
pub(crate) async fn run(
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    board: Arc<Board>,
    dispatcher: mpsc::Sender<Message>,
) {
    loop {
        tokio::time::sleep(limits::LANES_PUBLISH).await;
        supervisor::failpoint();
        if board.is_alone() || board.owned().is_empty() {
            continue;
        }
        let (answer, answered) = oneshot::channel();
        let _ = dispatcher.send(Message::Changes(answer)).await;
        let Ok(lanes) = answered.await else { return };
        if lanes.is_empty() {
            continue;
        }
        // What is lost here is said again in a few seconds, if it is still worth it.
        if let Err(error) = store.publish_lanes(board.claim().node, &lanes, clock.now()).await {
            tracing::debug!(%error, "lanes could not be published");
        }
    }
}
