//! What the owners of lanes have seen of them in a span: slots, and what waited. No fact tells it, so it is noted as it
//! happens, by each owner for itself.

use super::is_zero;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Of one lane, or of all lanes of an account.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LaneSums {
    /// For how long slots were taken, each for itself. By the length of the span: how many were, on average.
    #[serde(skip_serializing_if = "is_zero")]
    pub busy_us: u64,
    /// How many slots there were: the most at a time.
    #[serde(skip_serializing_if = "is_zero")]
    pub slots: u64,
    /// Deliveries that were due and found every slot taken, once each time they fell due.
    #[serde(skip_serializing_if = "is_zero")]
    pub denied: u64,
    /// The last time it was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backlog: Option<BacklogSample>,
}

/// How many deliveries had not ended, and since when that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BacklogSample {
    pub rows: u64,
    pub at: Timestamp,
}

impl LaneSums {
    /// The same span as another owner saw it. A lane has the same slots whoever owns it; an account has all of them.
    pub fn beside(&mut self, other: &Self, whole_account: bool) {
        self.busy_us += other.busy_us;
        self.denied += other.denied;
        self.slots = if whole_account { self.slots + other.slots } else { self.slots.max(other.slots) };
        let at = |sample: &Option<BacklogSample>| sample.map(|sample| sample.at);
        if at(&other.backlog) > at(&self.backlog) {
            self.backlog = other.backlog;
        }
    }

    /// What came after it.
    pub fn then(&mut self, later: &Self) {
        self.busy_us += later.busy_us;
        self.denied += later.denied;
        self.slots = self.slots.max(later.slots);
        self.backlog = later.backlog.or(self.backlog);
    }

    /// How many slots were taken on average over so long.
    pub fn in_flight(&self, over: Duration) -> f64 {
        let over = over.as_micros() as f64;
        if over > 0.0 { self.busy_us as f64 / over } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(busy_us: u64, slots: u64, denied: u64, backlog: Option<(u64, i64)>) -> LaneSums {
        let sample = |(rows, at)| BacklogSample { rows, at: Timestamp::from_seconds(at) };
        LaneSums { busy_us, slots, denied, backlog: backlog.map(sample) }
    }

    #[test]
    fn two_owners_of_a_span_add_up_and_the_last_word_about_the_backlog_counts() {
        let (one, other) = (sums(10, 4, 1, Some((7, 20))), sums(5, 4, 2, Some((3, 10))));
        for (whole_account, slots) in [(false, 4), (true, 8)] {
            let mut both = one.clone();
            both.beside(&other, whole_account);
            assert_eq!(both, sums(15, slots, 3, Some((7, 20))));
            let mut both = other.clone();
            both.beside(&one, whole_account);
            assert_eq!(both, sums(15, slots, 3, Some((7, 20))));
        }
    }

    #[test]
    fn an_hour_is_its_minutes_one_after_the_other() {
        let mut hour = sums(10, 4, 1, Some((7, 20)));
        hour.then(&sums(5, 6, 0, Some((2, 90))));
        hour.then(&sums(1, 2, 0, None));
        assert_eq!(hour, sums(16, 6, 1, Some((2, 90))));
        assert_eq!(LaneSums::read(&hour.doc()), Some(hour));
        assert_eq!(LaneSums::default().doc(), "{}");
    }

    #[test]
    fn slots_are_told_by_the_time_they_were_taken() {
        let two_for_half_a_minute = sums(60_000_000, 4, 0, None);
        assert_eq!(two_for_half_a_minute.in_flight(Duration::from_secs(60)), 1.0);
        assert_eq!(two_for_half_a_minute.in_flight(Duration::ZERO), 0.0);
    }
}
