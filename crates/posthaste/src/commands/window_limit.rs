//! A limit as many services have it: so many requests in a window of time, and the rest is told to come back when it is over.

use lab::Reply;
use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The first request after a window has ended begins the next one.
#[derive(Debug)]
pub(crate) struct WindowLimit {
    limit: u64,
    length: Duration,
    window: Mutex<Option<Window>>,
}

#[derive(Debug, Clone, Copy)]
struct Window {
    since: Instant,
    requests: u64,
}

impl WindowLimit {
    pub(crate) fn new(limit: u64, length: Duration) -> Self {
        Self { limit, length, window: Mutex::new(None) }
    }

    /// None if this one is within the limit; else the answer to it: 429, with a Retry-After until the window ends.
    pub(crate) fn refusal(&self, now: Instant) -> Option<(Reply, u64)> {
        let seconds = self.exceeded(now)?;
        Some((Reply::throttled(seconds), seconds))
    }

    /// Counts one more. Beyond the limit: in how many whole seconds the window has ended.
    fn exceeded(&self, now: Instant) -> Option<u64> {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let open = window.filter(|window| now.duration_since(window.since) < self.length);
        let mut open = open.unwrap_or(Window { since: now, requests: 0 });
        open.requests += 1;
        *window = Some(open);
        let left = self.length.saturating_sub(now.duration_since(open.since));
        (open.requests > self.limit).then(|| left.as_millis().div_ceil(1_000).max(1) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_pass_in_a_window_and_the_rest_is_told_when_it_ends() {
        let limit = WindowLimit::new(2, Duration::from_secs(60));
        let begin = Instant::now();
        let after = |millis| limit.exceeded(begin + Duration::from_millis(millis));
        assert_eq!([after(0), after(100)], [None, None]);
        assert_eq!([after(200), after(30_000), after(59_999)], [Some(60), Some(30), Some(1)]);
        assert_eq!([after(60_000), after(60_001), after(60_002)], [None, None, Some(60)]);
        assert_eq!(after(500_000), None, "the next one begins with a request");
    }
}
