//! The owner's last word about a lane worth looking at, for the API of other nodes. A node that is alone does not write it.

use crate::StoreError;
use async_trait::async_trait;
use domain::{
    gate::Hold,
    id::{DeliveryId, DestinationId, NodeId},
    lane::Binding,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};

#[async_trait]
pub trait PublishedLanes: Send + Sync {
    /// Overwrites what was said about these lanes before ([`domain::limits::LANES_PUBLISHED`] at most), unless that is
    /// newer than `now`.
    async fn publish_lanes(&self, node: NodeId, lanes: &[LaneRow], now: Timestamp) -> Result<(), StoreError>;

    /// The last word about each lane, in the order asked for; None where there is none newer than `newer_than`.
    async fn published_lanes(
        &self,
        destinations: &[DestinationId],
        newer_than: Timestamp,
    ) -> Result<Vec<Option<LaneRow>>, StoreError>;
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LaneRow {
    pub destination_id: DestinationId,
    pub shard: u16,
    pub in_flight: u32,
    pub hold: Option<Hold>,
    /// Deliveries whose request has been open for a while, in order; some of them if they are many.
    #[serde(default)]
    pub open: Vec<DeliveryId>,
    #[serde(default)]
    pub binding: Binding,
}
