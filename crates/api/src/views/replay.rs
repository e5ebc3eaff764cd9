use super::schema;
use crate::deliveries::DeliveryQuery;
use domain::{
    id::{ApiKeyId, DeliveryId, DestinationId, ReplayId},
    limits,
    outcome::DeadReason,
    time::Timestamp,
};
use serde::Serialize;
use store::{DeadLetterGroup, Replay, ReplayStatus, Survey};
use utoipa::ToSchema;

/// Ended deliveries that were asked for again.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Replay)]
pub struct ReplayView {
    #[schema(value_type = schema::ReplayId)]
    pub id: ReplayId,
    #[schema(value_type = ReplayStatusWord)]
    pub status: &'static str,
    /// What it was asked for; null if it was given deliveries by their ids.
    #[schema(required)]
    pub filter: Option<DeliveryQuery>,
    /// Deliveries it makes a second.
    pub rate: u32,
    /// How many there are to replay.
    pub matched: u64,
    /// False: these were counted so far, and there may be more.
    pub matched_exact: bool,
    /// Deliveries made so far.
    pub created: u64,
    /// Of those made: ended well.
    pub delivered: u64,
    /// Of those made: ended as dead letters again.
    pub dead_letter: u64,
    /// Not made: their destination or their payload is gone (retention may have come first), they have not ended, or this
    /// replay has one of the same origin.
    pub skipped: u64,
    /// What keeps a running replay from making more; null if nothing does.
    #[schema(required)]
    pub waiting_for: Option<ReplayWaitView>,
    /// Until all are made, at its rate; null when it is not running, waits, or nobody knows how many there are.
    #[schema(required)]
    pub estimated_seconds: Option<u64>,
    #[schema(value_type = schema::ApiKeyId)]
    pub created_by: ApiKeyId,
    #[schema(value_type = schema::Timestamp)]
    pub created_at: Timestamp,
    /// When the last one was made, or it was cancelled.
    #[schema(value_type = Option<schema::Timestamp>, required)]
    pub finished_at: Option<Timestamp>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ReplayWait)]
pub struct ReplayWaitView {
    #[schema(value_type = ReplayWaitKind)]
    pub kind: &'static str,
    pub detail: &'static str,
}

#[derive(ToSchema)]
#[schema(as = ReplayWaitKind, rename_all = "snake_case")]
#[expect(dead_code, reason = "describes the one kind there is in the OpenAPI document")]
pub(crate) enum ReplayWaitKind {
    Backlog,
}

#[derive(ToSchema)]
#[schema(as = ReplayStatus, rename_all = "snake_case")]
#[expect(dead_code, reason = "describes store::ReplayStatus in the OpenAPI document")]
pub(crate) enum ReplayStatusWord {
    Running,
    Paused,
    Completed,
    Cancelled,
}

impl ReplayView {
    /// `full`: as much of its account waits as may.
    pub(crate) fn new(replay: Replay, full: bool) -> Self {
        let left = replay.matched.saturating_sub(replay.created + replay.skipped);
        let runs = replay.status == ReplayStatus::Running;
        Self {
            id: replay.id,
            status: replay.status.as_str(),
            filter: replay.filter.as_ref().map(DeliveryQuery::of),
            rate: replay.rate,
            matched: replay.matched,
            matched_exact: replay.matched_exact,
            created: replay.created,
            delivered: replay.delivered,
            dead_letter: replay.dead_letter,
            skipped: replay.skipped,
            waiting_for: (runs && full).then_some(ReplayWaitView {
                kind: "backlog",
                detail: "as much of the account waits to be delivered as may: it goes on when some of it is",
            }),
            estimated_seconds: (runs && replay.matched_exact && !full).then(|| seconds(left, replay.rate)),
            created_by: replay.created_by,
            created_at: replay.created_at,
            finished_at: replay.finished_at,
        }
    }
}

fn seconds(deliveries: u64, rate: u32) -> u64 {
    deliveries.div_ceil(u64::from(rate.max(1)))
}

/// What a replay would do.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ReplayEstimate)]
pub struct ReplayEstimateView {
    pub matched: u64,
    /// False: these were counted, and there may be more.
    pub matched_exact: bool,
    /// Those with the most first; at most 200.
    pub by_destination: Vec<DestinationCountView>,
    /// Until all are made, at the rate asked for.
    pub estimated_seconds: u64,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DestinationCount)]
pub struct DestinationCountView {
    #[schema(value_type = schema::DestinationId)]
    pub destination_id: DestinationId,
    pub count: u64,
}

impl ReplayEstimateView {
    pub fn new(survey: Survey, rate: u32) -> Self {
        let counts = survey.by_destination.into_iter();
        let mut by_destination: Vec<_> =
            counts.map(|(destination_id, count)| DestinationCountView { destination_id, count }).collect();
        by_destination.sort_by_key(|one| std::cmp::Reverse(one.count));
        by_destination.truncate(limits::REPLAY_DESTINATIONS_SHOWN);
        Self {
            matched: survey.matched,
            matched_exact: survey.exact,
            by_destination,
            estimated_seconds: seconds(survey.matched, rate),
        }
    }
}

/// Dead letters that have destination, reason and HTTP status in common.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DeadLetterGroup)]
pub struct DeadLetterGroupView {
    #[schema(value_type = schema::DestinationId)]
    pub destination_id: DestinationId,
    #[schema(value_type = String, example = "exhausted")]
    pub reason: DeadReason,
    /// Of the last attempt.
    #[schema(required)]
    pub http_status: Option<u16>,
    pub count: u64,
    /// When the oldest of them was created.
    #[schema(value_type = schema::Timestamp)]
    pub first_at: Timestamp,
    /// When the newest of them was created.
    #[schema(value_type = schema::Timestamp)]
    pub last_at: Timestamp,
    /// The newest.
    #[schema(value_type = schema::DeliveryId)]
    pub sample_delivery_id: DeliveryId,
}

impl From<&DeadLetterGroup> for DeadLetterGroupView {
    fn from(group: &DeadLetterGroup) -> Self {
        Self {
            destination_id: group.key.destination_id,
            reason: group.key.reason,
            http_status: group.key.http_status,
            count: group.count,
            first_at: group.oldest.made_at(),
            last_at: group.newest.made_at(),
            sample_delivery_id: group.newest,
        }
    }
}
