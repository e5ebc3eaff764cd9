//! What is remembered of gates, fenced by the node's row.

use super::{
    PostgresStore,
    operational_events::NoteColumns,
    rows::{Cells, Unreadable},
    statement::{Params, Statement, params, sql},
};
use crate::{GateWord, Gates, HoldKey, StoreError, gates::latest};
use async_trait::async_trait;
use domain::{
    gate::HoldRecord,
    id::{DestinationId, NodeId},
    time::Timestamp,
};
use std::sync::LazyLock;
use uuid::Uuid;

static KEEP_GATES: LazyLock<Statement> = sql!("keep_gates");
static NOTE_HOLDS: LazyLock<Statement> = sql!("note_holds");
static HOLDS: LazyLock<Statement> = sql!("holds");
static PRUNE_HOLDS: LazyLock<Statement> = sql!("prune_holds");

#[async_trait]
impl Gates for PostgresStore {
    async fn keep_gates(&self, node: NodeId, words: &[GateWord], now: Timestamp) -> Result<(), StoreError> {
        let latest = latest(words);
        let text = |record| serde_json::to_string(record).expect("texts and numbers are always JSON");
        let ids: Vec<Uuid> = latest.records.keys().map(|id| id.uuid()).collect();
        let docs: Vec<Option<String>> = latest.records.values().map(|(_, record)| record.map(text)).collect();
        let holds = HoldColumns::of(latest.holds.into_iter().map(|((id, ..), hold)| (id, hold)));
        let notes = NoteColumns::of(words.iter().flat_map(|word| &word.notes));
        let params = params![
            node_id: node.uuid() => UUID, now: now.micros() => INT8, gate_destination_id: ids => UUID_ARRAY,
            gate_doc: docs => TEXT_ARRAY, hold_destination_id: holds.destination_id => UUID_ARRAY,
            hold_since: holds.since => INT8_ARRAY, hold_reason: holds.reason => TEXT_ARRAY,
            hold_until: holds.until => INT8_ARRAY, hold_detail: holds.detail => TEXT_ARRAY,
            hold_step: holds.step => INT4_ARRAY, hold_ended_at: holds.ended_at => INT8_ARRAY,
            note_id: notes.id => UUID_ARRAY, note_account_id: notes.account_id => UUID_ARRAY,
            note_destination_id: notes.destination_id => UUID_ARRAY, note_kind: notes.kind => TEXT_ARRAY,
            note_data: notes.data => TEXT_ARRAY,
        ];
        self.pools.settle().await?.write(&KEEP_GATES, params).await?;
        self.feed_signal.notify();
        if !notes.id.is_empty() {
            self.note_signal.notify();
        }
        Ok(())
    }

    async fn note_holds(&self, destination: DestinationId, holds: &[HoldRecord]) -> Result<(), StoreError> {
        let columns = HoldColumns::of(holds.iter().map(|hold| (destination, hold)));
        self.pools.general().await?.write(&NOTE_HOLDS, columns.params()).await?;
        self.feed_signal.notify();
        Ok(())
    }

    async fn holds(
        &self,
        destination: DestinationId,
        before: Option<HoldKey>,
        limit: usize,
    ) -> Result<Vec<HoldRecord>, StoreError> {
        let (since, reason) = before.map_or((Timestamp::MAX, ""), |(since, reason)| (since, reason.as_str()));
        let params = params![
            destination_id: destination.uuid() => UUID, before_since: since.micros() => INT8,
            before_reason: reason => TEXT, limit: limit as i64 => INT8,
        ];
        let rows = self.pools.general().await?.read(&HOLDS, params).await?;
        Ok(rows.all(hold)?.into_iter().flatten().collect())
    }

    async fn prune_holds(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let params = params![ended_before: before.micros() => INT8, limit: limit as i64 => INT8];
        Ok(self.pools.general().await?.write(&PRUNE_HOLDS, params).await?.value("gone")?)
    }
}

/// Holds, by columns.
#[derive(Default)]
struct HoldColumns {
    destination_id: Vec<Uuid>,
    since: Vec<i64>,
    reason: Vec<&'static str>,
    until: Vec<Option<i64>>,
    detail: Vec<String>,
    step: Vec<Option<i32>>,
    ended_at: Vec<Option<i64>>,
}

impl HoldColumns {
    fn of<'a>(holds: impl Iterator<Item = (DestinationId, &'a HoldRecord)>) -> Self {
        let mut columns = Self::default();
        for (id, hold) in holds {
            columns.destination_id.push(id.uuid());
            columns.since.push(hold.since.micros());
            columns.reason.push(hold.reason.as_str());
            columns.until.push(hold.until.map(Timestamp::micros));
            columns.detail.push(hold.detail.clone());
            columns.step.push(hold.step.map(|step| step as i32));
            columns.ended_at.push(hold.ended_at.map(Timestamp::micros));
        }
        columns
    }

    fn params(&self) -> Params<'_, '_> {
        params![
            hold_destination_id: self.destination_id => UUID_ARRAY, hold_since: self.since => INT8_ARRAY,
            hold_reason: self.reason => TEXT_ARRAY, hold_until: self.until => INT8_ARRAY,
            hold_detail: self.detail => TEXT_ARRAY, hold_step: self.step => INT4_ARRAY,
            hold_ended_at: self.ended_at => INT8_ARRAY,
        ]
        .owned()
    }
}

/// None: a reason that only a newer version knows.
pub(super) fn hold(cells: &mut Cells<'_, '_>) -> Result<Option<HoldRecord>, Unreadable> {
    let Some(reason) = cells.known_word("reason")? else { return Ok(None) };
    Ok(Some(HoldRecord {
        reason,
        since: cells.get("since")?,
        until: cells.get("until")?,
        detail: cells.get("detail")?,
        step: cells.get("step")?,
        ended_at: cells.get("ended_at")?,
    }))
}
