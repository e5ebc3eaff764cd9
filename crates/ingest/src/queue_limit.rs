//! How many events may wait for the committer, so that none of them waits long.
//!
//! A fixed length is the wrong bound: thousands wait for a moment at a fast store and for seconds at a slow one. So
//! every event that leaves says how long it was here and how many were before it. If it was too long, so many are
//! admitted from now on as would have been in time at that pace; if it was not, one more for every four that were.
//!
//! The places are shared out between accounts: one that sends more than can be stored is refused, and the others are not.

use domain::{id::AccountId, limits};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
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
    /// How many of each account wait; none that has none.
    accounts: Mutex<HashMap<AccountId, usize>>,
}

impl QueueLimit {
    pub(crate) fn new(most: usize) -> Self {
        let (waiting, quarters) = (AtomicUsize::new(0), AtomicUsize::new(most * 4));
        Self { waiting, quarters, most, accounts: Mutex::default() }
    }

    /// Whether one more would be answered in time.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.load(Relaxed) < self.limit()
    }

    fn limit(&self) -> usize {
        self.quarters.load(Relaxed) / 4
    }

    /// Whether one more of this account would be, and would leave room for others.
    pub(crate) fn has_room_for(&self, account: AccountId) -> bool {
        let held = self.accounts().get(&account).copied().unwrap_or(0);
        self.is_fair(held)
    }

    fn is_fair(&self, held: usize) -> bool {
        sharing::is_fair(held, self.limit().saturating_sub(self.waiting.load(Relaxed)), 1)
    }

    /// None if there is no room. Others may have come since that was last asked.
    pub(crate) fn enter(self: &Arc<Self>, account: AccountId) -> Option<QueuePlace> {
        let mut accounts = self.accounts();
        let held = accounts.get(&account).copied().unwrap_or(0);
        if !self.is_fair(held) {
            return None;
        }
        accounts.insert(account, held + 1);
        let ahead = self.waiting.fetch_add(1, Relaxed);
        Some(QueuePlace { limit: self.clone(), account, ahead, since: Instant::now() })
    }

    fn accounts(&self) -> MutexGuard<'_, HashMap<AccountId, usize>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
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
    account: AccountId,
    ahead: usize,
    since: Instant,
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        {
            let mut accounts = self.limit.accounts();
            if let Some(held) = accounts.get_mut(&self.account) {
                *held -= 1;
                if *held == 0 {
                    accounts.remove(&self.account);
                }
            }
        }
        self.limit.left(self.ahead, self.since.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::time::Timestamp;
    use std::collections::VecDeque;

    const MOST: usize = 8_192;

    fn account(number: u128) -> AccountId {
        AccountId::at(Timestamp::MIN, number)
    }

    /// For ten seconds `offered` events a second come to a store that takes `capacity` of them, in flushes of ten
    /// milliseconds: how many were admitted a second, and the longest wait of the last five.
    async fn check(offered: usize, capacity: usize) -> (usize, Duration) {
        let limit = Arc::new(QueueLimit::new(MOST));
        let mut queue = VecDeque::new();
        let (mut admitted, mut longest) = (0, Duration::ZERO);
        for tick in 0..1_000 {
            for _ in 0..offered / 100 {
                if let Some(place) = limit.enter(account(1)) {
                    queue.push_back(place);
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
        let stalled: Vec<_> = (0..1_000).map(|_| limit.enter(account(1))).collect();
        tokio::time::advance(Duration::from_secs(4)).await;
        drop(stalled);
        assert_eq!(limit.limit(), limits::INGEST_QUEUE_MIN);
        for _ in 0..MOST * 4 {
            drop(limit.enter(account(1)));
        }
        assert_eq!(limit.limit(), MOST);
        assert_eq!(limit.waiting.load(Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn one_account_cannot_take_every_place() {
        let limit = Arc::new(QueueLimit::new(MOST));
        let greedy: Vec<_> = std::iter::from_fn(|| limit.enter(account(1))).collect();
        assert!(!limit.has_room_for(account(1)));
        assert!(limit.has_room() && limit.has_room_for(account(2)));
        let others: Vec<_> = (2..1_000).map(|number| limit.enter(account(number))).collect();
        assert!(others.iter().all(Option::is_some));
        drop((greedy, others));
        assert!(limit.accounts().is_empty());
    }
}
