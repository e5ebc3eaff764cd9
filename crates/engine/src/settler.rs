//! Makes results durable: whatever has ended since the last flush is written in one transaction.
//!
//! A batch is tried until it is written: every settlement can be run again, and until it is flushed its lane counts it
//! against its limit, which is the back-pressure.

use crate::{backoff::Backoff, dispatcher::Message};
use domain::{
    delivery::{Ending, Settled},
    dice::Dice,
    id::{DeliveryId, DestinationId, NodeId},
    limits,
    time::Clock,
};
use std::sync::Arc;
use store::{Fact, Settlement, Store, StoreError, failpoint};
use tokio::sync::mpsc;

pub(crate) struct Settler {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) dice: Arc<dyn Dice>,
    pub(crate) node: NodeId,
    pub(crate) settlements: mpsc::UnboundedReceiver<Settlement>,
    pub(crate) dispatcher: mpsc::Sender<Message>,
}

/// A settlement that is durable, and what the lane needs to know of it.
#[derive(Debug)]
pub(crate) struct Flushed {
    pub(crate) destination: DestinationId,
    pub(crate) delivery: DeliveryId,
    pub(crate) settled: Settled,
    /// The destination has been disabled by it.
    pub(crate) disabled: bool,
}

impl Settler {
    /// Runs until every sender of settlements is gone and everything is written.
    pub(crate) async fn run(mut self) {
        let mut waiting: Vec<Settlement> = Vec::new();
        let mut backoff = Backoff::default();
        loop {
            if waiting.is_empty() && self.settlements.recv_many(&mut waiting, limits::SETTLE_BATCH).await == 0
            {
                return;
            }
            let batch = self.take_batch(&mut waiting);
            match self.flush(&batch).await {
                Ok(moved) => {
                    backoff.reset();
                    let flushed = batch.into_iter().zip(moved).map(flushed).collect();
                    if self.dispatcher.send(Message::Flushed(flushed)).await.is_err() {
                        tracing::debug!("flushed after the dispatcher had stopped");
                    }
                }
                Err(error) => {
                    if backoff.worth_telling() {
                        tracing::error!(%error, waiting = batch.len(), "results could not be written; trying again");
                    }
                    waiting.splice(0..0, batch);
                    tokio::time::sleep(backoff.pause(self.dice.as_ref())).await;
                }
            }
        }
    }

    /// As many as fit a flush, oldest first.
    fn take_batch(&self, waiting: &mut Vec<Settlement>) -> Vec<Settlement> {
        let mut bytes = 0;
        let fits = waiting.iter().take_while(|settlement| {
            bytes += weight(settlement);
            bytes <= limits::SETTLE_BATCH_BYTES
        });
        let count = fits.count().clamp(1, limits::SETTLE_BATCH).min(waiting.len());
        waiting.drain(..count).collect()
    }

    async fn flush(&self, batch: &[Settlement]) -> Result<Vec<bool>, StoreError> {
        failpoint::hit("settle.before");
        if batch.iter().any(|settlement| matches!(settlement.settled, Settled::Ended(Ending::DeadLetter(_))))
        {
            failpoint::hit("settle.dead_letter");
        }
        let moved = self.store.settle(self.node, batch, self.clock.now()).await?;
        failpoint::hit("settle.after");
        Ok(moved)
    }
}

fn flushed((settlement, moved): (Settlement, bool)) -> Flushed {
    // What did not move is no longer ours: cancelled meanwhile, or another owner's.
    let gone = Settled::Ended(Ending::Delivered);
    Flushed {
        destination: settlement.delivery.destination_id,
        delivery: settlement.delivery.id,
        settled: if moved { settlement.settled } else { gone },
        disabled: settlement.disables_destination,
    }
}

fn weight(settlement: &Settlement) -> usize {
    const ROW_BYTES: usize = 256;
    let detail = match &settlement.fact {
        Fact::Attempted(attempt) => {
            let response = attempt.detail.response.as_ref();
            let body = response.and_then(|response| response.body.as_ref()).map_or(0, String::len);
            let headers: usize = response.map_or(0, |response| {
                response.headers.iter().map(|(name, value)| name.len() + value.len()).sum()
            });
            body + headers
        }
        Fact::EndedWithout { .. } => 0,
    };
    ROW_BYTES + detail
}
