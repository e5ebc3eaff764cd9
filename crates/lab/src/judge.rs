//! The judge: reads the pump's log, the receiver's log and the dead letters, and says what was promised and
//! not kept. Pure; it never asks the node.
//!
//! * **lost**: an acked event with an expected destination that neither answered 2xx nor has a dead letter.
//! * **duplicate**: each 2xx beyond the first for one (event, destination, replay).
//! * **budget**: for each fault (kill, freeze, lost ownership), the requests of the node it struck that were open at
//!   that moment and those that ended within 250 ms before it (answered, not yet written down); plus settlements of
//!   unknown outcome. Duplicates may not exceed it.
//! * **over limit**: a request that began beyond its destination's limit. What a frozen node had open when it was
//!   stopped is not counted against the one that took over.
//! * **stranger**: a request from a node that did not own the destination's lane when it began.
//! * **inversion**: at an ordered destination, a first arrival with a lower `posthaste-sequence` than an
//!   earlier one, or of an event whose answer the pump had *before* it sent the one that overtook it. (With
//!   one connection that is the pump's order; with many, events in flight together have none.)
//! * **altered**: a body that arrived with another hash than it was sent with.
//! * **misrouted**: a request for an acked event at a destination that should not have it.
//! * **twins / merged**: one sent event stored as two / two sent events stored as one.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::log::Record;
use crate::nemesis::{Fault, FaultKind};
use crate::promises;
use crate::pump::Sent;

/// An answer given this long before a kill may not have been written down yet.
pub const UNSETTLED_US: u64 = 250_000;
/// The database's clock and the receiver's are read on one machine, one after the other.
const CLOCKS_AGREE_US: u64 = 20_000;
/// Enough examples to start looking; the counts are complete.
const MAX_EXAMPLES: usize = 12;

/// Everything the judge may know. Fill what applies and leave the rest to `..Evidence::default()`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Evidence {
    pub acked: Vec<Acked>,
    pub received: Vec<Record>,
    /// (event id, destination name) of dead letters whose attempts are all recorded.
    pub dead: HashSet<(Arc<str>, Arc<str>)>,
    /// Concurrency limit by destination name.
    pub limits: HashMap<Arc<str>, u32>,
    /// Names of destinations with ordered delivery.
    pub ordered: HashSet<Arc<str>>,
    /// Kills, freezes, lost ownerships and so on: when they struck, and which node.
    pub faults: Vec<Fault>,
    /// Which node owned the destinations' lanes, and when; empty where that was not watched.
    pub tenures: Vec<Tenure>,
    pub unknown_settlements: u64,
}

/// A node owned a destination's lane for a time, on the receiver's clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenure {
    pub destination: Arc<str>,
    /// The node's process.
    pub sender: u32,
    pub from_us: u64,
    pub until_us: u64,
}

/// An event the producer was promised, and where it must go.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Acked {
    pub event_id: Arc<str>,
    pub body_hash: u64,
    pub sent_us: u64,
    pub answered_us: u64,
    /// Names of receiver destinations, each once.
    pub destinations: Vec<Arc<str>>,
}

/// The acked events of a pump's log; the caller says which destinations each must reach.
pub fn acked(sent: &[Sent], destinations: impl Fn(&Sent) -> Vec<Arc<str>>) -> Vec<Acked> {
    let promise = |sent: &Sent| {
        Some(Acked {
            event_id: sent.event_id.as_deref().filter(|_| sent.acked())?.into(),
            body_hash: sent.body_hash,
            sent_us: sent.at_us,
            answered_us: sent.answered_us(),
            destinations: destinations(sent),
        })
    };
    sent.iter().filter_map(promise).collect()
}

/// Displays as one line of JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Verdict {
    pub holds: bool,
    pub acked: u64,
    /// (event, destination) pairs promised.
    pub expected: u64,
    pub delivered: u64,
    pub dead_lettered: u64,
    pub lost: u64,
    pub duplicates: u64,
    pub budget: u64,
    /// Requests that began beyond their destination's limit.
    pub over_limit: u64,
    /// The most that was open beyond a limit.
    pub worst_excess: u32,
    /// Requests by a node that did not own the lane.
    pub strangers: u64,
    pub inversions: u64,
    pub altered: u64,
    pub misrouted: u64,
    pub twins: u64,
    pub merged: u64,
    /// Requests read, of events that were never acked too.
    pub requests: u64,
    /// Events delivered though their producer has no answer: allowed, and worth knowing.
    pub unacked_delivered: u64,
    /// Each broken promise by its sentence.
    pub broken: Vec<String>,
    /// The first few places where one was broken.
    pub examples: Vec<String>,
}

impl Verdict {
    fn broken_promises(&self) -> Vec<String> {
        let inexcusable = self.duplicates.saturating_sub(self.budget);
        [
            promises::broken(1, "an acknowledged event was lost", self.lost),
            promises::broken(1, "a payload was altered on its way", self.altered),
            promises::broken(1, "an event went to a destination that no route named", self.misrouted),
            promises::broken(6, "a destination had more requests open than its limit", self.over_limit),
            promises::broken(7, "an ordered destination got an event out of order", self.inversions),
            promises::broken(8, "an event was delivered twice, and no fault excuses it", inexcusable),
            promises::broken(9, "a node sent for a lane that it did not own", self.strangers),
            promises::broken(13, "one idempotency key became two events", self.twins),
            promises::broken(13, "two idempotency keys became one event", self.merged),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn example(&mut self, text: impl FnOnce() -> String) {
        if self.examples.len() < MAX_EXAMPLES {
            self.examples.push(text());
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl Evidence {
    pub fn judge(&self) -> Verdict {
        let mut verdict = Verdict { acked: self.acked.len() as u64, ..Verdict::default() };
        let events = self.index(&mut verdict);
        let successes = self.successes(&mut verdict);
        self.judge_losses(&successes, &mut verdict);
        self.judge_requests(&events, &mut verdict);
        self.judge_order(&events, &mut verdict);
        self.judge_twins(&events, &mut verdict);
        self.judge_owners(&mut verdict);
        verdict.budget = self.budget();
        verdict.broken = verdict.broken_promises();
        verdict.holds = verdict.broken.is_empty();
        verdict
    }

    fn index(&self, verdict: &mut Verdict) -> HashMap<&str, &Acked> {
        let mut events = HashMap::with_capacity(self.acked.len());
        for event in &self.acked {
            if events.insert(&*event.event_id, event).is_some() {
                verdict.merged += 1;
                verdict.example(|| format!("{} was answered to two keys", event.event_id));
            }
        }
        events
    }

    /// The (event, destination) pairs with a 2xx; counts the 2xx too many on the way.
    fn successes(&self, verdict: &mut Verdict) -> HashSet<(&str, &str)> {
        let mut firsts: HashSet<(&str, &str, Option<&str>)> = HashSet::new();
        let mut pairs = HashSet::new();
        for record in self.received.iter().filter(|record| record.succeeded()) {
            pairs.insert((&*record.event_id, &*record.destination));
            if !firsts.insert((&record.event_id, &record.destination, record.replay.as_deref())) {
                verdict.duplicates += 1;
                verdict.example(|| {
                    format!("{} again at {}, {} µs", record.event_id, record.destination, record.start_us)
                });
            }
        }
        pairs
    }

    fn judge_losses(&self, successes: &HashSet<(&str, &str)>, verdict: &mut Verdict) {
        for event in &self.acked {
            for destination in &event.destinations {
                verdict.expected += 1;
                if successes.contains(&(&*event.event_id, &**destination)) {
                    verdict.delivered += 1;
                } else if self.dead.contains(&(event.event_id.clone(), destination.clone())) {
                    verdict.dead_lettered += 1;
                } else {
                    verdict.lost += 1;
                    verdict.example(|| format!("{} never delivered to {destination}", event.event_id));
                }
            }
        }
    }

    /// What can be said of each request alone.
    fn judge_requests(&self, events: &HashMap<&str, &Acked>, verdict: &mut Verdict) {
        let mut unacked = HashSet::new();
        for record in &self.received {
            verdict.requests += 1;
            let (id, destination) = (&record.event_id, &record.destination);
            if let Some((open, limit)) = self.beyond_limit(record) {
                verdict.over_limit += 1;
                verdict.worst_excess = verdict.worst_excess.max(open - limit);
                let at = record.start_us;
                verdict.example(|| format!("{open} open at {destination}, limit {limit}, {at} µs"));
            }
            let Some(event) = events.get(&**id) else {
                if record.succeeded() {
                    unacked.insert(&**id);
                }
                continue;
            };
            if record.body_hash.is_some_and(|hash| hash != event.body_hash) {
                verdict.altered += 1;
                verdict.example(|| format!("{id} arrived altered at {destination}"));
            }
            if !event.destinations.contains(destination) {
                verdict.misrouted += 1;
                verdict.example(|| format!("{id} had no business at {destination}"));
            }
        }
        verdict.unacked_delivered = unacked.len() as u64;
    }

    fn judge_order(&self, events: &HashMap<&str, &Acked>, verdict: &mut Verdict) {
        if self.ordered.is_empty() {
            return;
        }
        let ours = |record: &&Record| self.ordered.contains(&record.destination) && record.replay.is_none();
        let mut arrivals: Vec<&Record> = self.received.iter().filter(ours).collect();
        arrivals.sort_by_key(|record| record.start_us);
        let mut seen = HashSet::new();
        // Per destination: the highest sequence and the latest send among those that have arrived.
        let mut highest: HashMap<&str, (u64, u64)> = HashMap::new();
        for record in arrivals {
            if !seen.insert((&*record.destination, &*record.event_id)) {
                continue;
            }
            let event = events.get(&*record.event_id);
            let (sequence, sent_us) = highest.entry(&record.destination).or_default();
            let late = record.sequence.is_some_and(|own| own < *sequence)
                || event.is_some_and(|event| event.answered_us < *sent_us);
            *sequence = record.sequence.unwrap_or(0).max(*sequence);
            *sent_us = event.map_or(0, |event| event.sent_us).max(*sent_us);
            if late {
                verdict.inversions += 1;
                verdict.example(|| format!("{} was overtaken at {}", record.event_id, record.destination));
            }
        }
    }

    /// An acked body under another event's id: its key was committed twice.
    fn judge_twins(&self, events: &HashMap<&str, &Acked>, verdict: &mut Verdict) {
        let mut bodies: HashMap<u64, Option<&str>> = HashMap::new();
        for event in &self.acked {
            // Bodies that are equal on purpose prove nothing.
            bodies.entry(event.body_hash).and_modify(|id| *id = None).or_insert(Some(&event.event_id));
        }
        let mut twins = HashSet::new();
        for record in &self.received {
            let body = record.body_hash.and_then(|hash| bodies.get(&hash).copied().flatten());
            let Some(original) = body else { continue };
            let stranger = !events.contains_key(&*record.event_id);
            if stranger && original != &*record.event_id && twins.insert(&*record.event_id) {
                verdict.twins += 1;
                verdict.example(|| format!("{} is {original} stored twice", record.event_id));
            }
        }
    }

    /// How many were open when this one began, and the limit, if that was too many.
    fn beyond_limit(&self, record: &Record) -> Option<(u32, u32)> {
        let limit = *self.limits.get(&record.destination)?;
        if record.open_at_start <= limit {
            return None;
        }
        let frozen: Vec<&Fault> =
            self.faults.iter().filter(|fault| fault.kind == FaultKind::Freeze).collect();
        let left_behind = |other: &&Record| {
            other.destination == record.destination
                && other.start_us < record.start_us
                && other.end_us.is_none_or(|end| end > record.start_us)
                && other.sender != record.sender
                && frozen.iter().any(|freeze| freeze.sender == other.sender && other.start_us <= freeze.at_us)
        };
        let left_behind =
            if frozen.is_empty() { 0 } else { self.received.iter().filter(left_behind).count() };
        let open = record.open_at_start.saturating_sub(left_behind as u32);
        (open > limit).then_some((open, limit))
    }

    fn judge_owners(&self, verdict: &mut Verdict) {
        if self.tenures.is_empty() {
            return;
        }
        let mut owners: HashMap<(&str, u32), Vec<(u64, u64)>> = HashMap::new();
        for Tenure { destination, sender, from_us, until_us } in &self.tenures {
            owners.entry((destination, *sender)).or_default().push((*from_us, *until_us));
        }
        for record in &self.received {
            let Some(sender) = record.sender else { continue };
            let tenures = owners.get(&(&*record.destination, sender)).map_or(&[][..], Vec::as_slice);
            let at = record.start_us;
            let owned = tenures.iter().any(|(from, until)| {
                at + CLOCKS_AGREE_US >= *from && at <= until.saturating_add(CLOCKS_AGREE_US)
            });
            if !owned {
                verdict.strangers += 1;
                verdict.example(|| {
                    format!(
                        "{} to {} by process {sender}, no owner at {at} µs",
                        record.event_id, record.destination
                    )
                });
            }
        }
    }

    fn budget(&self) -> u64 {
        self.unknown_settlements + self.faults.iter().map(|fault| self.unsettled_by(fault)).sum::<u64>()
    }

    /// Requests that were open when a fault struck or while it lasted, or answered so shortly before that it may not be
    /// written down; only those of one sender, if it was one that was struck.
    fn unsettled_by(&self, fault: &Fault) -> u64 {
        // A node that is asked to stop ends what it has under way: that excuses nothing.
        if fault.kind == FaultKind::Terminate {
            return 0;
        }
        let until_us = fault.until_us.unwrap_or(fault.at_us);
        let unsettled = |record: &&Record| {
            let ended_before = record.end_us.is_some_and(|end| end + UNSETTLED_US < fault.at_us);
            let its_own = fault.sender.is_none() || record.sender.is_none() || record.sender == fault.sender;
            its_own && record.start_us <= until_us && !ended_before
        };
        self.received.iter().filter(unsettled).count() as u64
    }
}

#[cfg(test)]
mod tests;
