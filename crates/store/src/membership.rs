//! Membership and ownership: nodes with their leases, and the shards with their owners.
//!
//! A shard belongs to the node it names as long as that node has a row. **Expired is not lost; a deleted row is lost**:
//! only [`Membership::reap`], [`Membership::leave`] and a successor's [`Membership::join`] transfer ownership. Every
//! change of an owner counts the shard's epoch up.

use crate::StoreError;
use async_trait::async_trait;
use domain::{id::NodeId, member::Role, time::Timestamp};
use std::time::Duration;

pub use domain::ownership::{OwnedShard, ShardRow};

#[async_trait]
pub trait Membership: Send + Sync {
    /// The store's own clock. Every id, due time and hold is measured by it.
    async fn now(&self) -> Result<Timestamp, StoreError>;

    /// Enters this node and gives the store's time. The predecessor with the same `proof`, whose lock we now hold, is
    /// removed in the same transaction, and its shards are free. (SQLite: every other row is; the lock on the file
    /// proves that they are dead.) Only a row with a lower id is a predecessor: the late word of a process that has died
    /// replaces no node that came after it. Joining again under the same id renews the lease.
    async fn join(&self, node: &NodeRecord, lease: Duration) -> Result<Timestamp, StoreError>;

    /// Extends the lease, expired or not; [`StoreError::NodeLost`] if the row is gone.
    async fn renew(&self, node: NodeId, lease: Duration) -> Result<Renewed, StoreError>;

    /// Removes this node's row: its shards are free at once. Leaving twice is fine.
    async fn leave(&self, node: NodeId) -> Result<(), StoreError>;

    /// Differs when membership or ownership has changed; much cheaper than the roster.
    async fn roster_stamp(&self) -> Result<RosterStamp, StoreError>;

    /// All members and all shards, at one moment.
    async fn roster(&self) -> Result<Roster, StoreError>;

    /// Deletes the rows of nodes whose lease has ended (never `me`), and says which. Their shards are free.
    async fn reap(&self, me: NodeId) -> Result<Vec<NodeId>, StoreError>;

    /// Takes up to `limit` free shards by compare-and-swap on their epoch, those that `me` wants first, and gives them
    /// in order. Nothing if `me` has no row. Another node that takes at the same moment takes others.
    async fn take_shards(&self, me: NodeId, limit: usize) -> Result<Vec<OwnedShard>, StoreError>;

    /// Notes that `me` would like these shards ([`domain::limits::SHARDS_ASKED`] at most), where no other member
    /// wants them already and `me` is not their owner. Nothing if `me` has no row.
    async fn ask_shards(&self, me: NodeId, shards: &[u16]) -> Result<(), StoreError>;

    /// Gives shards up: each goes to the node that wants it, if that is a member, else it is free. Only where `me` still
    /// owns it at this epoch. Says which were given, in order.
    async fn release_shards(&self, me: NodeId, shards: &[OwnedShard]) -> Result<Vec<u16>, StoreError>;

    /// Declines: forgets that another node wants these shards of `me`'s.
    async fn keep_shards(&self, me: NodeId, shards: &[u16]) -> Result<(), StoreError>;

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
    pub role: Role,
    /// Where it listens, for people.
    pub address: Option<String>,
    /// The names of the master keys that it knows, the active one first: `k2,k1`. Empty: it is of a version that does not
    /// say.
    pub master_keys: String,
}

/// What a renewal brings back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Renewed {
    /// The store's time.
    pub now: Timestamp,
    pub stamp: RosterStamp,
}

/// A few sums over the roster: one that differs is a reason to read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RosterStamp {
    pub members: u32,
    /// Members whose lease has ended and that were not reaped yet.
    pub expired: u32,
    /// The sum of all epochs: every change of an owner counts.
    pub epochs: i64,
    /// Shards whose owner has no row, or that never had one.
    pub free: u32,
    /// The sum of (shard + 1)² over those that a member wants: a count would not see one wanted in another's place.
    pub wanted: i64,
}

/// The members and the shards at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Roster {
    /// The store's time.
    pub now: Timestamp,
    /// In the order of their ids.
    pub members: Vec<Member>,
    /// All of them, in order.
    pub shards: Vec<ShardRow>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    pub record: NodeRecord,
    /// The version of the tables that it was made for, by which it is known what it reads; 0: it is of a version that does
    /// not say.
    pub tables_version: i64,
    pub joined_at: Timestamp,
    pub expires_at: Timestamp,
    /// Its lease has ended: a node that is sure of its own may reap it.
    pub expired: bool,
}
