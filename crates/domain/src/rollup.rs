//! Sums of what happened: small enough to keep for ever, and addable, so that a day is made of minutes.

mod lanes;

use crate::{
    delivery::Ending,
    id::DeliveryId,
    outcome::{DeadReason, Outcome},
    time::Timestamp,
};
pub use lanes::{BacklogSample, LaneSums};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// A piece of time that is summed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Span {
    Minute,
    Hour,
    Day,
}

impl Span {
    pub const ALL: [Self; 3] = [Self::Minute, Self::Hour, Self::Day];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
        }
    }

    pub const fn length(self) -> Duration {
        Duration::from_secs(match self {
            Self::Minute => 60,
            Self::Hour => 3_600,
            Self::Day => 86_400,
        })
    }

    /// The beginning of the span that a moment lies in.
    pub fn start_of(self, at: Timestamp) -> Timestamp {
        let length = self.length().as_micros() as i64;
        Timestamp::from_micros(at.micros().div_euclid(length) * length)
    }

    /// The first beginning of a span that is not before this moment.
    pub fn start_after(self, at: Timestamp) -> Timestamp {
        let start = self.start_of(at);
        if start == at { at } else { start.plus(self.length()) }
    }
}

/// What happened in a span, at one destination or in all of an account.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Sums {
    /// Events received, and the deliveries they gave rise to. Of accounts only.
    #[serde(skip_serializing_if = "is_zero")]
    pub events: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub deliveries: u64,
    /// Attempts by what they met.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub outcomes: BTreeMap<Outcome, u64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub http_statuses: BTreeMap<u16, u64>,
    /// Deliveries by how they ended.
    #[serde(skip_serializing_if = "is_zero")]
    pub delivered: u64,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub dead_letters: BTreeMap<DeadReason, u64>,
    #[serde(skip_serializing_if = "is_zero")]
    pub cancelled: u64,
    /// How long attempts took.
    #[serde(skip_serializing_if = "Sketch::is_empty")]
    pub latency: Sketch,
    /// How long deliveries took that were delivered: from when they were made to the end of their last attempt.
    #[serde(skip_serializing_if = "Sketch::is_empty")]
    pub delivery_latency: Sketch,
}

impl Sums {
    pub fn attempts(&self) -> u64 {
        self.outcomes.values().sum()
    }

    pub fn successes(&self) -> u64 {
        self.outcomes.get(&Outcome::Success).copied().unwrap_or(0)
    }

    pub fn dead_letter(&self) -> u64 {
        self.dead_letters.values().sum()
    }

    pub fn note_attempts(&mut self, outcome: Outcome, http_status: Option<u16>, took: Duration, count: u64) {
        *self.outcomes.entry(outcome).or_default() += count;
        if let Some(status) = http_status {
            *self.http_statuses.entry(status).or_default() += count;
        }
        self.latency.note(took, count);
    }

    /// One more that was delivered, by an attempt that ended then.
    pub fn note_delivered(&mut self, delivery: DeliveryId, ended_at: Timestamp) {
        // To the millisecond: it is what every store can read from an id.
        let made_at = delivery.made_at().floor(Duration::from_millis(1));
        self.delivery_latency.note(ended_at.since(made_at), 1);
    }

    pub fn note_endings(&mut self, ending: Ending, count: u64) {
        match ending {
            Ending::Delivered => self.delivered += count,
            Ending::DeadLetter(reason) => *self.dead_letters.entry(reason).or_default() += count,
            Ending::Cancelled(_) => self.cancelled += count,
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.events += other.events;
        self.deliveries += other.deliveries;
        add_all(&mut self.outcomes, &other.outcomes);
        add_all(&mut self.http_statuses, &other.http_statuses);
        self.delivered += other.delivered;
        add_all(&mut self.dead_letters, &other.dead_letters);
        self.cancelled += other.cancelled;
        self.latency.add(&other.latency);
        self.delivery_latency.add(&other.delivery_latency);
    }

    /// What is here and not in the other: what has happened since that was summed up.
    pub fn without(&self, other: &Self) -> Self {
        Self {
            events: self.events.saturating_sub(other.events),
            deliveries: self.deliveries.saturating_sub(other.deliveries),
            outcomes: less_all(&self.outcomes, &other.outcomes),
            http_statuses: less_all(&self.http_statuses, &other.http_statuses),
            delivered: self.delivered.saturating_sub(other.delivered),
            dead_letters: less_all(&self.dead_letters, &other.dead_letters),
            cancelled: self.cancelled.saturating_sub(other.cancelled),
            latency: Sketch(less_all(&self.latency.0, &other.latency.0)),
            delivery_latency: Sketch(less_all(&self.delivery_latency.0, &other.delivery_latency.0)),
        }
    }
}

/// How the fan-outs of events went that were received in a span.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FanoutSums {
    /// Events that had something to deliver.
    pub events: u64,
    /// Of which every delivery has ended …
    pub complete: u64,
    /// … some delivered and some not.
    pub partial: u64,
    /// From receipt to the end of the last delivery, of those that are complete.
    #[serde(skip_serializing_if = "Sketch::is_empty")]
    pub lag: Sketch,
}

impl FanoutSums {
    pub fn add(&mut self, other: &Self) {
        self.events += other.events;
        self.complete += other.complete;
        self.partial += other.partial;
        self.lag.add(&other.lag);
    }
}

macro_rules! documents {
    ($($sums:ident)*) => {$(
        impl $sums {
            /// As it is kept.
            pub fn doc(&self) -> String {
                serde_json::to_string(self).expect("numbers are always JSON")
            }

            /// None if a newer version wrote it otherwise.
            pub fn read(doc: &str) -> Option<Self> {
                serde_json::from_str(doc).ok()
            }
        }
    )*};
}

documents! { Sums FanoutSums LaneSums }

/// Durations by magnitude: each bucket ends a quarter above the one before, from a millisecond to four days, so a
/// quantile is off by an eighth at most, and a sketch is never larger than its buckets.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sketch(BTreeMap<u8, u64>);

pub const SKETCH_BUCKETS: usize = 88;

/// Where buckets end, in microseconds: the first holds less than a millisecond, one more holds all that is longer.
pub const SKETCH_BOUNDS: [i64; SKETCH_BUCKETS] = {
    let mut bounds = [1_000; SKETCH_BUCKETS];
    let mut at = 1;
    while at < SKETCH_BUCKETS {
        bounds[at] = bounds[at - 1] + bounds[at - 1] / 4;
        at += 1;
    }
    bounds
};

impl Sketch {
    /// The bucket of a duration: how many bounds it has reached.
    pub fn bucket(took: Duration) -> u8 {
        let micros = i64::try_from(took.as_micros()).unwrap_or(i64::MAX);
        SKETCH_BOUNDS.partition_point(|bound| *bound <= micros) as u8
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn note(&mut self, took: Duration, count: u64) {
        self.note_in(Self::bucket(took), count);
    }

    pub fn note_in(&mut self, bucket: u8, count: u64) {
        *self.0.entry(bucket.min(SKETCH_BUCKETS as u8)).or_default() += count;
    }

    pub fn add(&mut self, other: &Self) {
        add_all(&mut self.0, &other.0);
    }

    /// The duration that this part of all is below, between 0 and 1; None where there is nothing.
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        let all: u64 = self.0.values().sum();
        let wanted = (part * all as f64).ceil().max(1.0);
        let mut seen = 0.0;
        for (bucket, count) in &self.0 {
            let within = *count as f64;
            if seen + within >= wanted {
                let at = usize::from(*bucket);
                let from = if at == 0 { 0 } else { SKETCH_BOUNDS[at - 1] };
                let to = SKETCH_BOUNDS.get(at).copied().unwrap_or(from);
                let micros = from as f64 + (to - from) as f64 * (wanted - seen) / within;
                return Some(Duration::from_micros(micros as u64));
            }
            seen += within;
        }
        None
    }
}

fn add_all<K: Ord + Copy>(to: &mut BTreeMap<K, u64>, from: &BTreeMap<K, u64>) {
    for (key, count) in from {
        *to.entry(*key).or_default() += count;
    }
}

fn less_all<K: Ord + Copy>(of: &BTreeMap<K, u64>, less: &BTreeMap<K, u64>) -> BTreeMap<K, u64> {
    let left = |(key, count): (&K, &u64)| (*key, count.saturating_sub(less.get(key).copied().unwrap_or(0)));
    of.iter().map(left).filter(|(_, count)| *count > 0).collect()
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_begin_where_clocks_say() {
        let at: Timestamp = "2026-04-03T14:35:17.5Z".parse().unwrap();
        let start = |span: Span| span.start_of(at).to_string();
        assert_eq!(start(Span::Minute), "2026-04-03T14:35:00.000000Z");
        assert_eq!(start(Span::Hour), "2026-04-03T14:00:00.000000Z");
        assert_eq!(start(Span::Day), "2026-04-03T00:00:00.000000Z");
        let day = Span::Day.start_of(at);
        assert_eq!(Span::Hour.start_after(day), day);
        assert_eq!(Span::Hour.start_after(at).to_string(), "2026-04-03T15:00:00.000000Z");
    }

    #[test]
    fn a_quantile_is_off_by_little() {
        let mut sketch = Sketch::default();
        assert_eq!(sketch.quantile(0.5), None);
        for millis in 1..=1_000 {
            sketch.note(Duration::from_millis(millis), 1);
        }
        for (part, expected) in [(0.5, 500.0), (0.95, 950.0), (0.99, 990.0)] {
            let found = sketch.quantile(part).unwrap().as_secs_f64() * 1000.0;
            assert!((found - expected).abs() < expected * 0.125, "{part}: {found}");
        }
    }

    #[test]
    fn what_is_shorter_or_longer_than_any_bucket_counts_too() {
        let mut sketch = Sketch::default();
        sketch.note(Duration::ZERO, 1);
        sketch.note(Duration::from_secs(86_400 * 365), 1);
        assert!(sketch.quantile(0.5).unwrap() <= Duration::from_millis(1));
        assert!(sketch.quantile(1.0).unwrap() >= Duration::from_secs(86_400 * 3));
        assert_eq!(Sketch::bucket(Duration::from_micros(1_000)), 1);
    }

    #[test]
    fn sums_add_up_and_read_back() {
        let mut one = Sums { events: 2, deliveries: 3, ..Sums::default() };
        one.note_attempts(Outcome::Success, Some(200), Duration::from_millis(12), 2);
        one.note_attempts(Outcome::Timeout, None, Duration::from_secs(10), 1);
        one.note_endings(Ending::Delivered, 2);
        one.note_endings(Ending::DeadLetter(DeadReason::Exhausted), 1);
        let made_at = Timestamp::from_seconds(100);
        one.note_delivered(DeliveryId::at(made_at, 1), made_at.plus(Duration::from_millis(40)));
        let mut two = one.clone();
        two.add(&one);
        assert_eq!(two.without(&one), one);
        assert_eq!(one.without(&two), Sums::default());
        assert_eq!((two.attempts(), two.successes(), two.delivered, two.dead_letter()), (6, 4, 4, 2));
        assert_eq!(Sums::read(&two.doc()), Some(two));
        assert_eq!(Sums::default().doc(), "{}");
    }
}
