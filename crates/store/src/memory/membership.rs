//! Who is there.

use super::{KeptNode, MemoryStore};
use crate::{Joined, Membership, NodeRecord, StoreError};
use async_trait::async_trait;
use domain::{id::NodeId, time::Timestamp};
use std::time::Duration;

#[async_trait]
impl Membership for MemoryStore {
    async fn now(&self) -> Result<Timestamp, StoreError> {
        Ok(self.clock.now())
    }

    async fn join(&self, node: &NodeRecord, lease: Duration) -> Result<Joined, StoreError> {
        let mut state = self.state();
        let now = self.clock.now();
        let stays = |other: &KeptNode| other.expires_at > now && other.record.proof != node.proof;
        if let Some(other) = state.nodes.values().find(|other| stays(other)) {
            return Ok(Joined::Occupied {
                by: other.record.label.clone(),
                for_another: other.expires_at.since(now),
            });
        }
        state.nodes.clear();
        state.nodes.insert(node.id, KeptNode { record: node.clone(), expires_at: now.plus(lease) });
        Ok(Joined::Yes { now })
    }

    async fn renew(&self, node: NodeId, lease: Duration) -> Result<Timestamp, StoreError> {
        let mut state = self.state();
        let now = self.clock.now();
        let kept = state.nodes.get_mut(&node).ok_or(StoreError::NodeLost)?;
        kept.expires_at = now.plus(lease);
        Ok(now)
    }

    async fn leave(&self, node: NodeId) -> Result<(), StoreError> {
        self.state().nodes.remove(&node);
        Ok(())
    }

    async fn health(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
