//! Nodes, and which shards they own. One process at a time, by the lock; rows are kept all the same, so that everything
//! above works as it does with many. Nothing is swapped here: the one thread that writes is alone.

use super::{
    SqliteStore,
    rows::Columns,
    statement::{bound, sql},
    trouble::{Trouble, unreadable},
    writer::Priority,
};
use crate::{
    Member, Membership, NodeRecord, OwnedShard, Renewed, Roster, RosterStamp, ShardRow, StoreError,
    migrations::KNOWN_VERSION,
};
use async_trait::async_trait;
use domain::{id::NodeId, time::Timestamp};
use rusqlite::Connection;
use std::time::Duration;

const JOIN: &str = sql!("join");
const MEMBERS: &str = sql!("members");
const ROSTER: &str = sql!("roster");
const ROSTER_STAMP: &str = sql!("roster_stamp");
const TAKE_SHARDS: &str = sql!("take_shards");
const ASK_SHARDS: &str = sql!("ask_shards");
const RELEASE_SHARDS: &str = sql!("release_shards");

#[async_trait]
impl Membership for SqliteStore {
    async fn now(&self) -> Result<Timestamp, StoreError> {
        self.read(now).await
    }

    async fn join(&self, node: &NodeRecord, lease: Duration) -> Result<Timestamp, StoreError> {
        let node = node.clone();
        self.write(Priority::Settle, move |connection| join(connection, &node, lease)).await
    }

    async fn renew(&self, node: NodeId, lease: Duration) -> Result<Renewed, StoreError> {
        self.write(Priority::Settle, move |connection| {
            let now = now(connection)?;
            let renewed = bound!(
                "update nodes set expires_at = :expires_at where id = :id",
                id: node,
                expires_at: now.plus(lease),
            )
            .execute(connection)?;
            match renewed {
                0 => Err(StoreError::NodeLost.into()),
                _ => Ok(Renewed { now, stamp: stamp(connection, now)? }),
            }
        })
        .await
    }

    async fn leave(&self, node: NodeId) -> Result<(), StoreError> {
        self.write(Priority::Settle, move |connection| {
            bound!("delete from nodes where id = :id", id: node).execute(connection)?;
            Ok(())
        })
        .await
    }

    async fn roster_stamp(&self) -> Result<RosterStamp, StoreError> {
        self.read_for_engine(|connection| stamp(connection, now(connection)?)).await
    }

    async fn roster(&self) -> Result<Roster, StoreError> {
        self.read_for_engine(roster).await
    }

    async fn reap(&self, me: NodeId) -> Result<Vec<NodeId>, StoreError> {
        self.write(Priority::Settle, move |connection| {
            let now = now(connection)?;
            bound!("delete from nodes where expires_at <= :now and id <> :me returning id", now: now, me: me)
                .all(connection, |columns| Ok(columns.id()?))
        })
        .await
    }

    async fn take_shards(&self, me: NodeId, limit: usize) -> Result<Vec<OwnedShard>, StoreError> {
        self.write(Priority::Settle, move |connection| {
            let mut taken = bound!(TAKE_SHARDS, node_id: me, limit: limit)
                .all(connection, |columns| Ok(OwnedShard { shard: columns.get()?, epoch: columns.get()? }))?;
            taken.sort_unstable();
            Ok(taken)
        })
        .await
    }

    async fn ask_shards(&self, me: NodeId, shards: &[u16]) -> Result<(), StoreError> {
        let shards = shards.to_owned();
        self.write(Priority::Settle, move |connection| {
            for shard in &shards {
                bound!(ASK_SHARDS, node_id: me, shard: shard).execute(connection)?;
            }
            Ok(())
        })
        .await
    }

    async fn release_shards(&self, me: NodeId, shards: &[OwnedShard]) -> Result<Vec<u16>, StoreError> {
        let mut shards = shards.to_owned();
        shards.sort_unstable();
        self.write(Priority::Settle, move |connection| {
            let mut given = Vec::new();
            for OwnedShard { shard, epoch } in &shards {
                if bound!(RELEASE_SHARDS, node_id: me, shard: shard, epoch: epoch).execute(connection)? > 0 {
                    given.push(*shard);
                }
            }
            Ok(given)
        })
        .await
    }

    async fn keep_shards(&self, me: NodeId, shards: &[u16]) -> Result<(), StoreError> {
        let shards = shards.to_owned();
        self.write(Priority::Settle, move |connection| {
            for shard in &shards {
                bound!(
                    "update shards set wanted_by = null where shard = :shard and node_id = :me",
                    shard: shard,
                    me: me,
                )
                .execute(connection)?;
            }
            Ok(())
        })
        .await
    }

    async fn health(&self) -> Result<(), StoreError> {
        // An empty transaction: the thread is there, the file can be locked, no flush has failed. With the priority of
        // events: a store that lets none of them in is not ready.
        self.write(Priority::Ingest, |_| Ok(())).await
    }
}

/// Every other node that has a row is dead: this process holds the lock.
fn join(connection: &Connection, node: &NodeRecord, lease: Duration) -> Result<Timestamp, Trouble> {
    let now = now(connection)?;
    bound!("delete from nodes where id <> :id", id: node.id).execute(connection)?;
    bound!(
        JOIN,
        id: node.id,
        label: node.label,
        proof: node.proof,
        version: node.version,
        role: node.role.as_str(),
        address: node.address,
        master_keys: node.master_keys,
        tables_version: KNOWN_VERSION,
        now: now,
        expires_at: now.plus(lease),
    )
    .execute(connection)?;
    Ok(now)
}

fn stamp(connection: &Connection, now: Timestamp) -> Result<RosterStamp, Trouble> {
    bound!(ROSTER_STAMP, now: now).one(connection, |columns| {
        Ok(RosterStamp {
            members: columns.get()?,
            expired: columns.get()?,
            epochs: columns.get()?,
            free: columns.get()?,
            wanted: columns.get()?,
        })
    })
}

pub(super) fn roster(connection: &Connection) -> Result<Roster, Trouble> {
    let now = now(connection)?;
    let members = bound!(MEMBERS).all(connection, |columns| member(columns, now))?;
    let shards = bound!(ROSTER).all(connection, |columns| {
        Ok(ShardRow {
            shard: columns.get()?,
            owner: columns.optional_id()?,
            epoch: columns.get()?,
            wanted_by: columns.optional_id()?,
        })
    })?;
    Ok(Roster { now, members, shards })
}

fn member(columns: &mut Columns<'_>, now: Timestamp) -> Result<Member, Trouble> {
    let record = NodeRecord {
        id: columns.id()?,
        label: columns.get()?,
        proof: columns.get()?,
        version: columns.get()?,
        role: columns.text()?.parse().map_err(|error| unreadable("role", error))?,
        address: columns.get()?,
        master_keys: columns.get()?,
    };
    let (tables_version, joined_at, expires_at) = (columns.get()?, columns.time()?, columns.time()?);
    Ok(Member { record, tables_version, joined_at, expires_at, expired: expires_at <= now })
}

/// The clock of the machine, asked through SQLite, which knows it to the millisecond.
fn now(connection: &Connection) -> Result<Timestamp, Trouble> {
    let millis: i64 = bound!("select cast(round(unixepoch('subsec') * 1000) as integer)")
        .one(connection, |columns| Ok(columns.get()?))?;
    Ok(Timestamp::from_micros(millis * 1_000))
}
