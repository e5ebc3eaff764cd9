//! What owners say about their lanes.

use super::{KeptLane, MemoryStore};
use crate::{LaneRow, PublishedLanes, StoreError};
use async_trait::async_trait;
use domain::{
    id::{DestinationId, NodeId},
    time::Timestamp,
};

#[async_trait]
impl PublishedLanes for MemoryStore {
    async fn publish_lanes(
        &self,
        _node: NodeId,
        lanes: &[LaneRow],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut tables = self.tables();
        for lane in lanes {
            let newer = tables.lanes.get(&lane.destination_id).is_some_and(|kept| kept.said_at > now);
            // Of a destination that was erased nothing is kept.
            if !newer && tables.destinations.0.contains_key(&lane.destination_id) {
                tables.lanes.insert(lane.destination_id, KeptLane { lane: lane.clone(), said_at: now });
            }
        }
        Ok(())
    }

    async fn published_lanes(
        &self,
        destinations: &[DestinationId],
        newer_than: Timestamp,
    ) -> Result<Vec<Option<LaneRow>>, StoreError> {
        let tables = self.tables();
        let lane = |id: &DestinationId| {
            let kept = tables.lanes.get(id).filter(|kept| kept.said_at > newer_than)?;
            Some(kept.lane.clone())
        };
        Ok(destinations.iter().map(lane).collect())
    }
}
