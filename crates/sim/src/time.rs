//! The one true time of a world, and what its nodes believe.
//!
//! True time is counted in microseconds from the beginning of the world. While a node has its turn, true time follows
//! the paused clock of its runtime; in between it stands at the end of the last step.

use domain::time::{Clock, Timestamp};
use std::sync::{
    Mutex,
    atomic::{AtomicI64, Ordering::Relaxed},
};
use tokio::time::Instant;

/// Microseconds since the beginning of the world.
pub(crate) type Moment = i64;

pub(crate) const MILLISECOND: Moment = 1_000;
pub(crate) const SECOND: Moment = 1_000_000;
/// What the calendar showed when the world began.
const BEGINNING: Timestamp = Timestamp::from_seconds(1_790_000_000);

pub(crate) fn calendar(moment: Moment) -> Timestamp {
    Timestamp::from_micros(BEGINNING.micros() + moment)
}

pub(crate) fn moment(time: Timestamp) -> Moment {
    time.micros() - BEGINNING.micros()
}

#[derive(Debug, Default)]
pub(crate) struct TrueTime {
    standing: AtomicI64,
    turn: Mutex<Option<Turn>>,
    /// The latest time the store has told: its clock never goes back.
    store: AtomicI64,
}

/// A node is running: how its clock translates.
#[derive(Debug, Clone, Copy)]
struct Turn {
    began: Moment,
    local: Instant,
    rate: f64,
}

impl TrueTime {
    pub(crate) fn now(&self) -> Moment {
        let turn = *self.turn.lock().expect("never poisoned: nothing panics in here");
        match turn {
            Some(turn) => turn.began + (turn.local.elapsed().as_micros() as f64 / turn.rate) as Moment,
            None => self.standing.load(Relaxed),
        }
    }

    /// The latest time the store has told.
    pub(crate) fn told_by_store(&self) -> Moment {
        self.store.load(Relaxed)
    }

    /// From here on time follows the runtime we are in: it is `began` when its clock shows `local`, and goes at this rate.
    pub(crate) fn turn_begins(&self, began: Moment, local: Instant, rate: f64) {
        *self.turn.lock().expect("never poisoned") = Some(Turn { began, local, rate });
    }

    /// No node runs: time stands here.
    pub(crate) fn stand(&self, at: Moment) {
        *self.turn.lock().expect("never poisoned") = None;
        self.standing.store(at, Relaxed);
    }
}

/// The store's own clock.
impl Clock for TrueTime {
    fn now(&self) -> Timestamp {
        let now = TrueTime::now(self);
        calendar(self.store.fetch_max(now, Relaxed).max(now))
    }
}

/// What a node believes: its own wall clock, hours off, until the store has told it better; then the store's time,
/// carried on by its monotonic clock. As the binary's.
#[derive(Debug)]
pub(crate) struct NodeClock {
    started: Instant,
    offset: AtomicI64,
    told: AtomicI64,
}

impl NodeClock {
    /// To be made inside the node's runtime.
    pub(crate) fn new(wall: Timestamp) -> Self {
        Self { started: Instant::now(), offset: wall.micros().into(), told: AtomicI64::new(0) }
    }

    fn elapsed(&self) -> i64 {
        self.started.elapsed().as_micros() as i64
    }
}

impl Clock for NodeClock {
    fn now(&self) -> Timestamp {
        let now = self.offset.load(Relaxed) + self.elapsed();
        Timestamp::from_micros(self.told.fetch_max(now, Relaxed).max(now))
    }

    fn sync(&self, store_now: Timestamp) {
        self.offset.store(store_now.micros() - self.elapsed(), Relaxed);
        let ahead = self.told.load(Relaxed) - store_now.micros();
        if ahead > SECOND {
            self.told.store(store_now.micros(), Relaxed);
        }
    }
}
