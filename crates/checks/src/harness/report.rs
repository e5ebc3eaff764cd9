//! What a check has to say: its counts, and the rules that did not hold.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::StoreKind;
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
    pub(crate) fn failed(error: &anyhow::Error) -> Report {
        let mut report = Report::default();
        report.broken.push(format!("{error:#}"));
        report
    }

    pub(crate) fn note(&mut self, name: &str, value: impl Serialize) {
        self.counts.insert(name.into(), serde_json::to_value(value).unwrap_or(Value::Null));
    }

    /// A count that was noted.
    pub(crate) fn counted(&self, name: &str) -> u64 {
        self.counts.get(name).and_then(Value::as_u64).unwrap_or(0)
    }

    /// A rule of the check: noted as broken if it does not hold.
    pub(crate) fn must(&mut self, holds: bool, otherwise: impl Into<String>) {
        if !holds {
            self.broken.push(otherwise.into());
        }
    }

    /// A promise of the product, by its number: noted as broken if the count of what breaks it is not zero.
    pub(crate) fn kept(&mut self, promise: u8, what_breaks_it: &str, times: u64) {
        self.broken.extend(lab::promises::broken(promise, what_breaks_it, times));
    }

    /// A count that has to be exactly this.
    pub(crate) fn exactly(&mut self, name: &str, count: impl Into<u64>, wanted: impl Into<u64>) {
        let (count, wanted) = (count.into(), wanted.into());
        self.note(name, count);
        self.must(count == wanted, format!("{name} is {count}, not {wanted}"));
    }

    /// A measured value with its upper limit.
    pub(crate) fn at_most(&mut self, name: &str, value: f64, limit: f64) {
        self.note(name, rounded(value));
        self.must(value <= limit, format!("{name} is {}, above {limit}", rounded(value)));
    }

    pub(crate) fn at_least(&mut self, name: &str, value: f64, limit: f64) {
        self.note(name, rounded(value));
        self.must(value >= limit, format!("{name} is {}, below {limit}", rounded(value)));
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

/// Three decimals: nobody reads more.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
