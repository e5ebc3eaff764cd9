//! Portal links: how one is opened, and what its session may do.
//!
//! Looking at a link does not open it, since mail programs, messengers and scanners look at links: its page has one button,
//! and what that sends opens it. Portals are at the address of the world; where operators have one of their own, links and
//! their sessions are not known there.

use super::{
    KnownSession, Transport,
    begin::{Beginning, Entrant, prepare},
    cookie::SessionSecret,
    login::{PlainPages, parameter},
    signed_in, transport,
};
use crate::{
    app::App,
    auth::key_usable,
    client_address::ClientAddress,
    error::{ApiError, Code},
    router::ListenAddress,
};
use axum::{
    Extension,
    extract::{MatchedPath, State},
    response::{Html, IntoResponse, Redirect, Response},
};
use domain::{
    audit::Actor,
    session::{Holder, SecretHash},
    time::Timestamp,
};
use http::{HeaderValue, Method, StatusCode, request};
use ingest::bounded_lookup;
use store::{HeldPortalLink, Maker};

/// All that a session of a portal link may ask of the API, within its scopes. What is not here it may not, so that what is
/// new is nobody's business but the account's until it is said here.
const OPERATIONS: &[(&str, &str)] = &[
    ("GET", "/v1/dead-letters/groups"),
    ("GET", "/v1/deliveries"),
    ("GET", "/v1/deliveries/{id}"),
    ("GET", "/v1/destinations"),
    ("GET", "/v1/destinations/{id}"),
    ("GET", "/v1/destinations/{id}/attempts"),
    ("GET", "/v1/destinations/{id}/holds"),
    ("GET", "/v1/destinations/{id}/secret"),
    ("GET", "/v1/destinations/{id}/stats"),
    ("GET", "/v1/destinations/{id}/stats/series"),
    ("GET", "/v1/events"),
    ("GET", "/v1/events/{id}"),
    ("GET", "/v1/events/{id}/payload"),
    ("GET", "/v1/replays"),
    ("GET", "/v1/replays/{id}"),
    ("GET", "/v1/routes"),
    ("GET", "/v1/routes/{id}"),
    ("GET", "/v1/stats"),
    ("GET", "/v1/stats/fanout"),
    ("GET", "/v1/stats/series"),
    ("GET", "/v1/stream"),
    ("POST", "/v1/dead-letters/dismiss"),
    ("POST", "/v1/deliveries/{id}/cancel"),
    ("POST", "/v1/deliveries/{id}/replay"),
    ("POST", "/v1/deliveries/{id}/retry"),
    ("POST", "/v1/destinations"),
    ("PATCH", "/v1/destinations/{id}"),
    ("DELETE", "/v1/destinations/{id}"),
    ("POST", "/v1/destinations/{id}/disable"),
    ("POST", "/v1/destinations/{id}/enable"),
    ("POST", "/v1/destinations/{id}/pause"),
    ("POST", "/v1/destinations/{id}/probe"),
    ("POST", "/v1/destinations/{id}/resume"),
    ("POST", "/v1/destinations/{id}/rotate-secret"),
    ("POST", "/v1/destinations/{id}/test"),
    ("POST", "/v1/events/{id}/replay"),
    ("POST", "/v1/replays"),
    ("POST", "/v1/replays/{id}/cancel"),
    ("POST", "/v1/replays/{id}/pause"),
    ("POST", "/v1/replays/{id}/resume"),
    ("POST", "/v1/routes"),
    ("POST", "/v1/routes/preview"),
    ("PATCH", "/v1/routes/{id}"),
    ("DELETE", "/v1/routes/{id}"),
];

const USED: &str =
    "This link has been used, or is over. Go back to where you found it, and ask for another one.";

/// 403 of what the session of a portal link may not ask for. Its scopes are asked for beside this.
pub(crate) fn check(known: &KnownSession, parts: &request::Parts) -> Result<(), ApiError> {
    let Some(link) = known.portal_link() else { return Ok(()) };
    let path = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let method = if parts.method == Method::HEAD { "GET" } else { parts.method.as_str() };
    if !OPERATIONS.contains(&(method, path)) {
        return Err(ApiError::scope_missing("a portal link does not open this"));
    }
    if link.read_only && !parts.method.is_safe() {
        return Err(ApiError::scope_missing("this portal link only looks: nothing is changed by it"));
    }
    Ok(())
}

/// 401 at the address that is the operators' alone.
pub(super) fn check_address(parts: &request::Parts) -> Result<(), ApiError> {
    match parts.extensions.get() {
        Some(ListenAddress::Admin) => {
            Err(ApiError::sign_in_refused("portal links are opened at the other address"))
        }
        _ => Ok(()),
    }
}

/// 401 once whoever made a link may do nothing any more.
pub(super) fn maker_usable(maker: &Maker, now: Timestamp) -> Result<(), ApiError> {
    match maker {
        Maker::Key(key) => key_usable(key, now).map_err(|_| ApiError::unauthorized("the session is over")),
        Maker::User(_) => Ok(()),
    }
}

/// What is kept of a new link, and the link itself.
pub(crate) fn new_link(app: &App) -> (SecretHash, String) {
    let secret = SessionSecret::generate(&*app.dice);
    let url = format!("{}/portal?t={}", app.config.public_url, secret.text().as_str());
    (secret.portal_hash(&app.secrets), url)
}

/// `GET /portal`: the page with the button. Whoever has opened this very link goes on.
pub(super) async fn page(
    State(app): State<App>,
    Extension(pages): Extension<PlainPages>,
    parts: request::Parts,
) -> Result<Response, ApiError> {
    let token = parameter(&parts, "t").unwrap_or_default();
    let show = |status: StatusCode, problem: Option<&str>| {
        Ok((status, Html((pages.portal)(&token, problem))).into_response())
    };
    if check_address(&parts).is_err() {
        return Err(ApiError::no_such("page"));
    }
    if Transport::of(&app, &parts) == Transport::Plain {
        return show(StatusCode::FORBIDDEN, Some(transport::HOW_TO));
    }
    let held = match find(&app, &parts, &token).await {
        Ok(held) => held,
        Err(refused) if refused.code() == Code::SignInRefused => {
            return show(StatusCode::UNAUTHORIZED, Some(USED));
        }
        Err(trouble) => return Err(trouble),
    };
    if held.link.can_be_opened(app.now()) {
        return show(StatusCode::OK, None);
    }
    let by_this = |known: &KnownSession| known.holder() == Holder::PortalLink(held.link.id);
    match signed_in(&app, &parts).await? {
        Ok(known) if by_this(&known) => Ok(Redirect::to("/").into_response()),
        _ => show(StatusCode::UNAUTHORIZED, Some(USED)),
    }
}

/// Opens it, and gives what the browser is to keep.
pub(super) async fn open(app: &App, parts: &request::Parts, token: &str) -> Result<HeaderValue, ApiError> {
    check_address(parts)?;
    let HeldPortalLink { link, maker } = find(app, parts, token).await?;
    let used = || ApiError::sign_in_refused(USED);
    let now = app.now();
    maker_usable(&maker, now).map_err(|_| used())?;
    if !link.can_be_opened(now) {
        return Err(used());
    }
    let entrant = Entrant {
        holder: Holder::PortalLink(link.id),
        actor: Actor::PortalLink(link.id),
        owner: Some(link.account_id),
        account_id: Some(link.account_id),
        length: link.session_length,
    };
    let Beginning { new, mut entry, cookie } =
        prepare(app, parts, &entrant, "open_portal_link", None).await?;
    entry.object_id = Some(link.id.to_string());
    app.store.open_portal_link(&link, &new, &entry).await.map_err(|error| match ApiError::from(error) {
        // Somebody else was faster.
        gone if gone.code() == Code::NotFound => used(),
        other => other,
    })?;
    if let Some(id) = new.replaces {
        app.sessions.forget(id);
    }
    Ok(cookie)
}

/// The link of a token, opened or not; whoever tries others is slowed down.
async fn find(app: &App, parts: &request::Parts, token: &str) -> Result<HeldPortalLink, ApiError> {
    let client = ClientAddress::noted(&parts.extensions);
    let unknown = || app.guesses.wrong(client, ApiError::sign_in_refused(USED));
    let hash = SessionSecret::parse(token).ok_or_else(unknown)?.portal_hash(&app.secrets);
    let read = async { Ok(bounded_lookup(app.store.portal_link(&hash)).await?) };
    app.guesses.find(client, true, read).await?.ok_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_portal_may_is_there_and_names_nobody_elses() {
        let document = crate::router::document();
        for (method, path) in OPERATIONS {
            let operation = &document["paths"][path][method.to_lowercase()];
            assert!(operation.is_object(), "{method} {path}");
            for others in ["accounts", "account", "api-keys", "users", "nodes", "audit", "sources"] {
                assert!(!path.split('/').any(|segment| segment == others), "{method} {path}");
            }
        }
    }
}
