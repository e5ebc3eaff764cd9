//! What everything in one world shares: the time, what was observed, how the store and the receivers behave, and writes that are still on their way.

use crate::{
    chance::Chance,
    log::Occurrence,
    observations::Observations,
    planted_bug::PlantedBug,
    time::{Moment, TrueTime},
    world::Options,
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

pub(crate) struct SharedWorld {
    pub(crate) time: TrueTime,
    /// For what befalls calls and requests.
    pub(crate) chance: Chance,
    pub(crate) plant: Option<PlantedBug>,
    pub(crate) lease: Duration,
    pub(crate) no_rescan: bool,
    /// The store is SQLite, whose clock is the machine's.
    pub(crate) sqlite: bool,
    observed: Mutex<Observations>,
    store_behaviour: Mutex<Vec<StoreBehaviour>>,
    receiver_behaviours: Mutex<Vec<ReceiverBehaviour>>,
    /// Writes whose caller is gone and which land all the same, by when and by the number of the call; with whose.
    on_their_way: Mutex<BTreeMap<(Moment, u64), (usize, LateWrite)>>,
    calls: AtomicU64,
    pub(crate) counts: Counts,
}

pub(crate) type LateWrite = Box<dyn FnOnce() + Send>;

/// How the store behaves towards one node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct StoreBehaviour {
    pub(crate) name: &'static str,
    /// Part of the calls that take a while, and how long at most, in milliseconds.
    pub(crate) slow: f64,
    pub(crate) slow_ms: u64,
    /// Part of the calls that are refused at once.
    pub(crate) refuse: f64,
    /// Part of the calls that hang for seconds and come to nothing.
    pub(crate) stall: f64,
    /// Part of the writes whose answer is lost.
    pub(crate) lose: f64,
    /// Part of the writes that are given up by their caller and land later.
    pub(crate) late: f64,
}

impl StoreBehaviour {
    pub(crate) const FINE: Self =
        Self { name: "fine", slow: 0.2, slow_ms: 5, refuse: 0.0, stall: 0.0, lose: 0.0, late: 0.0 };
    pub(crate) const SLOW: Self = Self { name: "slow", slow: 0.9, slow_ms: 400, ..Self::FINE };
    pub(crate) const FLAKY: Self =
        Self { name: "flaky", slow: 0.5, slow_ms: 50, refuse: 0.1, stall: 0.0, lose: 0.15, late: 0.05 };
    pub(crate) const AWAY: Self = Self { name: "away", refuse: 0.7, stall: 0.3, ..Self::FINE };
}

/// How a receiver answers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ReceiverBehaviour {
    Fine,
    /// Takes its time, sometimes longer than the sender waits.
    Slow,
    /// 500.
    Sick,
    /// 429, with or without a word on how long.
    Busy,
    /// Takes the request and never answers.
    Hangs,
    /// Closes the connection.
    Resets,
    /// 410.
    Gone,
    /// 400.
    Rejects,
    /// Any of them.
    Moody,
}

macro_rules! counts {
    ($($name:ident),* $(,)?) => {
        /// What happened how often.
        #[derive(Debug, Default)]
        pub(crate) struct Counts { $(pub(crate) $name: AtomicU64,)* }

        impl Counts {
            pub(crate) fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.load(Relaxed)),)*]
            }
        }
    };
}

counts! {
    events, deliveries, attempts, settlements, crashes, freezes, stops, restarts, refused_calls, stalled_calls,
    lost_replies, late_writes, slow_calls, outages, commands, delivered, dead_letters, cancelled, late_attempts,
    repeats, stale, stale_refusals, quota_refusals, overloaded, unconfirmed, expansions, takeovers, handovers, replays, replayed,
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

impl SharedWorld {
    pub(crate) fn new(
        seed: u64,
        nodes: usize,
        destinations: usize,
        lease: Duration,
        options: Options,
    ) -> Arc<Self> {
        Arc::new(Self {
            time: TrueTime::default(),
            chance: Chance::new(seed, 1),
            plant: options.plant,
            sqlite: options.sqlite,
            no_rescan: options.no_rescan,
            lease,
            observed: Mutex::default(),
            store_behaviour: Mutex::new(vec![StoreBehaviour::FINE; nodes]),
            receiver_behaviours: Mutex::new(vec![ReceiverBehaviour::Fine; destinations]),
            on_their_way: Mutex::default(),
            calls: AtomicU64::new(0),
            counts: Counts::default(),
        })
    }

    pub(crate) fn has(&self, plant: PlantedBug) -> bool {
        self.plant == Some(plant)
    }

    pub(crate) fn observed(&self) -> MutexGuard<'_, Observations> {
        // A violation that panics inside the product must still be told.
        let mut observed = self.observed.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        observed.store_told = self.time.told_by_store();
        observed
    }

    pub(crate) fn note(&self, what: Occurrence) {
        let now = self.time.now();
        self.observed().log.note(now, what);
    }

    pub(crate) fn store_behaviour(&self, node: usize) -> StoreBehaviour {
        self.store_behaviour.lock().expect("never poisoned")[node]
    }

    pub(crate) fn set_store_behaviour(&self, node: usize, store_behaviour: StoreBehaviour) {
        self.note(Occurrence::StoreBehaviour { node, store_behaviour: store_behaviour.name });
        self.store_behaviour.lock().expect("never poisoned")[node] = store_behaviour;
    }

    pub(crate) fn receiver_behaviour(&self, destination: usize) -> ReceiverBehaviour {
        self.receiver_behaviours.lock().expect("never poisoned")[destination]
    }

    pub(crate) fn set_receiver_behaviour(&self, destination: usize, receiver_behaviour: ReceiverBehaviour) {
        self.receiver_behaviours.lock().expect("never poisoned")[destination] = receiver_behaviour;
    }

    pub(crate) fn number_call(&self) -> u64 {
        self.calls.fetch_add(1, Relaxed)
    }

    pub(crate) fn send_off(&self, lands: Moment, call: u64, life: usize, landing: LateWrite) {
        count(&self.counts.late_writes);
        self.on_their_way.lock().expect("never poisoned").insert((lands, call), (life, landing));
    }

    /// A process is gone. What it had sent to a server may still land; an embedded store has ended with it.
    pub(crate) fn dies(&self, life: usize) {
        if self.sqlite {
            self.on_their_way.lock().expect("never poisoned").retain(|_, (whose, _)| *whose != life);
        }
    }

    /// The next write that has arrived by now.
    pub(crate) fn landed(&self, now: Moment) -> Option<LateWrite> {
        let mut waiting = self.on_their_way.lock().expect("never poisoned");
        waiting.first_entry().filter(|first| first.key().0 <= now).map(|first| first.remove().1)
    }

    pub(crate) fn all_landed(&self) -> bool {
        self.on_their_way.lock().expect("never poisoned").is_empty()
    }
}
