//! Leases, as one node meets them.

use super::{Faulty, finish};
use crate::{log::What, plant::Plant};
use async_trait::async_trait;
use domain::{id::NodeId, limits, time::Timestamp};
use std::{sync::Arc, time::Duration};
use store::{Membership, NodeRecord, OwnedShard, Renewed, Roll, RollStamp, StoreError};

impl Faulty {
    /// The node has just heard that a renewal it sent then was made.
    fn renewed(&self, sent: i64) {
        let (lease, margin) = (self.scene.lease.as_micros() as i64, limits::LEASE_MARGIN.as_micros() as i64);
        self.scene.book().renewed(self.life, sent, lease, margin);
    }

    /// What the store is asked for, whatever the node believes.
    fn lease(&self, asked: Duration) -> Duration {
        if self.has(Plant::NoHolderDeadline) { self.scene.lease } else { asked }
    }
}

#[async_trait]
impl Membership for Faulty {
    async fn now(&self) -> Result<Timestamp, StoreError> {
        self.read("now", self.inner.now()).await
    }

    async fn join(&self, node: &NodeRecord, lease: Duration) -> Result<Timestamp, StoreError> {
        let (inner, scene, index, life) =
            (Arc::clone(&self.inner), Arc::clone(&self.scene), self.node, self.life);
        let (node, lease) = (node.clone(), self.lease(lease));
        let sent = scene.time.now();
        let join = move || {
            let joined = finish(inner.join(&node, lease))?;
            let there: Vec<NodeId> =
                finish(inner.roll())?.members.iter().map(|member| member.record.id).collect();
            let (at, mut book) = (scene.time.now(), scene.book());
            let detail = format!("{joined:?}");
            book.log.note(at, What::Member { node: index, call: "join", id: node.id, detail });
            let gone: Vec<NodeId> = book.members.iter().copied().filter(|id| !there.contains(id)).collect();
            book.removed(&gone, at);
            book.joined(life, node.id);
            Ok(joined)
        };
        let joined = self.write("join", join).await?;
        self.renewed(sent);
        Ok(joined)
    }

    async fn renew(&self, node: NodeId, lease: Duration) -> Result<Renewed, StoreError> {
        let (inner, lease, sent) = (Arc::clone(&self.inner), self.lease(lease), self.scene.time.now());
        let renewed = self.write("renew", move || finish(inner.renew(node, lease))).await?;
        self.renewed(sent);
        Ok(renewed)
    }

    async fn leave(&self, node: NodeId) -> Result<(), StoreError> {
        let (inner, scene, index) = (Arc::clone(&self.inner), Arc::clone(&self.scene), self.node);
        let leave = move || {
            finish(inner.leave(node))?;
            let (at, mut book) = (scene.time.now(), scene.book());
            book.log.note(at, What::Member { node: index, call: "leave", id: node, detail: String::new() });
            book.removed(&[node], at);
            Ok(())
        };
        self.write("leave", leave).await
    }

    async fn roll_stamp(&self) -> Result<RollStamp, StoreError> {
        self.read("roll_stamp", self.inner.roll_stamp()).await
    }

    async fn roll(&self) -> Result<Roll, StoreError> {
        self.read("roll", self.inner.roll()).await
    }

    async fn reap(&self, me: NodeId) -> Result<Vec<NodeId>, StoreError> {
        let (inner, scene, index) = (Arc::clone(&self.inner), Arc::clone(&self.scene), self.node);
        let reap = move || {
            let reaped = finish(inner.reap(me))?;
            let (at, mut book) = (scene.time.now(), scene.book());
            for id in &reaped {
                book.log.note(at, What::Member { node: index, call: "reap", id: *id, detail: String::new() });
            }
            book.removed(&reaped, at);
            Ok(reaped)
        };
        self.write("reap", reap).await
    }

    async fn take_shards(&self, me: NodeId, limit: usize) -> Result<Vec<OwnedShard>, StoreError> {
        let inner = Arc::clone(&self.inner);
        self.write("take_shards", move || finish(inner.take_shards(me, limit))).await
    }

    async fn ask_shards(&self, me: NodeId, shards: &[u16]) -> Result<(), StoreError> {
        let (inner, shards) = (Arc::clone(&self.inner), shards.to_vec());
        self.write("ask_shards", move || finish(inner.ask_shards(me, &shards))).await
    }

    async fn release_shards(&self, me: NodeId, shards: &[OwnedShard]) -> Result<Vec<u16>, StoreError> {
        let (inner, shards) = (Arc::clone(&self.inner), shards.to_vec());
        self.write("release_shards", move || finish(inner.release_shards(me, &shards))).await
    }

    async fn keep_shards(&self, me: NodeId, shards: &[u16]) -> Result<(), StoreError> {
        let (inner, shards) = (Arc::clone(&self.inner), shards.to_vec());
        self.write("keep_shards", move || finish(inner.keep_shards(me, &shards))).await
    }

    async fn health(&self) -> Result<(), StoreError> {
        self.read("health", self.inner.health()).await
    }
}
