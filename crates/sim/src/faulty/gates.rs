//! What owners keep of their gates: a write like any other.

use super::{Faulty, finish};
use crate::{plant::Plant, scene::Scene};
use async_trait::async_trait;
use domain::{
    gate::HoldEntry,
    id::{DestinationId, NodeId},
    time::Timestamp,
};
use serde_json::json;
use std::sync::Arc;
use store::{GateWord, Gates, HoldKey, StoreError};

/// As it reaches the store.
fn planted(scene: &Scene, word: &GateWord) -> GateWord {
    let mut word = word.clone();
    let Some(record) = &word.record else { return word };
    let mut doc = serde_json::to_value(record).expect("a record is JSON");
    if scene.has(Plant::RampForgotten) && doc == json!({}) {
        word.record = None;
        return word;
    }
    if scene.has(Plant::LadderByResponse)
        && let Some(step) = doc["throttle"]["step"].as_u64()
    {
        doc["throttle"]["step"] = (step + 5).into();
        word.record = Some(serde_json::from_value(doc).expect("still a record"));
    }
    word
}

#[async_trait]
impl Gates for Faulty {
    async fn keep_gates(&self, node: NodeId, words: &[GateWord], now: Timestamp) -> Result<(), StoreError> {
        let (inner, scene, words) = (Arc::clone(&self.inner), Arc::clone(&self.scene), words.to_vec());
        let keep = move || {
            if !scene.has(Plant::GateForgotten) {
                let kept: Vec<GateWord> = words.iter().map(|word| planted(&scene, word)).collect();
                finish(inner.keep_gates(node, &kept, now))?;
            }
            scene.book().gates_kept(node, &words, scene.time.now());
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
