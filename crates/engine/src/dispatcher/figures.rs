//! What metrics tell of the lanes: read when they are asked for, in one pass over the lanes.

use domain::{gate::HoldReason, id::DestinationId, limits, outcome::Outcome, time::Timestamp};
use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

#[derive(Debug, Default)]
pub(crate) struct LaneFigures {
    pub(crate) lanes: Vec<LaneFigure>,
    /// Deliveries that found every slot taken, since the node was started.
    pub(crate) denied: Vec<(DestinationId, Arc<str>, u64)>,
    pub(crate) denied_other: u64,
    /// Since when the first of those that wait has been due.
    pub(crate) due_since: Option<Timestamp>,
}

/// One lane that is in memory.
#[derive(Debug)]
pub(crate) struct LaneFigure {
    pub(crate) destination: DestinationId,
    pub(crate) name: Arc<str>,
    pub(crate) max_concurrency: u32,
    pub(crate) in_flight: u32,
    /// Of the last few minutes.
    pub(crate) successes: u32,
    pub(crate) attempts: u32,
    /// By its gate: what a person has paused needs no telling.
    pub(crate) held: Option<HoldReason>,
    /// Since when the first of those that wait has been due.
    pub(crate) due_since: Option<Timestamp>,
}

/// How often a slot was denied, beyond the life of a lane. The first so many destinations keep a number of their own: a
/// counter that passes from one to another would go backwards.
#[derive(Debug, Default)]
pub(super) struct Denials {
    named: BTreeMap<DestinationId, (Arc<str>, u64)>,
    other: u64,
}

impl Denials {
    pub(super) fn add(&mut self, id: DestinationId, name: Arc<str>, count: u64) {
        if count == 0 {
            return;
        }
        let room = self.named.len() < limits::METRIC_DESTINATIONS;
        match self.named.entry(id) {
            Entry::Occupied(mut entry) => {
                let (called, sum) = entry.get_mut();
                (*called, *sum) = (name, *sum + count);
            }
            Entry::Vacant(entry) if room => drop(entry.insert((name, count))),
            Entry::Vacant(_) => self.other += count,
        }
    }

    /// By destination, and of all the others together.
    pub(super) fn list(&self) -> (Vec<(DestinationId, Arc<str>, u64)>, u64) {
        let named = self.named.iter().map(|(id, (name, count))| (*id, Arc::clone(name), *count));
        (named.collect(), self.other)
    }
}

/// How a destination's attempts went, in this window of time and the one before.
#[derive(Debug, Default)]
pub(super) struct Recent {
    window: i64,
    now: Tally,
    before: Tally,
}

#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    successes: u32,
    attempts: u32,
}

impl Recent {
    /// A throttled attempt is neither good nor bad.
    pub(super) fn note(&mut self, outcome: Outcome, now: Timestamp) {
        if outcome == Outcome::Throttled {
            return;
        }
        self.shift_window(now);
        self.now.attempts = self.now.attempts.saturating_add(1);
        self.now.successes = self.now.successes.saturating_add(u32::from(outcome == Outcome::Success));
    }

    /// Successes and attempts.
    pub(super) fn read(&mut self, now: Timestamp) -> (u32, u32) {
        self.shift_window(now);
        let sum = |of: fn(&Tally) -> u32| of(&self.now).saturating_add(of(&self.before));
        (sum(|tally| tally.successes), sum(|tally| tally.attempts))
    }

    fn shift_window(&mut self, now: Timestamp) {
        let window = now.micros() / limits::SUCCESS_WINDOW.as_micros() as i64;
        if window != self.window {
            let last = std::mem::take(&mut self.now);
            self.before = if window == self.window + 1 { last } else { Tally::default() };
            self.window = window;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u128) -> DestinationId {
        DestinationId::at(Timestamp::MIN, n)
    }

    #[test]
    fn a_destination_that_has_a_number_of_its_own_keeps_it() {
        let mut denials = Denials::default();
        let most = limits::METRIC_DESTINATIONS as u128;
        (0..most + 10).for_each(|n| denials.add(id(n), "some".into(), 1));
        denials.add(id(0), "renamed".into(), 2);
        denials.add(id(most), "late".into(), 5);
        denials.add(id(most + 99), "never denied".into(), 0);
        let (named, other) = denials.list();
        assert_eq!((named.len(), other), (limits::METRIC_DESTINATIONS, 15));
        assert_eq!(named[0], (id(0), "renamed".into(), 3));
    }

    #[test]
    fn a_ratio_is_of_this_window_and_the_one_before() {
        let window = limits::SUCCESS_WINDOW.as_secs() as i64;
        let at = |windows: i64| Timestamp::from_seconds(1_000 * window + windows * window);
        let mut recent = Recent::default();
        recent.note(Outcome::Success, at(0));
        recent.note(Outcome::ServerError, at(0));
        recent.note(Outcome::Throttled, at(0));
        assert_eq!(recent.read(at(0)), (1, 2));
        recent.note(Outcome::Success, at(1));
        assert_eq!(recent.read(at(1)), (2, 3));
        assert_eq!(recent.read(at(2)), (1, 1));
        assert_eq!(recent.read(at(9)), (0, 0));
    }
}
