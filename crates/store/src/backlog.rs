//! How much waits, by account: what keeps one account from filling the store.

use crate::StoreError;
use async_trait::async_trait;
use domain::{account::Quotas, id::AccountId, limits};

#[async_trait]
pub trait Backlogs: Send + Sync {
    /// About how much waits, of the accounts with the most deliveries waiting, largest first and at most `limit` of
    /// them. Never a look at every row: a large queue is estimated where it is not counted as it is written, so this
    /// may be asked every other second.
    async fn account_backlogs(&self, limit: usize) -> Result<Vec<AccountBacklog>, StoreError>;
}

/// Deliveries of an account that have not ended, and their payloads together, each delivery's for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountBacklog {
    pub account_id: AccountId,
    pub rows: u64,
    pub bytes: u64,
}

/// How much of one account may wait.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BacklogCap {
    pub rows: u64,
    /// Payloads, each delivery's for itself.
    pub bytes: u64,
}

impl Default for BacklogCap {
    fn default() -> Self {
        Self { rows: limits::BACKLOG_ROWS, bytes: limits::BACKLOG_BYTES }
    }
}

impl BacklogCap {
    /// That of an account with these quotas.
    pub fn of(self, quotas: &Quotas) -> Self {
        Self {
            rows: quotas.backlog_rows.unwrap_or(self.rows),
            bytes: quotas.backlog_bytes.unwrap_or(self.bytes),
        }
    }

    pub fn is_reached(&self, backlog: &AccountBacklog) -> bool {
        backlog.rows >= self.rows || backlog.bytes >= self.bytes
    }
}
