//! Events as they are kept: listed, read, downloaded byte for byte, and delivered again.

use crate::{
    app::App, auth::AccountCtx, error::ApiError, json, named, optional_body::OptionalBody, page::List,
    page_params::PageParams, path::Id, payload_body::PayloadBody, problems, read, replays, validate::Checks,
};
use axum::{
    Json,
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
};
use contract::{EventDetailView, EventQuery, EventReplayInput, EventView, ListBody, ReplayView, schema};
use domain::{
    account::Scope,
    delivery::Status,
    id::{AccountId, DestinationId, EventId},
    limits,
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::{Value, json};
use store::{DeliveryFilter, Page, Selection, StoreError};

/// List events, newest first. Different filters narrow, a repeated one widens. `metadata.<key>=<value>` finds events by a
/// member of their metadata, and needs `since`: it looks at 5,000 events a page at most, and tells by `searched_until` that
/// there are more. Scope `events:read`.
#[utoipa::path(
    get, path = "/v1/events", operation_id = "list_events", tag = "events",
    params(PageParams, EventQuery),
    responses((status = 200, description = "A page.", body = ListBody<EventView>), problems::Listing),
)]
pub(crate) async fn list(
    State(app): State<App>,
    ctx: AccountCtx,
    list: List<EventQuery>,
) -> Result<Response, ApiError> {
    let account = ctx.require(Scope::EventsRead)?;
    let room = app.answers.page(account).await?;
    let found = read::events(&app, account, &list.filter, list.page(&app, account)?).await?;
    // Nothing tells how much of it a search of metadata has to look through.
    let searched_until = found.next.filter(|_| !list.filter.metadata.is_empty()).map(EventId::made_at);
    room.json(&ListBody { searched_until, ..list.body(&app, account, found) })
}

/// Read an event with its headers, its payload if it is short text, and its deliveries. Scope `events:read`.
#[utoipa::path(
    get, path = "/v1/events/{id}", operation_id = "get_event", tag = "events",
    params(("id" = schema::EventId, Path)),
    responses((status = 200, description = "The event.", body = EventDetailView), problems::Reading),
)]
pub(crate) async fn get(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<EventId>,
) -> Result<Response, ApiError> {
    let account = ctx.require(Scope::EventsRead)?;
    let room = app.answers.page(account).await?;
    room.json(&read::event(&app, account, id).await?)
}

/// Download an event's payload, byte for byte. Scope `events:read`.
#[utoipa::path(
    get, path = "/v1/events/{id}/payload", operation_id = "get_event_payload", tag = "events",
    params(("id" = schema::EventId, Path)),
    responses(
        (status = 200, description = "The bytes, with the content type they came with.",
            content((schema::Bytes = "application/octet-stream"), (schema::Anything = "*/*"))),
        problems::ReadingPayload,
    ),
)]
pub(crate) async fn payload(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<EventId>,
) -> Result<Response, ApiError> {
    let account = ctx.require(Scope::EventsRead)?;
    let size = app.store.payload_size(account, id).await?;
    let room = app.answers.room(account, size.memory()).await?;
    let payload = read::event_payload(&app, account, id).await?;
    let content_type = HeaderValue::try_from(payload.content_type.as_str())
        .unwrap_or(HeaderValue::from_static("application/octet-stream"));
    let attachment =
        HeaderValue::try_from(format!("attachment; filename=\"{id}\"")).map_err(ApiError::from_bug)?;
    // A stranger's bytes under our name: a browser may save them and do nothing else with them.
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::CONTENT_DISPOSITION, attachment),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox")),
    ];
    let body = Body::new(PayloadBody::of(payload).map_err(read::altered)?);
    Ok(room.holds((headers, body).into_response()))
}

/// Erase an event's payload and headers, and what is kept of the answers to it. The event and what became of it stay. Not
/// while one of its deliveries waits, is under way or is yet to be made. Erasing it again is fine. Scope `account:admin`.
#[utoipa::path(
    delete, path = "/v1/events/{id}/payload", operation_id = "erase_event_payload", tag = "events",
    params(("id" = schema::EventId, Path)),
    responses((status = 204, description = "Erased."), problems::ErasingPayload),
)]
pub(crate) async fn erase_payload(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<EventId>,
) -> Result<StatusCode, ApiError> {
    let account = ctx.require(Scope::AccountAdmin)?;
    let entry = ctx.entry(&app, id, None);
    app.store.erase_payload(account, id, app.now(), &entry).await?;
    // Of an event with very many deliveries a chore does the rest, as it does if this node dies here.
    let mut after = None;
    for _ in 0..limits::ERASED_ANSWERS_ROUNDS {
        after = app.store.erase_answers(id, after, limits::ERASED_ANSWERS).await?;
        if after.is_none() {
            break;
        }
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Deliver an event again to every destination that had it, or to some; what has not ended is left alone. Or to some that
/// never had it, if a route leads it there now: a backfill of one. Scope `deliveries:retry`.
#[utoipa::path(
    post, path = "/v1/events/{id}/replay", operation_id = "replay_event", tag = "events",
    params(
        ("id" = schema::EventId, Path),
        ("idempotency-key" = Option<schema::IdempotencyKeyHeader>, Header, description = "The same key and body give the same replay."),
    ),
    request_body = Option<EventReplayInput>,
    responses((status = 202, description = "It runs.", body = ReplayView), problems::ReplayingEvent),
)]
pub(crate) async fn replay(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<EventId>,
    headers: HeaderMap,
    OptionalBody(body): OptionalBody<Option<Value>>,
) -> Result<(StatusCode, Json<ReplayView>), ApiError> {
    let account = ctx.require(Scope::DeliveriesRetry)?;
    let mut body = body.unwrap_or_else(|| json!({}));
    named::resolve::<DestinationId>(&app, Some(account), &mut body, "/destination_ids").await?;
    let some = json::from_value::<EventReplayInput>(body)?.destination_ids;
    let mut checks = Checks::default();
    checks.filter_values("/destination_ids", some.as_ref().map_or(0, Vec::len));
    if some.as_ref().is_some_and(Vec::is_empty) {
        checks.refuse("/destination_ids", "missing_value", "name a destination, or leave it out for all");
    }
    checks.done()?;
    if let Err(error) = app.store.payload_size(account, id).await {
        return Err(kept_no_more(&app, account, id, error).await);
    }
    for destination in some.iter().flatten() {
        app.store.destination(account, *destination).await?;
    }
    let key = replays::key(&headers, &format!("event {id} {some:?}"))?;
    let never_had = match &some {
        Some(some) => replays::of_event(&app, &ctx, id, some).await?,
        None => None,
    };
    let had = || {
        Selection::Filter(DeliveryFilter {
            event_ids: vec![id],
            destination_ids: some.unwrap_or_default(),
            statuses: vec![Status::Delivered, Status::DeadLetter, Status::Cancelled],
            ..DeliveryFilter::default()
        })
    };
    let selection = never_had.unwrap_or_else(had);
    let replay =
        replays::begin(&app, &ctx, Some(id), (selection, &[]), limits::REPLAY_RATE_DEFAULT, key).await?;
    Ok((StatusCode::ACCEPTED, Json(read::show_replay(&app, &replay))))
}

/// 410 for an event of which there are deliveries still, or which is older than what is kept.
async fn kept_no_more(app: &App, account: AccountId, id: EventId, error: StoreError) -> ApiError {
    if !matches!(error, StoreError::NotFound { .. }) {
        return error.into();
    }
    let filter = DeliveryFilter { event_ids: vec![id], ..DeliveryFilter::default() };
    let page = Page { before: None, limit: 1 };
    match app.store.deliveries(account, &filter, page).await {
        Ok(found) if !found.rows.is_empty() => ApiError::pruned("the event is no longer kept"),
        _ => match app.kept_since(account).await {
            Ok(kept_since) => replays::absent("event", id.made_at(), kept_since),
            Err(error) => error,
        },
    }
}
