//! Nodes and their leases: the only place where the database is asked what time it is.

use super::{PostgresStore, pool::Transaction, pool::params};
use crate::{Joined, Membership, NodeRecord, StoreError};
use async_trait::async_trait;
use domain::{id::NodeId, time::Timestamp};
use std::time::Duration;
use tokio_postgres::Row;

#[async_trait]
impl Membership for PostgresStore {
    async fn now(&self) -> Result<Timestamp, StoreError> {
        let connection = self.pools.general().await?;
        let rows = connection.read("select (extract(epoch from now()) * 1000000)::bigint", &[]).await?;
        Ok(time(&rows[0], 0))
    }

    async fn join(&self, node: &NodeRecord, lease: Duration) -> Result<Joined, StoreError> {
        let connection = self.pools.lease().await?;
        let transaction = connection.begin().await?;
        let joined = join(&transaction, node, lease).await;
        transaction.end(joined).await
    }

    async fn renew(&self, node: NodeId, lease: Duration) -> Result<Timestamp, StoreError> {
        let connection = self.pools.lease().await?;
        let lease = micros(lease);
        let rows = connection
            .write(include_str!("sql/renew.sql"), params![node.uuid() => UUID, lease => INT8])
            .await?;
        rows.first().map(|row| time(row, 0)).ok_or(StoreError::NodeLost)
    }

    async fn leave(&self, node: NodeId) -> Result<(), StoreError> {
        let connection = self.pools.lease().await?;
        connection.write("delete from nodes where id = $1", params![node.uuid() => UUID]).await?;
        Ok(())
    }

    async fn health(&self) -> Result<(), StoreError> {
        let connection = self.pools.general().await?;
        let rows = connection.read("select current_setting('transaction_read_only')", &[]).await?;
        match rows[0].get(0) {
            "off" => Ok(()),
            _ => Err(StoreError::Unavailable("the database is read-only".into())),
        }
    }

    async fn ensure_partitions(&self, now: Timestamp) -> Result<(), StoreError> {
        self.make_partitions(now).await
    }
}

async fn join(
    transaction: &Transaction<'_>,
    node: &NodeRecord,
    lease: Duration,
) -> Result<Joined, StoreError> {
    // One joins at a time. Renewals wait for a moment; settlements, which only share the rows, pass.
    transaction.run("lock table nodes in share row exclusive mode", &[]).await?;
    let alive = transaction.run_opt(include_str!("sql/join_alive.sql"), params![node.proof => TEXT]).await?;
    if let Some(row) = alive {
        let for_another = Duration::from_micros(row.get::<_, i64>(1).max(0) as u64);
        return Ok(Joined::Occupied { by: row.get(0), for_another });
    }
    let (id, lease) = (node.id.uuid(), micros(lease));
    let params =
        params![id => UUID, node.label => TEXT, node.proof => TEXT, node.version => TEXT, lease => INT8];
    transaction.run("delete from nodes", &[]).await?;
    let rows = transaction.run(include_str!("sql/join.sql"), params).await?;
    Ok(Joined::Yes { now: time(&rows[0], 0) })
}

fn micros(lease: Duration) -> i64 {
    i64::try_from(lease.as_micros()).unwrap_or(i64::MAX)
}

fn time(row: &Row, column: usize) -> Timestamp {
    Timestamp::from_micros(row.get(column))
}
