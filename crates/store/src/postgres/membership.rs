//! Nodes, their leases and their shards: the only place where the database is asked what time it is.

use super::{
    PostgresStore,
    rows::{Cells, Unreadable},
    statement::{Statement, params, sql},
};
use crate::{
    Member, Membership, NodeRecord, OwnedShard, Renewed, Roster, RosterStamp, ShardRow, StoreError,
    migrations::KNOWN_VERSION,
};
use async_trait::async_trait;
use domain::{id::NodeId, time::Timestamp};
use std::{sync::LazyLock, time::Duration};

static NOW: LazyLock<Statement> = sql!("now": "select (extract(epoch from now()) * 1000000)::bigint as now");
static JOIN: LazyLock<Statement> = sql!("join");
static RENEW: LazyLock<Statement> = sql!("renew");
static LEAVE: LazyLock<Statement> = sql!("leave": "delete from nodes where id = :node_id");
static ROSTER_STAMP: LazyLock<Statement> = sql!("roster_stamp");
static ROSTER: LazyLock<Statement> = sql!("roster");
static REAP: LazyLock<Statement> = sql!("reap");
static TAKE_SHARDS: LazyLock<Statement> = sql!("take_shards");
static ASK_SHARDS: LazyLock<Statement> = sql!("ask_shards");
static RELEASE_SHARDS: LazyLock<Statement> = sql!("release_shards");
static KEEP_SHARDS: LazyLock<Statement> = sql!("keep_shards");
static HEALTH: LazyLock<Statement> =
    sql!("health": "select current_setting('transaction_read_only') = 'off' as writable");

#[async_trait]
impl Membership for PostgresStore {
    async fn now(&self) -> Result<Timestamp, StoreError> {
        let connection = self.pools.general().await?;
        Ok(connection.read(&NOW, params![]).await?.value("now")?)
    }

    async fn join(&self, node: &NodeRecord, lease: Duration) -> Result<Timestamp, StoreError> {
        let connection = self.pools.lease().await?;
        let params = params![
            id: node.id.uuid() => UUID, label: node.label => TEXT, proof: node.proof => TEXT,
            version: node.version => TEXT, role: node.role.as_str() => TEXT, address: node.address => TEXT,
            master_keys: node.master_keys => TEXT, tables_version: KNOWN_VERSION => INT8, lease_us: micros(lease) => INT8,
        ];
        Ok(connection.write(&JOIN, params).await?.value("now")?)
    }

    async fn renew(&self, node: NodeId, lease: Duration) -> Result<Renewed, StoreError> {
        let connection = self.pools.lease().await?;
        let params = params![node_id: node.uuid() => UUID, lease_us: micros(lease) => INT8];
        let rows = connection.write(&RENEW, params).await?;
        let now = rows.first_value("now")?.ok_or(StoreError::NodeLost)?;
        Ok(Renewed { now, stamp: rows.one(stamp)? })
    }

    async fn leave(&self, node: NodeId) -> Result<(), StoreError> {
        let connection = self.pools.lease().await?;
        connection.write(&LEAVE, params![node_id: node.uuid() => UUID]).await?;
        Ok(())
    }

    async fn roster_stamp(&self) -> Result<RosterStamp, StoreError> {
        let connection = self.pools.nodes().await?;
        Ok(connection.read(&ROSTER_STAMP, params![]).await?.one(stamp)?)
    }

    async fn roster(&self) -> Result<Roster, StoreError> {
        let connection = self.pools.nodes().await?;
        let rows = connection.read(&ROSTER, params![]).await?;
        let now = rows.first_value("now")?.ok_or(StoreError::NotFound { what: "shard" })?;
        let (mut members, mut shards) = (Vec::new(), Vec::new());
        rows.all(|cells| {
            match cells.get("shard")? {
                Some(number) => shards.push(shard(cells, number)?),
                None => members.push(member(cells)?),
            }
            Ok(())
        })?;
        Ok(Roster { now, members, shards })
    }

    async fn reap(&self, me: NodeId) -> Result<Vec<NodeId>, StoreError> {
        let connection = self.pools.nodes().await?;
        Ok(connection.write(&REAP, params![node_id: me.uuid() => UUID]).await?.column("id")?)
    }

    async fn take_shards(&self, me: NodeId, limit: usize) -> Result<Vec<OwnedShard>, StoreError> {
        let connection = self.pools.nodes().await?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let params = params![node_id: me.uuid() => UUID, limit: limit => INT8];
        let rows = connection.write(&TAKE_SHARDS, params).await?;
        let mut taken =
            rows.all(|cells| Ok(OwnedShard { shard: cells.get("shard")?, epoch: cells.get("epoch")? }))?;
        taken.sort_unstable();
        Ok(taken)
    }

    async fn ask_shards(&self, me: NodeId, shards: &[u16]) -> Result<(), StoreError> {
        let connection = self.pools.nodes().await?;
        let params = params![node_id: me.uuid() => UUID, shards: numbers(shards) => INT2_ARRAY];
        connection.write(&ASK_SHARDS, params).await?;
        Ok(())
    }

    async fn release_shards(&self, me: NodeId, shards: &[OwnedShard]) -> Result<Vec<u16>, StoreError> {
        let connection = self.pools.nodes().await?;
        let (numbers, epochs): (Vec<i16>, Vec<i64>) =
            shards.iter().map(|owned| (owned.shard as i16, owned.epoch)).unzip();
        let params =
            params![node_id: me.uuid() => UUID, shard: numbers => INT2_ARRAY, epoch: epochs => INT8_ARRAY];
        let mut given: Vec<u16> = connection.write(&RELEASE_SHARDS, params).await?.column("shard")?;
        given.sort_unstable();
        Ok(given)
    }

    async fn keep_shards(&self, me: NodeId, shards: &[u16]) -> Result<(), StoreError> {
        let connection = self.pools.nodes().await?;
        let params = params![node_id: me.uuid() => UUID, shards: numbers(shards) => INT2_ARRAY];
        connection.write(&KEEP_SHARDS, params).await?;
        Ok(())
    }

    async fn health(&self) -> Result<(), StoreError> {
        let connection = self.pools.general().await?;
        match connection.read(&HEALTH, params![]).await?.value("writable")? {
            true => Ok(()),
            false => Err(StoreError::Unavailable("the database is read-only".into())),
        }
    }

    async fn ensure_partitions(&self, now: Timestamp) -> Result<(), StoreError> {
        self.make_partitions(now).await
    }
}

fn stamp(cells: &mut Cells<'_, '_>) -> Result<RosterStamp, Unreadable> {
    Ok(RosterStamp {
        members: cells.get::<u64>("members")? as u32,
        expired: cells.get::<u64>("expired")? as u32,
        epochs: cells.get("epochs")?,
        free: cells.get::<u64>("free")? as u32,
        wanted: cells.get("wanted")?,
    })
}

fn shard(cells: &mut Cells<'_, '_>, shard: u16) -> Result<ShardRow, Unreadable> {
    let (owner, epoch, wanted_by) = (cells.get("node_id")?, cells.get("epoch")?, cells.get("wanted_by")?);
    Ok(ShardRow { shard, owner, epoch, wanted_by })
}

fn member(cells: &mut Cells<'_, '_>) -> Result<Member, Unreadable> {
    let record = NodeRecord {
        id: cells.get("node_id")?,
        label: cells.get("label")?,
        proof: cells.get("proof")?,
        version: cells.get("version")?,
        role: cells.word("role")?,
        address: cells.get("address")?,
        master_keys: cells.get("master_keys")?,
    };
    Ok(Member {
        record,
        tables_version: cells.get("tables_version")?,
        joined_at: cells.get("joined_at")?,
        expires_at: cells.get("expires_at")?,
        expired: cells.get("expired")?,
    })
}

fn numbers(shards: &[u16]) -> Vec<i16> {
    shards.iter().map(|shard| *shard as i16).collect()
}

fn micros(lease: Duration) -> i64 {
    i64::try_from(lease.as_micros()).unwrap_or(i64::MAX)
}
