//! What the owners of lanes saw of them.

use super::{
    PostgresStore,
    statement::{Statement, params, sql},
};
use crate::{LanePlace, LaneRollup, LaneRollups, StoreError, Term};
use async_trait::async_trait;
use domain::{
    id::{AccountId, DestinationId, NodeId},
    rollup::Span,
    time::Timestamp,
};
use std::sync::LazyLock;
use uuid::Uuid;

static WRITE_LANE_MINUTES: LazyLock<Statement> = sql!("write_lane_minutes");
static WRITE_LANE_ROLLUPS: LazyLock<Statement> = sql!("write_lane_rollups");
static LANE_ROLLUPS: LazyLock<Statement> = sql!("lane_rollups");
static LANE_ROLLUPS_AT: LazyLock<Statement> = sql!("lane_rollups_at");
static PRUNE_LANE_ROLLUPS: LazyLock<Statement> = sql!("prune_lane_rollups");

/// The rows, column by column.
struct RowColumns<'r> {
    accounts: Vec<Uuid>,
    places: Vec<Uuid>,
    starts: Vec<i64>,
    docs: Vec<&'r str>,
}

impl<'r> RowColumns<'r> {
    fn of(rows: &'r [LaneRollup]) -> Self {
        Self {
            accounts: rows.iter().map(|row| row.account_id.uuid()).collect(),
            places: rows.iter().map(|row| row.place().uuid()).collect(),
            starts: rows.iter().map(|row| row.starts_at.micros()).collect(),
            docs: rows.iter().map(|row| row.doc.as_str()).collect(),
        }
    }
}

#[async_trait]
impl LaneRollups for PostgresStore {
    async fn write_lane_minutes(&self, node: NodeId, rows: &[LaneRollup]) -> Result<(), StoreError> {
        let RowColumns { accounts, places, starts, docs } = RowColumns::of(rows);
        let params = params![
            node_id: node.uuid() => UUID, account_id: accounts => UUID_ARRAY, destination_id: places => UUID_ARRAY,
            starts_at: starts => INT8_ARRAY, doc: docs => TEXT_ARRAY,
        ];
        let connection = self.pools.general().await?;
        connection.write(&WRITE_LANE_MINUTES, params).await?;
        Ok(())
    }

    async fn write_lane_rollups(
        &self,
        term: Term,
        span: Span,
        rows: &[LaneRollup],
    ) -> Result<bool, StoreError> {
        let RowColumns { accounts, places, starts, docs } = RowColumns::of(rows);
        let params = params![
            chore: term.chore.as_str() => TEXT, node_id: term.node.uuid() => UUID, term: term.number => INT8,
            span: span.as_str() => TEXT, account_id: accounts => UUID_ARRAY, destination_id: places => UUID_ARRAY,
            starts_at: starts => INT8_ARRAY, doc: docs => TEXT_ARRAY,
        ];
        let connection = self.pools.general().await?;
        Ok(!connection.write(&WRITE_LANE_ROLLUPS, params).await?.is_empty())
    }

    async fn lane_rollups(
        &self,
        account: AccountId,
        destination: Option<DestinationId>,
        span: Span,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<(Timestamp, String)>, StoreError> {
        let params = params![
            account_id: account.uuid() => UUID,
            destination_id: destination.unwrap_or(DestinationId::MIN).uuid() => UUID,
            span: span.as_str() => TEXT, starts_since: from.micros() => INT8, starts_before: to.micros() => INT8,
        ];
        let connection = self.pools.general().await?;
        let found = connection.read(&LANE_ROLLUPS, params).await?;
        Ok(found.all(|cells| Ok((cells.get("starts_at")?, cells.get("doc")?)))?)
    }

    async fn lane_rollups_at(
        &self,
        span: Span,
        starts_at: Timestamp,
        after: Option<LanePlace>,
        limit: usize,
    ) -> Result<Vec<(LanePlace, String)>, StoreError> {
        let (account, destination, node) = LanePlace::key(after);
        let params = params![
            span: span.as_str() => TEXT, starts_at: starts_at.micros() => INT8, account_id: account.uuid() => UUID,
            destination_id: destination.uuid() => UUID, node_id: node.uuid() => UUID, limit: limit as i64 => INT8,
        ];
        let connection = self.pools.general().await?;
        let found = connection.read(&LANE_ROLLUPS_AT, params).await?;
        Ok(found.all(|cells| {
            let (account, destination) = (cells.get("account_id")?, cells.get("destination_id")?);
            Ok((LanePlace::stored(account, destination, cells.get("node_id")?), cells.get("doc")?))
        })?)
    }

    async fn prune_lane_rollups(
        &self,
        term: Term,
        span: Span,
        before: Timestamp,
        limit: usize,
    ) -> Result<Option<usize>, StoreError> {
        let params = params![
            chore: term.chore.as_str() => TEXT, node_id: term.node.uuid() => UUID, term: term.number => INT8,
            span: span.as_str() => TEXT, starts_before: before.micros() => INT8, limit: limit as i64 => INT8,
        ];
        let connection = self.pools.general().await?;
        Ok(connection.write(&PRUNE_LANE_ROLLUPS, params).await?.first_value("gone")?)
    }
}
