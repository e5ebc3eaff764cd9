//! Counting without getting in the way of the work: counters and histograms made of atomics, and the text that Prometheus
//! reads. Raising one takes nanoseconds, no lock and no memory; whatever is dear is done when metrics are asked for.
//!
//! Ours and not a library's: those take a lock for every observation, and want a map for whatever has a label.

use std::{
    fmt::{Display, Write as _},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Only ever grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How long something took, sorted into buckets.
#[derive(Debug)]
pub struct Histogram<const N: usize> {
    /// The upper bounds in microseconds, ascending.
    bounds: [u64; N],
    /// Each by itself; they are summed up when they are read.
    buckets: [Counter; N],
    beyond: Counter,
    micros: Counter,
}

impl<const N: usize> Histogram<N> {
    /// With these upper bounds, in microseconds.
    pub const fn new(bounds: [u64; N]) -> Self {
        Self {
            bounds,
            buckets: [const { Counter::new() }; N],
            beyond: Counter::new(),
            micros: Counter::new(),
        }
    }

    pub fn observe(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let place = self.bounds.partition_point(|bound| *bound < micros);
        self.buckets.get(place).unwrap_or(&self.beyond).add(1);
        self.micros.add(micros);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

/// Metrics as Prometheus reads them.
#[derive(Debug, Default)]
pub struct Text(String);

/// A metric whose samples are being written.
pub struct Family<'t> {
    text: &'t mut String,
    name: &'t str,
}

/// What is said of the text's form in `content-type`.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

impl Text {
    /// Begins a metric. All of its samples follow, and no other metric's.
    pub fn family<'t>(&'t mut self, name: &'t str, kind: MetricKind, help: &str) -> Family<'t> {
        let kind = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        let help = help.replace('\\', r"\\").replace('\n', r"\n");
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        Family { text: &mut self.0, name }
    }

    /// A metric with one sample and no labels.
    pub fn single(&mut self, name: &str, kind: MetricKind, help: &str, value: impl Display) {
        self.family(name, kind, help).value(&[], value);
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn into_string(self) -> String {
        self.0
    }
}

impl Family<'_> {
    pub fn value(&mut self, labels: &[(&str, &str)], value: impl Display) -> &mut Self {
        self.sample("", labels, value);
        self
    }

    pub fn histogram<const N: usize>(&mut self, histogram: &Histogram<N>) {
        let mut count = 0;
        for (bound, bucket) in histogram.bounds.iter().zip(&histogram.buckets) {
            count += bucket.get();
            self.sample("_bucket", &[("le", &seconds(*bound).to_string())], count);
        }
        count += histogram.beyond.get();
        self.sample("_bucket", &[("le", "+Inf")], count);
        self.sample("_sum", &[], seconds(histogram.micros.get()));
        self.sample("_count", &[], count);
    }

    fn sample(&mut self, part: &str, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.text, "{}{part}", self.name);
        for (place, (name, value)) in labels.iter().enumerate() {
            let _ = write!(self.text, "{}{name}=\"", if place == 0 { '{' } else { ',' });
            for character in value.chars() {
                match character {
                    '\\' => self.text.push_str(r"\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str(r"\n"),
                    other => self.text.push(other),
                }
            }
            self.text.push('"');
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{end} {value}");
    }
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_has_its_help_its_type_and_its_samples() {
        let mut text = Text::default();
        text.single("up", MetricKind::Gauge, "Whether it is.\nOr \\ not.", 1);
        text.family("seen_total", MetricKind::Counter, "What was seen.")
            .value(&[("name", "a\"b\\c\nd"), ("kind", "é")], 7)
            .value(&[], 0.5);
        assert_eq!(
            text.as_str(),
            "# HELP up Whether it is.\\nOr \\\\ not.\n# TYPE up gauge\nup 1\n\
             # HELP seen_total What was seen.\n# TYPE seen_total counter\n\
             seen_total{name=\"a\\\"b\\\\c\\nd\",kind=\"é\"} 7\nseen_total 0.5\n"
        );
    }

    #[test]
    fn what_a_bucket_counts_is_at_most_its_bound() {
        let histogram = Histogram::new([5_000, 1_000_000]);
        for micros in [0, 5_000, 5_001, 1_000_000, 1_000_001] {
            histogram.observe(Duration::from_micros(micros));
        }
        let mut text = Text::default();
        text.family("took_seconds", MetricKind::Histogram, "How long.").histogram(&histogram);
        let samples: Vec<&str> = text.as_str().lines().skip(2).collect();
        assert_eq!(
            samples,
            [
                "took_seconds_bucket{le=\"0.005\"} 2",
                "took_seconds_bucket{le=\"1\"} 4",
                "took_seconds_bucket{le=\"+Inf\"} 5",
                "took_seconds_sum 2.010002",
                "took_seconds_count 5",
            ]
        );
    }
}
