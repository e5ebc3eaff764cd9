//! Nodes, their leases and their shards: the only place where the database is asked what time it is.

use super::{PostgresStore, pool::params, rows};
use crate::{Member, Membership, NodeRecord, OwnedShard, Renewed, Roll, RollStamp, ShardRow, StoreError};
use async_trait::async_trait;
use domain::{id::NodeId, time::Timestamp};
use std::time::Duration;
use tokio_postgres::Row;
use uuid::Uuid;

pub(super) const TAKE_SHARDS: &str = include_str!("sql/take_shards.sql");

#[async_trait]
impl Membership for PostgresStore {
    async fn now(&self) -> Result<Timestamp, StoreError> {
        let connection = self.pools.general().await?;
        let rows = connection.read("select (extract(epoch from now()) * 1000000)::bigint", &[]).await?;
        Ok(rows::time(&rows[0], 0))
    }

    async fn join(&self, node: &NodeRecord, lease: Duration) -> Result<Timestamp, StoreError> {
        let connection = self.pools.lease().await?;
        let (id, role, lease) = (node.id.uuid(), node.role.as_str(), micros(lease));
        let params = params![
            id => UUID, node.label => TEXT, node.proof => TEXT, node.version => TEXT, role => TEXT,
            node.address => TEXT, lease => INT8,
        ];
        let rows = connection.write(include_str!("sql/join.sql"), params).await?;
        Ok(rows::time(&rows[0], 0))
    }

    async fn renew(&self, node: NodeId, lease: Duration) -> Result<Renewed, StoreError> {
        let connection = self.pools.lease().await?;
        let lease = micros(lease);
        let rows = connection
            .write(include_str!("sql/renew.sql"), params![node.uuid() => UUID, lease => INT8])
            .await?;
        let row = rows.first().ok_or(StoreError::NodeLost)?;
        Ok(Renewed { now: rows::time(row, 0), stamp: stamp(row, 1) })
    }

    async fn leave(&self, node: NodeId) -> Result<(), StoreError> {
        let connection = self.pools.lease().await?;
        connection.write("delete from nodes where id = $1", params![node.uuid() => UUID]).await?;
        Ok(())
    }

    async fn roll_stamp(&self) -> Result<RollStamp, StoreError> {
        let connection = self.pools.nodes().await?;
        let rows = connection.read(include_str!("sql/roll_stamp.sql"), &[]).await?;
        Ok(stamp(&rows[0], 0))
    }

    async fn roll(&self) -> Result<Roll, StoreError> {
        let connection = self.pools.nodes().await?;
        let rows = connection.read(include_str!("sql/roll.sql"), &[]).await?;
        let first = rows.first().ok_or(StoreError::NotFound { what: "shard" })?;
        let (now, (mut members, mut shards)) = (rows::time(first, 12), (Vec::new(), Vec::new()));
        for row in &rows {
            match row.get::<_, Option<i16>>(0) {
                Some(shard) => shards.push(shard_row(row, shard)),
                None => members.push(member(row)?),
            }
        }
        Ok(Roll { now, members, shards })
    }

    async fn reap(&self, me: NodeId) -> Result<Vec<NodeId>, StoreError> {
        let connection = self.pools.nodes().await?;
        let rows = connection.write(include_str!("sql/reap.sql"), params![me.uuid() => UUID]).await?;
        Ok(rows.iter().map(|row| NodeId::from_uuid(row.get(0))).collect())
    }

    async fn take_shards(&self, me: NodeId, limit: usize) -> Result<Vec<OwnedShard>, StoreError> {
        let connection = self.pools.nodes().await?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = connection.write(TAKE_SHARDS, params![me.uuid() => UUID, limit => INT8]).await?;
        let taken = |row: &Row| OwnedShard { shard: row.get::<_, i16>(0) as u16, epoch: row.get(1) };
        let mut taken: Vec<OwnedShard> = rows.iter().map(taken).collect();
        taken.sort_unstable();
        Ok(taken)
    }

    async fn ask_shards(&self, me: NodeId, shards: &[u16]) -> Result<(), StoreError> {
        let connection = self.pools.nodes().await?;
        let params = params![me.uuid() => UUID, numbers(shards) => INT2_ARRAY];
        connection.write(include_str!("sql/ask_shards.sql"), params).await?;
        Ok(())
    }

    async fn release_shards(&self, me: NodeId, shards: &[OwnedShard]) -> Result<Vec<u16>, StoreError> {
        let connection = self.pools.nodes().await?;
        let (numbers, epochs): (Vec<i16>, Vec<i64>) =
            shards.iter().map(|owned| (owned.shard as i16, owned.epoch)).unzip();
        let params = params![me.uuid() => UUID, numbers => INT2_ARRAY, epochs => INT8_ARRAY];
        let rows = connection.write(include_str!("sql/release_shards.sql"), params).await?;
        let mut given: Vec<u16> = rows.iter().map(|row| row.get::<_, i16>(0) as u16).collect();
        given.sort_unstable();
        Ok(given)
    }

    async fn keep_shards(&self, me: NodeId, shards: &[u16]) -> Result<(), StoreError> {
        let connection = self.pools.nodes().await?;
        let params = params![me.uuid() => UUID, numbers(shards) => INT2_ARRAY];
        connection.write(include_str!("sql/keep_shards.sql"), params).await?;
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

/// members, expired, epochs, free, wanted.
fn stamp(row: &Row, at: usize) -> RollStamp {
    RollStamp {
        members: row.get::<_, i64>(at) as u32,
        expired: row.get::<_, i64>(at + 1) as u32,
        epochs: row.get(at + 2),
        free: row.get::<_, i64>(at + 3) as u32,
        wanted: row.get(at + 4),
    }
}

fn shard_row(row: &Row, shard: i16) -> ShardRow {
    let node = |column| row.get::<_, Option<Uuid>>(column).map(NodeId::from_uuid);
    ShardRow { shard: shard as u16, owner: node(1), epoch: row.get(2), wanted_by: node(3) }
}

fn member(row: &Row) -> Result<Member, StoreError> {
    let role: &str = row.get(7);
    let record = NodeRecord {
        id: NodeId::from_uuid(row.get(1)),
        label: row.get(4),
        proof: row.get(5),
        version: row.get(6),
        role: role.parse().map_err(|error| StoreError::Unavailable(Box::new(error)))?,
        address: row.get(8),
    };
    Ok(Member {
        record,
        joined_at: rows::time(row, 9),
        expires_at: rows::time(row, 10),
        expired: row.get(11),
    })
}

pub(super) fn numbers(shards: &[u16]) -> Vec<i16> {
    shards.iter().map(|shard| *shard as i16).collect()
}

fn micros(lease: Duration) -> i64 {
    i64::try_from(lease.as_micros()).unwrap_or(i64::MAX)
}
