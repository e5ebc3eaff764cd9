//! What is remembered of gates. The node is not asked for: one process has the lock.

use super::{
    SqliteStore, operational_events,
    rows::Columns,
    statement::{bound, sql},
    trouble::Trouble,
    writer::Priority,
};
use crate::{GateWord, Gates, HoldKey, KeptGate, StoreError, gates::latest};
use async_trait::async_trait;
use domain::{
    gate::{HoldReason, HoldRecord},
    id::{DestinationId, NodeId},
    time::Timestamp,
};
use rusqlite::Connection;

const HOLDS: &str = sql!("holds");
const KEEP_GATES: &str = sql!("keep_gates");
const NOTE_HOLDS: &str = sql!("note_holds");
const PRUNE_HOLDS: &str = sql!("prune_holds");

#[async_trait]
impl Gates for SqliteStore {
    async fn keep_gates(&self, _node: NodeId, words: &[GateWord], now: Timestamp) -> Result<(), StoreError> {
        let words = words.to_owned();
        let told = words.iter().any(|word| !word.notes.is_empty());
        self.write(Priority::Settle, move |connection| keep(connection, &words, now)).await?;
        self.feed_signal.notify();
        if told {
            self.note_signal.notify();
        }
        Ok(())
    }

    async fn note_holds(&self, destination: DestinationId, holds: &[HoldRecord]) -> Result<(), StoreError> {
        let holds = holds.to_owned();
        self.write(Priority::Api, move |connection| {
            holds
                .iter()
                .try_for_each(|hold| note(connection, destination, hold, hold.ended_at.unwrap_or(hold.since)))
        })
        .await?;
        self.feed_signal.notify();
        Ok(())
    }

    async fn holds(
        &self,
        destination: DestinationId,
        before: Option<HoldKey>,
        limit: usize,
    ) -> Result<Vec<HoldRecord>, StoreError> {
        self.read(move |connection| {
            let (since, reason) =
                before.map_or((Timestamp::MAX, ""), |(since, reason)| (since, reason.as_str()));
            let holds = bound!(
                HOLDS,
                destination_id: destination,
                since: since,
                reason: reason,
                limit: limit,
            )
            .all(connection, hold)?;
            Ok(holds.into_iter().flatten().collect())
        })
        .await
    }

    async fn prune_holds(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.write(Priority::Bulk, move |connection| {
            Ok(bound!(PRUNE_HOLDS, before: before, limit: limit).execute(connection)?)
        })
        .await
    }
}

/// The gate as its owner left it. A newer version's words are none.
pub(super) fn kept(connection: &Connection, id: DestinationId) -> Result<Option<KeptGate>, Trouble> {
    bound!("select doc, updated_at from gates where destination_id = :destination_id", destination_id: id)
        .first(connection, |columns| {
            let (doc, kept_at) = (columns.text()?, columns.time()?);
            Ok(serde_json::from_str(doc).ok().map(|record| KeptGate { record, kept_at }))
        })
        .map(Option::flatten)
}

fn keep(connection: &Connection, words: &[GateWord], now: Timestamp) -> Result<(), Trouble> {
    let latest = latest(words);
    for (id, (shard, record)) in latest.records {
        let Some(record) = record else {
            bound!(
                "delete from gates where destination_id = :destination_id and updated_at <= :now",
                destination_id: id,
                now: now,
            )
            .execute(connection)?;
            continue;
        };
        let doc = serde_json::to_string(record).expect("texts and numbers are always JSON");
        bound!(KEEP_GATES, destination_id: id, shard: shard, now: now, doc: doc).execute(connection)?;
    }
    latest.holds.into_iter().try_for_each(|((id, ..), hold)| note(connection, id, hold, now))?;
    let mut notes = words.iter().flat_map(|word| &word.notes);
    notes.try_for_each(|note| operational_events::note(connection, note))
}

fn note(
    connection: &Connection,
    id: DestinationId,
    hold: &HoldRecord,
    now: Timestamp,
) -> Result<(), Trouble> {
    bound!(
        NOTE_HOLDS,
        destination_id: id,
        since: hold.since,
        reason: hold.reason.as_str(),
        until: hold.until,
        detail: hold.detail,
        step: hold.step,
        ended_at: hold.ended_at,
        now: now,
    )
    .execute(connection)?;
    Ok(())
}

/// `reason, since, until, detail, step, ended_at`. None: a reason that only a newer version knows.
pub(super) fn hold(columns: &mut Columns<'_>) -> Result<Option<HoldRecord>, Trouble> {
    let Ok(reason) = columns.text().unwrap_or_default().parse::<HoldReason>() else { return Ok(None) };
    Ok(Some(HoldRecord {
        reason,
        since: columns.time()?,
        until: columns.optional_time()?,
        detail: columns.get()?,
        step: columns.get()?,
        ended_at: columns.optional_time()?,
    }))
}
