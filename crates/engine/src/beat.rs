//! How often the store is written to and read from under load.
//!
//! A statement costs much the same for one row as for many, so while one follows the other they come in beats, each with
//! what has gathered since. A beat is as long as its statement took, a few times over: a store that is at ease is asked
//! often, and one that many nodes ask at once is asked less often by each, for more. The first after a pause goes at once.

use domain::limits;
use std::time::Duration;

/// From the beginning of a statement that took so long to the beginning of the next.
pub(crate) fn beat(took: Duration) -> Duration {
    (took * limits::BEAT_TIMES).clamp(limits::BEAT_MIN, limits::BEAT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_is_slow_is_asked_less_often() {
        let beats = [0, 1, 3, 1_000].map(|took| beat(Duration::from_millis(took)));
        assert!(beats.is_sorted() && beats[0] == limits::BEAT_MIN && beats[3] == limits::BEAT_MAX);
        assert!(
            beat(Duration::from_millis(3)) >= Duration::from_millis(6),
            "half of the time it is left alone"
        );
    }
}
