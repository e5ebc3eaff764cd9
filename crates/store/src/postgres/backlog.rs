//! How much waits, from a sample of the queue's pages.

use super::{
    PostgresStore,
    rows::row,
    statement::{Statement, params, sql},
};
use crate::{AccountBacklog, Backlogs, StoreError};
use async_trait::async_trait;
use domain::{id::AccountId, limits};
use std::sync::LazyLock;

static ACCOUNT_BACKLOGS: LazyLock<Statement> = sql!("account_backlogs");

#[async_trait]
impl Backlogs for PostgresStore {
    async fn account_backlogs(&self, limit: usize) -> Result<Vec<AccountBacklog>, StoreError> {
        let connection = self.pools.general().await?;
        let params = params![
            sample_pages: limits::BACKLOG_SAMPLE_PAGES => INT8, limit: limit as i64 => INT8,
        ];
        let backlogs = connection.read(&ACCOUNT_BACKLOGS, params).await?.all()?;
        let backlog = |BacklogRow { account_id, rows, bytes }| AccountBacklog { account_id, rows, bytes };
        Ok(backlogs.into_iter().map(backlog).collect())
    }
}

row! {
    struct BacklogRow {
        account_id: AccountId,
        rows: u64,
        bytes: u64,
    }
}
