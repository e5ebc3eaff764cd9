//! The net under every wake-up: looks which lanes have something waiting, at the start and from time to time.

use crate::{backoff::Backoff, dispatcher::Message};
use domain::{dice::Dice, id::SHARDS, limits};
use std::{sync::Arc, time::Duration};
use store::{Store, StoreError};
use tokio::sync::mpsc;

pub(super) async fn run(
    store: Arc<dyn Store>,
    dice: Arc<dyn Dice>,
    every: Duration,
    inbox: mpsc::Sender<Message>,
) {
    let mut backoff = Backoff::default();
    loop {
        let pause = match scan(store.as_ref(), &inbox).await {
            Ok(()) => {
                backoff.reset();
                every
            }
            Err(error) => {
                if backoff.worth_telling() {
                    tracing::warn!(%error, "the queue could not be scanned; trying again");
                }
                backoff.pause(dice.as_ref())
            }
        };
        tokio::time::sleep(pause).await;
    }
}

async fn scan(store: &dyn Store, inbox: &mpsc::Sender<Message>) -> Result<(), StoreError> {
    let (shards, mut after) = (Vec::from_iter(0..SHARDS), None);
    loop {
        let heads = store.lanes(&shards, after, limits::RESCAN_LANES).await?;
        let Some(last) = heads.last() else { return Ok(()) };
        let complete = heads.len() < limits::RESCAN_LANES;
        after = Some((last.shard, last.destination_id));
        if inbox.send(Message::Heads(heads)).await.is_err() || complete {
            return Ok(());
        }
    }
}
