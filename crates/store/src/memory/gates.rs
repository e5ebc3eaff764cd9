//! What is remembered of gates.

use super::{MemoryStore, Tables};
use crate::{GateWord, Gates, HoldKey, KeptGate, StoreError};
use async_trait::async_trait;
use domain::{
    gate::HoldRecord,
    id::{DestinationId, NodeId},
    time::Timestamp,
};

#[async_trait]
impl Gates for MemoryStore {
    async fn keep_gates(&self, node: NodeId, words: &[GateWord], now: Timestamp) -> Result<(), StoreError> {
        self.interrupted("keep_gates")?;
        let mut tables = self.tables();
        if !tables.nodes.contains_key(&node) {
            return Ok(());
        }
        for GateWord { destination_id, record, holds, notes, .. } in words {
            notes.iter().for_each(|note| tables.note_operational(note));
            // Of a destination that was erased nothing is kept.
            if !tables.destinations.0.contains_key(destination_id) {
                continue;
            }
            let overtaken = tables.gates.get(destination_id).is_some_and(|kept| kept.kept_at > now);
            match record.clone() {
                _ if overtaken => None,
                Some(record) => tables.gates.insert(*destination_id, KeptGate { record, kept_at: now }),
                None => tables.gates.remove(destination_id),
            };
            tables.note(*destination_id, holds);
        }
        self.feed_signal.notify();
        self.note_signal.notify();
        Ok(())
    }

    async fn note_holds(&self, destination: DestinationId, holds: &[HoldRecord]) -> Result<(), StoreError> {
        let mut tables = self.tables();
        if tables.destinations.0.contains_key(&destination) {
            tables.note(destination, holds);
        }
        drop(tables);
        self.feed_signal.notify();
        Ok(())
    }

    async fn holds(
        &self,
        destination: DestinationId,
        before: Option<HoldKey>,
        limit: usize,
    ) -> Result<Vec<HoldRecord>, StoreError> {
        let tables = self.tables();
        let Some(kept) = tables.holds.get(&destination) else { return Ok(Vec::new()) };
        let before = before.map(|(since, reason)| (since, reason.as_str()));
        let older = kept.iter().rev().filter(|(key, _)| before.is_none_or(|before| **key < before));
        Ok(older.take(limit).map(|(_, hold)| hold.clone()).collect())
    }

    async fn prune_holds(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let mut left = limit;
        for kept in self.tables().holds.values_mut() {
            kept.retain(|_, hold| {
                let goes = left > 0 && hold.ended_at.is_some_and(|at| at < before);
                left -= usize::from(goes);
                !goes
            });
        }
        Ok(limit - left)
    }
}

impl Tables {
    fn note(&mut self, destination: DestinationId, holds: &[HoldRecord]) {
        let kept = self.holds.entry(destination).or_default();
        for hold in holds {
            let key = (hold.since, hold.reason.as_str());
            kept.insert(key, hold.clone());
            self.written_holds.push((destination, key));
        }
    }
}
