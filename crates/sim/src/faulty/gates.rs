//! What owners keep of their gates: a write like any other.

use super::{Faulty, finish};
use crate::plant::Plant;
use async_trait::async_trait;
use domain::{
    gate::HoldEntry,
    id::{DestinationId, NodeId},
    time::Timestamp,
};
use std::sync::Arc;
use store::{GateWord, Gates, HoldKey, StoreError};

#[async_trait]
impl Gates for Faulty {
    async fn keep_gates(&self, node: NodeId, words: &[GateWord], now: Timestamp) -> Result<(), StoreError> {
        let (inner, scene, words) = (Arc::clone(&self.inner), Arc::clone(&self.scene), words.to_vec());
        let keep = move || {
            if !scene.has(Plant::GateForgotten) {
                finish(inner.keep_gates(node, &words, now))?;
            }
            scene.book().gates_kept(node, &words);
            Ok(())
        };
        self.write("keep_gates", keep).await
    }

    async fn note_holds(&self, destination: DestinationId, holds: &[HoldEntry]) -> Result<(), StoreError> {
        self.read("note_holds", self.inner.note_holds(destination, holds)).await
    }

    async fn holds(
        &self,
        destination: DestinationId,
        before: Option<HoldKey>,
        limit: usize,
    ) -> Result<Vec<HoldEntry>, StoreError> {
        self.read("holds", self.inner.holds(destination, before, limit)).await
    }

    async fn prune_holds(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.read("prune_holds", self.inner.prune_holds(before, limit)).await
    }
}
