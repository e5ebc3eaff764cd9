//! What of a gate outlives its owner: written with the result that changed it, read by the next owner of the lane. And
//! what every change of it adds to the history of holds.

use super::{Hold, HoldReason, breaker::OpenBreaker, throttle::ThrottleWindow};
use crate::{
    operations::{OperationalKind, told_of_gate},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};

/// Empty while the ramp after a hold is under way: the next owner begins it again.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct GateRecord {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) throttle: Option<ThrottleWindow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) breaker: Option<OpenBreaker>,
}

/// A line in the history of a destination's holds. One that goes on is written again, under the same beginning.
#[derive(Debug, Clone, PartialEq)]
pub struct HoldRecord {
    pub reason: HoldReason,
    pub since: Timestamp,
    pub until: Option<Timestamp>,
    pub detail: String,
    pub step: Option<u32>,
    /// None: it goes on.
    pub ended_at: Option<Timestamp>,
}

impl GateRecord {
    pub(super) fn new(throttle: Option<ThrottleWindow>, breaker: Option<OpenBreaker>) -> Self {
        Self { throttle, breaker }
    }

    /// A gate without a hold is on its way back.
    pub fn is_held(&self) -> bool {
        !self.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.throttle.is_none() && self.breaker.is_none()
    }

    /// The history's lines that change with the gate: what has ended, and what is new or goes on differently.
    pub fn history(before: Option<&Self>, after: Option<&Self>, now: Timestamp) -> Vec<HoldRecord> {
        let (before, after) = (holds(before), holds(after));
        let same = |one: &Hold, other: &Hold| one.reason == other.reason && one.since == other.since;
        let ended = before.iter().filter(|old| !after.iter().any(|new| same(old, new)));
        let begun = after.iter().filter(|new| !before.contains(new));
        ended
            .map(|hold| HoldRecord::of(hold, Some(now)))
            .chain(begun.map(|hold| HoldRecord::of(hold, None)))
            .collect()
    }

    /// What a change of the gate is told as.
    pub fn told(before: Option<&Self>, after: Option<&Self>) -> Vec<(OperationalKind, Hold)> {
        told_of_gate(&holds(before), &holds(after))
    }
}

impl HoldRecord {
    pub fn of(hold: &Hold, ended_at: Option<Timestamp>) -> Self {
        let Hold { reason, since, until, detail, step, .. } = hold.clone();
        Self { reason, since, until, detail, step, ended_at }
    }
}

fn holds(record: Option<&GateRecord>) -> Vec<Hold> {
    let Some(record) = record else { return Vec::new() };
    let throttle = record.throttle.as_ref().map(ThrottleWindow::hold);
    throttle.into_iter().chain(record.breaker.as_ref().map(OpenBreaker::hold)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(1_790_000_000 + seconds)
    }

    fn throttled(since: i64, until: i64, step: u32) -> GateRecord {
        GateRecord {
            throttle: Some(ThrottleWindow { since: at(since), until: at(until), step }),
            breaker: None,
        }
    }

    fn lines(
        before: Option<&GateRecord>,
        after: Option<&GateRecord>,
        now: i64,
    ) -> Vec<(i64, i64, Option<i64>)> {
        let seconds = |at: Timestamp| at.seconds() - 1_790_000_000;
        GateRecord::history(before, after, at(now))
            .into_iter()
            .map(|it| (seconds(it.since), seconds(it.until.unwrap()), it.ended_at.map(seconds)))
            .collect()
    }

    #[test]
    fn a_hold_is_written_when_it_begins_when_it_grows_and_when_it_ends() {
        let (short, long) = (throttled(0, 60, 1), throttled(0, 90, 1));
        assert_eq!(lines(None, Some(&short), 0), [(0, 60, None)]);
        assert_eq!(lines(Some(&short), Some(&long), 5), [(0, 90, None)]);
        assert_eq!(lines(Some(&long), Some(&GateRecord::default()), 91), [(0, 90, Some(91))]);
        assert_eq!(lines(Some(&GateRecord::default()), None, 95), []);
    }

    #[test]
    fn the_next_window_ends_the_one_before() {
        let (first, second) = (throttled(0, 60, 1), throttled(61, 361, 2));
        assert_eq!(lines(Some(&first), Some(&second), 61), [(0, 60, Some(61)), (61, 361, None)]);
    }

    #[test]
    fn what_was_written_reads_back() {
        let record = throttled(0, 60, 1);
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<GateRecord>(&text).unwrap(), record);
        assert_eq!(serde_json::to_string(&GateRecord::default()).unwrap(), "{}");
    }
}
