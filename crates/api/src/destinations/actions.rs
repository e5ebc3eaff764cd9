//! What a destination can be told to do: pause, resume, enable, disable, probe; and what it has met.

use super::change;
use crate::{
    app::App,
    auth::AccountCtx,
    changes::{IfMatch, IfMatchParam, Versioned},
    error::ApiError,
    page::{List, NoFilter},
    page_params::PageParams,
    path::Id,
    problems, read,
};
use axum::{extract::State, response::Response};
use contract::{AttemptView, DestinationView, ListBody, schema};
use domain::{
    account::Scope,
    destination::{Destination, Disabled, DisabledReason},
    id::DestinationId,
    limits,
    time::Timestamp,
};
use store::Change;

/// Hold all its deliveries; nothing is dropped, nothing expires. Scope `destinations:write`.
#[utoipa::path(
    post, path = "/v1/destinations/{id}/pause", operation_id = "pause_destination", tag = "destinations",
    params(("id" = schema::DestinationRef, Path), IfMatchParam),
    responses((status = 200, description = "Paused.", body = DestinationView), problems::Switching),
)]
pub(crate) async fn pause(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<DestinationId>,
    if_match: IfMatch,
) -> Result<Versioned<DestinationView>, ApiError> {
    switch(app, ctx, id, if_match, |destination, now| {
        let changes = destination.switch.paused_at.is_none();
        destination.switch.paused_at.get_or_insert(now);
        changes
    })
    .await
}

/// Go on delivering after a pause. Scope `destinations:write`.
#[utoipa::path(
    post, path = "/v1/destinations/{id}/resume", operation_id = "resume_destination", tag = "destinations",
    params(("id" = schema::DestinationRef, Path), IfMatchParam),
    responses((status = 200, description = "Resumed.", body = DestinationView), problems::Switching),
)]
pub(crate) async fn resume(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<DestinationId>,
    if_match: IfMatch,
) -> Result<Versioned<DestinationView>, ApiError> {
    switch(app, ctx, id, if_match, |destination, now| {
        let changes = destination.switch.paused_at.take().is_some();
        if changes {
            destination.switch.resumed_at = Some(now);
        }
        changes
    })
    .await
}

/// Deliver to it again. What ended meanwhile can be replayed. Scope `destinations:write`.
#[utoipa::path(
    post, path = "/v1/destinations/{id}/enable", operation_id = "enable_destination", tag = "destinations",
    params(("id" = schema::DestinationRef, Path), IfMatchParam),
    responses((status = 200, description = "Enabled.", body = DestinationView), problems::Switching),
)]
pub(crate) async fn enable(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<DestinationId>,
    if_match: IfMatch,
) -> Result<Versioned<DestinationView>, ApiError> {
    switch(app, ctx, id, if_match, |destination, _| destination.switch.disabled.take().is_some()).await
}

/// Deliver nothing to it: what waits and what comes ends as a dead letter. Scope `destinations:write`.
#[utoipa::path(
    post, path = "/v1/destinations/{id}/disable", operation_id = "disable_destination", tag = "destinations",
    params(("id" = schema::DestinationRef, Path), IfMatchParam),
    responses((status = 200, description = "Disabled.", body = DestinationView), problems::Switching),
)]
pub(crate) async fn disable(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<DestinationId>,
    if_match: IfMatch,
) -> Result<Versioned<DestinationView>, ApiError> {
    switch(app, ctx, id, if_match, |destination, at| {
        let changes = destination.switch.disabled.is_none();
        destination.switch.disabled.get_or_insert(Disabled { at, reason: DisabledReason::Requested });
        changes
    })
    .await
}

/// `turn` says whether it changed anything: repeating is fine and writes nothing.
async fn switch(
    app: App,
    ctx: AccountCtx,
    id: DestinationId,
    if_match: IfMatch,
    turn: impl Fn(&mut Destination, Timestamp) -> bool,
) -> Result<Versioned<DestinationView>, ApiError> {
    ctx.require(Scope::DestinationsWrite)?;
    let now = app.now();
    let destination = change(&app, &ctx, id, &if_match, |destination| Ok(turn(destination, now))).await?;
    Ok(Versioned::ok(read::show_destination(&app, &destination).await?))
}

/// End a hold now: the next delivery is tried, and the pace comes back with its success. At most once in five seconds.
/// Scope `destinations:write`.
#[utoipa::path(
    post, path = "/v1/destinations/{id}/probe", operation_id = "probe_destination", tag = "destinations",
    params(("id" = schema::DestinationRef, Path)),
    responses((status = 202, description = "Asked for.", body = DestinationView), problems::Acting),
)]
pub(crate) async fn probe(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<DestinationId>,
) -> Result<Versioned<DestinationView>, ApiError> {
    let account = ctx.require(Scope::DestinationsWrite)?;
    app.store.destination(account, id).await?;
    if app.probes.get(&id).is_some() {
        let seconds = limits::PROBE_PAUSE.as_secs();
        return Err(ApiError::rate_limited(format!(
            "a destination is probed once in {seconds} seconds at most"
        ))
        .retry_after(seconds as u32));
    }
    app.probes.put(id, ());
    // Written, so that the owner hears of it wherever it is; announced, in case it is here.
    let entry = ctx.entry(&app, id, None);
    let destination = app.store.probe(account, id, app.now(), &entry).await?;
    app.announce.changed(Change::Probe(id)).await;
    Ok(Versioned::accepted(read::show_destination(&app, &destination).await?))
}

/// List a destination's attempts, newest delivery first. Scope `deliveries:read`.
#[utoipa::path(
    get, path = "/v1/destinations/{id}/attempts", operation_id = "list_destination_attempts", tag = "destinations",
    params(("id" = schema::DestinationRef, Path), PageParams),
    responses((status = 200, description = "A page.", body = ListBody<AttemptView>), problems::ListingOf),
)]
pub(crate) async fn attempts(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<DestinationId>,
    list: List<NoFilter>,
) -> Result<Response, ApiError> {
    let account = ctx.require(Scope::DeliveriesRead)?;
    let room = app.answers.page(account).await?;
    let found = read::destination_attempts(&app, account, id, list.page(&app, account)?).await?;
    room.json(&list.body(&app, account, found))
}
