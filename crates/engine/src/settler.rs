//! Makes results durable: whatever has ended since the last flush is written in one transaction.
//!
//! A batch is tried until it is written: every settlement can be run again, and until it is flushed its lane counts it
//! against its limit, which is the back-pressure. A flush costs much the same for one result as for many, so results wait
//! for others: until a whole batch is there, until somebody waits for one of them, and never longer than
//! [`limits::SETTLE_WAIT`]. What a crash finds unwritten is sent once more. Accounts have their turns in a flush one after
//! the other. Results of attempts go first; endings of disabled or deleted destinations, which may be millions, fill up
//! what is left of a flush, and without results come at intervals (`batch_interval`).

use crate::{backoff::Backoff, batch_interval::batch_interval, dispatcher::Message, metrics::Metrics};
use domain::{
    delivery::{Ending, Settled},
    dice::Dice,
    id::{AccountId, DeliveryId, DestinationId, NodeId},
    limits,
    time::Clock,
};
use futures_util::FutureExt as _;
use sharing::TurnQueue;
use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use store::{Fact, GateWord, Settlement, Store, StoreError, failpoint};
use tokio::{
    sync::{Notify, mpsc},
    time::{Instant, timeout_at},
};

pub(crate) struct Settler {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) dice: Arc<dyn Dice>,
    pub(crate) waiting: SettlerQueue,
    pub(crate) dispatcher: mpsc::Sender<Message>,
    pub(crate) metrics: Arc<Metrics>,
}

/// What is to be written. Both queues are bounded by the dispatcher, which fills them: see `AttemptRunner::may_start`
/// and `AttemptRunner::may_end`.
pub(crate) struct SettlerQueue {
    results: SettlementQueue,
    endings: SettlementQueue,
    bell: Arc<Bell>,
}

/// What wakes the settler before its time.
#[derive(Default)]
struct Bell {
    rung: Notify,
    /// Results that are in no batch yet, and those of them that somebody waits for.
    waiting: AtomicUsize,
    hurried: AtomicUsize,
}

impl Bell {
    fn is_due(&self) -> bool {
        self.hurried.load(Ordering::Relaxed) > 0
            || self.waiting.load(Ordering::Relaxed) >= limits::SETTLE_BATCH
    }
}

/// What comes in, and what has and waits for its account's turn.
struct SettlementQueue {
    incoming: mpsc::UnboundedReceiver<PendingSettlement>,
    waiting: TurnQueue<PendingSettlement>,
}

/// A settlement that is to be written, and what its lane's gate made of it.
pub(crate) struct PendingSettlement {
    pub(crate) settlement: Settlement,
    pub(crate) gate_word: Option<Box<GateWord>>,
    /// Somebody waits for it.
    pub(crate) hurry: bool,
}

/// What is written together.
#[derive(Default)]
struct SettlementBatch {
    settlements: Vec<Settlement>,
    gate_words: Vec<GateWord>,
    /// How many of them are results, and were hurried.
    results: usize,
    hurried: usize,
}

impl SettlementBatch {
    fn push(&mut self, PendingSettlement { settlement, gate_word, hurry }: PendingSettlement) {
        self.results += usize::from(is_result(&settlement));
        self.hurried += usize::from(hurry);
        self.settlements.push(settlement);
        self.gate_words.extend(gate_word.map(|word| *word));
    }

    /// Rows of one destination lie side by side in the store, and those of one of them keep their order.
    fn by_destination(mut self) -> Self {
        self.settlements.sort_by_key(|settlement| (settlement.shard, settlement.delivery.destination_id));
        self
    }
}

/// The way to the settler.
pub(crate) struct SettlerHandle {
    results: mpsc::UnboundedSender<PendingSettlement>,
    endings: mpsc::UnboundedSender<PendingSettlement>,
    bell: Arc<Bell>,
}

impl SettlerHandle {
    /// To be written with others, or soon if somebody waits for it. A settler that is gone means that the node is stopping
    /// and its grace has ended.
    pub(crate) fn finished(&self, mut result: PendingSettlement) {
        // What others have to go by is not held back.
        result.hurry |= result.gate_word.is_some() || result.settlement.consequence.is_some();
        let hurry = result.hurry;
        let waiting = self.bell.waiting.fetch_add(1, Ordering::Relaxed) + 1;
        self.bell.hurried.fetch_add(usize::from(hurry), Ordering::Relaxed);
        let _ = self.results.send(result);
        if hurry || waiting == limits::SETTLE_BATCH {
            self.bell.rung.notify_one();
        }
    }

    /// To be written when there is room.
    pub(crate) fn ended(&self, ending: PendingSettlement) {
        let _ = self.endings.send(ending);
    }
}

/// A settlement that is durable, and what the lane needs to know of it.
#[derive(Debug)]
pub(crate) struct DurableSettlement {
    pub(crate) account: AccountId,
    pub(crate) destination: DestinationId,
    pub(crate) delivery: DeliveryId,
    pub(crate) track: i64,
    pub(crate) settled: Settled,
    /// It was an attempt, not an ending without one.
    pub(crate) attempted: bool,
    /// The destination has been disabled or paused by it.
    pub(crate) switched: bool,
}

pub(crate) fn channels() -> (SettlerHandle, SettlerQueue) {
    let (results, results_waiting) = mpsc::unbounded_channel();
    let (endings, endings_waiting) = mpsc::unbounded_channel();
    let bell = Arc::<Bell>::default();
    (
        SettlerHandle { results, endings, bell: Arc::clone(&bell) },
        SettlerQueue {
            results: SettlementQueue::new(results_waiting),
            endings: SettlementQueue::new(endings_waiting),
            bell,
        },
    )
}

impl Settler {
    /// Runs until the dispatcher is gone and everything is written.
    pub(crate) async fn run(mut self) {
        let mut backoff = Backoff::default();
        let mut next_flush = Instant::now();
        while let Some(first) = self.waiting.first().await {
            self.waiting.gather(&first, next_flush).await;
            let begun = Instant::now();
            let batch = self.waiting.batch(first).by_destination();
            supervisor::failpoint();
            while let Err(error) = self.flush(&batch).await {
                if backoff.worth_telling() {
                    tracing::error!(%error, waiting = batch.settlements.len(), "results could not be written; trying again");
                }
                tokio::time::sleep(backoff.pause(self.dice.as_ref())).await;
            }
            backoff.reset();
            next_flush = begun + batch_interval(begun.elapsed());
        }
    }

    /// A panic is one more way to fail: every settlement can be run again.
    async fn flush(&self, batch: &SettlementBatch) -> Result<(), StoreError> {
        let panicked = |_| Err(StoreError::Unavailable("writing them panicked".into()));
        AssertUnwindSafe(self.write(batch)).catch_unwind().await.unwrap_or_else(panicked)
    }

    /// Words about gates first: the next owner of the lane must not send into a hold that a result speaks of.
    async fn write(
        &self,
        SettlementBatch { settlements: batch, gate_words, .. }: &SettlementBatch,
    ) -> Result<(), StoreError> {
        failpoint::hit("settle.before");
        if !gate_words.is_empty() {
            self.store.keep_gates(node(&batch[0]), gate_words, self.clock.now()).await?;
            failpoint::hit("settle.gates");
        }
        if batch.iter().any(|settlement| matches!(settlement.settled, Settled::Ended(Ending::DeadLetter(_))))
        {
            failpoint::hit("settle.dead_letter");
        }
        // What was begun under an id is settled under it: once its row is gone the result is late, under whichever id this node
        // has joined again.
        let moved = self.store.settle(node(&batch[0]), batch, self.clock.now()).await?;
        failpoint::hit("settle.after");
        self.metrics.settled(batch, &moved);
        let flushed = batch.iter().zip(moved).map(flushed).collect();
        if self.dispatcher.send(Message::Flushed(flushed)).await.is_err() {
            tracing::debug!("flushed after the dispatcher had stopped");
        }
        Ok(())
    }
}

impl SettlerQueue {
    /// Waits for the first settlement of a batch, results before endings. None when the dispatcher is gone.
    async fn first(&mut self) -> Option<PendingSettlement> {
        if let Some(next) = self.results.waiting.pop().or_else(|| self.endings.waiting.pop()) {
            return Some(next);
        }
        tokio::select! {
            biased;
            Some(result) = self.results.incoming.recv() => Some(result),
            Some(ending) = self.endings.incoming.recv() => Some(ending),
            else => None,
        }
    }

    /// Lets others join, unless a batch is full or somebody waits for it.
    async fn gather(&self, first: &PendingSettlement, next_flush: Instant) {
        let until = match is_result(&first.settlement) {
            true => Instant::now() + limits::SETTLE_WAIT,
            false => next_flush,
        };
        let due = async {
            while !self.bell.is_due() {
                self.bell.rung.notified().await;
            }
        };
        // Nobody has rung in time: what is there is written.
        let _ = timeout_at(until, due).await;
    }

    /// Whatever has gathered, as much as fits a flush and was begun under one node id.
    fn batch(&mut self, first: PendingSettlement) -> SettlementBatch {
        let by = node(&first.settlement);
        let mut bytes = weight(&first.settlement);
        let mut batch = SettlementBatch::default();
        batch.push(first);
        let mut take = |queue: &mut SettlementQueue, most: usize| {
            queue.hear();
            let most = batch.settlements.len() + most;
            while batch.settlements.len() < most.min(limits::SETTLE_BATCH)
                && bytes < limits::SETTLE_BATCH_BYTES
                // One of another membership begins the next batch.
                && queue.waiting.peek().is_some_and(|next| node(&next.settlement) == by)
                && let Some(outcome) = queue.waiting.pop()
            {
                bytes += weight(&outcome.settlement);
                batch.push(outcome);
            }
        };
        take(&mut self.results, limits::SETTLE_BATCH);
        take(&mut self.endings, limits::ENDING_BATCH);
        self.bell.waiting.fetch_sub(batch.results, Ordering::Relaxed);
        self.bell.hurried.fetch_sub(batch.hurried, Ordering::Relaxed);
        batch
    }
}

impl SettlementQueue {
    fn new(incoming: mpsc::UnboundedReceiver<PendingSettlement>) -> Self {
        Self { incoming, waiting: TurnQueue::default() }
    }

    fn hear(&mut self) {
        while let Ok(pending) = self.incoming.try_recv() {
            self.waiting.push(pending.settlement.delivery.account_id, pending);
        }
    }
}

fn is_result(settlement: &Settlement) -> bool {
    matches!(settlement.fact, Fact::Attempted(_))
}

/// The node that made the attempt, or ended the delivery without one.
fn node(settlement: &Settlement) -> NodeId {
    match &settlement.fact {
        Fact::Attempted(attempt) => attempt.node,
        Fact::EndedWithout { node, .. } => *node,
    }
}

fn flushed((settlement, moved): (&Settlement, bool)) -> DurableSettlement {
    // What did not move is no longer ours: cancelled meanwhile, or another owner's.
    let gone = Settled::Ended(Ending::Delivered);
    DurableSettlement {
        account: settlement.delivery.account_id,
        destination: settlement.delivery.destination_id,
        delivery: settlement.delivery.id,
        track: settlement.delivery.position.track,
        settled: if moved { settlement.settled } else { gone },
        attempted: is_result(settlement),
        switched: settlement.consequence.is_some(),
    }
}

/// What a settlement adds to a flush, about.
fn weight(settlement: &Settlement) -> usize {
    const ROW_BYTES: usize = 256;
    let Fact::Attempted(attempt) = &settlement.fact else { return ROW_BYTES };
    let pairs = |pairs: &[(String, String)]| pairs.iter().map(|(name, value)| name.len() + value.len()).sum();
    let response: usize = attempt.detail.response.as_ref().map_or(0, |response| {
        let body = response.body.as_ref().or(response.body_base64.as_ref()).map_or(0, String::len);
        body + pairs(&response.headers)
    });
    let request: usize = pairs(&attempt.detail.request_headers);
    let sealed = attempt.detail.sealed.as_ref().map_or(0, |sealed| sealed.0.len());
    ROW_BYTES + attempt.detail.url.len() + request + response + sealed
}

#[cfg(test)]
mod tests;
