//! Accounts of which as much waits as may: replays make nothing more for them.
//!
//! Asked every other second while there is something to replay, as the API does for events: so a cap is exceeded by what
//! replays make in that time.

use domain::{id::AccountId, limits};
use std::collections::HashSet;
use store::{BacklogCap, Backlogs, StoreError};
use tokio::time::Instant;

pub(in crate::chores) struct FullBacklogs {
    cap: BacklogCap,
    full: HashSet<AccountId>,
    looked_at: Option<Instant>,
}

impl FullBacklogs {
    pub(in crate::chores) fn new(cap: BacklogCap) -> Self {
        Self { cap, full: HashSet::new(), looked_at: None }
    }

    pub(super) async fn is_full<S: Backlogs + ?Sized>(
        &mut self,
        store: &S,
        account: AccountId,
    ) -> Result<bool, StoreError> {
        if self.looked_at.is_none_or(|at| at.elapsed() >= limits::BACKLOG_LOOK) {
            let found = store.account_backlogs(limits::BACKLOG_ACCOUNTS).await?;
            let full = found.iter().filter(|backlog| self.cap.is_reached(backlog));
            self.full = full.map(|backlog| backlog.account_id).collect();
            self.looked_at = Some(Instant::now());
        }
        Ok(self.full.contains(&account))
    }
}
