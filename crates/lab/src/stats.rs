//! A latency histogram of bounded memory: 32 linear buckets in each power of two, so a percentile is at most
//! 3 % too high and never too low.

use std::time::Duration;

use serde::{Serialize, Serializer, ser::SerializeStruct};

const SUB_BITS: u32 = 5;
const SUB: u64 = 1 << SUB_BITS;
/// About twelve days in microseconds; whatever is longer is counted there.
const LONGEST: u64 = 1 << 40;

/// Durations in microseconds, counted. Memory: at most 9 KiB, however many are recorded.
#[derive(Debug, Clone, Default)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum: u128,
    max: u64,
}

impl Histogram {
    pub fn record(&mut self, micros: u64) {
        let bucket = bucket_of(micros.min(LONGEST));
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.total += 1;
        self.sum += u128::from(micros);
        self.max = self.max.max(micros);
    }

    pub fn merge(&mut self, other: &Histogram) {
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// The value which `percent` of all recorded ones do not exceed; 0 when nothing was recorded.
    pub fn percentile_us(&self, percent: f64) -> u64 {
        let rank = ((percent / 100.0 * self.total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return top_of(bucket).min(self.max);
            }
        }
        self.max
    }

    pub fn percentile(&self, percent: f64) -> Duration {
        Duration::from_micros(self.percentile_us(percent))
    }

    pub fn percentile_ms(&self, percent: f64) -> f64 {
        self.percentile_us(percent) as f64 / 1e3
    }

    pub fn max_ms(&self) -> f64 {
        self.max as f64 / 1e3
    }

    pub fn count(&self) -> u64 {
        self.total
    }

    pub fn max_us(&self) -> u64 {
        self.max
    }

    pub fn mean_us(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.sum as f64 / self.total as f64 }
    }
}

impl FromIterator<u64> for Histogram {
    fn from_iter<I: IntoIterator<Item = u64>>(micros: I) -> Self {
        let mut histogram = Histogram::default();
        micros.into_iter().for_each(|value| histogram.record(value));
        histogram
    }
}

/// Written as its summary: `{"count":…,"mean_us":…,"p50_us":…,"p95_us":…,"p99_us":…,"max_us":…}`.
impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut summary = serializer.serialize_struct("Histogram", 6)?;
        summary.serialize_field("count", &self.total)?;
        summary.serialize_field("mean_us", &(self.mean_us().round() as u64))?;
        summary.serialize_field("p50_us", &self.percentile_us(50.0))?;
        summary.serialize_field("p95_us", &self.percentile_us(95.0))?;
        summary.serialize_field("p99_us", &self.percentile_us(99.0))?;
        summary.serialize_field("max_us", &self.max)?;
        summary.end()
    }
}

fn bucket_of(value: u64) -> usize {
    if value < SUB {
        return value as usize;
    }
    let shift = value.ilog2() - SUB_BITS;
    (u64::from(shift) * SUB + (value >> shift)) as usize
}

fn top_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < SUB {
        return bucket;
    }
    let shift = bucket / SUB - 1;
    ((bucket % SUB + SUB + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_falls_in_a_bucket_whose_top_is_close_above() {
        for value in (0..5_000).chain([1 << 20, (1 << 20) + 1, (1 << 33) - 1, LONGEST]) {
            let top = top_of(bucket_of(value));
            assert!(top >= value && top as f64 <= value as f64 * 1.032 + 1.0, "{value} -> {top}");
        }
    }

    #[test]
    fn percentiles_of_an_even_spread_are_where_they_should_be() {
        let histogram: Histogram = (1..=10_000).collect();
        for (percent, exact) in [(50.0, 5_000.0), (95.0, 9_500.0), (99.0, 9_900.0), (100.0, 10_000.0)] {
            let found = histogram.percentile_us(percent) as f64;
            assert!(found >= exact && found <= exact * 1.032, "p{percent}: {found}");
        }
        assert_eq!(histogram.max_us(), 10_000);
    }

    #[test]
    fn nothing_recorded_reads_as_zero_and_merging_adds_up() {
        let mut sum = Histogram::default();
        assert_eq!(sum.percentile_us(99.0), 0);
        sum.merge(&[1, 2].into_iter().collect());
        sum.merge(&[1_000_000].into_iter().collect());
        assert_eq!((sum.count(), sum.max_us(), sum.percentile_us(50.0)), (3, 1_000_000, 2));
    }
}
