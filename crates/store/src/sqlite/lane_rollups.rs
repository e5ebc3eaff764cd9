//! What the owners of lanes saw of them. There is one owner here at a time; each start of it is another.

use super::{
    SqliteStore,
    statement::{bound, sql},
    writer::Priority,
};
use crate::{LanePlace, LaneRollup, LaneRollups, StoreError, Term};
use async_trait::async_trait;
use domain::{
    id::{AccountId, DestinationId, NodeId},
    rollup::Span,
    time::Timestamp,
};

const WRITE_LANE_MINUTES: &str = sql!("write_lane_minutes");
const WRITE_LANE_ROLLUPS: &str = sql!("write_lane_rollups");
const LANE_ROLLUPS: &str = sql!("lane_rollups");
const LANE_ROLLUPS_AT: &str = sql!("lane_rollups_at");
const PRUNE_LANE_ROLLUPS: &str = sql!("prune_lane_rollups");

#[async_trait]
impl LaneRollups for SqliteStore {
    async fn write_lane_minutes(&self, node: NodeId, rows: &[LaneRollup]) -> Result<(), StoreError> {
        let rows = rows.to_owned();
        self.write(Priority::Bulk, move |connection| {
            for row in &rows {
                bound!(
                    WRITE_LANE_MINUTES,
                    account_id: row.account_id,
                    destination_id: row.place(),
                    starts_at: row.starts_at,
                    node_id: node,
                    doc: row.doc,
                )
                .execute(connection)?;
            }
            Ok(())
        })
        .await
    }

    async fn write_lane_rollups(
        &self,
        _term: Term,
        span: Span,
        rows: &[LaneRollup],
    ) -> Result<bool, StoreError> {
        let rows = rows.to_owned();
        self.write(Priority::Bulk, move |connection| {
            for row in &rows {
                bound!(
                    WRITE_LANE_ROLLUPS,
                    account_id: row.account_id,
                    destination_id: row.place(),
                    span: span.as_str(),
                    starts_at: row.starts_at,
                    doc: row.doc,
                )
                .execute(connection)?;
            }
            Ok(true)
        })
        .await
    }

    async fn lane_rollups(
        &self,
        account: AccountId,
        destination: Option<DestinationId>,
        span: Span,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<(Timestamp, String)>, StoreError> {
        self.read(move |connection| {
            bound!(
                LANE_ROLLUPS,
                account_id: account,
                destination_id: destination.unwrap_or(DestinationId::MIN),
                span: span.as_str(),
                from: from,
                to: to,
            )
            .all(connection, |columns| Ok((columns.time()?, columns.get()?)))
        })
        .await
    }

    async fn lane_rollups_at(
        &self,
        span: Span,
        starts_at: Timestamp,
        after: Option<LanePlace>,
        limit: usize,
    ) -> Result<Vec<(LanePlace, String)>, StoreError> {
        let (account, destination, node) = LanePlace::key(after);
        self.read(move |connection| {
            bound!(
                LANE_ROLLUPS_AT,
                span: span.as_str(),
                starts_at: starts_at,
                account_id: account,
                destination_id: destination,
                node_id: node,
                limit: limit,
            )
            .all(connection, |columns| {
                Ok((LanePlace::stored(columns.id()?, columns.id()?, columns.id()?), columns.get()?))
            })
        })
        .await
    }

    async fn prune_lane_rollups(
        &self,
        _term: Term,
        span: Span,
        before: Timestamp,
        limit: usize,
    ) -> Result<Option<usize>, StoreError> {
        self.write(Priority::Bulk, move |connection| {
            let pruned = bound!(PRUNE_LANE_ROLLUPS, span: span.as_str(), before: before, limit: limit)
                .execute(connection)?;
            Ok(Some(pruned))
        })
        .await
    }
}
