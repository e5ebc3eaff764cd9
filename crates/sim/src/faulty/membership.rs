//! Leases and shards, as one node meets them.

use super::{FaultyStore, TrueStore, finish};
use crate::{log::Occurrence, planted_bug::PlantedBug, shared_world::count, time::calendar};
use async_trait::async_trait;
use domain::{id::NodeId, limits, time::Timestamp};
use std::time::Duration;
use store::{Membership, NodeRecord, OwnedShard, Renewed, Roster, RosterStamp, StoreError};

impl FaultyStore {
    /// The node has just heard that a renewal it sent then was made.
    fn renewed(&self, sent: i64) {
        let (lease, margin) = (self.shared.lease.as_micros() as i64, limits::LEASE_MARGIN.as_micros() as i64);
        self.shared.observed().renewed(self.life, sent, lease, margin, self.shared.time.now());
    }

    /// What the store is asked for, whatever the node believes.
    fn lease(&self, asked: Duration) -> Duration {
        if self.has(PlantedBug::NoHolderDeadline) { self.shared.lease } else { asked }
    }

    /// A write that may move members or shards: the world notes the members and the owners.
    async fn moving<T: Send + std::fmt::Debug + 'static>(
        &self,
        call: &'static str,
        id: NodeId,
        work: impl FnOnce(&TrueStore) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let moving = move |true_store: &TrueStore| {
            let done = work(true_store)?;
            let TrueStore { store, shared, node, life } = true_store;
            let roster = finish(store.roster())?;
            let (at, mut observed) = (shared.time.now(), shared.observed());
            if call == "join" {
                observed.life_of.insert(id, *life);
            }
            let detail = if std::mem::size_of::<T>() == 0 { String::new() } else { brief(&done) };
            observed.log.note(at, Occurrence::Member { node: *node, call, id, detail });
            observed.roster_read(&roster, at);
            Ok(done)
        };
        self.write(call, moving).await
    }

    /// SQLite asks the machine what time it is; here it is the world's.
    fn told(&self, now: Timestamp) -> Timestamp {
        if self.shared.sqlite { calendar(self.shared.time.now()) } else { now }
    }
}

/// Long lists are told by their length.
fn brief(done: &impl std::fmt::Debug) -> String {
    let text = format!("{done:?}");
    if text.len() <= 100 { text } else { format!("{}… ({} characters)", &text[..60], text.len()) }
}

#[async_trait]
impl Membership for FaultyStore {
    async fn now(&self) -> Result<Timestamp, StoreError> {
        self.read("now", self.inner.now()).await.map(|now| self.told(now))
    }

    async fn join(&self, node: &NodeRecord, lease: Duration) -> Result<Timestamp, StoreError> {
        let (lease, sent) = (self.lease(lease), self.shared.time.now());
        let (id, node) = (node.id, node.clone());
        let joined = self.moving("join", id, move |it| finish(it.store.join(&node, lease))).await?;
        self.renewed(sent);
        Ok(self.told(joined))
    }

    async fn renew(&self, node: NodeId, lease: Duration) -> Result<Renewed, StoreError> {
        let (lease, sent) = (self.lease(lease), self.shared.time.now());
        let renewed = self.write("renew", move |it| finish(it.store.renew(node, lease))).await?;
        self.renewed(sent);
        Ok(Renewed { now: self.told(renewed.now), ..renewed })
    }

    async fn leave(&self, node: NodeId) -> Result<(), StoreError> {
        self.moving("leave", node, move |it| finish(it.store.leave(node))).await
    }

    async fn roster_stamp(&self) -> Result<RosterStamp, StoreError> {
        self.read("roster_stamp", self.inner.roster_stamp()).await
    }

    async fn roster(&self) -> Result<Roster, StoreError> {
        self.read("roster", self.inner.roster()).await
    }

    async fn reap(&self, me: NodeId) -> Result<Vec<NodeId>, StoreError> {
        let reap = move |TrueStore { store, shared, .. }: &TrueStore| {
            let mut reaped = finish(store.reap(me))?;
            if shared.has(PlantedBug::TakeOverAlive) {
                let others: Vec<NodeId> =
                    shared.observed().members.iter().copied().filter(|id| *id != me).collect();
                for other in others {
                    finish(store.leave(other))?;
                    reaped.push(other);
                }
            }
            reaped.iter().for_each(|_| count(&shared.counts.takeovers));
            Ok(reaped)
        };
        self.moving("reap", me, reap).await
    }

    async fn take_shards(&self, me: NodeId, limit: usize) -> Result<Vec<OwnedShard>, StoreError> {
        self.moving("take", me, move |it| finish(it.store.take_shards(me, limit))).await
    }

    async fn ask_shards(&self, me: NodeId, shards: &[u16]) -> Result<(), StoreError> {
        let shards = shards.to_vec();
        if self.has(PlantedBug::DrainIgnored) {
            let seize = move |TrueStore { store, .. }: &TrueStore| {
                finish(store.ask_shards(me, &shards))?;
                for row in finish(store.roster())?.shards {
                    if let Some(owner) = row.owner.filter(|_| row.wanted_by == Some(me)) {
                        finish(
                            store.release_shards(owner, &[OwnedShard { shard: row.shard, epoch: row.epoch }]),
                        )?;
                    }
                }
                Ok(())
            };
            return self.moving("ask", me, seize).await;
        }
        self.write("ask", move |it| finish(it.store.ask_shards(me, &shards))).await
    }

    async fn release_shards(&self, me: NodeId, shards: &[OwnedShard]) -> Result<Vec<u16>, StoreError> {
        let shards = shards.to_vec();
        let release = move |TrueStore { store, shared, .. }: &TrueStore| {
            let given = finish(store.release_shards(me, &shards))?;
            given.iter().for_each(|_| count(&shared.counts.handovers));
            Ok(given)
        };
        self.moving("release", me, release).await
    }

    async fn keep_shards(&self, me: NodeId, shards: &[u16]) -> Result<(), StoreError> {
        let shards = shards.to_vec();
        self.write("keep", move |it| finish(it.store.keep_shards(me, &shards))).await
    }

    async fn health(&self) -> Result<(), StoreError> {
        self.read("health", self.inner.health()).await
    }
}
