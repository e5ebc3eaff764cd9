//! Accounts of which as much waits as may: replays make nothing more for them.
//!
//! Asked every other second while there is something to replay, as the API does for events: so a cap is exceeded by what
//! replays make in that time. An account's own quotas are read with it, of the accounts that have a replay under way.

use domain::{account::Quotas, id::AccountId, limits};
use std::collections::HashMap;
use store::{AccountBacklog, BacklogCap, Backlogs, Catalog, StoreError};
use tokio::time::Instant;

pub(in crate::chores) struct FullBacklogs {
    cap: BacklogCap,
    waiting: HashMap<AccountId, AccountBacklog>,
    /// Read since the last look.
    quotas: HashMap<AccountId, Quotas>,
    looked_at: Option<Instant>,
}

impl FullBacklogs {
    pub(in crate::chores) fn new(cap: BacklogCap) -> Self {
        Self { cap, waiting: HashMap::new(), quotas: HashMap::new(), looked_at: None }
    }

    pub(super) async fn is_full<S: Backlogs + Catalog + ?Sized>(
        &mut self,
        store: &S,
        account: AccountId,
    ) -> Result<bool, StoreError> {
        if self.looked_at.is_none_or(|at| at.elapsed() >= limits::BACKLOG_LOOK) {
            let found = store.account_backlogs(limits::BACKLOG_ACCOUNTS).await?;
            self.waiting = found.into_iter().map(|backlog| (backlog.account_id, backlog)).collect();
            self.quotas.clear();
            self.looked_at = Some(Instant::now());
        }
        let Some(backlog) = self.waiting.get(&account) else { return Ok(false) };
        let quotas = match self.quotas.get(&account) {
            Some(quotas) => *quotas,
            None => {
                let quotas = match store.account(account).await {
                    Ok(found) => found.quotas,
                    // Its deliveries end for other reasons; how much may wait is not known.
                    Err(StoreError::NotFound { .. } | StoreError::Unreadable(_)) => Quotas::default(),
                    Err(error) => return Err(error),
                };
                self.quotas.insert(account, quotas);
                quotas
            }
        };
        Ok(self.cap.of(&quotas).is_reached(backlog))
    }
}
