//! Who is there and who owns what. One process at a time, by the lock; rows are kept all the same, so that everything
//! above works as it does with many. Nothing is swapped here: the one thread that writes is alone.

use super::{
    SqliteStore,
    row::{self, Key as _},
    trouble::{Trouble, unreadable},
    writer::Turn,
};
use crate::{Member, Membership, NodeRecord, OwnedShard, Renewed, Roll, RollStamp, ShardRow, StoreError};
use async_trait::async_trait;
use domain::{id::NodeId, time::Timestamp};
use rusqlite::{Connection, Row, params};
use std::time::Duration;

#[async_trait]
impl Membership for SqliteStore {
    async fn now(&self) -> Result<Timestamp, StoreError> {
        self.read(now).await
    }

    async fn join(&self, node: &NodeRecord, lease: Duration) -> Result<Timestamp, StoreError> {
        let node = node.clone();
        self.write(Turn::Settle, move |connection| join(connection, &node, lease)).await
    }

    async fn renew(&self, node: NodeId, lease: Duration) -> Result<Renewed, StoreError> {
        self.write(Turn::Settle, move |connection| {
            let now = now(connection)?;
            let mut renew = connection.prepare_cached("update nodes set expires_at = ?2 where id = ?1")?;
            match renew.execute(params![node.blob(), now.plus(lease).micros()])? {
                0 => Err(StoreError::NodeLost.into()),
                _ => Ok(Renewed { now, stamp: stamp(connection, now)? }),
            }
        })
        .await
    }

    async fn leave(&self, node: NodeId) -> Result<(), StoreError> {
        self.write(Turn::Settle, move |connection| {
            connection.prepare_cached("delete from nodes where id = ?1")?.execute([node.blob()])?;
            Ok(())
        })
        .await
    }

    async fn roll_stamp(&self) -> Result<RollStamp, StoreError> {
        self.read_for_engine(|connection| stamp(connection, now(connection)?)).await
    }

    async fn roll(&self) -> Result<Roll, StoreError> {
        self.read_for_engine(roll).await
    }

    async fn reap(&self, me: NodeId) -> Result<Vec<NodeId>, StoreError> {
        self.write(Turn::Settle, move |connection| {
            let now = now(connection)?;
            let mut reap = connection
                .prepare_cached("delete from nodes where expires_at <= ?1 and id <> ?2 returning id")?;
            let reaped = reap.query_map(params![now.micros(), me.blob()], |row| row::id(row, 0))?;
            Ok(reaped.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    async fn take_shards(&self, me: NodeId, limit: usize) -> Result<Vec<OwnedShard>, StoreError> {
        self.write(Turn::Settle, move |connection| {
            let mut take = connection.prepare_cached(include_str!("sql/take_shards.sql"))?;
            let taken = take.query_map(params![me.blob(), limit as i64], |row| {
                Ok(OwnedShard { shard: row.get(0)?, epoch: row.get(1)? })
            })?;
            let mut taken = taken.collect::<rusqlite::Result<Vec<_>>>()?;
            taken.sort_unstable();
            Ok(taken)
        })
        .await
    }

    async fn ask_shards(&self, me: NodeId, shards: &[u16]) -> Result<(), StoreError> {
        let shards = shards.to_owned();
        self.write(Turn::Settle, move |connection| {
            let mut ask = connection.prepare_cached(include_str!("sql/ask_shards.sql"))?;
            shards.iter().try_for_each(|shard| ask.execute(params![me.blob(), shard]).map(|_| ()))?;
            Ok(())
        })
        .await
    }

    async fn release_shards(&self, me: NodeId, shards: &[OwnedShard]) -> Result<Vec<u16>, StoreError> {
        let mut shards = shards.to_owned();
        shards.sort_unstable();
        self.write(Turn::Settle, move |connection| {
            let mut release = connection.prepare_cached(include_str!("sql/release_shards.sql"))?;
            let mut given = Vec::new();
            for OwnedShard { shard, epoch } in &shards {
                if release.execute(params![me.blob(), shard, epoch])? > 0 {
                    given.push(*shard);
                }
            }
            Ok(given)
        })
        .await
    }

    async fn keep_shards(&self, me: NodeId, shards: &[u16]) -> Result<(), StoreError> {
        let shards = shards.to_owned();
        self.write(Turn::Settle, move |connection| {
            let mut keep = connection
                .prepare_cached("update shards set wanted_by = null where shard = ?2 and node_id = ?1")?;
            shards.iter().try_for_each(|shard| keep.execute(params![me.blob(), shard]).map(|_| ()))?;
            Ok(())
        })
        .await
    }

    async fn health(&self) -> Result<(), StoreError> {
        // An empty transaction: the thread is there, the file can be locked, no flush has failed. In the turn of events:
        // who lets none of them in is not ready.
        self.write(Turn::Ingest, |_| Ok(())).await
    }
}

/// Whoever else has a row is dead: we hold the lock.
fn join(connection: &Connection, node: &NodeRecord, lease: Duration) -> Result<Timestamp, Trouble> {
    let now = now(connection)?;
    connection.prepare_cached("delete from nodes where id <> ?1")?.execute([node.id.blob()])?;
    connection.prepare_cached(include_str!("sql/join.sql"))?.execute(params![
        node.id.blob(),
        node.label,
        node.proof,
        node.version,
        node.role.as_str(),
        node.address,
        now.micros(),
        now.plus(lease).micros()
    ])?;
    Ok(now)
}

fn stamp(connection: &Connection, now: Timestamp) -> Result<RollStamp, Trouble> {
    let mut select = connection.prepare_cached(include_str!("sql/roll_stamp.sql"))?;
    let stamp = |row: &Row<'_>| {
        Ok(RollStamp {
            members: row.get(0)?,
            expired: row.get(1)?,
            epochs: row.get(2)?,
            free: row.get(3)?,
            wanted: row.get(4)?,
        })
    };
    Ok(select.query_row([now.micros()], stamp)?)
}

pub(super) fn roll(connection: &Connection) -> Result<Roll, Trouble> {
    let now = now(connection)?;
    let mut nodes = connection.prepare_cached(
        "select id, label, proof, version, address, joined_at, expires_at, role from nodes order by id",
    )?;
    let (mut members, mut rows) = (Vec::new(), nodes.query([])?);
    while let Some(row) = rows.next()? {
        members.push(member(row, now)?);
    }
    let mut shards = connection.prepare_cached(include_str!("sql/roll.sql"))?;
    let shards = shards.query_map([], |row| {
        Ok(ShardRow {
            shard: row.get(0)?,
            owner: row::maybe_id(row, 1)?,
            epoch: row.get(2)?,
            wanted_by: row::maybe_id(row, 3)?,
        })
    })?;
    Ok(Roll { now, members, shards: shards.collect::<rusqlite::Result<_>>()? })
}

fn member(row: &Row<'_>, now: Timestamp) -> Result<Member, Trouble> {
    let expires_at = row::time(row, 6)?;
    let role: String = row.get(7)?;
    let record = NodeRecord {
        id: row::id(row, 0)?,
        label: row.get(1)?,
        proof: row.get(2)?,
        version: row.get(3)?,
        role: role.parse().map_err(|error| unreadable("role", error))?,
        address: row.get(4)?,
    };
    Ok(Member { record, joined_at: row::time(row, 5)?, expires_at, expired: expires_at <= now })
}

/// The clock of the machine, asked through SQLite, which knows it to the millisecond.
fn now(connection: &Connection) -> Result<Timestamp, Trouble> {
    let mut clock = connection.prepare_cached("select cast(round(unixepoch('subsec') * 1000) as integer)")?;
    let millis: i64 = clock.query_row([], |row| row.get(0))?;
    Ok(Timestamp::from_micros(millis * 1_000))
}
