//! What the owners of lanes saw of them: slots that were taken and denied, and what waited. No fact tells it, so each owner
//! notes it by the minute, for itself: a lane that moves has two owners in one minute, and neither writes over the other.
//! Hours and days are summed up from that by the chore that sums up everything else.

use crate::{StoreError, Term};
use async_trait::async_trait;
use domain::{
    id::{AccountId, DestinationId, NodeId},
    rollup::Span,
    time::Timestamp,
};

#[async_trait]
pub trait LaneRollups: Send + Sync {
    /// Writes minutes as this node saw them over what it wrote of them before; what others wrote stays.
    async fn write_lane_minutes(&self, node: NodeId, rows: &[LaneRollup]) -> Result<(), StoreError>;

    /// Writes hours or days over what was there. False, and nothing is written, once the term is over.
    async fn write_lane_rollups(
        &self,
        term: Term,
        span: Span,
        rows: &[LaneRollup],
    ) -> Result<bool, StoreError>;

    /// What began in `[from, to)`, oldest first: of a destination, or of the account as a whole. Of a minute as many as it
    /// had owners.
    async fn lane_rollups(
        &self,
        account: AccountId,
        destination: Option<DestinationId>,
        span: Span,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<(Timestamp, String)>, StoreError>;

    /// All that began at this moment, at most `limit`, in order; from the next place on after the last that was given.
    async fn lane_rollups_at(
        &self,
        span: Span,
        starts_at: Timestamp,
        after: Option<LanePlace>,
        limit: usize,
    ) -> Result<Vec<(LanePlace, String)>, StoreError>;

    /// Removes those that began before then, at most so many. None once the term is over.
    async fn prune_lane_rollups(
        &self,
        term: Term,
        span: Span,
        before: Timestamp,
        limit: usize,
    ) -> Result<Option<usize>, StoreError>;
}

/// One row to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct LaneRollup {
    pub account_id: AccountId,
    /// None: the account as a whole.
    pub destination_id: Option<DestinationId>,
    pub starts_at: Timestamp,
    /// [`domain::rollup::LaneSums`], as JSON.
    pub doc: String,
}

impl LaneRollup {
    /// As it is stored: the account as a whole has the id that was never made.
    pub(crate) fn place(&self) -> DestinationId {
        self.destination_id.unwrap_or(DestinationId::MIN)
    }
}

/// Whose row it is, and who saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LanePlace {
    pub account_id: AccountId,
    /// None: the account as a whole.
    pub destination_id: Option<DestinationId>,
    /// The smallest there is where it is of all of them.
    pub node_id: NodeId,
}

impl LanePlace {
    pub(crate) fn stored(account_id: AccountId, destination_id: DestinationId, node_id: NodeId) -> Self {
        let destination_id = Some(destination_id).filter(|id| *id != DestinationId::MIN);
        Self { account_id, destination_id, node_id }
    }

    /// As it is stored; before all others without one.
    pub(crate) fn key(place: Option<Self>) -> (AccountId, DestinationId, NodeId) {
        place.map_or((AccountId::MIN, DestinationId::MIN, NodeId::MIN), |place| {
            (place.account_id, place.destination_id.unwrap_or(DestinationId::MIN), place.node_id)
        })
    }
}
