//! Accounts whose backlog is full: their events are refused until some of it has been delivered.
//!
//! The store is asked how much waits every other second, and only while the answer is wanted (events come in, a replay
//! is looked at); a request costs a look at a set that is mostly empty. So a cap is exceeded by what comes in within two
//! seconds, and no request waits for a count.
//!
//! An account with a quota of its own is known by the events that it brings in: it is looked at with the others as long as some
//! come. One that is not among the largest is counted, if its quota is small.
//!
//! That events were refused is noted with the next look, to be told to those who want to be told: once in a while,
//! however many there were.

use crate::error::ApiError;
use domain::{
    account::Quotas,
    id::AccountId,
    limits,
    operations::OperationalNote,
    time::{Clock, Timestamp},
};
use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};
use store::{AccountBacklog, BacklogCap, Store};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// Which accounts are full, as of the last look.
#[derive(Default)]
pub(crate) struct FullBacklogs {
    full: RwLock<HashSet<AccountId>>,
    /// It was asked for since the last look.
    asked: AtomicBool,
    /// Of the accounts that brought something in since the last look and have quotas of their own.
    quotas: Mutex<HashMap<AccountId, Quotas>>,
    /// Accounts of which something was refused and that was not noted yet.
    refused: Mutex<HashSet<AccountId>>,
}

impl FullBacklogs {
    pub(crate) fn check(&self, account: AccountId, quotas: &Quotas) -> Result<(), ApiError> {
        if quotas.bounds_backlog() {
            let mut known = self.quotas.lock().unwrap_or_else(PoisonError::into_inner);
            if known.len() < limits::BACKLOG_QUOTAS {
                known.insert(account, *quotas);
            }
        }
        if !self.is_full(account) {
            return Ok(());
        }
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.len() < limits::BACKLOG_FULL_REMEMBERED {
            refused.insert(account);
        }
        drop(refused);
        let detail = "as much waits to be delivered as may: send it again when some of it is, or raise limits.backlog_rows \
                      or limits.backlog_bytes, or the quotas of the account";
        Err(ApiError::backlog_full(detail).retry_after(limits::RETRY_AFTER_BACKLOG_SECONDS))
    }

    pub(crate) fn is_full(&self, account: AccountId) -> bool {
        if !self.asked.load(Ordering::Relaxed) {
            self.asked.store(true, Ordering::Relaxed);
        }
        self.full.read().unwrap_or_else(PoisonError::into_inner).contains(&account)
    }

    /// Looks, as long as it is asked for.
    pub(crate) async fn watch(
        self: Arc<Self>,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        cap: BacklogCap,
        stop: CancellationToken,
        outdated: impl Fn(AccountId),
    ) {
        let mut ticks = interval(limits::BACKLOG_LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            supervisor::failpoint();
            if self.asked.swap(false, Ordering::Relaxed) {
                self.look(&*store, cap, clock.now()).await;
                // No event of theirs is committed, by which it would be found that their quotas are others by now.
                self.full.read().unwrap_or_else(PoisonError::into_inner).iter().copied().for_each(&outdated);
            }
        }
    }

    async fn look(&self, store: &dyn Store, cap: BacklogCap, now: Timestamp) {
        let found = match store.account_backlogs(limits::BACKLOG_ACCOUNTS).await {
            Ok(found) => found,
            // What was known before is still the best guess.
            Err(error) => return tracing::debug!(%error, "the backlog could not be looked at"),
        };
        self.note_refusals(store, &found, now).await;
        let quotas = std::mem::take(&mut *self.quotas.lock().unwrap_or_else(PoisonError::into_inner));
        let cap_of = |account| quotas.get(account).map_or(cap, |quotas| cap.of(quotas));
        let full = found.iter().filter(|backlog| cap_of(&backlog.account_id).is_reached(backlog));
        let mut now: HashSet<AccountId> = full.map(|backlog| backlog.account_id).collect();
        now.extend(full_of_few(store, &found, &quotas).await);
        let mut full = self.full.write().unwrap_or_else(PoisonError::into_inner);
        for backlog in found.iter().filter(|backlog| now.contains(&backlog.account_id)) {
            let (account_id, rows, bytes) = (backlog.account_id, backlog.rows, backlog.bytes);
            if !full.contains(&account_id) {
                tracing::warn!(%account_id, rows, bytes, "backlog.full");
            }
        }
        for account_id in full.difference(&now) {
            tracing::info!(%account_id, "backlog.open_again");
        }
        *full = now;
    }

    /// One note for each account and span of time: the same note, whichever node writes it and however often.
    async fn note_refusals(&self, store: &dyn Store, found: &[AccountBacklog], now: Timestamp) {
        let refused = std::mem::take(&mut *self.refused.lock().unwrap_or_else(PoisonError::into_inner));
        for account in refused {
            let backlog = found.iter().find(|backlog| backlog.account_id == account);
            let (rows, bytes) = backlog.map_or((0, 0), |backlog| (backlog.rows, backlog.bytes));
            let span = now.floor(limits::BACKLOG_FULL_TOLD);
            let note = OperationalNote::of_full_backlog(account, span, rows, bytes);
            if let Err(error) = store.note_operational(&note).await {
                // The next refusal is another occasion.
                tracing::debug!(%error, account_id = %account, "a full backlog could not be noted");
            }
        }
    }
}

/// Those that have reached a small quota and are not among the accounts that were found.
async fn full_of_few(
    store: &dyn Store,
    found: &[AccountBacklog],
    quotas: &HashMap<AccountId, Quotas>,
) -> Vec<AccountId> {
    let found: HashSet<AccountId> = found.iter().map(|backlog| backlog.account_id).collect();
    let small =
        |quotas: &Quotas| quotas.backlog_rows.filter(|rows| *rows <= limits::BACKLOG_QUOTA_COUNTED_ROWS);
    let others = quotas.iter().filter(|(account, _)| !found.contains(account));
    let counted = others.filter_map(|(account, quotas)| Some((*account, small(quotas)?)));
    let mut full = Vec::new();
    for (account, rows) in counted.take(limits::BACKLOG_QUOTAS_COUNTED) {
        match store.count_waiting(account, rows as usize).await {
            Ok(waiting) if waiting >= rows => full.push(account),
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, account_id = %account, "a backlog could not be counted"),
        }
    }
    full
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::{OperationalEvents as _, memory::MemoryStore};

    struct Still;

    impl Clock for Still {
        fn now(&self) -> Timestamp {
            Timestamp::from_seconds(1_790_000_000)
        }
    }

    #[tokio::test]
    async fn that_events_are_refused_is_noted_once_in_a_while() {
        let store = MemoryStore::new(Arc::new(Still));
        let (account, now) = (AccountId::at(Still.now(), 1), Still.now());
        store.set_operations_account(Some(account)).await.expect("it is set");
        let backlogs = FullBacklogs::default();
        assert!(backlogs.check(account, &Quotas::default()).is_ok());
        backlogs.full.write().expect("nobody panics").insert(account);
        let cap = BacklogCap { rows: 0, bytes: 0 };
        for seconds in [0, 2, 4, limits::BACKLOG_FULL_TOLD.as_secs()] {
            assert!(backlogs.check(account, &Quotas::default()).is_err());
            backlogs.full.write().expect("nobody panics").insert(account);
            let later = now.floor(limits::BACKLOG_FULL_TOLD).plus(std::time::Duration::from_secs(seconds));
            backlogs.look(&store, cap, later).await;
            backlogs.full.write().expect("nobody panics").insert(account);
        }
        assert_eq!(store.untold(&[], 9).await.expect("notes").len(), 2);
    }
}
