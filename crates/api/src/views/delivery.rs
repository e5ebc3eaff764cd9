use super::{AttemptView, schema};
use domain::{
    delivery::Status,
    id::{DeliveryId, DestinationId, EventId, ReplayId, RouteId},
    lane::{WaitKind, WaitingFor},
    outcome::Outcome,
    time::Timestamp,
};
use serde::Serialize;
use store::{DeliveryRecord, DeliveryState};
use utoipa::ToSchema;

/// The promise to bring one event to one destination.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Delivery)]
pub struct DeliveryView {
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
    #[schema(required, example = "exhausted")]
    pub reason: Option<&'static str>,
    pub attempt_count: u32,
    /// Retries taken from the schedule: a throttled attempt takes none.
    pub retry_count: u32,
    #[schema(value_type = Option<OutcomeWord>, required)]
    pub last_outcome: Option<Outcome>,
    #[schema(required)]
    pub last_http_status: Option<u16>,
    /// Its number at an ordered destination.
    #[schema(required)]
    pub sequence: Option<i64>,
    #[schema(required)]
    pub ordering_key: Option<String>,
    #[schema(value_type = schema::Timestamp)]
    pub created_at: Timestamp,
    /// When it is due by its schedule; null when it is being delivered or has ended.
    #[schema(value_type = Option<schema::Timestamp>, required)]
    pub next_attempt_at: Option<Timestamp>,
    #[schema(value_type = Option<schema::Timestamp>, required)]
    pub ended_at: Option<Timestamp>,
    #[schema(value_type = Option<schema::ReplayId>, required)]
    pub replay_id: Option<ReplayId>,
    /// The delivery it repeats.
    #[schema(value_type = Option<schema::DeliveryId>, required)]
    pub replay_of: Option<DeliveryId>,
    /// Null when it is being delivered or has ended.
    #[schema(required)]
    pub waiting_for: Option<WaitingForView>,
}

/// What a delivery waits for, and until when.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WaitingFor)]
pub struct WaitingForView {
    #[schema(value_type = WaitKindWord)]
    pub kind: WaitKind,
    #[schema(value_type = schema::Timestamp)]
    pub since: Timestamp,
    #[schema(value_type = Option<schema::Timestamp>, required)]
    pub until: Option<Timestamp>,
    /// The delivery that must end first.
    #[schema(value_type = Option<schema::DeliveryId>, required)]
    pub behind: Option<DeliveryId>,
    pub detail: String,
}

/// A delivery with its attempts.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DeliveryDetail)]
pub struct DeliveryDetailView {
    #[serde(flatten)]
    pub delivery: DeliveryView,
    /// Oldest first.
    pub attempts: Vec<AttemptView>,
}

#[derive(ToSchema)]
#[schema(as = DeliveryStatus, rename_all = "snake_case")]
#[expect(dead_code, reason = "describes domain::delivery::Status in the OpenAPI document")]
pub(crate) enum StatusWord {
    Queued,
    Delivering,
    RetryScheduled,
    Delivered,
    DeadLetter,
    Cancelled,
}

#[derive(ToSchema)]
#[schema(as = Outcome, rename_all = "snake_case")]
#[expect(dead_code, reason = "describes domain::outcome::Outcome in the OpenAPI document")]
pub(crate) enum OutcomeWord {
    Success,
    Throttled,
    ServerError,
    Timeout,
    Gone,
    Rejected,
    NetworkError,
    TlsError,
    Blocked,
    InternalError,
    Undeliverable,
}

#[derive(ToSchema)]
#[schema(as = WaitKind, rename_all = "snake_case")]
#[expect(dead_code, reason = "describes domain::lane::WaitKind in the OpenAPI document")]
pub(crate) enum WaitKindWord {
    Schedule,
    DeliverAt,
    Concurrency,
    Capacity,
    Rate,
    Throttle,
    Breaker,
    Order,
    Paused,
    NoWorker,
}

impl DeliveryView {
    /// `waiting_for` is the lane's word about a delivery that has not ended: None says that it is being delivered.
    pub fn new(record: &DeliveryRecord, waiting_for: Option<WaitingFor>) -> Self {
        let mut view = Self {
            id: record.id,
            event_id: record.event_id,
            event_type: record.event_type.clone(),
            route_id: record.route_id,
            destination_id: record.destination_id,
            status: Status::Delivering,
            reason: None,
            attempt_count: record.attempts,
            retry_count: record.spent,
            last_outcome: record.last_outcome,
            last_http_status: record.last_http_status,
            sequence: record.sequence,
            ordering_key: record.ordering_key.clone(),
            created_at: record.created_at,
            next_attempt_at: None,
            ended_at: None,
            replay_id: record.replay_id,
            replay_of: Some(record.origin).filter(|origin| *origin != record.id),
            waiting_for: None,
        };
        match (&record.state, waiting_for) {
            (DeliveryState::Ended { ending, at }, _) => {
                view.status = ending.status();
                view.reason = ending.reason();
                view.ended_at = Some(*at);
            }
            (DeliveryState::Waiting(delivery), Some(waiting_for)) => {
                view.status = if record.attempts == 0 { Status::Queued } else { Status::RetryScheduled };
                view.next_attempt_at = Some(delivery.due_at);
                view.waiting_for = Some(waiting_for.into());
            }
            (DeliveryState::Waiting(_), None) => {}
        }
        view
    }
}

impl From<WaitingFor> for WaitingForView {
    fn from(wait: WaitingFor) -> Self {
        Self {
            kind: wait.kind,
            since: wait.since,
            until: wait.until,
            behind: wait.behind,
            detail: wait.detail,
        }
    }
}
