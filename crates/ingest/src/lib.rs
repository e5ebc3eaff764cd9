//! The way of an event, from a request that has brought it to the answer that it is durable. Nothing here knows HTTP.
//!
//! 1. [`Admission`] (`admit.rs`) is asked for room before a body is read, and refuses while events wait too long.
//! 2. [`Admission::submit`] matches the event with its account's routes (`snapshot.rs` has them in memory): one delivery
//!    for each destination they lead to, or an expansion if there are more than one commit should write. The event then waits in a
//!    bounded queue.
//! 3. The [`Committer`] (`committer.rs`) takes whatever waits and announces the deliveries as expected. It flushes all of
//!    it in one transaction, announces what became of each delivery, and answers.
//! 4. An event whose account's configuration had changed is matched again, beside the committer's loop, and waits again.
//!
//! An answer is an [`Accepted`] or an [`IngestError`]; what HTTP makes of either is decided by `api`.

mod admit;
mod committer;
mod error;
mod queue_limit;
mod snapshot;

pub use admit::{
    Admission, ByteBudget, FanOut, Matcher, PendingAnswer, ReservedBytes, bounded_lookup, idempotency_key,
    provider_key,
};
pub use committer::Committer;
pub use error::IngestError;
pub use snapshot::{Snapshot, Snapshots};

use committer::Flusher;
use domain::{dice::Dice, id::EventId, limits, seal::MasterKeys, time::Clock, trace::Tracer};
use std::{any::Any, panic::AssertUnwindSafe, sync::Arc};
use store::{Announce, Catalog, Ingest, NewEvent};
use tokio::task::spawn_blocking;

/// What a producer is told about its event.
#[derive(Debug, Clone, PartialEq)]
pub struct Accepted {
    pub id: EventId,
    /// The key was used before: `id` is the first event.
    pub duplicate: bool,
    /// How many deliveries the event was committed with; None while an expansion makes them.
    pub deliveries: Option<u32>,
}

pub type Answer = Result<Accepted, IngestError>;

/// What admission and committer are made of.
pub struct IngestParts {
    pub store: Arc<dyn Ingest>,
    pub catalog: Arc<dyn Catalog>,
    pub announce: Arc<dyn Announce>,
    pub clock: Arc<dyn Clock>,
    pub dice: Arc<dyn Dice>,
    pub observer: Arc<dyn Observer>,
    pub tracer: Tracer,
    /// They open the data keys of accounts that have their payloads encrypted.
    pub master_keys: Arc<MasterKeys>,
    pub settings: IngestSettings,
}

/// The queue before the committer, and the committer. Nothing is committed until [`Committer::run`] runs.
pub fn open(parts: IngestParts) -> (Admission, Committer) {
    let IngestParts { store, catalog, announce, clock, dice, observer, tracer, master_keys, settings } =
        parts;
    let snapshots = Arc::new(Snapshots::new(catalog, master_keys, settings.long_work));
    let matcher = Matcher::new(&settings);
    let (admission, gathering, queue) =
        Admission::new(snapshots.clone(), matcher.clone(), dice.clone(), settings.queue);
    let match_rounds = settings.match_rounds;
    let flusher =
        Flusher { store, announce, clock, dice, snapshots, matcher, observer, tracer, match_rounds };
    (admission, Committer::new(queue, gathering, flusher))
}

/// Hears what becomes of events, in order to count it. It is called between a flush and its answers, so it must not wait.
pub trait Observer: Send + Sync {
    /// The event is durable, and is new.
    fn committed(&self, event: &NewEvent);
    /// The store has said that it can no longer be trusted.
    fn store_failed(&self);
}

#[derive(Debug, Clone)]
pub struct IngestSettings {
    /// Events that may wait for the committer.
    pub queue: usize,
    /// Destinations of one event whose deliveries are written with it; beyond, an expansion makes them.
    pub fanout_inline: usize,
    /// Destinations one event may be delivered to.
    pub fanout: usize,
    /// Ordered destinations an event may match if it is expanded: their deliveries are written with the event.
    pub fanout_ordered: usize,
    /// How often an event is matched again because its account's configuration had changed.
    pub match_rounds: usize,
    pub long_work: LongWork,
}

impl Default for IngestSettings {
    fn default() -> Self {
        Self {
            queue: limits::INGEST_QUEUE,
            fanout_inline: limits::FANOUT_INLINE,
            fanout: limits::FANOUT,
            fanout_ordered: limits::INGEST_BATCH_DELIVERIES,
            match_rounds: limits::MATCH_ROUNDS,
            long_work: LongWork::OnThreads,
        }
    }
}

/// Where work is done that would keep a runtime's thread from its other tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LongWork {
    /// On threads beside the runtime's.
    OnThreads,
    /// Where it comes up: threads have an order of their own, which no seed decides.
    InPlace,
}

impl LongWork {
    /// `Err` is what the work said when it panicked.
    async fn run<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
        match self {
            Self::OnThreads => spawn_blocking(work).await.map_err(|panic| panic.to_string()),
            Self::InPlace => std::panic::catch_unwind(AssertUnwindSafe(work))
                .map_err(|panic| format!("panic: {}", panic_message(&*panic))),
        }
    }
}

/// What a panic said.
pub fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("of unknown kind")
}
