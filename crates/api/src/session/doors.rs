//! Signing in and out: what is under `/ui` and is not the API. JSON alone, as everywhere; no form of another site comes in.

use super::{
    KnownSession, Transport, authenticate,
    begin::{Beginning, Entrant, begin, prepare},
    check_address, cookie,
    headers::{of_page, on_page},
    kind_of,
    login::{self, Pages, PlainPages, link},
    origin, own, portal,
};
use crate::{
    app::App,
    audit::AuditOrigin,
    auth::{actor_of, key_allows, key_usable},
    client_address::ClientAddress,
    error::{ApiError, Code},
    json::Body,
    keys::PresentedKey,
    passwords,
    request::finish_despite_disconnect,
    users,
    validate::Checks,
};
use axum::{
    Extension, Json, Router,
    extract::{FromRequest as _, Request, State},
    middleware,
    response::{Html, IntoResponse, Response},
    routing,
};
use domain::{
    account::{ApiKey, KeyKind},
    audit::Actor,
    id::UserId,
    limits,
    session::{Holder, LinkPurpose, User, UserRole},
};
use http::{HeaderValue, Method, StatusCode, header, request};
use ingest::bounded_lookup;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::json;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Every page, and the ways in and out of them.
pub(crate) fn doors(app: &App, pages: Pages) -> Router<App> {
    let Pages { router, login, set_up, portal: portal_page, missing: _ } = pages;
    let acts = Router::new()
        .route("/ui/sign-in", routing::post(sign_in))
        .route("/ui/sign-out", routing::post(sign_out))
        .route("/ui/set-up", routing::post(self::set_up))
        .route("/ui/portal", routing::post(open_portal))
        .route("/ui/account", routing::post(own::choose_account))
        .route("/ui/password", routing::post(change_password))
        .route("/ui/sessions", routing::get(own::sessions))
        .route("/ui/sessions/{id}", routing::delete(own::end_session))
        .route_layer(middleware::from_fn(finish_despite_disconnect));
    router
        .merge(acts)
        .route("/login", routing::get(login::login))
        .route("/setup", routing::get(login::set_up))
        .route("/portal", routing::get(portal::page))
        .layer(Extension(PlainPages { login, set_up, portal: portal_page }))
        .layer(middleware::from_fn_with_state(app.clone(), of_page))
}

/// Where there is nothing: a page for a browser that asks for one, and for everybody else a problem.
pub(crate) fn nothing_there(app: &App, missing: fn() -> String, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let accepts = parts.headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let is_of_api = ["/v1/", "/ui/", "/ingest/"].iter().any(|begin| parts.uri.path().starts_with(begin));
    if is_of_api || parts.method != Method::GET || !accepts.is_some_and(|kinds| kinds.contains("text/html")) {
        return ApiError::no_such("page").into_response();
    }
    let mut answer = (StatusCode::NOT_FOUND, Html(missing())).into_response();
    on_page(answer.headers_mut(), Transport::of(app, &parts));
    answer
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignIn {
    key: Option<String>,
    user: Option<String>,
    password: Option<String>,
}

async fn sign_in(State(app): State<App>, request: Request) -> Result<Response, ApiError> {
    let (parts, SignIn { key, user, password }) = from_a_page(&app, request).await?;
    let entrant = match (key, user, password) {
        (Some(key), None, None) => by_key(&app, &parts, Zeroizing::new(key).trim()).await?,
        (None, Some(user), Some(password)) => {
            by_password(&app, &parts, &user, Zeroizing::new(password)).await?
        }
        _ => {
            let detail = "send `key`, or `user` and `password`";
            return Err(ApiError::invalid_field("", "missing_field", detail));
        }
    };
    let cookie = begin(&app, &parts, &entrant, None).await?;
    Ok(([(header::SET_COOKIE, cookie)], Json(json!({}))).into_response())
}

/// The body of a request that no session vouches for: what it came from is looked at first, and how.
async fn from_a_page<T: DeserializeOwned>(
    app: &App,
    request: Request,
) -> Result<(request::Parts, T), ApiError> {
    let (parts, body) = request.into_parts();
    origin::check(app, &parts)?;
    Transport::of(app, &parts).check()?;
    let Body(input) = Body::from_request(Request::from_parts(parts.clone(), body), app).await?;
    Ok((parts, input))
}

async fn by_key(app: &App, parts: &request::Parts, text: &str) -> Result<Entrant, ApiError> {
    let client = ClientAddress::noted(&parts.extensions);
    let wrong = |detail| app.guesses.wrong(client, ApiError::sign_in_refused(detail));
    let presented = PresentedKey::parse(text).ok_or_else(|| wrong("that is no whole API key"))?;
    let known = app.presented_key(&presented, client).await?;
    let known = known.ok_or_else(|| wrong("there is no such API key"))?;
    let key = &known.key;
    let usable = key_usable(key, app.now()).and_then(|()| key_allows(key, client));
    usable.map_err(|refused| ApiError::sign_in_refused(refused.detail()))?;
    if key.kind == KeyKind::Ingest {
        return Err(ApiError::sign_in_refused(
            "an ingest key can only bring events in: there is nothing to see",
        ));
    }
    check_address(key.kind, parts)?;
    Ok(entrant_by(key))
}

async fn by_password(
    app: &App,
    parts: &request::Parts,
    name: &str,
    password: Zeroizing<String>,
) -> Result<Entrant, ApiError> {
    let client = ClientAddress::noted(&parts.extensions);
    let name = users::folded(name);
    app.guesses.try_password(client, &name)?;
    let found = bounded_lookup(app.store.user_by_name(&name)).await?;
    let kept = found.as_ref().map(|user| user.password.clone());
    let is_right = app.passwords.is_right(password, kept).await?;
    let Some(user) = found.filter(|_| is_right) else {
        return Err(ApiError::sign_in_refused("the name or the password is wrong"));
    };
    app.guesses.was_right(client, &name);
    check_address(kind_of(user.role), parts)?;
    Ok(entrant_of(&user))
}

pub(super) fn entrant_by(key: &ApiKey) -> Entrant {
    Entrant {
        holder: Holder::Key(key.id),
        actor: actor_of(key),
        owner: key.account_id,
        account_id: None,
        length: limits::SESSION_LENGTH,
    }
}

fn entrant_of(user: &User) -> Entrant {
    Entrant {
        holder: Holder::User(user.id),
        actor: Actor::User(user.id),
        owner: None,
        account_id: user.accounts.first().copied(),
        length: limits::SESSION_LENGTH,
    }
}

async fn sign_out(State(app): State<App>, parts: request::Parts) -> Result<Response, ApiError> {
    let known = authenticate(&app, &parts).await?;
    let id = known.session().id;
    let entry = AuditOrigin::of_session(&parts, known.actor(), "sign_out").entry(&app, id, None);
    match app.store.end_session(Some(known.holder()), id, known.owner(), &entry).await {
        // Ended meanwhile: that is what was wanted.
        Ok(()) | Err(store::StoreError::NotFound { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    app.sessions.forget(id);
    let cookie = cookie::clear(Transport::of(&app, &parts));
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetUp {
    token: String,
    user: String,
    password: String,
}

/// The first user, an operator.
async fn set_up(State(app): State<App>, request: Request) -> Result<Response, ApiError> {
    let (parts, SetUp { token, user: name, password }) = from_a_page(&app, request).await?;
    check_address(KeyKind::Operator, &parts)?;
    let hash = link(&app, &parts, &token, LinkPurpose::SetUp).await?;
    let password = Zeroizing::new(password);
    let mut checks = Checks::default();
    let name = users::check_name(&mut checks, "/user", &name);
    passwords::check(&mut checks, "/password", &password);
    checks.done()?;
    let now = app.now();
    let user = User {
        id: UserId::at(now, app.dice.bits()),
        name,
        password: app.passwords.hash(password, &*app.dice).await?,
        role: UserRole::Operator,
        accounts: Vec::new(),
        created_at: now,
        updated_at: now,
    };
    let entrant = entrant_of(&user);
    let Beginning { new, mut entry, cookie } = prepare(&app, &parts, &entrant, "set_up", Some(hash)).await?;
    entry.object_id = Some(user.id.to_string());
    entry.difference = users::told(&user).made();
    app.store.set_up(&user, &new, &entry).await.map_err(|error| match ApiError::from(error) {
        gone if gone.code() == Code::NotFound => {
            ApiError::sign_in_refused("the set-up link has been used, or is over")
        }
        other => other,
    })?;
    Ok(([(header::SET_COOKIE, cookie)], Json(json!({}))).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OpenPortal {
    token: String,
}

/// Only whoever presses the button of the link's page: what looks ahead at links does not use them up.
async fn open_portal(State(app): State<App>, request: Request) -> Result<Response, ApiError> {
    let (parts, OpenPortal { token }) = from_a_page(&app, request).await?;
    let cookie = portal::open(&app, &parts, &token).await?;
    Ok(([(header::SET_COOKIE, cookie)], Json(json!({}))).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangePassword {
    current: String,
    new: String,
}

/// A user's own. All its sessions end, and this browser has a new one.
async fn change_password(State(app): State<App>, request: Request) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let known: Arc<KnownSession> = authenticate(&app, &parts).await?;
    let request = Request::from_parts(parts.clone(), body);
    let Body(ChangePassword { current, new: wanted }) = Body::from_request(request, &app).await?;
    let (current, wanted) = (Zeroizing::new(current), Zeroizing::new(wanted));
    let Some(user) = known.user() else {
        return Err(ApiError::scope_missing(
            "a session of an API key has no password: make another key instead",
        ));
    };
    let mut checks = Checks::default();
    passwords::check(&mut checks, "/new", &wanted);
    checks.done()?;
    let client = ClientAddress::noted(&parts.extensions);
    app.guesses.try_password(client, &user.name)?;
    if !app.passwords.is_right(current, Some(user.password.clone())).await? {
        return Err(ApiError::invalid_field("/current", "invalid_value", "that is not the password"));
    }
    app.guesses.was_right(client, &user.name);
    let hash = app.passwords.hash(wanted, &*app.dice).await?;
    let entrant = Entrant { account_id: known.session().account_id, ..entrant_of(user) };
    let Beginning { new, mut entry, cookie } =
        prepare(&app, &parts, &entrant, "change_password", None).await?;
    entry.object_id = Some(user.id.to_string());
    app.store.change_password(user.id, &hash, &new, &entry).await?;
    app.sessions.forget_of(Holder::User(user.id));
    let headers: [(_, HeaderValue); 1] = [(header::SET_COOKIE, cookie)];
    Ok((headers, Json(json!({}))).into_response())
}
