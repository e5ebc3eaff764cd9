//! How much waits, by account, as the writer has counted it.

use super::SqliteStore;
use crate::{AccountBacklog, Backlogs, StoreError};
use async_trait::async_trait;

#[async_trait]
impl Backlogs for SqliteStore {
    async fn account_backlogs(&self, limit: usize) -> Result<Vec<AccountBacklog>, StoreError> {
        Ok(self.tally.largest(limit))
    }
}
