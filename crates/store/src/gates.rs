//! What the owner of a lane remembers of its gate, so that the next owner does too, and the history of holds.

use crate::StoreError;
use async_trait::async_trait;
use domain::{
    gate::{GateRecord, HoldReason, HoldRecord},
    id::{DestinationId, NodeId},
    operations::OperationalNote,
    time::Timestamp,
};

#[async_trait]
pub trait Gates: Send + Sync {
    /// Writes the owner's words, flushed; of two about one destination the later counts, and one that is older than what
    /// is kept counts for nothing. Written before the results that led to them, so that the next owner does not send into
    /// a hold. A node whose row is gone changes nothing (and hears of it with its next renewal).
    async fn keep_gates(&self, node: NodeId, words: &[GateWord], now: Timestamp) -> Result<(), StoreError>;

    /// Adds lines to a destination's history, or writes them anew: holds that a person ended.
    async fn note_holds(&self, destination: DestinationId, holds: &[HoldRecord]) -> Result<(), StoreError>;

    /// A destination's holds, the newest first, those that began before the given one; at most `limit`.
    async fn holds(
        &self,
        destination: DestinationId,
        before: Option<HoldKey>,
        limit: usize,
    ) -> Result<Vec<HoldRecord>, StoreError>;

    /// Forgets holds that ended before then, at most `limit`; says how many.
    async fn prune_holds(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError>;
}

/// What the owner says about a gate that has changed.
#[derive(Debug, Clone, PartialEq)]
pub struct GateWord {
    pub destination_id: DestinationId,
    pub shard: u16,
    /// None: there is nothing to remember any more.
    pub record: Option<GateRecord>,
    pub holds: Vec<HoldRecord>,
    /// What is told of the change, to those who want to be told.
    pub notes: Vec<OperationalNote>,
}

/// A gate as it was kept.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptGate {
    pub record: GateRecord,
    pub kept_at: Timestamp,
}

/// Where a hold stands in its destination's history: by its beginning, then by its reason's name.
pub type HoldKey = (Timestamp, HoldReason);

/// The last word about each destination, and every hold once, as it was last told.
pub(crate) fn latest(words: &[GateWord]) -> Latest<'_> {
    let mut latest = Latest::default();
    for word in words {
        latest.records.insert(word.destination_id, (word.shard, word.record.as_ref()));
        for hold in &word.holds {
            latest.holds.insert((word.destination_id, hold.since, hold.reason.as_str()), hold);
        }
    }
    latest
}

#[derive(Default)]
pub(crate) struct Latest<'a> {
    pub(crate) records: std::collections::BTreeMap<DestinationId, (u16, Option<&'a GateRecord>)>,
    pub(crate) holds: std::collections::BTreeMap<(DestinationId, Timestamp, &'static str), &'a HoldRecord>,
}
