//! Which routes an event would take, and why not the others: the same function that ingest uses, without sending.

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
use contract::{PreviewInput, PreviewView, RoutePreviewView};
use domain::{
    account::Scope,
    event::EventType,
    id::SourceId,
    json::Document,
    limits,
    route::{Candidate, Deliverers, RouteTable},
};
use serde_json::Value;

/// Ask which routes an event would take. Nothing is sent. Scope `events:read`.
#[utoipa::path(
    post, path = "/v1/routes/preview", operation_id = "preview_routes", tag = "routes",
    request_body = contract::schema::PreviewInput,
    responses(
        (status = 200, description = "Routes that match come first, then the oldest; at most 10,000.", body = PreviewView),
        problems::ActingWith,
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
    check(&input)?;
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
        Some(id) => Some(app.store.event_payload(account, id).await?),
        None => None,
    };
    let routes = snapshot.table.iter().count();
    let judging = move || match &event {
        Some(event) => judge(&snapshot.table, &Candidate::of(event, &snapshot.table)),
        None => judge(&snapshot.table, &candidate(&input)),
    };
    let data = app.admission.matcher().run(ctx.account_id(), routes, payload, judging).await?;
    room.json(&PreviewView { data })
}

fn check(input: &PreviewInput) -> Result<(), ApiError> {
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
    checks.done()
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
