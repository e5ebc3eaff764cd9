//! Replays and dead letters.

use crate::{DeliveryQuery, FanoutState, ResolvedFilter, schema};
use domain::{
    id::{DeliveryId, DestinationId, EventId, ReplayId, SourceId},
    outcome::{DeadReason, Outcome},
    pattern::Pattern,
    replay::ReplayStatus,
    session::Holder,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use utoipa::{IntoParams, ToSchema};

/// Ended deliveries that were asked for again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Replay)]
pub struct ReplayView {
    #[schema(value_type = schema::ReplayId)]
    pub id: ReplayId,
    #[schema(value_type = schema::ReplayStatus)]
    pub status: ReplayStatus,
    /// What it was asked for; null if it was given deliveries by their ids.
    #[schema(required)]
    pub filter: Option<DeliveryQuery>,
    /// Of one that was given ids: whether it takes dead letters that are settled. Left out of other replays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(inline)]
    pub resolved: Option<ResolvedFilter>,
    /// Of a backfill: the events it goes through. Left out of other replays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<BackfillEvents>,
    /// Of a backfill of one event: that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::EventId>)]
    pub event_id: Option<EventId>,
    /// Of a backfill: to these alone. Left out where it goes wherever the routes lead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<schema::DestinationId>, required = false, max_items = 50)]
    pub destination_ids: Vec<DestinationId>,
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
    /// Not made: their destination or their payload is gone (retention may have come first), they have not ended, they are
    /// settled (as far as those are not asked for), or this
    /// replay has one of the same origin. Of a backfill: events whose payload is gone or whose deliveries are still being made,
    /// and what was counted and got its delivery otherwise meanwhile.
    pub skipped: u64,
    /// What keeps a running replay from making more; null if nothing does.
    #[schema(required)]
    pub waiting_for: Option<ReplayWaitView>,
    /// Until all are made, at its rate; null when it is not running, waits, or it is not known how many there are.
    #[schema(required)]
    pub estimated_seconds: Option<u64>,
    /// The key or the user.
    #[schema(value_type = schema::HolderId)]
    pub created_by: Holder,
    #[schema(value_type = schema::Timestamp)]
    pub created_at: Timestamp,
    /// When the last one was made, or it was cancelled.
    #[schema(value_type = Option<schema::Timestamp>, required)]
    pub finished_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ReplayWait)]
pub struct ReplayWaitView {
    pub kind: ReplayWaitKind,
    pub detail: Cow<'static, str>,
}

/// What a replay would do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
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

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = DestinationCount)]
pub struct DestinationCountView {
    #[schema(value_type = schema::DestinationId)]
    pub destination_id: DestinationId,
    pub count: u64,
}

/// Dead letters that are not settled and have destination, reason, HTTP status and outcome in common.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = DeadLetterGroup)]
pub struct DeadLetterGroupView {
    #[schema(value_type = schema::DestinationId)]
    pub destination_id: DestinationId,
    /// Null if the destination can no longer be read.
    #[serde(default)]
    #[schema(required)]
    pub destination_name: Option<String>,
    #[schema(value_type = schema::DeadReason)]
    pub reason: DeadReason,
    /// Of the last attempt; null if there was none.
    #[serde(default)]
    #[schema(value_type = Option<schema::Outcome>, required)]
    pub outcome: Option<Outcome>,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplayWaitKind {
    /// As much of the account waits as may.
    Backlog,
}

/// The events that a backfill goes through: the filters of their list, as lists; all of them if it is empty.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BackfillEvents {
    /// Event type, or a pattern of it.
    #[serde(rename = "type", skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<schema::EventTypePattern>, required = false, max_items = 50)]
    pub types: Vec<Pattern>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<schema::SourceRef>, required = false, max_items = 50)]
    pub source_id: Vec<SourceId>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false, max_items = 50)]
    pub idempotency_key: Vec<String>,
    /// Has this tag.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<schema::Tag>, required = false, max_items = 50)]
    pub tag: Vec<String>,
    /// `unmatched`: those that no route led anywhere when they came. The other states change while a backfill runs, and are
    /// refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(inline)]
    pub fanout: Option<FanoutState>,
    /// Received at this time or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Timestamp>)]
    pub since: Option<Timestamp>,
    /// Received before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Timestamp>)]
    pub until: Option<Timestamp>,
}

/// By which routes a backfill goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BackfillMatch {
    /// By the routes as they are while it runs.
    Now,
}

/// One of `filter`, `delivery_ids` and `events`. `schema::ReplayInput` describes it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReplayInput {
    /// The filters of the list of deliveries, as lists; without `status`, dead letters.
    pub filter: Option<DeliveryQuery>,
    pub delivery_ids: Option<Vec<DeliveryId>>,
    /// With `delivery_ids`: whether those that are settled are replayed, or skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved: Option<ResolvedFilter>,
    /// A backfill: events that go through the routes of now. New members are left out of a request that has none of them: its
    /// key stands for the same text as before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<BackfillEvents>,
    /// Needed with `events`.
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    pub matching: Option<BackfillMatch>,
    /// With `events`: to these alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination_ids: Option<Vec<DestinationId>>,
    /// Deliveries to make a second.
    pub rate: Option<u32>,
    /// Only say how much there is.
    pub dry_run: bool,
}

/// Which groups of dead letters are wanted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DeadLetterGroupQuery {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<schema::DestinationRef>)]
    pub destination_id: Option<DestinationId>,
    /// Created on the day of this time, in UTC, or later: they are counted by whole days.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<schema::Timestamp>)]
    pub since: Option<Timestamp>,
    /// `false` and nothing else: groups are of what is not settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(inline)]
    pub resolved: Option<ResolvedFilter>,
}

/// One of `filter` and `delivery_ids`. `schema::DismissInput` describes it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DismissInput {
    /// The filters of the list of deliveries, as lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<DeliveryQuery>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery_ids: Option<Vec<DeliveryId>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What a dismissal has done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Dismissed)]
pub struct DismissedView {
    /// Dead letters that are settled by it.
    pub dismissed: u64,
    /// Ids that are no dead letters, or were settled before.
    pub skipped: u64,
    /// There is more that the filter may match: one request settles 10,000 and looks at 500,000.
    pub more: bool,
    /// Where to go on: the `until` of the filter of the next request; null if there is no more.
    #[schema(value_type = Option<schema::Timestamp>, required)]
    pub next_until: Option<Timestamp>,
}
