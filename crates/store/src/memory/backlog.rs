//! How much waits, counted.

use super::MemoryStore;
use crate::{AccountBacklog, Backlogs, StoreError};
use async_trait::async_trait;
use domain::id::AccountId;
use std::{cmp::Reverse, collections::BTreeMap};

#[async_trait]
impl Backlogs for MemoryStore {
    async fn account_backlogs(&self, limit: usize) -> Result<Vec<AccountBacklog>, StoreError> {
        let mut counts: BTreeMap<AccountId, (u64, u64)> = BTreeMap::new();
        for delivery in self.tables().waiting.newest_first(None) {
            let (rows, bytes) = counts.entry(delivery.account_id).or_default();
            *rows += 1;
            *bytes += u64::from(delivery.payload_bytes);
        }
        let backlog = |(account_id, (rows, bytes))| AccountBacklog { account_id, rows, bytes };
        let mut all: Vec<_> = counts.into_iter().map(backlog).collect();
        all.sort_unstable_by_key(|backlog| Reverse((backlog.rows, backlog.account_id)));
        all.truncate(limit);
        Ok(all)
    }
}
