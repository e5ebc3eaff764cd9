//! Events as they are kept, and the filters of their list.

use crate::{DeliveryView, HeadersView, schema};
use domain::{
    event::EventType,
    id::{DestinationId, EventId, RouteId, SourceId},
    pattern::Pattern,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

/// One immutable thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Event)]
pub struct EventView {
    #[schema(value_type = schema::EventId)]
    pub id: EventId,
    #[serde(rename = "type")]
    #[schema(value_type = String, example = "payment.succeeded")]
    pub event_type: EventType,
    /// Null: published by API.
    #[schema(value_type = Option<schema::SourceId>, required)]
    pub source_id: Option<SourceId>,
    #[schema(required)]
    pub idempotency_key: Option<String>,
    pub content_type: String,
    pub size_bytes: u64,
    #[schema(required)]
    pub ordering_key: Option<String>,
    #[schema(value_type = schema::Metadata)]
    pub metadata: Map<String, Value>,
    /// What it is found by.
    #[serde(default)]
    #[schema(value_type = Vec<schema::Tag>, required, max_items = 8)]
    pub tags: Vec<String>,
    #[schema(value_type = schema::Timestamp)]
    pub received_at: Timestamp,
    #[schema(value_type = Option<schema::Timestamp>, required)]
    pub deliver_at: Option<Timestamp>,
    /// When its payload, its headers and the answers to it were erased.
    #[serde(default)]
    #[schema(value_type = Option<schema::Timestamp>, required)]
    pub payload_erased_at: Option<Timestamp>,
    pub fanout: FanoutView,
    /// Routes that matched too and delivered nothing, because an older route leads to the same destination: the first 100.
    /// Left out where there are none; of a large fan-out it is complete when that has been made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<schema::RouteId>, required = false, max_items = 100)]
    pub other_routes: Vec<RouteId>,
}

/// How far an event's deliveries are. A list counts a little over 1,000 deliveries of one event; asked for alone, all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Fanout)]
pub struct FanoutView {
    pub total: u32,
    /// Also by a replay, where the delivery itself is a dead letter.
    pub delivered: u32,
    pub waiting: u32,
    /// Dead letters that are not settled.
    pub dead_letter: u32,
    /// Dead letters that somebody has dismissed.
    #[serde(default)]
    #[schema(required)]
    pub dismissed: u32,
    pub cancelled: u32,
    /// False: there are more than were counted, in a list of events with very large fan-outs.
    pub exact: bool,
    /// Deliveries are still being made.
    pub expanding: bool,
    /// When the last delivery ended; null if one has not, or not all were counted. A dead letter ended when it died, however it
    /// was settled later.
    #[schema(value_type = Option<schema::Timestamp>, required)]
    pub completed_at: Option<Timestamp>,
}

/// An event with what it carried and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = EventDetail)]
pub struct EventDetailView {
    #[serde(flatten)]
    pub event: EventView,
    #[schema(value_type = schema::Headers)]
    pub headers: HeadersView,
    /// The payload as text up to 64 KiB; null if it is longer, not text or erased. The exact bytes are at `…/{id}/payload`.
    #[schema(required)]
    pub payload: Option<String>,
    /// The first 200, newest first.
    pub deliveries: Vec<DeliveryView>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventQuery {
    /// Event type, or a pattern of it.
    #[serde(rename = "type")]
    #[param(value_type = Vec<schema::EventTypePattern>, required = false, max_items = 50)]
    pub types: Vec<Pattern>,
    #[param(value_type = Vec<schema::SourceRef>, required = false, max_items = 50)]
    pub source_id: Vec<SourceId>,
    #[param(required = false, max_items = 50)]
    pub idempotency_key: Vec<String>,
    /// Has this tag.
    #[param(value_type = Vec<schema::Tag>, required = false, max_items = 50)]
    pub tag: Vec<String>,
    /// `metadata.<key>=<value>`, which no parameter of the document can say. The client does not send it.
    #[serde(skip_serializing)]
    #[param(ignore)]
    pub metadata: Vec<MetadataIs>,
    /// Received at this time or later.
    #[param(value_type = Option<schema::Timestamp>)]
    pub since: Option<Timestamp>,
    /// Received before this time.
    #[param(value_type = Option<schema::Timestamp>)]
    pub until: Option<Timestamp>,
    #[param(inline)]
    pub fanout: Option<FanoutState>,
    /// An event's id, or an idempotency key.
    pub q: Option<String>,
}

/// A member of the metadata and a value it may have. Read from one text, with a zero character between them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct MetadataIs {
    pub key: String,
    pub value: String,
}

impl TryFrom<String> for MetadataIs {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        let (key, value) = text.split_once('\0').ok_or("expected `metadata.<key>=<value>`")?;
        Ok(Self { key: key.into(), value: value.into() })
    }
}

/// Whether every delivery of an event has ended, or there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FanoutState {
    Incomplete,
    /// Also where there is none.
    Complete,
    /// No route led it anywhere, and nothing was made of it since.
    Unmatched,
}

/// Which destinations get an event again.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EventReplayInput {
    /// All that had it, if left out. Those that never had it get it by the routes of now: then all that are named, or none,
    /// never had it.
    #[schema(value_type = Option<Vec<schema::DestinationRef>>, min_items = 1, max_items = 50)]
    pub destination_ids: Option<Vec<DestinationId>>,
}
