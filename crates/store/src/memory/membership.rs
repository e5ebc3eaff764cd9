//! Nodes, and which shards they own.

use super::{KeptNode, KeptShard, MemoryStore, Tables};
use crate::{
    Member, Membership, NodeRecord, OwnedShard, Renewed, Roster, RosterStamp, ShardRow, StoreError,
    migrations::KNOWN_VERSION,
};
use async_trait::async_trait;
use domain::{id::NodeId, time::Timestamp};
use std::time::Duration;

#[async_trait]
impl Membership for MemoryStore {
    async fn now(&self) -> Result<Timestamp, StoreError> {
        Ok(self.clock.now())
    }

    async fn join(&self, node: &NodeRecord, lease: Duration) -> Result<Timestamp, StoreError> {
        self.interrupted("join")?;
        let (mut tables, now) = (self.tables(), self.clock.now());
        tables.nodes.retain(|id, other| *id >= node.id || other.record.proof != node.proof);
        let new = KeptNode { record: node.clone(), joined_at: now, expires_at: now };
        tables.nodes.entry(node.id).or_insert(new).expires_at = now.plus(lease);
        Ok(now)
    }

    async fn renew(&self, node: NodeId, lease: Duration) -> Result<Renewed, StoreError> {
        let (mut tables, now) = (self.tables(), self.clock.now());
        tables.nodes.get_mut(&node).ok_or(StoreError::NodeLost)?.expires_at = now.plus(lease);
        Ok(Renewed { now, stamp: tables.stamp(now) })
    }

    async fn leave(&self, node: NodeId) -> Result<(), StoreError> {
        self.tables().nodes.remove(&node);
        Ok(())
    }

    async fn roster_stamp(&self) -> Result<RosterStamp, StoreError> {
        Ok(self.tables().stamp(self.clock.now()))
    }

    async fn roster(&self) -> Result<Roster, StoreError> {
        let (tables, now) = (self.tables(), self.clock.now());
        let member = |kept: &KeptNode| Member {
            record: kept.record.clone(),
            tables_version: KNOWN_VERSION,
            joined_at: kept.joined_at,
            expires_at: kept.expires_at,
            expired: kept.expires_at <= now,
        };
        Ok(Roster {
            now,
            members: tables.nodes.values().map(member).collect(),
            shards: tables.shard_rows().collect(),
        })
    }

    async fn reap(&self, me: NodeId) -> Result<Vec<NodeId>, StoreError> {
        let (mut tables, now) = (self.tables(), self.clock.now());
        let ended = |(id, node): (&NodeId, &KeptNode)| (*id != me && node.expires_at <= now).then_some(*id);
        let reaped: Vec<NodeId> = tables.nodes.iter().filter_map(ended).collect();
        tables.nodes.retain(|id, _| !reaped.contains(id));
        Ok(reaped)
    }

    async fn take_shards(&self, me: NodeId, limit: usize) -> Result<Vec<OwnedShard>, StoreError> {
        let mut tables = self.tables();
        if !tables.nodes.contains_key(&me) {
            return Ok(Vec::new());
        }
        let mut free: Vec<ShardRow> = tables.shard_rows().filter(|row| row.owner.is_none()).collect();
        free.sort_by_key(|row| row.wanted_by != Some(me));
        free.truncate(limit);
        free.sort_by_key(|row| row.shard);
        let take = |row: ShardRow| {
            let kept = tables.shard_mut(row.shard);
            kept.wanted_by = kept.wanted_by.filter(|wanted_by| *wanted_by != me);
            (kept.node, kept.epoch) = (Some(me), kept.epoch + 1);
            OwnedShard { shard: row.shard, epoch: kept.epoch }
        };
        Ok(free.into_iter().map(take).collect())
    }

    async fn ask_shards(&self, me: NodeId, shards: &[u16]) -> Result<(), StoreError> {
        let mut tables = self.tables();
        if !tables.nodes.contains_key(&me) {
            return Ok(());
        }
        let others = |row: &ShardRow| row.owner != Some(me) && row.wanted_by.is_none();
        let asked: Vec<ShardRow> =
            tables.shard_rows().filter(others).filter(|row| shards.contains(&row.shard)).collect();
        for row in asked {
            tables.shard_mut(row.shard).wanted_by = Some(me);
        }
        Ok(())
    }

    async fn release_shards(&self, me: NodeId, shards: &[OwnedShard]) -> Result<Vec<u16>, StoreError> {
        let mut tables = self.tables();
        let mine = |row: &ShardRow| {
            let kept = &tables.shards.0[usize::from(row.shard)];
            kept.node == Some(me) && shards.contains(&OwnedShard { shard: row.shard, epoch: row.epoch })
        };
        let given: Vec<ShardRow> = tables.shard_rows().filter(mine).collect();
        for row in &given {
            let next = KeptShard { node: row.wanted_by, epoch: row.epoch + 1, wanted_by: None };
            *tables.shard_mut(row.shard) = next;
        }
        Ok(given.into_iter().map(|row| row.shard).collect())
    }

    async fn keep_shards(&self, me: NodeId, shards: &[u16]) -> Result<(), StoreError> {
        let mut tables = self.tables();
        for shard in shards {
            let kept = tables.shard_mut(*shard);
            if kept.node == Some(me) {
                kept.wanted_by = None;
            }
        }
        Ok(())
    }

    async fn health(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Tables {
    /// As others see them: a node without a row owns nothing and wants nothing.
    fn shard_rows(&self) -> impl Iterator<Item = ShardRow> {
        let there = |node: Option<NodeId>| node.filter(|id| self.nodes.contains_key(id));
        (0_u16..).zip(&self.shards.0).map(move |(shard, kept)| ShardRow {
            shard,
            owner: there(kept.node),
            epoch: kept.epoch,
            wanted_by: there(kept.wanted_by),
        })
    }

    fn shard_mut(&mut self, shard: u16) -> &mut KeptShard {
        &mut self.shards.0[usize::from(shard)]
    }

    fn stamp(&self, now: Timestamp) -> RosterStamp {
        let wanted = self.shard_rows().filter(|row| row.wanted_by.is_some());
        RosterStamp {
            members: self.nodes.len() as u32,
            expired: self.nodes.values().filter(|node| node.expires_at <= now).count() as u32,
            epochs: self.shards.0.iter().map(|kept| kept.epoch).sum(),
            free: self.shard_rows().filter(|row| row.owner.is_none()).count() as u32,
            wanted: wanted.map(|row| (i64::from(row.shard) + 1).pow(2)).sum(),
        }
    }
}
