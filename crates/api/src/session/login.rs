//! The pages of those who are not signed in, and the link that signs in by itself.

use super::{
    Transport, begin::begin, check_address, cookie::SessionSecret, doors::entrant_by, safe_next, signed_in,
    transport,
};
use crate::{
    app::App,
    auth::{key_allows, key_usable},
    client_address::ClientAddress,
    error::{ApiError, Code},
};
use axum::{
    Extension, Router,
    extract::State,
    response::{Html, IntoResponse, Redirect, Response},
};
use domain::session::{LinkPurpose, SecretHash};
use http::{Method, StatusCode, header, request};
use ingest::bounded_lookup;
use url::form_urlencoded;

/// What people see, as the binary hands it in: this crate knows what a page may show, and not how it looks.
#[derive(Clone)]
pub struct Pages {
    /// Every page for a [`super::Visitor`], and the files they load.
    pub router: Router<App>,
    /// Where to sign in, with the path to go on to, and what was wrong with the way somebody came.
    pub login: fn(&str, Option<&str>) -> String,
    /// Where the first user is made, with the token of the link, or what is wrong with it.
    pub set_up: fn(&str, Option<&str>) -> String,
    /// Where a portal link is opened, with its token, or what is wrong with it.
    pub portal: fn(&str, Option<&str>) -> String,
    /// What a browser sees where there is no page.
    pub missing: fn() -> String,
}

#[derive(Clone, Copy)]
pub(super) struct PlainPages {
    pub(super) login: fn(&str, Option<&str>) -> String,
    pub(super) set_up: fn(&str, Option<&str>) -> String,
    pub(super) portal: fn(&str, Option<&str>) -> String,
}

const USED: &str =
    "This link has been used, or is over. A start of the server prints a new one; or sign in with a key.";

/// `GET /login`: with `t`, the link is opened; without, the page to sign in.
pub(super) async fn login(
    State(app): State<App>,
    Extension(pages): Extension<PlainPages>,
    parts: request::Parts,
) -> Result<Response, ApiError> {
    let (token, next) = (parameter(&parts, "t"), parameter(&parts, "next"));
    let next = safe_next(next.as_deref());
    let transport = Transport::of(&app, &parts);
    let show = |status: StatusCode, problem: Option<&str>| {
        Ok((status, Html((pages.login)(next, problem))).into_response())
    };
    if transport == Transport::Plain {
        return show(StatusCode::FORBIDDEN, Some(transport::HOW_TO));
    }
    // Whoever only asks for the head, to see whether the page is there, must not use the link up.
    if let Some(token) = token.filter(|_| parts.method == Method::GET) {
        return match open(&app, &parts, &token).await {
            Ok(cookie) => Ok(([(header::SET_COOKIE, cookie)], Redirect::to(next)).into_response()),
            Err(refused) if matches!(refused.code(), Code::SignInRefused | Code::Unauthorized) => {
                app.refusals.note(
                    Code::SignInRefused,
                    &parts.extensions.get().cloned().unwrap_or_default(),
                    ClientAddress::noted(&parts.extensions),
                );
                show(StatusCode::UNAUTHORIZED, Some(&refused.detail()))
            }
            Err(trouble) => Err(trouble),
        };
    }
    match signed_in(&app, &parts).await? {
        Ok(_) => Ok(Redirect::to(next).into_response()),
        Err(_) => show(StatusCode::OK, None),
    }
}

/// `GET /setup`: the page on which the first user chooses a name and a password.
pub(super) async fn set_up(
    State(app): State<App>,
    Extension(pages): Extension<PlainPages>,
    parts: request::Parts,
) -> Result<Response, ApiError> {
    let token = parameter(&parts, "t").unwrap_or_default();
    let show = |status: StatusCode, problem: Option<&str>| {
        Ok((status, Html((pages.set_up)(&token, problem))).into_response())
    };
    if Transport::of(&app, &parts) == Transport::Plain {
        return show(StatusCode::FORBIDDEN, Some(transport::HOW_TO));
    }
    match link(&app, &parts, &token, LinkPurpose::SetUp).await {
        Ok(_) => show(StatusCode::OK, None),
        Err(refused) if refused.code() == Code::SignInRefused => show(StatusCode::UNAUTHORIZED, Some(USED)),
        Err(trouble) => Err(trouble),
    }
}

async fn open(app: &App, parts: &request::Parts, token: &str) -> Result<http::HeaderValue, ApiError> {
    let hash = link(app, parts, token, LinkPurpose::SignIn).await?;
    let key = bounded_lookup(app.store.key_of_link(&hash)).await?;
    let key = key.ok_or_else(|| ApiError::sign_in_refused(USED))?;
    key_usable(&key, app.now())?;
    key_allows(&key, ClientAddress::noted(&parts.extensions))?;
    check_address(key.kind, parts)?;
    begin(app, parts, &entrant_by(&key), Some(hash)).await.map_err(|error| match error.code() {
        // Somebody else was faster.
        Code::NotFound => ApiError::sign_in_refused(USED),
        _ => error,
    })
}

/// The hash of a link that can be opened; whoever tries others is slowed down.
pub(super) async fn link(
    app: &App,
    parts: &request::Parts,
    token: &str,
    purpose: LinkPurpose,
) -> Result<SecretHash, ApiError> {
    let client = ClientAddress::noted(&parts.extensions);
    let used = || app.guesses.wrong(client, ApiError::sign_in_refused(USED));
    let hash = SessionSecret::parse(token).ok_or_else(used)?.link_hash(&app.secrets);
    let read = async { Ok(bounded_lookup(app.store.link(&hash)).await?) };
    let found = app.guesses.find(client, true, read).await?;
    let opens = found.filter(|link| link.purpose == purpose && link.expires_at > app.now());
    opens.map(|link| link.hash).ok_or_else(used)
}

pub(super) fn parameter(parts: &request::Parts, name: &str) -> Option<String> {
    let query = parts.uri.query().unwrap_or_default();
    form_urlencoded::parse(query.as_bytes()).find(|(known, _)| known == name).map(|(_, value)| value.into())
}
