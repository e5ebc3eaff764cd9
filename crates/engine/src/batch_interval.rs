//! How often the store is written to and read from under load.
//!
//! A statement costs much the same for one row as for many, so under load an interval lies between two batches, and each
//! takes what has gathered in it. It is as long as the last statement took, a few times over: a store that is at ease is
//! asked often, and one that many nodes ask at once is asked less often by each, for more. The first batch after a pause
//! goes at once.

use domain::limits;
use std::time::Duration;

/// From the beginning of a statement that took so long to the beginning of the next.
pub(crate) fn batch_interval(took: Duration) -> Duration {
    (took * limits::BATCH_INTERVAL_TIMES).clamp(limits::BATCH_INTERVAL_MIN, limits::BATCH_INTERVAL_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_is_slow_is_asked_less_often() {
        let intervals = [0, 1, 3, 1_000].map(|took| batch_interval(Duration::from_millis(took)));
        assert!(intervals.is_sorted());
        assert_eq!((intervals[0], intervals[3]), (limits::BATCH_INTERVAL_MIN, limits::BATCH_INTERVAL_MAX));
        assert!(
            batch_interval(Duration::from_millis(3)) >= Duration::from_millis(6),
            "half of the time it is left alone"
        );
    }
}
