//! Accounts whose backlog is full: their events are refused until some of it has been delivered.
//!
//! The store is asked how much waits every other second, and only while the answer is wanted (events come in, a replay
//! is looked at); a request costs a look at a set that is mostly empty. So a cap is exceeded by what comes in within two
//! seconds, and no request waits for a count.

use crate::error::ApiError;
use domain::{id::AccountId, limits};
use std::{
    collections::HashSet,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};
use store::{BacklogCap, Backlogs};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// Which accounts are full, as of the last look.
#[derive(Default)]
pub(crate) struct FullBacklogs {
    full: RwLock<HashSet<AccountId>>,
    /// It was asked for since the last look.
    asked: AtomicBool,
}

impl FullBacklogs {
    pub(crate) fn check(&self, account: AccountId) -> Result<(), ApiError> {
        if !self.is_full(account) {
            return Ok(());
        }
        let detail = "as much waits to be delivered as may: send it again when some of it is, or raise limits.backlog_rows \
                      or limits.backlog_bytes";
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
        store: Arc<dyn Backlogs>,
        cap: BacklogCap,
        stop: CancellationToken,
    ) {
        let mut ticks = interval(limits::BACKLOG_LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            supervisor::failpoint();
            if self.asked.swap(false, Ordering::Relaxed) {
                self.look(&*store, cap).await;
            }
        }
    }

    async fn look(&self, store: &dyn Backlogs, cap: BacklogCap) {
        let found = match store.account_backlogs(limits::BACKLOG_ACCOUNTS).await {
            Ok(found) => found,
            // What was known before is still the best guess.
            Err(error) => return tracing::debug!(%error, "the backlog could not be looked at"),
        };
        let full = found.iter().filter(|backlog| cap.is_reached(backlog));
        let now: HashSet<AccountId> = full.map(|backlog| backlog.account_id).collect();
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
}
