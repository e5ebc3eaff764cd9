//! Destinations: where deliveries go. Made, read, changed and removed here; what they can be told to do is in
//! `actions`, what may be written in `input`.

pub(crate) mod actions;
mod auth;
pub(crate) mod holds;
mod input;
pub(crate) mod secret;
pub(crate) mod signing;
pub(crate) mod test;
mod told;

use crate::{
    app::App,
    auth::AccountCtx,
    changes::{IfMatch, IfMatchParam, Versioned, until_unchanged},
    error::ApiError,
    json::Body,
    page::List,
    page_params::PageParams,
    patch::patch_schema,
    path::Id,
    problems,
    read::{self, Revision, Wanted},
    views::{self, LaneSummary},
};
use auth::Sealer;
use axum::{extract::State, response::Response};
use contract::{DestinationQuery, DestinationView, ListBody, NewDestination, schema};
use domain::{
    account::Scope,
    destination::Destination,
    id::{AccountId, DestinationId},
};
use http::StatusCode;
use input::DestinationRules;
use serde_json::Value;

patch_schema!(DestinationPatch as "DestinationPatch" of NewDestination);

/// Make a destination. Scope `destinations:write`.
#[utoipa::path(
    post, path = "/v1/destinations", operation_id = "create_destination", tag = "destinations",
    request_body = NewDestination,
    responses(
        (status = 201, description = "Made. Its signing secret is in `signing.secret`.", body = DestinationView),
        problems::CreatingCounted,
    ),
)]
pub(crate) async fn create(
    State(app): State<App>,
    ctx: AccountCtx,
    Body(body): Body<Value>,
) -> Result<Versioned<DestinationView>, ApiError> {
    let account = ctx.require(Scope::DestinationsWrite)?;
    let mut input = input::created(body)?;
    let rules = rules(&app, &ctx).await?;
    input::check(&mut input, None, &rules)?;
    let now = app.now();
    let key = app.data_key(account).await?;
    let id = DestinationId::at(now, app.dice.bits());
    let mut destination = Destination::new(id, account, &input.name, &input.url, now);
    input::write(&input, &mut destination);
    let sealer = Sealer { key: &key, dice: &*app.dice, place: Destination::auth_place(id), now: rules.now };
    destination.auth = auth::read(&input.auth, None, &sealer);
    let secret = secret::given_or_new(input.signing.secret.as_deref(), &*app.dice)?;
    destination.secret.current = secret::seal(&secret, id, &key, &*app.dice);
    secret::add_key_pair(&mut destination, &key, &*app.dice);
    let entry = ctx.entry(&app, id, told::told(&destination).made());
    let created = app.store.create_destination(&destination, &entry).await;
    let destination = app.config_written(account, &[id], created).await?;
    let settings = read::effective(&app, &destination, &rules.account_defaults);
    let view = views::destination(&destination, &settings, &LaneSummary::default());
    let view = views::revealing(view, &secret);
    Ok(Versioned::created(Revision { version: destination.version, view }))
}

/// List destinations, newest first. Scope `destinations:read`.
#[utoipa::path(
    get, path = "/v1/destinations", operation_id = "list_destinations", tag = "destinations",
    params(PageParams, DestinationQuery),
    responses((status = 200, description = "A page.", body = ListBody<DestinationView>), problems::Listing),
)]
pub(crate) async fn list(
    State(app): State<App>,
    ctx: AccountCtx,
    list: List<DestinationQuery>,
) -> Result<Response, ApiError> {
    let account = ctx.require(Scope::DestinationsRead)?;
    let room = app.answers.page(account).await?;
    let wanted = Wanted::try_from(&list.filter)?;
    let found = read::destinations(&app, account, &wanted, list.page(&app, account)?).await?;
    let searched_until = found.next.filter(|_| wanted.looks_through()).map(DestinationId::made_at);
    room.json(&ListBody { searched_until, ..list.body(&app, account, found) })
}

/// Read a destination. Scope `destinations:read`.
#[utoipa::path(
    get, path = "/v1/destinations/{id}", operation_id = "get_destination", tag = "destinations",
    params(("id" = schema::DestinationRef, Path)),
    responses((status = 200, description = "The destination.", body = DestinationView), problems::Reading),
)]
pub(crate) async fn get(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<DestinationId>,
) -> Result<Versioned<DestinationView>, ApiError> {
    let account = ctx.require(Scope::DestinationsRead)?;
    read::destination(&app, account, id).await.map(Versioned::ok)
}

/// Change a destination. Secrets that the patch leaves out are kept. Scope `destinations:write`.
#[utoipa::path(
    patch, path = "/v1/destinations/{id}", operation_id = "update_destination", tag = "destinations",
    params(("id" = schema::DestinationRef, Path), IfMatchParam), request_body = DestinationPatch,
    responses((status = 200, description = "As it is now.", body = DestinationView), problems::ChangingDestination),
)]
pub(crate) async fn update(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<DestinationId>,
    if_match: IfMatch,
    Body(patch): Body<Value>,
) -> Result<Versioned<DestinationView>, ApiError> {
    let account = ctx.require(Scope::DestinationsWrite)?;
    let rules = rules(&app, &ctx).await?;
    let key = app.data_key(account).await?;
    let sealer = Sealer { key: &key, dice: &*app.dice, place: Destination::auth_place(id), now: rules.now };
    check_order(&app, account, id, &patch).await?;
    let changed = change(&app, &ctx, id, &if_match, |destination| {
        let mut input = input::patched(destination, patch.clone())?;
        input::check(&mut input, Some(destination), &rules)?;
        input::write(&input, destination);
        destination.auth = auth::read(&input.auth, Some(&destination.auth), &sealer);
        secret::add_key_pair(destination, &key, &*app.dice);
        secret::check_fits(destination, &destination.signing, &key)?;
        Ok(true)
    });
    let destination = changed.await?;
    Ok(Versioned::ok(read::show_destination(&app, &destination).await?))
}

/// Remove a destination and its routes. What still waits for it is cancelled. Scope `destinations:write`.
#[utoipa::path(
    delete, path = "/v1/destinations/{id}", operation_id = "delete_destination", tag = "destinations",
    params(("id" = schema::DestinationRef, Path), IfMatchParam),
    responses((status = 204, description = "Removed."), problems::Switching),
)]
pub(crate) async fn delete(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<DestinationId>,
    if_match: IfMatch,
) -> Result<StatusCode, ApiError> {
    let account = ctx.require(Scope::DestinationsWrite)?;
    if_match.check(app.store.destination(account, id).await?.version)?;
    let entry = ctx.entry(&app, id, None);
    let deleted = app.store.delete_destination(account, id, app.now(), &entry).await;
    app.config_written(account, &[id], deleted).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Reads, decides and writes until no other change came in between. `decide` says whether there is anything to write.
async fn change(
    app: &App,
    ctx: &AccountCtx,
    id: DestinationId,
    if_match: &IfMatch,
    decide: impl Fn(&mut Destination) -> Result<bool, ApiError>,
) -> Result<Destination, ApiError> {
    let (decide, account) = (&decide, ctx.account_id());
    until_unchanged(&*app.dice, if_match, || async move {
        let before = app.store.destination(account, id).await?;
        if_match.check(before.version)?;
        let mut destination = before.clone();
        if !decide(&mut destination)? {
            return Ok(destination);
        }
        destination.updated_at = app.now();
        let difference = told::told(&destination).since(&told::told(&before));
        let entry = ctx.entry(app, id, difference);
        let updated = app.store.update_destination(&destination, &entry).await;
        let updated = app.config_written(account, &[id], updated).await?;
        holds::note_ended(app, &before, &updated).await;
        Ok(updated)
    })
    .await
}

/// What waits was given its place under the old ordering: only an empty lane takes another.
async fn check_order(
    app: &App,
    account: AccountId,
    id: DestinationId,
    patch: &Value,
) -> Result<(), ApiError> {
    if patch.get("ordering").is_none() {
        return Ok(());
    }
    let destination = app.store.destination(account, id).await?;
    let input = input::patched(&destination, patch.clone())?;
    if input.ordering == destination.ordering {
        return Ok(());
    }
    let waiting = app.store.backlog(&[id], 1).await?.first().is_some_and(|(rows, _)| *rows > 0);
    if waiting {
        let detail = "`ordering` can be changed only while nothing waits for the destination: let its deliveries end, \
                      or cancel them";
        return Err(ApiError::destination_busy(detail));
    }
    Ok(())
}

async fn rules<'a>(app: &'a App, ctx: &AccountCtx) -> Result<DestinationRules<'a>, ApiError> {
    let account = app.store.account(ctx.account_id()).await?;
    Ok(DestinationRules {
        addresses: &app.addresses,
        retention_days: account.retention_days,
        account_defaults: account.defaults,
        may_reveal: ctx.has(Scope::SecretsReveal),
        now: app.now(),
    })
}
