//! Leases, as one node meets them.

use super::{Faulty, finish};
use crate::{log::What, plant::Plant};
use async_trait::async_trait;
use domain::{id::NodeId, limits, time::Timestamp};
use std::{sync::Arc, time::Duration};
use store::{Joined, Membership, NodeRecord, StoreError};

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

    async fn join(&self, node: &NodeRecord, lease: Duration) -> Result<Joined, StoreError> {
        let (inner, scene, index, life) =
            (Arc::clone(&self.inner), Arc::clone(&self.scene), self.node, self.life);
        let (node, lease) = (node.clone(), self.lease(lease));
        let sent = scene.time.now();
        let join = move || {
            let joined = finish(inner.join(&node, lease))?;
            let (at, mut book) = (scene.time.now(), scene.book());
            let detail = format!("{joined:?}");
            book.log.note(at, What::Member { node: index, call: "join", id: node.id, detail });
            if let Joined::Yes { .. } = joined {
                let others: Vec<NodeId> = book.members.iter().copied().filter(|id| *id != node.id).collect();
                book.removed(&others, at);
                book.joined(life, node.id);
            }
            Ok(joined)
        };
        let joined = self.write("join", join).await?;
        if let Joined::Yes { .. } = joined {
            self.renewed(sent);
        }
        Ok(joined)
    }

    async fn renew(&self, node: NodeId, lease: Duration) -> Result<Timestamp, StoreError> {
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

    async fn health(&self) -> Result<(), StoreError> {
        self.read("health", self.inner.health()).await
    }
}
