//! The time: the only place that asks what it is.
//!
//! [`SystemClock`] is this machine's. [`StoreClock`] is the clock of a database server at its last word, [`SteadyClock`] that
//! of this machine where there is no such server; both are carried on by this machine's monotonic time, so that a wrong or
//! jumping wall clock neither delays a retry nor misplaces an id.

mod steady;

pub(crate) use steady::SteadyClock;

use domain::time::{Clock, Timestamp};
use std::{
    sync::atomic::{AtomicI64, Ordering::Relaxed},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::MIN.plus(since)
    }
}

/// A step back of less than this is the noise of a round trip: time stands still until it has caught up. Beyond, the
/// store's clock was set, and is followed.
const NOISE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct StoreClock {
    started: Instant,
    /// The store's time at `started`, in microseconds.
    offset: AtomicI64,
    /// The latest time told.
    told: AtomicI64,
}

impl StoreClock {
    /// Right until the first [`Clock::sync`]: this machine's time.
    pub(crate) fn new(first: Timestamp) -> Self {
        Self { started: Instant::now(), offset: first.micros().into(), told: first.micros().into() }
    }

    fn reckoned(&self) -> i64 {
        self.offset.load(Relaxed) + self.elapsed()
    }

    fn elapsed(&self) -> i64 {
        self.started.elapsed().as_micros() as i64
    }
}

impl Clock for StoreClock {
    /// Never earlier than what was told before, but for the store's clock being set back.
    fn now(&self) -> Timestamp {
        let now = self.reckoned();
        Timestamp::from_micros(self.told.fetch_max(now, Relaxed).max(now))
    }

    fn sync(&self, store_now: Timestamp) {
        self.offset.store(store_now.micros() - self.elapsed(), Relaxed);
        let ahead = self.told.load(Relaxed) - store_now.micros();
        if ahead > NOISE.as_micros() as i64 {
            self.told.store(store_now.micros(), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THEN: Timestamp = Timestamp::from_seconds(1_790_000_000);

    #[test]
    fn the_clock_goes_on_from_what_the_store_said() {
        let clock = StoreClock::new(Timestamp::MIN);
        clock.sync(THEN);
        let first = clock.now();
        assert!(first >= THEN && first.since(THEN) < Duration::from_secs(60));
        assert!(clock.now() >= first);
    }

    #[test]
    fn a_late_word_of_the_store_does_not_turn_time_back() {
        let clock = StoreClock::new(THEN);
        let before = clock.now();
        clock.sync(THEN.minus(Duration::from_millis(500)));
        assert!(clock.now() >= before);
    }

    #[test]
    fn a_store_whose_clock_was_set_back_is_followed() {
        let clock = StoreClock::new(THEN);
        let set_back = THEN.minus(Duration::from_secs(7_200));
        clock.sync(set_back);
        assert!(clock.now() < THEN && clock.now() >= set_back);
    }

    #[test]
    fn the_system_knows_which_century_it_is() {
        assert!(SystemClock.now() > Timestamp::from_seconds(1_700_000_000));
    }
}
