//! A counter one can wait on: the waiter says how far, and is woken once, then. Nothing polls, and the
//! counting side pays two atomic operations.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use tokio::sync::oneshot;

#[derive(Debug)]
pub(crate) struct Tally {
    count: AtomicU64,
    /// The lowest goal anyone waits for.
    next: AtomicU64,
    waiting: Mutex<Vec<(u64, oneshot::Sender<()>)>>,
}

impl Default for Tally {
    fn default() -> Self {
        Tally { count: AtomicU64::new(0), next: AtomicU64::new(u64::MAX), waiting: Mutex::default() }
    }
}

impl Tally {
    pub(crate) fn add(&self) {
        let count = self.count.fetch_add(1, SeqCst) + 1;
        if count >= self.next.load(SeqCst) {
            self.wake(count);
        }
    }

    pub(crate) fn get(&self) -> u64 {
        self.count.load(SeqCst)
    }

    pub(crate) fn clear(&self) {
        self.count.store(0, SeqCst);
    }

    /// True as soon as the count is at least `goal`; false if `timeout` passes first.
    pub(crate) async fn wait(&self, goal: u64, timeout: Duration) -> bool {
        let (wake, woken) = oneshot::channel();
        {
            let mut waiting = self.waiting.lock().expect("no panic while waiting is locked");
            waiting.retain(|(_, sender)| !sender.is_closed());
            waiting.push((goal, wake));
            self.next.fetch_min(goal, SeqCst);
        }
        // Only now look: an `add` from here on sees our goal.
        if self.get() >= goal {
            return true;
        }
        matches!(tokio::time::timeout(timeout, woken).await, Ok(Ok(()))) || self.get() >= goal
    }

    fn wake(&self, count: u64) {
        let mut waiting = self.waiting.lock().expect("no panic while waiting is locked");
        let (reached, rest) = waiting.drain(..).partition(|(goal, _)| *goal <= count);
        *waiting = rest;
        self.next.store(waiting.iter().map(|(goal, _)| *goal).min().unwrap_or(u64::MAX), SeqCst);
        drop(waiting);
        let reached: Vec<(u64, oneshot::Sender<()>)> = reached;
        for (_, sender) in reached {
            // A waiter that timed out is gone, and its receiver with it.
            let _ = sender.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn a_waiter_is_woken_at_its_goal_and_not_before() {
        let tally = Arc::new(Tally::default());
        let waiter = tokio::spawn({
            let tally = tally.clone();
            async move { tally.wait(3, Duration::from_secs(5)).await }
        });
        tokio::task::yield_now().await;
        tally.add();
        tally.add();
        tokio::task::yield_now().await;
        assert!(!waiter.is_finished());
        tally.add();
        assert!(waiter.await.unwrap());
        assert!(tally.wait(2, Duration::ZERO).await);
        assert!(!tally.wait(4, Duration::from_millis(5)).await);
    }
}
