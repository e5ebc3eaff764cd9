//! Portal links: a platform sends somebody of its customer's to the pages of one account. How one is opened, and what its
//! session may do, is in `session/portal.rs`.

use crate::{
    app::App,
    auth::TenantsCtx,
    error::ApiError,
    optional_body::OptionalBody,
    page::{List, NoFilter},
    page_params::PageParams,
    path::{Id, IdWithin},
    problems, read,
    session::portal,
    validate::Checks,
    views,
};
use axum::{Json, extract::State, response::Response};
use contract::{ListBody, NewPortalLinkView, PortalLinkInput, PortalLinkView, schema};
use domain::{
    account::Scope,
    audit::Told,
    id::{AccountId, PortalLinkId},
    limits,
    portal_link::{PORTAL_READ_SCOPES, PortalLink},
    session::Holder,
};
use http::StatusCode;
use serde_json::json;
use std::time::Duration;
use store::ListedPortalLink;

/// Make a link to the pages of one account, for somebody who has no key: its destinations and routes, events, attempts,
/// tests, dead letters, replays and signing secrets, and nothing of keys, sources, other accounts or the installation. It is
/// opened once. Its session may do nothing that the key may not that made it, and ends with that key. An account has 200 of
/// them; one more ends the oldest. Operators, or a platform with the scope `accounts:write`, and `events:read`,
/// `deliveries:read` and `destinations:read` besides.
#[utoipa::path(
    post, path = "/v1/accounts/{id}/portal-links", operation_id = "create_portal_link", tag = "accounts",
    params(("id" = schema::AccountRef, Path)), request_body = Option<PortalLinkInput>,
    responses((status = 201, description = "Made. The link is shown this once.", body = NewPortalLinkView), problems::ActingWith),
)]
pub(crate) async fn create(
    State(app): State<App>,
    ctx: TenantsCtx,
    Id(account_id): Id<AccountId>,
    OptionalBody(input): OptionalBody<PortalLinkInput>,
) -> Result<(StatusCode, Json<NewPortalLinkView>), ApiError> {
    ctx.require(Scope::AccountsWrite)?;
    for scope in PORTAL_READ_SCOPES {
        ctx.require(scope)?;
    }
    if !app.config.dashboard {
        return Err(ApiError::not_found("a portal link would lead nowhere: `dashboard` is false here"));
    }
    let mut checks = Checks::default();
    let bounds = limits::PORTAL_LINK_SECONDS_MIN..=limits::PORTAL_LINK_SECONDS_MAX;
    let expires_in = input.expires_in_seconds.unwrap_or(*bounds.end());
    checks.range("/expires_in_seconds", expires_in, bounds);
    let bounds = limits::PORTAL_SESSION_SECONDS_MIN..=limits::PORTAL_SESSION_SECONDS_MAX;
    let session_seconds = input.session_seconds.unwrap_or(*bounds.end());
    checks.range("/session_seconds", session_seconds, bounds);
    checks.done()?;
    let now = app.now();
    let (hash, url) = portal::new_link(&app);
    let link = PortalLink {
        id: PortalLinkId::at(now, app.dice.bits()),
        hash,
        account_id,
        maker: ctx.holder(),
        read_only: input.read_only,
        created_at: now,
        expires_at: now.plus(Duration::from_secs(expires_in.into())),
        session_length: Duration::from_secs(session_seconds.into()),
        opened_at: None,
    };
    let entry = ctx.entry(&app, link.id, told(&link).made());
    app.store.create_portal_link(&link, &entry).await?;
    let portal_link = views::portal_link(&ListedPortalLink { link, session: None }, now);
    Ok((StatusCode::CREATED, Json(NewPortalLinkView { portal_link, url })))
}

/// List the portal links of an account, newest first, with who is signed in by them. Those that are over are gone after a
/// while. Operators, or a platform with the scope `accounts:read`.
#[utoipa::path(
    get, path = "/v1/accounts/{id}/portal-links", operation_id = "list_portal_links", tag = "accounts",
    params(("id" = schema::AccountRef, Path), PageParams),
    responses((status = 200, description = "A page.", body = ListBody<PortalLinkView>), problems::ListingOf),
)]
pub(crate) async fn list(
    State(app): State<App>,
    ctx: TenantsCtx,
    Id(account): Id<AccountId>,
    list: List<NoFilter>,
) -> Result<Response, ApiError> {
    super::page_of(&app, &ctx, account, &list, async |page| read::portal_links(&app, account, page).await)
        .await
}

/// Revoke a portal link. It cannot be opened any more, and whoever has opened it is signed out: at once on this node and
/// within a second on all. Operators, or a platform with the scope `accounts:write`.
#[utoipa::path(
    delete, path = "/v1/accounts/{id}/portal-links/{link_id}", operation_id = "revoke_portal_link", tag = "accounts",
    params(("id" = schema::AccountRef, Path), ("link_id" = schema::PortalLinkId, Path)),
    responses((status = 204, description = "Revoked."), problems::Acting),
)]
pub(crate) async fn revoke(
    State(app): State<App>,
    ctx: TenantsCtx,
    Id(account): Id<AccountId>,
    IdWithin(id): IdWithin<PortalLinkId>,
) -> Result<StatusCode, ApiError> {
    ctx.require(Scope::AccountsWrite)?;
    let entry = ctx.entry(&app, id, None);
    app.store.revoke_portal_link(account, id, &entry).await?;
    app.sessions.forget_of(Holder::PortalLink(id));
    Ok(StatusCode::NO_CONTENT)
}

/// What the audit log tells of it.
fn told(link: &PortalLink) -> Told {
    Told::of(json!({
        "read_only": link.read_only, "expires_at": link.expires_at, "session_seconds": link.session_length.as_secs(),
    }))
}
