//! What owners keep of their gates: a write like any other.

use super::{FaultyStore, TrueStore, finish};
use crate::{planted_bug::PlantedBug, shared_world::SharedWorld};
use async_trait::async_trait;
use domain::{
    gate::HoldRecord,
    id::{DestinationId, NodeId},
    time::Timestamp,
};
use serde_json::json;
use store::{GateWord, Gates, HoldKey, StoreError};

/// As it reaches the store.
fn planted(shared: &SharedWorld, word: &GateWord) -> GateWord {
    let mut word = word.clone();
    let Some(record) = &word.record else { return word };
    let mut doc = serde_json::to_value(record).expect("a record is JSON");
    if shared.has(PlantedBug::RampForgotten) && doc == json!({}) {
        word.record = None;
        return word;
    }
    if shared.has(PlantedBug::LadderByResponse)
        && let Some(step) = doc["throttle"]["step"].as_u64()
    {
        doc["throttle"]["step"] = (step + 5).into();
        word.record = Some(serde_json::from_value(doc).expect("still a record"));
    }
    word
}

#[async_trait]
impl Gates for FaultyStore {
    async fn keep_gates(&self, node: NodeId, words: &[GateWord], now: Timestamp) -> Result<(), StoreError> {
        let words = words.to_vec();
        let keep = move |TrueStore { store, shared, .. }: &TrueStore| {
            if !shared.has(PlantedBug::GateForgotten) {
                let kept: Vec<GateWord> = words.iter().map(|word| planted(shared, word)).collect();
                finish(store.keep_gates(node, &kept, now))?;
            }
            shared.observed().gates_kept(node, &words, shared.time.now());
            Ok(())
        };
        self.write("keep_gates", keep).await
    }

    async fn note_holds(&self, destination: DestinationId, holds: &[HoldRecord]) -> Result<(), StoreError> {
        self.read("note_holds", self.inner.note_holds(destination, holds)).await
    }

    async fn holds(
        &self,
        destination: DestinationId,
        before: Option<HoldKey>,
        limit: usize,
    ) -> Result<Vec<HoldRecord>, StoreError> {
        self.read("holds", self.inner.holds(destination, before, limit)).await
    }

    async fn prune_holds(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.read("prune_holds", self.inner.prune_holds(before, limit)).await
    }
}
