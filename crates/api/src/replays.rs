//! Replays: what has ended is delivered again, one delivery or a million. The API writes down what is asked for; a node
//! makes the deliveries, at the pace that was given.

mod backfill;
mod input;

use crate::{
    app::App,
    auth::AccountCtx,
    error::{ApiError, FieldError},
    event_text,
    json::{self, BodyUpTo},
    named,
    page::{List, NoFilter},
    page_params::PageParams,
    path::Id,
    problems, read, views,
};
use aws_lc_rs::digest;
use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
pub(crate) use backfill::of_event;
use contract::{ListBody, ReplayEstimateView, ReplayInput, ReplayView, schema};
use domain::{
    account::Scope,
    audit::Told,
    id::{AccountId, DeliveryId, DestinationId, EventId, ReplayId, SourceId},
    limits,
    time::Timestamp,
};
use http::{HeaderMap, StatusCode};
use serde_json::Value;
use store::{CreatedReplay, NewReplay, Replay, ReplayKey, ReplaySwitch, Replayed, Selection, Survey};

/// Deliver again what has ended, by a filter or by ids, or backfill: bring stored events where the routes of now lead and they
/// never were; with `dry_run`, only say how much that is. Scope
/// `deliveries:retry`.
#[utoipa::path(
    post, path = "/v1/replays", operation_id = "create_replay", tag = "replays",
    params(("idempotency-key" = Option<schema::IdempotencyKeyHeader>, Header, description = "The same key and body give the same replay.")),
    request_body = schema::ReplayInput,
    responses(
        (status = 200, description = "A dry run: nothing was made.", body = ReplayEstimateView),
        (status = 202, description = "It runs.", body = ReplayView),
        problems::Replaying,
    ),
)]
pub(crate) async fn create(
    State(app): State<App>,
    ctx: AccountCtx,
    headers: HeaderMap,
    BodyUpTo(mut body): BodyUpTo<{ limits::REPLAY_BODY_BYTES }, Value>,
) -> Result<Response, ApiError> {
    let account = Some(ctx.require(Scope::DeliveriesRetry)?);
    named::resolve_filter(&app, account, &mut body).await?;
    named::resolve::<DestinationId>(&app, account, &mut body, "/destination_ids").await?;
    named::resolve::<SourceId>(&app, account, &mut body, "/events/source_id").await?;
    let asked = input::checked(json::from_value::<ReplayInput>(body)?)?;
    if let Selection::Events(events) = &asked.selection {
        for destination in &events.destination_ids {
            app.store.destination(ctx.account_id(), *destination).await?;
        }
    }
    if asked.dry_run {
        let survey = survey(&app, &ctx, &asked.selection, &asked.given).await?;
        return Ok(Json(views::replay_estimate(survey, asked.rate)).into_response());
    }
    let key = key(&headers, &asked.text)?;
    let replay = begin(&app, &ctx, None, (asked.selection, &asked.given), asked.rate, key).await?;
    Ok((StatusCode::ACCEPTED, Json(read::show_replay(&app, &replay))).into_response())
}

/// List replays, newest first. Scope `deliveries:read`.
#[utoipa::path(
    get, path = "/v1/replays", operation_id = "list_replays", tag = "replays",
    params(PageParams),
    responses((status = 200, description = "A page.", body = ListBody<ReplayView>), problems::Listing),
)]
pub(crate) async fn list(
    State(app): State<App>,
    ctx: AccountCtx,
    list: List<NoFilter>,
) -> Result<Response, ApiError> {
    let account = ctx.require(Scope::DeliveriesRead)?;
    let room = app.answers.page(account).await?;
    let found = read::replays(&app, account, list.page(&app, account)?).await?;
    room.json(&list.body(&app, account, found))
}

/// Read a replay with its progress. Scope `deliveries:read`.
#[utoipa::path(
    get, path = "/v1/replays/{id}", operation_id = "get_replay", tag = "replays",
    params(("id" = schema::ReplayId, Path)),
    responses((status = 200, description = "The replay.", body = ReplayView), problems::Reading),
)]
pub(crate) async fn get(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<ReplayId>,
) -> Result<Json<ReplayView>, ApiError> {
    let account = ctx.require(Scope::DeliveriesRead)?;
    read::replay(&app, account, id).await.map(Json)
}

/// Make no more deliveries until it is resumed. Those that were made go on. Scope `deliveries:retry`.
#[utoipa::path(
    post, path = "/v1/replays/{id}/pause", operation_id = "pause_replay", tag = "replays",
    params(("id" = schema::ReplayId, Path)),
    responses((status = 200, description = "Paused.", body = ReplayView), problems::SwitchingReplay),
)]
pub(crate) async fn pause(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<ReplayId>,
) -> Result<Json<ReplayView>, ApiError> {
    switch(&app, &ctx, id, ReplaySwitch::Pause).await
}

/// Go on with a paused replay. Scope `deliveries:retry`.
#[utoipa::path(
    post, path = "/v1/replays/{id}/resume", operation_id = "resume_replay", tag = "replays",
    params(("id" = schema::ReplayId, Path)),
    responses((status = 200, description = "It runs.", body = ReplayView), problems::SwitchingReplay),
)]
pub(crate) async fn resume(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<ReplayId>,
) -> Result<Json<ReplayView>, ApiError> {
    switch(&app, &ctx, id, ReplaySwitch::Resume).await
}

/// End a replay where it is. Deliveries that were made stay, and can be cancelled one by one. Scope `deliveries:retry`.
#[utoipa::path(
    post, path = "/v1/replays/{id}/cancel", operation_id = "cancel_replay", tag = "replays",
    params(("id" = schema::ReplayId, Path)),
    responses((status = 200, description = "Cancelled.", body = ReplayView), problems::SwitchingReplay),
)]
pub(crate) async fn cancel(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<ReplayId>,
) -> Result<Json<ReplayView>, ApiError> {
    switch(&app, &ctx, id, ReplaySwitch::Cancel).await
}

/// Repeating is fine; 409 if it has ended otherwise.
async fn switch(
    app: &App,
    ctx: &AccountCtx,
    id: ReplayId,
    to: ReplaySwitch,
) -> Result<Json<ReplayView>, ApiError> {
    let account = ctx.require(Scope::DeliveriesRetry)?;
    let entry = ctx.entry(app, id, Told::default().with("status", to.status().as_str()).made());
    let replay = app.store.switch_replay(account, id, to, app.now(), &entry).await?;
    if replay.status != to.status() {
        return Err(ApiError::replay_ended(format!("the replay is {}", replay.status.as_str())));
    }
    Ok(Json(read::show_replay(app, &replay)))
}

/// Counts what there is, and writes down what is asked for, of one event or of whatever is selected. `given` are ids in the
/// order in which they were given.
pub(crate) async fn begin(
    app: &App,
    ctx: &AccountCtx,
    event: Option<EventId>,
    (selection, given): (Selection, &[DeliveryId]),
    rate: u32,
    key: Option<ReplayKey>,
) -> Result<Replay, ApiError> {
    let survey = survey(app, ctx, &selection, given).await?;
    let (matched, matched_exact) = (survey.matched, survey.exact);
    let new = NewReplay { matched, matched_exact, rate, ..new(app, ctx, selection, key) };
    let object = event.map_or_else(|| new.id.to_string(), |event| event.to_string());
    made(app, ctx, &object, new).await
}

/// Counts what there is. Where ids are not there, 404 with their places, or 410 if all of them are so old.
pub(crate) async fn survey(
    app: &App,
    ctx: &AccountCtx,
    selection: &Selection,
    given: &[DeliveryId],
) -> Result<Survey, ApiError> {
    if let Selection::Events(events) = selection {
        return backfill::survey(app, ctx.account_id(), events, app.now()).await;
    }
    let survey = app.store.survey(ctx.account_id(), selection, app.now(), limits::REPLAY_SURVEY).await?;
    if survey.unknown.is_empty() {
        return Ok(survey);
    }
    let kept_since = app.kept_since(ctx.account_id()).await?;
    let unknown = given.iter().enumerate().filter(|(_, id)| survey.unknown.binary_search(id).is_ok());
    let named = unknown.take(limits::REPLAY_UNKNOWN_NAMED).map(|(index, id)| {
        let error = absent("delivery", id.made_at(), kept_since);
        FieldError::new(format!("/delivery_ids/{index}"), error.code().as_str(), error.detail())
    });
    // Sorted: the last is the newest.
    let newest = survey.unknown.last().map_or(kept_since, |id| id.made_at());
    Err(absent("delivery", newest, kept_since).at(named.collect()))
}

/// What is not there has been pruned if it is older than what is kept, and else never was. The time in the id alone
/// decides: a foreign one answers as one that was never given out.
pub(crate) fn absent(what: &'static str, made_at: Timestamp, kept_since: Timestamp) -> ApiError {
    match made_at < kept_since {
        true => ApiError::pruned(format!("the {what} is older than what is kept")),
        false => ApiError::no_such(what),
    }
}

/// A replay of one delivery, made at once; gives the new delivery. 429 if as much of the account waits as may.
pub(crate) async fn one(
    app: &App,
    ctx: &AccountCtx,
    original: DeliveryId,
    replayed: Replayed,
    key: Option<ReplayKey>,
) -> Result<DeliveryId, ApiError> {
    app.check_backlog(ctx.account_id()).await?;
    let origin = replayed.origin;
    let new = NewReplay {
        at_once: Some(replayed),
        ..new(app, ctx, Selection::Deliveries(vec![original].into()), key)
    };
    let replay = made(app, ctx, &original.to_string(), new).await?;
    let made = app.store.replayed(ctx.account_id(), replay.id, origin).await?;
    made.ok_or_else(|| ApiError::from_bug("a replay of one delivery has made none"))
}

/// A replay of one delivery, at the usual rate.
fn new(app: &App, ctx: &AccountCtx, selection: Selection, key: Option<ReplayKey>) -> NewReplay {
    let now = app.now();
    NewReplay {
        id: ReplayId::at(now, app.dice.bits()),
        account_id: ctx.account_id(),
        selection,
        rate: limits::REPLAY_RATE_DEFAULT,
        matched: 1,
        matched_exact: true,
        created_by: ctx.holder(),
        created_at: now,
        key,
        at_once: None,
    }
}

/// 409 if its key stands for something else. `object` is what is replayed.
async fn made(app: &App, ctx: &AccountCtx, object: &str, new: NewReplay) -> Result<Replay, ApiError> {
    let told = Told::default()
        .with("replay_id", new.id.to_string())
        .with("matched", new.matched)
        .with("rate", new.rate);
    let entry = ctx.entry(app, object, told.made());
    let same = |body_hash| new.key.is_some_and(|key| key.body_hash == body_hash);
    match app.store.create_replay(&new, &entry).await? {
        CreatedReplay::New(replay) => {
            let account_id: AccountId = ctx.account_id();
            tracing::info!(replay_id = %replay.id, %account_id, matched = replay.matched, "replay.created");
            Ok(replay)
        }
        CreatedReplay::Known { replay, body_hash } if same(body_hash) => Ok(replay),
        CreatedReplay::Known { .. } => {
            Err(ApiError::idempotency_conflict("the key was used for another replay"))
        }
    }
}

/// The key of a request, and what it stands for: `asked` is the same text for the same wish.
pub(crate) fn key(headers: &HeaderMap, asked: &str) -> Result<Option<ReplayKey>, ApiError> {
    let key = event_text::publish_key(headers)?;
    Ok(key.map(|key| ReplayKey { hash: sha256(&key), body_hash: sha256(asked) }))
}

fn sha256(text: &str) -> [u8; 32] {
    let digest = digest::digest(&digest::SHA256, text.as_bytes());
    digest.as_ref().try_into().expect("SHA-256 gives 32 bytes")
}
