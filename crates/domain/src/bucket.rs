//! A token bucket: how many events a second a key or a source may bring in.
//!
//! It holds one second's worth and fills all the time. A request that finds at least one token may take as many as it needs,
//! into debt if need be, and the next one waits until it is paid back: a batch larger than the bucket gets through, and
//! the pace holds all the same. Time is what passed on a clock that never jumps.

use std::time::Duration;

/// What the bucket holds when it is full.
const BURST: Duration = Duration::from_secs(1);

/// One number is all there is to remember: when it will be full again, if nothing is taken.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Bucket {
    full_at: Duration,
}

/// What is left after a look at the bucket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Left {
    pub tokens: u32,
    /// Until it is full.
    pub full_in: Duration,
}

impl Bucket {
    /// Takes `count` if there is at least one; otherwise nothing, and says when there will be.
    pub fn take(&mut self, per_second: u32, count: u32, now: Duration) -> Result<Left, Duration> {
        let one = cost(per_second, 1);
        let ready = (self.full_at + one).saturating_sub(BURST);
        if ready > now {
            return Err(ready - now);
        }
        self.full_at = self.full_at.max(now) + cost(per_second, count);
        Ok(self.left(per_second, now))
    }

    /// Takes `count` whatever is there: what has been let in is paid for.
    pub fn charge(&mut self, per_second: u32, count: u32, now: Duration) -> Left {
        self.full_at = self.full_at.max(now) + cost(per_second, count);
        self.left(per_second, now)
    }

    /// Puts back what was taken for something that did not happen.
    pub fn give_back(&mut self, per_second: u32, count: u32) {
        self.full_at = self.full_at.saturating_sub(cost(per_second, count));
    }

    pub fn left(&self, per_second: u32, now: Duration) -> Left {
        let full_in = self.full_at.saturating_sub(now);
        let filled = BURST.saturating_sub(full_in).as_nanos();
        let tokens = filled / cost(per_second, 1).as_nanos().max(1);
        Left { tokens: u32::try_from(tokens).unwrap_or(u32::MAX).min(per_second.max(1)), full_in }
    }

    /// One that is full is as good as none.
    pub fn is_full(&self, now: Duration) -> bool {
        self.full_at <= now
    }
}

/// How long the bucket takes to fill by so many tokens.
fn cost(per_second: u32, count: u32) -> Duration {
    let nanos = u64::from(count).saturating_mul(1_000_000_000) / u64::from(per_second.max(1));
    Duration::from_nanos(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Asks every `every` milliseconds for ten seconds; how often it was granted.
    fn granted(per_second: u32, every: u64) -> usize {
        let mut bucket = Bucket::default();
        (0..10_000).step_by(every as usize).filter(|at| bucket.take(per_second, 1, ms(*at)).is_ok()).count()
    }

    #[test]
    fn who_keeps_to_the_limit_is_never_refused() {
        assert_eq!(granted(100, 10), 1_000);
        assert_eq!(granted(1, 1_000), 10);
    }

    #[test]
    fn who_does_not_gets_the_limit_and_one_second_on_top() {
        assert_eq!(granted(100, 1), 1_000 + 99);
        assert_eq!(granted(7, 1), 70 + 6);
    }

    #[test]
    fn a_refusal_says_exactly_when_to_come_back() {
        let mut bucket = Bucket::default();
        for _ in 0..4 {
            assert!(bucket.take(4, 1, ms(5_000)).is_ok());
        }
        let wait = bucket.take(4, 1, ms(5_000)).unwrap_err();
        assert_eq!(wait, ms(250));
        assert_eq!(bucket.take(4, 1, ms(5_249)), Err(ms(1)), "a refusal costs nothing");
        assert!(bucket.take(4, 1, ms(5_250)).is_ok());
    }

    #[test]
    fn a_batch_larger_than_the_bucket_is_paid_back() {
        let mut bucket = Bucket::default();
        assert_eq!(bucket.take(100, 1_000, ms(0)), Ok(Left { tokens: 0, full_in: ms(10_000) }));
        assert_eq!(bucket.take(100, 1, ms(0)), Err(ms(9_010)));
        assert!(bucket.take(100, 1, ms(9_010)).is_ok());
        assert_eq!(bucket.charge(100, 50, ms(9_010)).full_in, ms(1_500));
    }

    #[test]
    fn what_is_left_is_told() {
        let mut bucket = Bucket::default();
        assert_eq!(bucket.left(10, ms(0)), Left { tokens: 10, full_in: ms(0) });
        assert_eq!(bucket.take(10, 3, ms(0)), Ok(Left { tokens: 7, full_in: ms(300) }));
        assert_eq!(bucket.left(10, ms(100)).tokens, 8);
        assert!(!bucket.is_full(ms(299)) && bucket.is_full(ms(300)));
    }
}
