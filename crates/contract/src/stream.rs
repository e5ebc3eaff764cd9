//! What is told as it happens.

use crate::{DestinationStatus, HoldRecordView, HoldView, schema};
use domain::{
    delivery::{EndReason, Status},
    id::{AttemptId, DeliveryId, DestinationId, EventId, ReplayId, RouteId, SourceId},
    outcome::Outcome,
    pattern::Pattern,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A delivery as a change left it, with the attempt that made the change: `event: delivery.changed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = DeliveryChange)]
pub struct DeliveryChangeView {
    #[schema(value_type = schema::DeliveryId)]
    pub id: DeliveryId,
    #[schema(value_type = schema::EventId)]
    pub event_id: EventId,
    pub event_type: String,
    #[schema(value_type = schema::RouteId)]
    pub route_id: RouteId,
    #[schema(value_type = schema::DestinationId)]
    pub destination_id: DestinationId,
    #[schema(value_type = schema::DeliveryStatus)]
    pub status: Status,
    /// Why it ended undelivered.
    #[schema(value_type = Option<schema::EndReason>, required)]
    pub reason: Option<EndReason>,
    pub attempt_count: u32,
    pub retry_count: u32,
    #[schema(value_type = Option<schema::Outcome>, required)]
    pub last_outcome: Option<Outcome>,
    #[schema(required)]
    pub last_http_status: Option<u16>,
    #[schema(required)]
    pub sequence: Option<i64>,
    #[schema(required)]
    pub ordering_key: Option<String>,
    #[schema(value_type = schema::Timestamp)]
    pub created_at: Timestamp,
    /// Null when it has ended, and when more has happened to it since.
    #[schema(value_type = Option<schema::Timestamp>, required)]
    pub next_attempt_at: Option<Timestamp>,
    #[schema(value_type = Option<schema::Timestamp>, required)]
    pub ended_at: Option<Timestamp>,
    #[schema(value_type = Option<schema::ReplayId>, required)]
    pub replay_id: Option<ReplayId>,
    #[schema(value_type = Option<schema::DeliveryId>, required)]
    pub replay_of: Option<DeliveryId>,
    /// Null: it ended without one.
    #[schema(required)]
    pub attempt: Option<AttemptSummaryView>,
}

/// An attempt, in short. The list of the delivery's attempts has the rest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = AttemptSummary)]
pub struct AttemptSummaryView {
    #[schema(value_type = schema::AttemptId)]
    pub id: AttemptId,
    pub number: u32,
    #[schema(value_type = schema::Timestamp)]
    pub started_at: Timestamp,
    pub duration_ms: u64,
    #[schema(value_type = Option<schema::Outcome>, required)]
    pub outcome: Option<Outcome>,
    #[schema(required)]
    pub http_status: Option<u16>,
}

/// How a destination is doing after one of its holds began, changed or ended: `event: destination.changed`. What it has
/// of the destination is as the destination itself shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = DestinationChange)]
pub struct DestinationChangeView {
    #[schema(value_type = schema::DestinationId)]
    pub id: DestinationId,
    pub status: DestinationStatus,
    /// Why its deliveries wait; null when they do not.
    #[schema(required)]
    pub hold: Option<HoldView>,
    #[schema(value_type = Option<schema::Timestamp>, required)]
    pub throttled_until: Option<Timestamp>,
    #[schema(required)]
    pub throttle_reason: Option<String>,
    /// The line of its history that was written.
    pub change: HoldRecordView,
}

/// Different filters narrow, the values of one widen; none is no filter.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct StreamQuery {
    /// Which events.
    #[param(inline, required = false, max_items = 50)]
    pub kind: Vec<StreamKind>,
    #[param(value_type = Vec<schema::DestinationRef>, required = false, max_items = 50)]
    pub destination_id: Vec<DestinationId>,
    /// Of the delivery, as the change left it: `retry_scheduled`, `delivered`, `dead_letter` or `cancelled`.
    #[param(value_type = Vec<schema::ChangedStatus>, required = false, max_items = 50)]
    pub status: Vec<Status>,
    /// Of the attempt.
    #[param(value_type = Vec<schema::Outcome>, required = false, max_items = 50)]
    pub outcome: Vec<Outcome>,
    /// Event type, or a pattern of it.
    #[serde(rename = "type")]
    #[param(value_type = Vec<schema::EventTypePattern>, required = false, max_items = 50)]
    pub types: Vec<Pattern>,
    #[param(value_type = Vec<schema::SourceRef>, required = false, max_items = 50)]
    pub source_id: Vec<SourceId>,
    #[param(value_type = Vec<schema::RouteRef>, required = false, max_items = 50)]
    pub route_id: Vec<RouteId>,
    #[param(value_type = Vec<schema::ReplayId>, required = false, max_items = 50)]
    pub replay_id: Vec<ReplayId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum StreamKind {
    #[serde(rename = "event.received")]
    Event,
    #[serde(rename = "delivery.changed")]
    Delivery,
    #[serde(rename = "destination.changed")]
    Destination,
}
