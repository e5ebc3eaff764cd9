//! How many events may wait for the committer, so that none of them waits long.
//!
//! A fixed length is the wrong bound: thousands wait for a moment at a fast store and for seconds at a slow one. So
//! every event that leaves says how long it was here and how many were before it. If it was too long, so many are let
//! in from now on as would have been in time at that pace; if it was not, one more for every four that were.

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
pub(super) struct Pace {
    waiting: AtomicUsize,
    /// How many may wait, in quarters, so that it can grow by one for four.
    quarters: AtomicUsize,
    most: usize,
}

impl Pace {
    pub(super) fn new(most: usize) -> Self {
        Self { waiting: AtomicUsize::new(0), quarters: AtomicUsize::new(most * 4), most }
    }

    /// Whether one more would be answered in time.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.load(Relaxed) < self.limit()
    }

    fn limit(&self) -> usize {
        self.quarters.load(Relaxed) / 4
    }

    pub(super) fn enter(self: &Arc<Self>) -> Place {
        let ahead = self.waiting.fetch_add(1, Relaxed);
        Place { pace: self.clone(), ahead, since: Instant::now() }
    }

    /// Several may do this at once and overwrite each other's word: the next one corrects it.
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
pub(super) struct Place {
    pace: Arc<Pace>,
    ahead: usize,
    since: Instant,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.pace.left(self.ahead, self.since.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    const MOST: usize = 8_192;

    /// For ten seconds `offered` events a second come to a store that takes `capacity` of them, in flushes of ten
    /// milliseconds: how many were let in a second, and the longest wait of the last five.
    async fn check(offered: usize, capacity: usize) -> (usize, Duration) {
        let pace = Arc::new(Pace::new(MOST));
        let mut queue = VecDeque::new();
        let (mut let_in, mut longest) = (0, Duration::ZERO);
        for tick in 0..1_000 {
            for _ in 0..offered / 100 {
                if pace.has_room() {
                    queue.push_back(pace.enter());
                    let_in += 1;
                }
            }
            tokio::time::advance(Duration::from_millis(10)).await;
            for place in queue.drain(..queue.len().min(capacity / 100)) {
                if tick > 500 {
                    longest = longest.max(place.since.elapsed());
                }
            }
        }
        (let_in / 10, longest)
    }

    #[tokio::test(start_paused = true)]
    async fn who_can_be_served_is_let_in() {
        assert_eq!(check(5_000, 5_000).await.0, 5_000);
        assert_eq!(check(100, 20_000).await.0, 100);
    }

    #[tokio::test(start_paused = true)]
    async fn an_overload_is_refused_early_and_what_is_let_in_waits_little() {
        for (offered, capacity) in [(15_000, 5_000), (60_000, 5_000), (3_000, 1_000), (100_000, 30_000)] {
            let (let_in, longest) = check(offered, capacity).await;
            assert!(let_in >= capacity * 95 / 100, "{let_in} of {capacity}");
            assert!(longest <= limits::INGEST_WAIT * 3 / 2, "{longest:?} at {offered}/{capacity}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_hiccup_refuses_nobody_for_long() {
        let pace = Arc::new(Pace::new(MOST));
        let stalled: Vec<_> = (0..1_000).map(|_| pace.enter()).collect();
        tokio::time::advance(Duration::from_secs(4)).await;
        drop(stalled);
        assert_eq!(pace.limit(), limits::INGEST_QUEUE_MIN);
        for _ in 0..MOST * 4 {
            drop(pace.enter());
        }
        assert_eq!(pace.limit(), MOST);
        assert_eq!(pace.waiting.load(Relaxed), 0);
    }
}
