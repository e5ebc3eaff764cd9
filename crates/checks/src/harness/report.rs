//! What a check has to say: its counts, and the rules that did not hold.

use std::fmt;
use std::time::Duration;

use lab::PumpReport;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::StoreKind;
use super::figures::rounded;
use crate::check::Check;

/// Displays as one line of JSON.
#[derive(Debug, Default)]
pub(crate) struct Report {
    name: Map<String, Value>,
    counts: Map<String, Value>,
    broken: Vec<String>,
}

impl Report {
    /// A check that could not be carried out has not held.
    pub(crate) fn fail(&mut self, error: &anyhow::Error) {
        self.broken.push(format!("{error:#}"));
    }

    pub(crate) fn note(&mut self, name: &str, value: impl Serialize) {
        self.counts.insert(name.into(), serde_json::to_value(value).unwrap_or(Value::Null));
    }

    /// A count that was noted.
    pub(crate) fn noted_count(&self, name: &str) -> u64 {
        self.counts.get(name).and_then(Value::as_u64).unwrap_or(0)
    }

    /// Everything that was noted.
    pub(crate) fn counts(&self) -> &Map<String, Value> {
        &self.counts
    }

    /// A rule of the check: noted as broken if it does not hold.
    pub(crate) fn must(&mut self, holds: bool, otherwise: impl Into<String>) {
        if !holds {
            self.broken.push(otherwise.into());
        }
    }

    /// The rules of one part of a check: broken ones are told with all counts of the part.
    pub(crate) fn must_hold(&mut self, name: &str, part: &Report) {
        self.must(part.holds(), format!("{name}: {part}"));
    }

    /// A promise of the product, by its number: noted as broken if the count of what breaks it is not zero.
    pub(crate) fn must_be_kept(&mut self, promise: u8, what_breaks_it: &str, times: u64) {
        self.broken.extend(lab::promises::broken(promise, what_breaks_it, times));
    }

    /// A count that has to be exactly this.
    pub(crate) fn must_be(&mut self, name: &str, count: impl Count, wanted: impl Count) {
        let (count, wanted) = (count.number(), wanted.number());
        self.note(name, count);
        self.must(count == wanted, format!("{name} is {count}, not {wanted}"));
    }

    /// A measured value with its upper limit.
    pub(crate) fn must_be_at_most(&mut self, name: &str, value: impl Figure, limit: impl Figure) {
        let (value, limit) = (value.value(), limit.value());
        self.note(name, rounded(value));
        self.must(value <= limit, format!("{name} is {}, above {limit}", rounded(value)));
    }

    pub(crate) fn must_be_at_least(&mut self, name: &str, value: impl Figure, limit: impl Figure) {
        let (value, limit) = (value.value(), limit.value());
        self.note(name, rounded(value));
        self.must(value >= limit, format!("{name} is {}, below {limit}", rounded(value)));
    }

    /// The producer had a final answer to everything, and none of them was a refusal.
    pub(crate) fn must_all_be_accepted(&mut self, sent: &PumpReport) {
        self.note("pump", sent);
        let all = sent.refused.is_empty() && sent.unanswered == 0;
        self.must(all, "some events were refused or never answered");
    }

    /// The producer was answered 202 or 503 each time.
    pub(crate) fn must_be_accepted_or_refused(&mut self, sent: &PumpReport) {
        self.note("pump", sent);
        let wrong = sent.refused.keys().filter(|status| **status != 503).count() as u64;
        self.must_be("other_answers", wrong + sent.unanswered, 0);
    }

    pub(crate) fn holds(&self) -> bool {
        self.broken.is_empty()
    }

    pub(crate) fn name(&mut self, check: &Check, store: StoreKind, took: Duration) {
        self.name.insert("check".into(), check.name.into());
        self.name.insert("aliases".into(), json!(check.aliases));
        self.name.insert("store".into(), json!(store));
        self.name.insert("holds".into(), self.holds().into());
        self.name.insert("took_seconds".into(), rounded(took.as_secs_f64()).into());
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = self.name.clone();
        all.extend(self.counts.clone());
        all.insert("broken".into(), json!(self.broken));
        write!(f, "{}", Value::Object(all))
    }
}

/// A whole number, of whatever type it was counted in.
pub(crate) trait Count {
    fn number(self) -> u64;
}

/// A measured value; a time is told in seconds.
pub(crate) trait Figure {
    fn value(self) -> f64;
}

impl Figure for f64 {
    fn value(self) -> f64 {
        self
    }
}

impl Figure for Duration {
    fn value(self) -> f64 {
        self.as_secs_f64()
    }
}

macro_rules! count {
    ($($number:ty)*) => {
        $(impl Count for $number {
            fn number(self) -> u64 {
                u64::try_from(self).unwrap_or(u64::MAX)
            }
        }
        impl Figure for $number {
            fn value(self) -> f64 {
                self as f64
            }
        })*
    };
}

count!(i32 i64 u16 u32 u64 usize);
