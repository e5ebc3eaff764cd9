//! What happened, in the order it happened: the story of a seed, and the number that two tellings must share.

use crate::time::Moment;
use domain::id::{DeliveryId, EventId, NodeId, ReplayId};
use std::hash::{Hash, Hasher};

#[derive(Debug, Clone, Hash)]
pub(crate) struct LogLine {
    pub(crate) at: Moment,
    pub(crate) what: Occurrence,
}

#[derive(Debug, Clone, Hash)]
pub(crate) enum Occurrence {
    Started { node: usize, life: usize },
    Serving { node: usize },
    Ended { node: usize, why: String },
    Crashed { node: usize },
    Frozen { node: usize },
    Thawed { node: usize },
    Stopping { node: usize },
    StoreBehaviour { node: usize, store_behaviour: &'static str },
    Calm,
    // A call to the store that did not go as usual.
    Call { node: usize, call: &'static str, fate: &'static str },
    Member { node: usize, call: &'static str, id: NodeId, detail: String },
    Committed { node: usize, event: EventId, deliveries: usize, new: bool },
    Expanded { node: usize, event: EventId, deliveries: usize, done: bool },
    // What a producer was answered instead of success.
    NotAccepted { why: String },
    Acknowledged { producer: usize, event: EventId },
    Unconfirmed { producer: usize },
    Refused { producer: usize },
    Command { what: &'static str, target: String },
    Replayed { node: usize, replay: ReplayId, deliveries: usize },
    Began { request: usize, node: usize, destination: usize, delivery: DeliveryId, attempt: u32 },
    FirstByte { request: usize },
    Over { request: usize, how: String },
    Settled { node: usize, delivery: DeliveryId, attempts: u32, moved: bool, to: String },
}

#[derive(Debug, Default)]
pub(crate) struct Log(Vec<LogLine>);

impl Log {
    pub(crate) fn note(&mut self, at: Moment, what: Occurrence) {
        self.0.push(LogLine { at, what });
    }

    pub(crate) fn hash(&self) -> u64 {
        let mut sum = Fnv(0xcbf2_9ce4_8422_2325);
        self.0.hash(&mut sum);
        sum.finish()
    }

    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|entry| format!("{:>12.3} ms  {:?}", entry.at as f64 / 1e3, entry.what))
    }
}

/// The same on every machine and in every run.
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}
