use super::{account::retry_settings, destination::signing};
use contract::{DraftPreviewView, RoutePreviewView, RouteView, WhyView};
use domain::route::{Candidate, Deliverers, Route, RouteMismatch};
use serde_json::json;

pub(crate) fn route(route: &Route) -> RouteView {
    RouteView {
        id: route.id,
        uid: route.uid.clone(),
        name: route.name.clone(),
        enabled: route.enabled,
        source_id: route.source_id,
        destination_id: route.destination_id,
        event_types: route.event_types.clone(),
        filter: route.filter.as_ref().map(|filter| filter.source().clone()),
        retry_policy: retry_settings(&route.retry_policy),
        timeout_seconds: route.timeout_seconds,
        signing: route.signing.as_ref().map(signing),
        created_at: route.created_at,
        updated_at: route.updated_at,
    }
}

/// What a route says to an event, and whether it delivers it; the routes of a source come in the order of the table.
pub(crate) fn route_preview(
    route: &Route,
    event: &Candidate<'_>,
    deliverers: &mut Deliverers,
) -> RoutePreviewView {
    let why = route.refuses(event).map(|why| explain(why, route, event));
    let matches = why.is_none();
    let delivers = matches && deliverers.includes(route);
    RoutePreviewView { route_id: route.id, destination_id: route.destination_id, matches, delivers, why }
}

/// The same of one that is not saved.
pub(crate) fn draft_preview(draft: &Route, event: &Candidate<'_>) -> DraftPreviewView {
    let why = draft.refuses(event).map(|why| explain(why, draft, event));
    DraftPreviewView { matches: why.is_none(), why }
}

fn explain(why: RouteMismatch, route: &Route, event: &Candidate<'_>) -> WhyView {
    let say = |path: &str, expected, found| WhyView { path: path.into(), expected, found };
    match why {
        RouteMismatch::Disabled => say("enabled", json!(true), json!(false)),
        RouteMismatch::OtherSource => say("source_id", json!(route.source_id), json!(event.source_id)),
        RouteMismatch::EventType => say("type", json!(route.event_types), json!(event.event_type)),
        RouteMismatch::Filter(mismatch) => WhyView {
            path: mismatch.path,
            expected: mismatch.expected,
            found: mismatch.found.unwrap_or_default(),
        },
    }
}
