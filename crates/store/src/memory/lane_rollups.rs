//! What the owners of lanes saw of them.

use super::MemoryStore;
use crate::{LanePlace, LaneRollup, LaneRollups, StoreError, Term};
use async_trait::async_trait;
use domain::{
    id::{AccountId, DestinationId, NodeId},
    rollup::Span,
    time::Timestamp,
};

#[async_trait]
impl LaneRollups for MemoryStore {
    async fn write_lane_minutes(&self, node: NodeId, rows: &[LaneRollup]) -> Result<(), StoreError> {
        let mut tables = self.tables();
        for row in rows {
            let place = (Span::Minute, row.starts_at, row.account_id, row.place(), node);
            tables.lane_rollups.insert(place, row.doc.clone());
        }
        Ok(())
    }

    async fn write_lane_rollups(
        &self,
        term: Term,
        span: Span,
        rows: &[LaneRollup],
    ) -> Result<bool, StoreError> {
        let mut tables = self.tables();
        let stands = tables.stands(term);
        for row in rows.iter().filter(|_| stands) {
            let place = (span, row.starts_at, row.account_id, row.place(), NodeId::MIN);
            tables.lane_rollups.insert(place, row.doc.clone());
        }
        Ok(stands)
    }

    async fn lane_rollups(
        &self,
        account: AccountId,
        destination: Option<DestinationId>,
        span: Span,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<(Timestamp, String)>, StoreError> {
        let tables = self.tables();
        let place = destination.unwrap_or(DestinationId::MIN);
        let mine = tables.lane_rollups.iter().filter(|((of, at, owner, destination, _), _)| {
            (*of, *owner, *destination) == (span, account, place) && (from..to).contains(at)
        });
        Ok(mine.map(|((_, at, ..), doc)| (*at, doc.clone())).collect())
    }

    async fn lane_rollups_at(
        &self,
        span: Span,
        starts_at: Timestamp,
        after: Option<LanePlace>,
        limit: usize,
    ) -> Result<Vec<(LanePlace, String)>, StoreError> {
        let tables = self.tables();
        let after = LanePlace::key(after);
        let there = tables.lane_rollups.iter().filter(|((of, at, account, destination, node), _)| {
            (*of, *at) == (span, starts_at) && (*account, *destination, *node) > after
        });
        let row = |((_, _, account, destination, node), doc): (&(_, _, _, _, _), &String)| {
            (LanePlace::stored(*account, *destination, *node), doc.clone())
        };
        Ok(there.take(limit).map(row).collect())
    }

    async fn prune_lane_rollups(
        &self,
        term: Term,
        span: Span,
        before: Timestamp,
        limit: usize,
    ) -> Result<Option<usize>, StoreError> {
        let mut tables = self.tables();
        if !tables.stands(term) {
            return Ok(None);
        }
        let old = tables.lane_rollups.keys().filter(|(of, at, ..)| *of == span && *at < before);
        let old: Vec<_> = old.take(limit).copied().collect();
        for place in &old {
            tables.lane_rollups.remove(place);
        }
        Ok(Some(old.len()))
    }
}
