//! How fast a client takes what it is sent. Only the time counts in which there is something to send and the socket takes
//! none of it: a stream that has nothing to tell may rest as long as it likes.

use domain::limits;
use std::time::Duration;
use tokio::time::Instant;

/// Of one answer.
#[derive(Debug, Default)]
pub(super) struct WritePace {
    /// Since when nothing at all is taken.
    blocked_since: Option<Instant>,
    /// How long the client has let us wait before that, in all …
    blocked: Duration,
    /// … and what it has taken since it did so first. What the system took in before is no merit of the client.
    taken: Option<u64>,
}

impl WritePace {
    /// The socket takes nothing.
    pub(super) fn block(&mut self, now: Instant) {
        self.blocked_since.get_or_insert(now);
        self.taken.get_or_insert(0);
    }

    /// It took so much. Says whether it had been blocked.
    pub(super) fn took(&mut self, bytes: usize, now: impl FnOnce() -> Instant) -> bool {
        // Most answers are taken in one go: nobody looks at a clock for them.
        let Some(taken) = &mut self.taken else { return false };
        *taken += bytes as u64;
        let Some(since) = self.blocked_since.take() else { return false };
        self.blocked += now().saturating_duration_since(since);
        true
    }

    /// When it has been too slow: after the grace, time is earned by taking; and it may stop for so long at most.
    pub(super) fn deadline(&self, grace: Duration, stop: Duration) -> Option<Instant> {
        let since = self.blocked_since?;
        let earned = self.taken.unwrap_or(0) as f64 / limits::ANSWER_BYTES_PER_SECOND as f64;
        let left = (grace + Duration::from_secs_f64(earned)).saturating_sub(self.blocked);
        Some(since + left.min(stop))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(10);
    const STOP: Duration = Duration::from_secs(30);
    const SECOND: Duration = Duration::from_secs(1);

    /// Takes so much once a second; says how long it is let do so.
    fn lasts(bytes: usize, at_most: u64) -> u64 {
        let (mut pace, start) = (WritePace::default(), Instant::now());
        for second in 0..at_most {
            let now = start + SECOND * second as u32;
            pace.block(now);
            if pace.deadline(GRACE, STOP).is_some_and(|deadline| deadline < now + SECOND) {
                return second;
            }
            pace.took(bytes, || now + SECOND);
        }
        at_most
    }

    #[test]
    fn a_client_that_takes_a_byte_now_and_then_is_given_up_after_the_grace() {
        assert_eq!(lasts(0, 100), 10);
        assert_eq!(lasts(1, 100), 10);
        let half = limits::ANSWER_BYTES_PER_SECOND as usize / 2;
        assert!((18..=20).contains(&lasts(half, 100)), "{}", lasts(half, 100));
        assert_eq!(lasts(limits::ANSWER_BYTES_PER_SECOND as usize, 10_000), 10_000);
    }

    #[test]
    fn who_has_taken_much_may_not_stop_for_long() {
        let (mut pace, start) = (WritePace::default(), Instant::now());
        pace.block(start);
        pace.took(1 << 30, || start);
        assert_eq!(pace.deadline(GRACE, STOP), None, "nothing is waited for");
        pace.block(start + SECOND);
        assert_eq!(pace.deadline(GRACE, STOP), Some(start + SECOND + STOP));
    }

    #[test]
    fn what_the_system_takes_in_earns_nothing_and_rest_costs_nothing() {
        let (mut pace, start) = (WritePace::default(), Instant::now());
        assert!(!pace.took(4_000_000, || panic!("no clock is looked at")));
        pace.block(start);
        assert_eq!(pace.deadline(GRACE, STOP), Some(start + GRACE));
        assert!(pace.took(1, || start + SECOND));
        let after_an_hour = start + Duration::from_secs(3600);
        pace.block(after_an_hour);
        let deadline = pace.deadline(GRACE, STOP).expect("blocked again");
        assert_eq!(deadline.duration_since(after_an_hour).as_secs(), 9, "one of ten seconds was used");
    }
}
