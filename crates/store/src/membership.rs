//! Who is there: nodes, their leases and, later, their shards.

use crate::StoreError;
use async_trait::async_trait;
use domain::{id::NodeId, time::Timestamp};
use std::time::Duration;

#[async_trait]
pub trait Membership: Send + Sync {
    /// The store's own clock. Every id, due time and hold is measured by it.
    async fn now(&self) -> Result<Timestamp, StoreError>;

    /// Enters this node. Rows that have expired, and rows with the same `proof` (the predecessor on this very data
    /// folder, whose lock we now hold), are removed first, in the same transaction. If somebody else is still
    /// there, nothing is written and they are named. Expired is `expires_at` ≤ the store's now.
    async fn join(&self, node: &NodeRecord, lease: Duration) -> Result<Joined, StoreError>;

    /// Extends the lease, expired or not; [`StoreError::NodeLost`] if the row is gone. Gives the store's time.
    async fn renew(&self, node: NodeId, lease: Duration) -> Result<Timestamp, StoreError>;

    /// Removes this node's row: its lanes are free at once. Leaving twice is fine.
    async fn leave(&self, node: NodeId) -> Result<(), StoreError>;

    /// Whether the store can be written to now: a cheap, real check. [`StoreError::Failed`] means that it never will
    /// be again in this process.
    async fn health(&self) -> Result<(), StoreError>;

    /// Makes room for the days to come, where the store divides its tables by day.
    async fn ensure_partitions(&self, _now: Timestamp) -> Result<(), StoreError> {
        Ok(())
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct NodeRecord {
    pub id: NodeId,
    /// The name people know it by.
    pub label: String,
    /// Boot id, device and inode of the lock file this process holds: equal only for a predecessor that must be
    /// dead.
    pub proof: String,
    pub version: String,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Joined {
    Yes {
        now: Timestamp,
    },
    /// Another node is alive; its lease ends then, unless it renews it.
    Occupied {
        by: String,
        for_another: Duration,
    },
}
