//! Chance from a seed: one stream for every purpose, so that a draw more here changes nothing there.

use domain::dice::Dice;
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A stream of numbers (SplitMix64): the state counts, the output is mixed from it.
#[derive(Debug)]
pub(crate) struct Chance(AtomicU64);

impl Chance {
    pub(crate) fn new(seed: u64, purpose: u64) -> Self {
        Self(AtomicU64::new(mix(seed ^ mix(purpose.wrapping_add(STEP)))))
    }

    pub(crate) fn next(&self) -> u64 {
        mix(self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP))
    }

    /// A whole number in `low..=high`.
    pub(crate) fn range(&self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    pub(crate) fn index(&self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }

    pub(crate) fn pick<'a, T>(&self, from: &'a [T]) -> &'a T {
        &from[self.index(from.len())]
    }

    /// True in this part of all cases.
    pub(crate) fn happens(&self, part: f64) -> bool {
        self.unit() < part
    }

    pub(crate) fn millis(&self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.range(low, high))
    }
}

impl Dice for Chance {
    fn bits(&self) -> u128 {
        u128::from(self.next()) << 64 | u128::from(self.next())
    }

    fn fill(&self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.next().to_le_bytes()[..part.len()]);
        }
    }
}

fn mix(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}
