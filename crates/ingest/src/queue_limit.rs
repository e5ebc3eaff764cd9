//! How many events may wait for the committer, so that none of them waits long.
//!
//! A fixed length is the wrong bound: thousands wait for a moment at a fast store and for seconds at a slow one. So
//! every event that leaves says how long it was here and how many were before it. If it was too long, so many are
//! admitted from now on as would have been in time at that pace; if it was not, one more for every four that were.

use domain::limits;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::time::Instant;

#[derive(Debug)]
pub(crate) struct QueueLimit {
    waiting: AtomicUsize,
    /// How many may wait, in quarters, so that it can grow by one for four.
    quarters: AtomicUsize,
    most: usize,
}

impl QueueLimit {
    pub(crate) fn new(most: usize) -> Self {
        Self { waiting: AtomicUsize::new(0), quarters: AtomicUsize::new(most * 4), most }
    }

    /// Whether one more would be answered in time.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.load(Relaxed) < self.limit()
    }

    fn limit(&self) -> usize {
        self.quarters.load(Relaxed) / 4
    }

    pub(crate) fn enter(self: &Arc<Self>) -> QueuePlace {
        let ahead = self.waiting.fetch_add(1, Relaxed);
        QueuePlace { limit: self.clone(), ahead, since: Instant::now() }
    }

    /// Several threads may do this at once and overwrite each other's value: the next one corrects it.
    fn left(&self, ahead: usize, waited: Duration) {
        self.waiting.fetch_sub(1, Relaxed);
        let quarters = self.quarters.load(Relaxed);
        if waited <= limits::INGEST_WAIT {
            if quarters < self.most * 4 {
                self.quarters.store(quarters + 1, Relaxed);
            }
            return;
        }
        let in_time = (ahead as f64 * limits::INGEST_WAIT.as_secs_f64() / waited.as_secs_f64()) as usize;
        let fewer = in_time.max(limits::INGEST_QUEUE_MIN.min(self.most)) * 4;
        if fewer < quarters {
            self.quarters.store(fewer, Relaxed);
        }
    }
}

/// An event's place among those that wait; given up when it is dropped.
#[derive(Debug)]
pub(crate) struct QueuePlace {
    limit: Arc<QueueLimit>,
    ahead: usize,
    since: Instant,
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        self.limit.left(self.ahead, self.since.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    const MOST: usize = 8_192;

    /// For ten seconds `offered` events a second come to a store that takes `capacity` of them, in flushes of ten
    /// milliseconds: how many were admitted a second, and the longest wait of the last five.
    async fn check(offered: usize, capacity: usize) -> (usize, Duration) {
        let limit = Arc::new(QueueLimit::new(MOST));
        let mut queue = VecDeque::new();
        let (mut admitted, mut longest) = (0, Duration::ZERO);
        for tick in 0..1_000 {
            for _ in 0..offered / 100 {
                if limit.has_room() {
                    queue.push_back(limit.enter());
                    admitted += 1;
                }
            }
            tokio::time::advance(Duration::from_millis(10)).await;
            for place in queue.drain(..queue.len().min(capacity / 100)) {
                if tick > 500 {
                    longest = longest.max(place.since.elapsed());
                }
            }
        }
        (admitted / 10, longest)
    }

    #[tokio::test(start_paused = true)]
    async fn what_can_be_served_is_admitted() {
        assert_eq!(check(5_000, 5_000).await.0, 5_000);
        assert_eq!(check(100, 20_000).await.0, 100);
    }

    #[tokio::test(start_paused = true)]
    async fn an_overload_is_refused_early_and_what_is_admitted_waits_little() {
        for (offered, capacity) in [(15_000, 5_000), (60_000, 5_000), (3_000, 1_000), (100_000, 30_000)] {
            let (admitted, longest) = check(offered, capacity).await;
            assert!(admitted >= capacity * 95 / 100, "{admitted} of {capacity}");
            assert!(longest <= limits::INGEST_WAIT * 3 / 2, "{longest:?} at {offered}/{capacity}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_hiccup_refuses_nothing_for_long() {
        let limit = Arc::new(QueueLimit::new(MOST));
        let stalled: Vec<_> = (0..1_000).map(|_| limit.enter()).collect();
        tokio::time::advance(Duration::from_secs(4)).await;
        drop(stalled);
        assert_eq!(limit.limit(), limits::INGEST_QUEUE_MIN);
        for _ in 0..MOST * 4 {
            drop(limit.enter());
        }
        assert_eq!(limit.limit(), MOST);
        assert_eq!(limit.waiting.load(Relaxed), 0);
    }
}
