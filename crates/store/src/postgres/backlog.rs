//! How much waits, from a sample of the queue's pages.

use super::{
    PostgresStore,
    statement::{Statement, params, sql},
};
use crate::{AccountBacklog, Backlogs, StoreError};
use async_trait::async_trait;
use domain::limits;
use std::sync::LazyLock;

static ACCOUNT_BACKLOGS: LazyLock<Statement> = sql!("account_backlogs");

#[async_trait]
impl Backlogs for PostgresStore {
    async fn account_backlogs(&self, limit: usize) -> Result<Vec<AccountBacklog>, StoreError> {
        let connection = self.pools.general().await?;
        let params = params![
            sample_pages: limits::BACKLOG_SAMPLE_PAGES => INT8, limit: limit as i64 => INT8,
        ];
        let backlogs = connection.read(&ACCOUNT_BACKLOGS, params).await?;
        Ok(backlogs.all(|cells| {
            Ok(AccountBacklog {
                account_id: cells.get("account_id")?,
                rows: cells.get("rows")?,
                bytes: cells.get("bytes")?,
            })
        })?)
    }
}
