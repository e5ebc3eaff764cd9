use super::{
    delivery::{OutcomeWord, StatusWord},
    destination::HoldEntryView,
    schema,
};
use domain::{
    delivery::{Ending, Status},
    gate::HoldEntry,
    id::{AttemptId, DeliveryId, DestinationId, EventId, ReplayId, RouteId},
    outcome::Outcome,
    time::Timestamp,
};
use serde::Serialize;
use store::{FactAttempt, FactRecord};
use utoipa::ToSchema;

/// A delivery as a change left it, with the attempt that made the change: `event: delivery`.
#[derive(Debug, Serialize, ToSchema)]
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
    #[schema(value_type = StatusWord)]
    pub status: Status,
    /// Why it ended undelivered.
    #[schema(required)]
    pub reason: Option<&'static str>,
    pub attempt_count: u32,
    pub retry_count: u32,
    #[schema(value_type = Option<OutcomeWord>, required)]
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
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AttemptSummary)]
pub struct AttemptSummaryView {
    #[schema(value_type = schema::AttemptId)]
    pub id: AttemptId,
    pub number: u32,
    #[schema(value_type = schema::Timestamp)]
    pub started_at: Timestamp,
    pub duration_ms: u64,
    #[schema(value_type = Option<OutcomeWord>, required)]
    pub outcome: Option<Outcome>,
    #[schema(required)]
    pub http_status: Option<u16>,
}

/// A destination's hold that began, changed or ended: `event: hold`.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = HoldChange)]
pub struct HoldChangeView {
    #[schema(value_type = schema::DestinationId)]
    pub destination_id: DestinationId,
    #[serde(flatten)]
    pub hold: HoldEntryView,
}

impl DeliveryChangeView {
    pub fn new(fact: &FactRecord) -> Self {
        let (ending, ended_at): (Option<Ending>, _) = fact.ending.unzip();
        let attempt = |attempt: FactAttempt| AttemptSummaryView {
            id: attempt.id,
            number: fact.attempts,
            started_at: attempt.started_at,
            duration_ms: attempt.duration.as_millis() as u64,
            outcome: fact.outcome,
            http_status: fact.http_status,
        };
        Self {
            id: fact.delivery_id,
            event_id: fact.event_id,
            event_type: fact.event_type.clone(),
            route_id: fact.route_id,
            destination_id: fact.destination_id,
            status: ending.map_or(Status::RetryScheduled, Ending::status),
            reason: ending.and_then(Ending::reason),
            attempt_count: fact.attempts,
            retry_count: fact.spent,
            last_outcome: fact.outcome,
            last_http_status: fact.http_status,
            sequence: fact.sequence,
            ordering_key: fact.ordering_key.clone(),
            created_at: fact.delivery_id.made_at(),
            next_attempt_at: fact.next_attempt_at,
            ended_at,
            replay_id: fact.replay_id,
            replay_of: Some(fact.origin).filter(|origin| *origin != fact.delivery_id),
            attempt: fact.attempt.map(attempt),
        }
    }
}

impl HoldChangeView {
    pub fn new(destination_id: DestinationId, hold: &HoldEntry) -> Self {
        Self { destination_id, hold: hold.into() }
    }
}
