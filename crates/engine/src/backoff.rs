//! Pauses while something we depend on is away: doubling, with full jitter, for ever.

use domain::{dice::Dice, limits};
use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The pause before the next try.
    pub(crate) fn pause(&mut self, dice: &dyn Dice) -> Duration {
        let ceiling = limits::BACKOFF_MIN.saturating_mul(1 << self.failures.min(10)).min(limits::BACKOFF_MAX);
        self.failures = self.failures.saturating_add(1);
        ceiling.mul_f64(dice.unit()).max(limits::BACKOFF_MIN / 10)
    }

    /// Whether this failure is worth a line in the log: the first, then ever fewer.
    pub(crate) fn worth_telling(&self) -> bool {
        self.failures.is_power_of_two() || self.failures == 0
    }

    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}
