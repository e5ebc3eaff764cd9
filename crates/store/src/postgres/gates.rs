//! What is remembered of gates, fenced by the node's row.

use super::{
    PostgresStore,
    pool::{Param, params},
};
use crate::{GateWord, Gates, HoldKey, StoreError, gates::latest};
use async_trait::async_trait;
use domain::{
    gate::{HoldEntry, HoldReason},
    id::{DestinationId, NodeId},
    time::Timestamp,
};
use tokio_postgres::Row;
use uuid::Uuid;

pub(super) const KEEP_GATES: &str = include_str!("sql/keep_gates.sql");
pub(super) const HOLDS: &str = include_str!("sql/holds.sql");
pub(super) const PRUNE_HOLDS: &str = include_str!("sql/prune_holds.sql");

#[async_trait]
impl Gates for PostgresStore {
    async fn keep_gates(&self, node: NodeId, words: &[GateWord], now: Timestamp) -> Result<(), StoreError> {
        let latest = latest(words);
        let text = |record| serde_json::to_string(record).expect("texts and numbers are always JSON");
        let ids: Vec<Uuid> = latest.records.keys().map(|id| id.uuid()).collect();
        let docs: Vec<Option<String>> = latest.records.values().map(|(_, record)| record.map(text)).collect();
        let holds = Columns::of(latest.holds.into_iter().map(|((id, ..), hold)| (id, hold)));
        let (node, now) = (node.uuid(), now.micros());
        let mut params = params![node => UUID, now => INT8, ids => UUID_ARRAY, docs => TEXT_ARRAY].to_vec();
        params.extend(holds.params());
        self.pools.settle().await?.write(KEEP_GATES, &params).await?;
        self.stir.ring();
        Ok(())
    }

    async fn note_holds(&self, destination: DestinationId, holds: &[HoldEntry]) -> Result<(), StoreError> {
        let columns = Columns::of(holds.iter().map(|hold| (destination, hold)));
        let sql = include_str!("sql/note_holds.sql");
        self.pools.general().await?.write(sql, &columns.params()).await?;
        self.stir.ring();
        Ok(())
    }

    async fn holds(
        &self,
        destination: DestinationId,
        before: Option<HoldKey>,
        limit: usize,
    ) -> Result<Vec<HoldEntry>, StoreError> {
        let (since, reason) = before.map_or((Timestamp::MAX, ""), |(since, reason)| (since, reason.as_str()));
        let params = params![
            destination.uuid() => UUID, since.micros() => INT8, reason => TEXT, limit as i64 => INT8,
        ];
        let rows = self.pools.general().await?.read(HOLDS, params).await?;
        Ok(rows.iter().filter_map(hold).collect())
    }

    async fn prune_holds(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let params = params![before.micros() => INT8, limit as i64 => INT8];
        let rows = self.pools.general().await?.write(PRUNE_HOLDS, params).await?;
        Ok(rows.first().map_or(0, |row| row.get::<_, i64>(0) as usize))
    }
}

/// Holds, by columns.
#[derive(Default)]
struct Columns {
    destination_id: Vec<Uuid>,
    since: Vec<i64>,
    reason: Vec<&'static str>,
    until: Vec<Option<i64>>,
    detail: Vec<String>,
    step: Vec<Option<i32>>,
    ended_at: Vec<Option<i64>>,
}

impl Columns {
    fn of<'a>(holds: impl Iterator<Item = (DestinationId, &'a HoldEntry)>) -> Self {
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

    fn params(&self) -> Vec<Param<'_>> {
        params![
            self.destination_id => UUID_ARRAY, self.since => INT8_ARRAY, self.reason => TEXT_ARRAY,
            self.until => INT8_ARRAY, self.detail => TEXT_ARRAY, self.step => INT4_ARRAY,
            self.ended_at => INT8_ARRAY,
        ]
        .to_vec()
    }
}

/// None: a reason that only a newer version knows.
pub(super) fn hold(row: &Row) -> Option<HoldEntry> {
    let time = |at: Option<i64>| at.map(Timestamp::from_micros);
    Some(HoldEntry {
        reason: row.get::<_, &str>(0).parse::<HoldReason>().ok()?,
        since: Timestamp::from_micros(row.get(1)),
        until: time(row.get(2)),
        detail: row.get(3),
        step: row.get::<_, Option<i32>>(4).map(|step| step as u32),
        ended_at: time(row.get(5)),
    })
}
