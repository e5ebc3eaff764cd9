//! How much waits, from a sample of the queue's pages.

use super::{PostgresStore, pool::params};
use crate::{AccountBacklog, Backlogs, StoreError};
use async_trait::async_trait;
use domain::{id::AccountId, limits};

#[async_trait]
impl Backlogs for PostgresStore {
    async fn account_backlogs(&self, limit: usize) -> Result<Vec<AccountBacklog>, StoreError> {
        let connection = self.pools.general().await?;
        let params = params![limits::BACKLOG_SAMPLE_PAGES => INT8, limit as i64 => INT8];
        let rows = connection.read(include_str!("sql/account_backlogs.sql"), params).await?;
        let backlog = |row: &tokio_postgres::Row| AccountBacklog {
            account_id: AccountId::from_uuid(row.get(0)),
            rows: row.get::<_, i64>(1).max(0) as u64,
            bytes: row.get::<_, i64>(2).max(0) as u64,
        };
        Ok(rows.iter().map(backlog).collect())
    }
}
