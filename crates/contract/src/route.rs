//! Routes, and a preview of which match.

use crate::{RetrySettingsView, SigningInput, SigningView, schema};
use domain::{
    event::EventType,
    id::{DestinationId, EventId, RouteId, SourceId},
    pattern::Pattern,
    retry::RetrySettings,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// Which events of a source go to a destination.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Route)]
pub struct RouteView {
    #[schema(value_type = schema::RouteId)]
    pub id: RouteId,
    #[schema(required)]
    pub uid: Option<String>,
    #[schema(required)]
    pub name: Option<String>,
    pub enabled: bool,
    /// Null: events published by API.
    #[schema(value_type = Option<schema::SourceId>, required)]
    pub source_id: Option<SourceId>,
    #[schema(value_type = schema::DestinationId)]
    pub destination_id: DestinationId,
    #[schema(value_type = Vec<schema::EventTypePattern>)]
    pub event_types: Vec<Pattern>,
    #[schema(value_type = Option<schema::Filter>, required)]
    pub filter: Option<Value>,
    /// Null, and what is null in it: the destination's.
    #[schema(required)]
    pub retry_policy: Option<RetrySettingsView>,
    /// Null: the destination's.
    #[schema(required)]
    pub timeout_seconds: Option<u32>,
    /// Null: the destination's.
    #[schema(required)]
    pub signing: Option<SigningView>,
    #[schema(value_type = schema::Timestamp)]
    pub created_at: Timestamp,
    #[schema(value_type = schema::Timestamp)]
    pub updated_at: Timestamp,
}

/// Which routes an event would take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Preview)]
pub struct PreviewView {
    /// Every route of the account, oldest first.
    pub data: Vec<RoutePreviewView>,
    /// What the draft says to the event; only if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft: Option<DraftPreviewView>,
}

/// What a route that is not saved says to an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = DraftPreview)]
pub struct DraftPreviewView {
    pub matches: bool,
    /// Null when it matches.
    #[schema(required)]
    pub why: Option<WhyView>,
}

/// What one route says to an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = RoutePreview)]
pub struct RoutePreviewView {
    #[schema(value_type = schema::RouteId)]
    pub route_id: RouteId,
    #[schema(value_type = schema::DestinationId)]
    pub destination_id: DestinationId,
    pub matches: bool,
    /// It would deliver the event: of the routes that match and lead to one destination, the oldest does.
    pub delivers: bool,
    /// Null when it matches.
    #[schema(required)]
    pub why: Option<WhyView>,
}

/// The first thing that did not hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Why)]
pub struct WhyView {
    /// Where: in the event (`type`, `data.amount`, …), or `enabled` and `source_id` of the route.
    #[schema(example = "data.amount")]
    pub path: String,
    #[schema(value_type = schema::Anything)]
    pub expected: Value,
    /// Null when there is nothing at the path.
    #[schema(value_type = schema::Anything)]
    pub found: Value,
}

/// A route to be made. What is left out, or null, takes its default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRoute {
    /// Your own id of it, unique in the account.
    #[schema(value_type = Option<schema::Uid>)]
    pub uid: Option<String>,
    #[schema(value_type = Option<schema::Name>)]
    pub name: Option<String>,
    #[serde(default = "enabled")]
    #[schema(value_type = Option<bool>, default = true)]
    pub enabled: bool,
    /// Null: events published by API. Must be there; by its id or uid.
    #[schema(value_type = Option<schema::SourceRef>)]
    pub source_id: Option<SourceId>,
    /// Must be there; by its id or uid.
    #[schema(value_type = schema::DestinationRef)]
    pub destination_id: DestinationId,
    /// At least one of these must match; `["*"]` if left out. What Posthaste tells of itself (types that begin with
    /// `posthaste`) is taken only by patterns that begin with that segment.
    #[serde(default = "everything")]
    #[schema(value_type = Option<Vec<schema::EventTypePattern>>, min_items = 1, max_items = 64)]
    pub event_types: Vec<String>,
    /// Replaced as a whole, not merged: a `null` inside is a value to compare with.
    #[schema(value_type = Option<schema::Filter>)]
    pub filter: Option<Value>,
    /// Null, and what is left out of it: the destination's.
    #[serde(default)]
    #[schema(value_type = Option<schema::RetryPolicyInput>)]
    pub retry_policy: RetrySettings,
    /// Null: the destination's.
    #[schema(minimum = 1, maximum = 30)]
    pub timeout_seconds: Option<u32>,
    /// Null: the destination's. The secret is always the destination's.
    #[schema(value_type = Option<schema::SigningChoice>)]
    pub signing: Option<SigningInput>,
}

impl NewRoute {
    /// Everything that is published.
    pub fn to(destination_id: DestinationId) -> Self {
        Self {
            uid: None,
            name: None,
            enabled: enabled(),
            source_id: None,
            destination_id,
            event_types: everything(),
            filter: None,
            retry_policy: RetrySettings::default(),
            timeout_seconds: None,
            signing: None,
        }
    }

    /// Everything that comes in by a source.
    pub fn from_source(source_id: SourceId, destination_id: DestinationId) -> Self {
        Self { source_id: Some(source_id), ..Self::to(destination_id) }
    }
}

fn enabled() -> bool {
    true
}

fn everything() -> Vec<String> {
    vec!["*".into()]
}

/// An event that is there (`event_id`), or one as it might come. `schema::PreviewInput` describes it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PreviewInput {
    pub event_id: Option<EventId>,
    pub source_id: Option<SourceId>,
    #[serde(rename = "type")]
    pub event_type: Option<EventType>,
    pub data: Option<Value>,
    pub headers: Option<Map<String, Value>>,
    pub metadata: Option<Map<String, Value>>,
    pub draft: Option<DraftRoute>,
}

/// What a route would take that is not saved: tried on the event, whichever source that came by.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DraftRoute {
    /// At least one of these must match; `["*"]` if left out.
    #[schema(value_type = Option<Vec<schema::EventTypePattern>>, min_items = 1, max_items = 64)]
    pub event_types: Option<Vec<String>>,
    #[schema(value_type = Option<schema::Filter>)]
    pub filter: Option<Value>,
}
