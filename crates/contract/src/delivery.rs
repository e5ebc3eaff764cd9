//! Deliveries, and the filters of their list.

use crate::{AttemptView, schema};
use domain::{
    delivery::{EndReason, Status},
    id::{ApiKeyId, DeliveryId, DestinationId, EventId, PortalLinkId, ReplayId, RouteId, SourceId, UserId},
    lane::WaitKind,
    outcome::Outcome,
    pattern::Pattern,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// The promise to bring one event to one destination.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
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
    #[schema(value_type = schema::DeliveryStatus)]
    pub status: Status,
    /// Why it ended undelivered.
    #[schema(value_type = Option<schema::EndReason>, required)]
    pub reason: Option<EndReason>,
    pub attempt_count: u32,
    /// Retries taken from the schedule: a throttled attempt takes none.
    pub retry_count: u32,
    #[schema(value_type = Option<schema::Outcome>, required)]
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
    /// The delivery that was replayed first: a replay of a replay names the same.
    #[schema(value_type = Option<schema::DeliveryId>, required)]
    pub replay_of: Option<DeliveryId>,
    /// Null when it is being delivered or has ended.
    #[schema(required)]
    pub waiting_for: Option<WaitingForView>,
    /// Of a dead letter that is settled: since when. Its status stays what it is.
    #[serde(default)]
    #[schema(value_type = Option<schema::Timestamp>, required)]
    pub resolved_at: Option<Timestamp>,
    /// By what: a delivery of its chain that was delivered, or the key of whoever dismissed it.
    #[serde(default)]
    #[schema(required)]
    pub resolved_by: Option<ResolvedByView>,
    /// What was said when it was dismissed.
    #[serde(default)]
    #[schema(required)]
    pub dismissal_note: Option<String>,
}

/// What has settled a dead letter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schema(as = ResolvedBy)]
pub enum ResolvedByView {
    /// A replay that was delivered: its delivery.
    Delivery {
        #[schema(value_type = schema::DeliveryId)]
        delivery_id: DeliveryId,
    },
    /// A person, by hand: the key that was used.
    Key {
        #[schema(value_type = schema::ApiKeyId)]
        key_id: ApiKeyId,
    },
    /// A person who signed in with a password.
    User {
        #[schema(value_type = schema::UserId)]
        user_id: UserId,
    },
    /// A person who came by a portal link.
    PortalLink {
        #[schema(value_type = schema::PortalLinkId)]
        portal_link_id: PortalLinkId,
    },
}

/// Whether dead letters that are settled are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResolvedFilter {
    /// Only those.
    True,
    /// All but those.
    False,
    /// Whatever there is.
    Any,
}

impl ResolvedFilter {
    /// None: whatever there is.
    pub const fn wanted(self) -> Option<bool> {
        match self {
            Self::True => Some(true),
            Self::False => Some(false),
            Self::Any => None,
        }
    }

    pub const fn of(wanted: Option<bool>) -> Self {
        match wanted {
            Some(true) => Self::True,
            Some(false) => Self::False,
            None => Self::Any,
        }
    }
}

/// What a delivery waits for, and until when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = WaitingFor)]
pub struct WaitingForView {
    #[schema(value_type = schema::WaitKind)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = DeliveryDetail)]
pub struct DeliveryDetailView {
    #[serde(flatten)]
    pub delivery: DeliveryView,
    /// Oldest first.
    pub attempts: Vec<AttemptView>,
}

/// Different filters narrow, the values of one widen; none is no filter.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, IntoParams, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
#[schema(as = DeliveryFilter)]
pub struct DeliveryQuery {
    #[param(value_type = Vec<schema::DeliveryStatus>, required = false, max_items = 50)]
    #[schema(value_type = Vec<schema::EndedStatus>, max_items = 50)]
    pub status: Vec<Status>,
    /// Why it ended undelivered.
    #[param(value_type = Vec<schema::EndReason>, required = false, max_items = 50)]
    #[schema(value_type = Vec<schema::EndReason>, max_items = 50)]
    pub reason: Vec<String>,
    #[param(value_type = Vec<schema::EventId>, required = false, max_items = 50)]
    #[schema(value_type = Vec<schema::EventId>, max_items = 50)]
    pub event_id: Vec<EventId>,
    #[param(value_type = Vec<schema::DestinationRef>, required = false, max_items = 50)]
    #[schema(value_type = Vec<schema::DestinationRef>, max_items = 50)]
    pub destination_id: Vec<DestinationId>,
    #[param(value_type = Vec<schema::RouteRef>, required = false, max_items = 50)]
    #[schema(value_type = Vec<schema::RouteRef>, max_items = 50)]
    pub route_id: Vec<RouteId>,
    #[param(value_type = Vec<schema::SourceRef>, required = false, max_items = 50)]
    #[schema(value_type = Vec<schema::SourceRef>, max_items = 50)]
    pub source_id: Vec<SourceId>,
    /// Event type, or a pattern of it.
    #[serde(rename = "type")]
    #[param(value_type = Vec<schema::EventTypePattern>, required = false, max_items = 50)]
    #[schema(value_type = Vec<schema::EventTypePattern>, max_items = 50)]
    pub types: Vec<Pattern>,
    /// Of the last attempt.
    #[param(value_type = Vec<schema::HttpStatus>, required = false, max_items = 50)]
    #[schema(value_type = Vec<schema::HttpStatus>, max_items = 50)]
    pub http_status: Vec<u16>,
    #[param(value_type = Vec<schema::ReplayId>, required = false, max_items = 50)]
    #[schema(value_type = Vec<schema::ReplayId>, max_items = 50)]
    pub replay_id: Vec<ReplayId>,
    /// Created at this time or later.
    #[param(value_type = Option<schema::Timestamp>)]
    #[schema(value_type = Option<schema::Timestamp>)]
    pub since: Option<Timestamp>,
    /// Created before this time.
    #[param(value_type = Option<schema::Timestamp>)]
    #[schema(value_type = Option<schema::Timestamp>)]
    pub until: Option<Timestamp>,
    /// Whether dead letters that are settled are meant: `true` only those, `false` all but those. Left out, a list has any,
    /// and a replay takes `false`. Left out of a request that says nothing of it: its key stands for the same text as before.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(inline)]
    #[schema(inline)]
    pub resolved: Option<ResolvedFilter>,
}
