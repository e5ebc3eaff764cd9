//! What is remembered of gates. Nobody asks which node it is: one process has the lock.

use super::{SqliteStore, row::Key as _, trouble::Trouble, writer::Turn};
use crate::{GateWord, Gates, HoldKey, KeptGate, StoreError, gates::latest};
use async_trait::async_trait;
use domain::{
    gate::{HoldEntry, HoldReason},
    id::{DestinationId, NodeId},
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

#[async_trait]
impl Gates for SqliteStore {
    async fn keep_gates(&self, _node: NodeId, words: &[GateWord], now: Timestamp) -> Result<(), StoreError> {
        let words = words.to_owned();
        self.write(Turn::Settle, move |connection| keep(connection, &words, now)).await?;
        self.stir.ring();
        Ok(())
    }

    async fn note_holds(&self, destination: DestinationId, holds: &[HoldEntry]) -> Result<(), StoreError> {
        let holds = holds.to_owned();
        self.write(Turn::Api, move |connection| {
            holds
                .iter()
                .try_for_each(|hold| note(connection, destination, hold, hold.ended_at.unwrap_or(hold.since)))
        })
        .await?;
        self.stir.ring();
        Ok(())
    }

    async fn holds(
        &self,
        destination: DestinationId,
        before: Option<HoldKey>,
        limit: usize,
    ) -> Result<Vec<HoldEntry>, StoreError> {
        self.read(move |connection| {
            let (since, reason) =
                before.map_or((Timestamp::MAX, ""), |(since, reason)| (since, reason.as_str()));
            let mut select = connection.prepare_cached(
                "select reason, since, until, detail, step, ended_at from holds
                 where destination_id = ?1 and (since, reason) < (?2, ?3)
                 order by since desc, reason desc limit ?4",
            )?;
            let mut rows = select.query(params![destination.blob(), since.micros(), reason, limit as i64])?;
            let mut holds = Vec::new();
            while let Some(row) = rows.next()? {
                holds.extend(hold(row)?);
            }
            Ok(holds)
        })
        .await
    }

    async fn prune_holds(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.write(Turn::Bulk, move |connection| {
            let mut prune = connection.prepare_cached(
                "delete from holds where (destination_id, since, reason) in
                   (select destination_id, since, reason from holds where ended_at < ?1 limit ?2)",
            )?;
            Ok(prune.execute(params![before.micros(), limit as i64])?)
        })
        .await
    }
}

/// The gate as its owner left it. A newer version's words are none.
pub(super) fn kept(connection: &Connection, id: DestinationId) -> Result<Option<KeptGate>, Trouble> {
    let mut select =
        connection.prepare_cached("select doc, updated_at from gates where destination_id = ?1")?;
    let row: Option<(String, i64)> =
        select.query_row([id.blob()], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    Ok(row.and_then(|(doc, at)| {
        let record = serde_json::from_str(&doc).ok()?;
        Some(KeptGate { record, kept_at: Timestamp::from_micros(at) })
    }))
}

fn keep(connection: &Connection, words: &[GateWord], now: Timestamp) -> Result<(), Trouble> {
    let latest = latest(words);
    for (id, (shard, record)) in latest.records {
        let Some(record) = record else {
            connection
                .prepare_cached("delete from gates where destination_id = ?1 and updated_at <= ?2")?
                .execute(params![id.blob(), now.micros()])?;
            continue;
        };
        let doc = serde_json::to_string(record).expect("texts and numbers are always JSON");
        connection
            .prepare_cached(
                "insert into gates (destination_id, shard, updated_at, doc) values (?1, ?2, ?3, ?4)
                 on conflict (destination_id) do update set updated_at = excluded.updated_at, doc = excluded.doc
                 where gates.updated_at <= excluded.updated_at",
            )?
            .execute(params![id.blob(), shard, now.micros(), doc])?;
    }
    latest.holds.into_iter().try_for_each(|((id, ..), hold)| note(connection, id, hold, now))
}

fn note(connection: &Connection, id: DestinationId, hold: &HoldEntry, now: Timestamp) -> Result<(), Trouble> {
    connection
        .prepare_cached(
            "insert into holds (destination_id, since, reason, until, detail, step, ended_at, changed_at)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7,
               max(?8, (select coalesce(max(changed_at), 0) + 1 from holds)))
             on conflict (destination_id, since, reason) do update
             set until = excluded.until, detail = excluded.detail, step = excluded.step, ended_at = excluded.ended_at,
               changed_at = excluded.changed_at",
        )?
        .execute(params![
            id.blob(),
            hold.since.micros(),
            hold.reason.as_str(),
            hold.until.map(Timestamp::micros),
            hold.detail,
            hold.step,
            hold.ended_at.map(Timestamp::micros),
            now.micros(),
        ])?;
    Ok(())
}

/// None: a reason that only a newer version knows.
pub(super) fn hold(row: &Row<'_>) -> Result<Option<HoldEntry>, Trouble> {
    let time = |at: Option<i64>| at.map(Timestamp::from_micros);
    let Ok(reason) = row.get_ref(0)?.as_str().unwrap_or_default().parse::<HoldReason>() else {
        return Ok(None);
    };
    Ok(Some(HoldEntry {
        reason,
        since: Timestamp::from_micros(row.get(1)?),
        until: time(row.get(2)?),
        detail: row.get(3)?,
        step: row.get(4)?,
        ended_at: time(row.get(5)?),
    }))
}
