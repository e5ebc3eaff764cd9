use super::{RetryPolicyView, SigningView, schema};
use domain::{
    id::{DestinationId, RouteId, SourceId},
    pattern::Pattern,
    retry::RetryPolicy,
    route::{Candidate, Route, Why},
    time::Timestamp,
};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

/// Which events of a source go to a destination.
#[derive(Debug, Serialize, ToSchema)]
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
    /// Null: the destination's.
    #[schema(value_type = Option<RetryPolicyView>, required)]
    pub retry_policy: Option<RetryPolicy>,
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

impl From<&Route> for RouteView {
    fn from(route: &Route) -> Self {
        Self {
            id: route.id,
            uid: route.uid.clone(),
            name: route.name.clone(),
            enabled: route.enabled,
            source_id: route.source_id,
            destination_id: route.destination_id,
            event_types: route.event_types.clone(),
            filter: route.filter.as_ref().map(|filter| filter.source().clone()),
            retry_policy: route.retry_policy.clone(),
            timeout_seconds: route.timeout_seconds,
            signing: route.signing.as_ref().map(SigningView::from),
            created_at: route.created_at,
            updated_at: route.updated_at,
        }
    }
}

/// Which routes an event would take.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Preview)]
pub struct PreviewView {
    /// Every route of the account, oldest first.
    pub data: Vec<RoutePreviewView>,
}

/// What one route says to an event.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RoutePreview)]
pub struct RoutePreviewView {
    #[schema(value_type = schema::RouteId)]
    pub route_id: RouteId,
    #[schema(value_type = schema::DestinationId)]
    pub destination_id: DestinationId,
    pub matches: bool,
    /// Null when it matches.
    #[schema(required)]
    pub why: Option<WhyView>,
}

/// The first thing that did not hold.
#[derive(Debug, PartialEq, Serialize, ToSchema)]
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

impl RoutePreviewView {
    pub fn new(route: &Route, event: &Candidate<'_>) -> Self {
        let why = route.refuses(event).map(|why| explain(why, route, event));
        Self { route_id: route.id, destination_id: route.destination_id, matches: why.is_none(), why }
    }
}

fn explain(why: Why, route: &Route, event: &Candidate<'_>) -> WhyView {
    let say = |path: &str, expected, found| WhyView { path: path.into(), expected, found };
    match why {
        Why::Disabled => say("enabled", json!(true), json!(false)),
        Why::OtherSource => say("source_id", json!(route.source_id), json!(event.source_id)),
        Why::EventType => say("type", json!(route.event_types), json!(event.event_type)),
        Why::Filter(mismatch) => WhyView {
            path: mismatch.path,
            expected: mismatch.expected,
            found: mismatch.found.unwrap_or_default(),
        },
    }
}
