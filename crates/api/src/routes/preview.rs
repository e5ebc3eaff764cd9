//! Which routes an event would take, and why not the others: the same function that ingest uses, without sending.

use super::{Matching, check_matching};
use crate::{
    app::App,
    auth::AccountCtx,
    error::ApiError,
    json::{self, Body},
    named, problems,
    validate::Checks,
    views,
};
use axum::{extract::State, response::Response};
use contract::{DraftRoute, PreviewInput, PreviewView, RoutePreviewView};
use domain::{
    account::Scope,
    event::EventType,
    id::{AccountId, DestinationId, RouteId, SourceId},
    json::Document,
    limits,
    route::{Candidate, Deliverers, Route, RouteTable},
    time::Timestamp,
};
use serde_json::Value;

/// Ask which routes an event would take, and whether a route that is not saved (`draft`) would take it. Nothing is sent, nothing
/// is kept. Scope `events:read`.
#[utoipa::path(
    post, path = "/v1/routes/preview", operation_id = "preview_routes", tag = "routes",
    request_body = contract::schema::PreviewInput,
    responses(
        (status = 200, description = "Routes that match come first, then the oldest; at most 10,000.", body = PreviewView),
        problems::Previewing,
    ),
)]
pub(crate) async fn preview(
    State(app): State<App>,
    ctx: AccountCtx,
    Body(mut body): Body<Value>,
) -> Result<Response, ApiError> {
    let account = ctx.require(Scope::EventsRead)?;
    named::resolve::<SourceId>(&app, Some(account), &mut body, "/source_id").await?;
    let input: PreviewInput = json::from_value(body)?;
    let draft = check(&input, account)?;
    if let Some(source) = input.source_id {
        app.store.source(account, source).await.map_err(super::refuse_reference)?;
    }
    let payload = match input.event_id {
        Some(id) => app.store.payload_size(account, id).await?.accepted,
        // What is not stored came in a request to the management API, and is as large as that may be.
        None => limits::MANAGEMENT_BODY_BYTES,
    };
    let room = app.answers.room(account, payload + limits::PAGE_MADE_BYTES).await?;
    // Whatever this process remembers, another may have changed it.
    let snapshot = app.admission.snapshots().newer_than(account, i64::MAX).await?;
    let event = match input.event_id {
        Some(id) => Some(app.open_event(app.store.event_payload(account, id).await?).await?),
        None => None,
    };
    let routes = snapshot.table.iter().count() + draft.iter().count();
    let judging = move || {
        let candidate = match &event {
            Some(event) => {
                let has_filter = draft.as_ref().is_some_and(|draft| draft.filter.is_some());
                Candidate::new(event, has_filter || snapshot.table.has_filters(event.source_id))
            }
            None => candidate(&input),
        };
        // It has no source of its own: it is tried on what there is.
        let draft = draft.map(|draft| Route { source_id: candidate.source_id, ..draft });
        PreviewView {
            data: judge(&snapshot.table, &candidate),
            draft: draft.map(|draft| views::draft_preview(&draft, &candidate)),
        }
    };
    let preview = app.admission.matcher().run(ctx.account_id(), routes, payload, judging).await?;
    room.json(&preview)
}

/// The draft as a route, if there is one.
fn check(input: &PreviewInput, account: AccountId) -> Result<Option<Route>, ApiError> {
    let mut checks = Checks::default();
    let inline = input.source_id.is_some()
        || input.event_type.is_some()
        || input.data.is_some()
        || input.headers.is_some()
        || input.metadata.is_some();
    if input.event_id.is_some() && inline {
        checks.refuse("/event_id", "not_allowed", "give an event's id or an event's members, not both");
    }
    if input.event_id.is_none() && input.event_type.is_none() {
        checks.refuse("/type", "missing_field", "give an event's id or at least its type");
    }
    let draft = input.draft.as_ref().map(|draft| as_route(draft, account, &mut checks));
    checks.done().map(|()| draft)
}

/// To no destination, which no event is about.
fn as_route(draft: &DraftRoute, account: AccountId, checks: &mut Checks) -> Route {
    let everything = ["*".to_owned()];
    let event_types = draft.event_types.as_deref().unwrap_or(&everything);
    let Matching { event_types, filter } =
        check_matching(checks, "/draft", event_types, draft.filter.as_ref());
    let route = Route::new(RouteId::MIN, account, DestinationId::MIN, Timestamp::default());
    Route { event_types, filter, ..route }
}

fn candidate(input: &PreviewInput) -> Candidate<'_> {
    let headers = input.headers.iter().flatten();
    Candidate {
        source_id: input.source_id,
        event_type: input.event_type.as_ref().map_or("unknown", EventType::as_str),
        operational: false,
        about: None,
        data: input.data.as_ref().map(Document::of),
        headers: headers.map(|(name, value)| (name.to_ascii_lowercase(), value.clone())).collect(),
        metadata: Value::Object(input.metadata.clone().unwrap_or_default()),
    }
}

pub(crate) fn judge(routes: &RouteTable, event: &Candidate<'_>) -> Vec<RoutePreviewView> {
    let mut deliverers = Deliverers::default();
    let mut judged: Vec<_> =
        routes.iter().map(|route| views::route_preview(route, event, &mut deliverers)).collect();
    judged.sort_by_key(|judged| (!judged.matches, judged.route_id));
    judged.truncate(limits::PREVIEW_ROUTES);
    judged
}
