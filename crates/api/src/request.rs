//! The frame around every request: an id, the checks that need no handler, and problems written down.

use crate::{
    answers::Answers, app::App, audit::refusals::Recognised, auth, client_address::ClientAddress,
    error::ApiError, keys,
};
use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use domain::id::RequestId;
use futures_util::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use ingest::panic_message;
use std::{
    panic::AssertUnwindSafe,
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Lays the frame around what the router leads to. Handlers that name the request's id take `Extension<RequestId>`.
pub(crate) async fn frame(State(app): State<App>, request: Request, next: Next) -> Response {
    framed(&app, request, |request| next.run(request)).await
}

/// The same around any handler.
pub(crate) async fn framed<A: Future<Output = Response>>(
    app: &App,
    mut request: Request,
    handler: impl FnOnce(Request) -> A,
) -> Response {
    let started = Instant::now();
    let id = RequestId::at(app.now(), app.dice.bits());
    request.extensions_mut().insert(id);
    let recognised = Recognised::default();
    request.extensions_mut().insert(recognised.clone());
    let client = ClientAddress::noted(request.extensions());
    let method = request.method().clone();
    let is_api = request.uri().path().starts_with("/v1/");
    let holds_key = keys::is_key_in_url(request.uri());
    let shown_key = request.headers().get(header::AUTHORIZATION).cloned();
    // The path of an ingest URL is a credential, and a query may hold anything: neither is logged.
    let path = if is_api && !holds_key { request.uri().path().to_owned() } else { String::new() };

    let checked = check_request(app, request.uri(), request.headers());
    let checked = checked.and_then(|()| refuse_key_in_url(holds_key));
    let mut response = match checked {
        Ok(()) => match AssertUnwindSafe(async { handler(request).await }).catch_unwind().await {
            Ok(response) => response,
            Err(panic) => {
                ApiError::from_bug(format_args!("panic: {}", panic_message(&*panic))).into_response()
            }
        },
        Err(refused) => refused.into_response(),
    };

    let tell = |response: &mut Response, error: ApiError| {
        log_refusal(&app.health.refusals, id, client, &method, &path, &error);
        app.refusals.note(error.code(), &recognised, client);
        *response.status_mut() = error.status();
        let body = error.write(id, response.headers_mut());
        response.headers_mut().remove(header::CONTENT_LENGTH);
        *response.body_mut() = Body::from(body);
    };
    if let Some(error) = response.extensions_mut().remove::<ApiError>() {
        tell(&mut response, error);
    }
    if Answers::is_due(&response) {
        let account = match recognised.acts_for() {
            Some(account) => Some(account),
            None => Box::pin(auth::account_behind(app, shown_key)).await,
        };
        response = app.answers.hold(account, response).unwrap_or_else(|no_room| {
            let mut response = Response::default();
            tell(&mut response, if method.is_safe() { no_room } else { Answers::untold() });
            response
        });
    }
    let headers = response.headers_mut();
    headers.insert(X_REQUEST_ID, shown_id(id));
    if is_api {
        headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    }
    tracing::debug!(
        request_id = %id, client = %client.0, %method, path, status = response.status().as_u16(),
        latency_us = started.elapsed().as_micros() as u64, "request.answered"
    );
    response
}

pub(crate) fn shown_id(id: RequestId) -> HeaderValue {
    HeaderValue::from_str(&id.to_string()).expect("an id is ASCII")
}

/// A change that has begun is finished, and told to its owners, even if the client hangs up: its connection, and
/// all that runs in it, is dropped then.
pub(crate) async fn finish_despite_disconnect(request: Request, next: Next) -> Response {
    if request.method().is_safe() {
        return next.run(request).await;
    }
    let answer = tokio::spawn(next.run(request)).await;
    answer.unwrap_or_else(|panic| ApiError::from_bug(panic).into_response())
}

/// What is wrong with a request whatever it asks for; what is wrong with its head has been found before (`server/head.rs`).
fn check_request(app: &App, uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
    if app.health.is_draining() && !matches!(uri.path(), "/healthz" | "/readyz" | "/metrics") {
        return Err(ApiError::draining("this node is stopping: ask another one, or again in a moment"));
    }
    if uri.path().starts_with("/v1/") && !accepts_json(uri.path(), headers) {
        return Err(ApiError::not_acceptable("this API answers `application/json`"));
    }
    Ok(())
}

fn refuse_key_in_url(holds_key: bool) -> Result<(), ApiError> {
    if holds_key {
        return Err(ApiError::credential_in_url(
            "an API key was sent in the URL, where logs and histories keep it: revoke it, and send the new one \
             as `Authorization: Bearer`",
        ));
    }
    Ok(())
}

/// Payloads and streams are not JSON; a request for those may ask for anything.
fn accepts_json(path: &str, headers: &HeaderMap) -> bool {
    let Some(accepted) = headers.get(header::ACCEPT) else { return true };
    let accepted = accepted.to_str().unwrap_or("*/*");
    path.ends_with("/payload")
        || path == "/v1/stream"
        || accepted.split(',').any(|range| {
            let range = range.split(';').next().unwrap_or_default().trim();
            ["*/*", "application/*", "application/json", "application/problem+json"]
                .iter()
                .any(|ours| range.eq_ignore_ascii_case(ours))
        })
}

/// An error is logged once, here; a client's mistakes only at the level of debugging. Of requests that are turned away one
/// a second is named, with how many there were: under an overload a line for each would be a load of its own.
fn log_refusal(
    refusals: &OncePerSecond,
    id: RequestId,
    ClientAddress(client): ClientAddress,
    method: &http::Method,
    path: &str,
    error: &ApiError,
) {
    let (status, cause) = (error.status().as_u16(), error.cause().unwrap_or_default());
    match status {
        500 => {
            tracing::error!(request_id = %id, %client, %method, path, status, cause, %error, "request.failed")
        }
        501.. => {
            if let Some(count) = refusals.count_if_due() {
                tracing::warn!(request_id = %id, %client, %method, path, status, cause, %error, count, "request.turned_away");
            }
        }
        _ => {
            tracing::debug!(request_id = %id, %client, %method, path, status, cause, %error, "request.refused")
        }
    }
}

/// Says once a second how often something happened.
#[derive(Debug)]
pub(crate) struct OncePerSecond {
    since: Instant,
    /// Milliseconds after `since` from which it may be said again.
    next: AtomicU64,
    count: AtomicU64,
}

impl Default for OncePerSecond {
    fn default() -> Self {
        Self { since: Instant::now(), next: AtomicU64::new(0), count: AtomicU64::new(0) }
    }
}

impl OncePerSecond {
    /// It happened: how often since it was last said, if it is time to say it.
    pub(crate) fn count_if_due(&self) -> Option<u64> {
        self.count.fetch_add(1, Ordering::Relaxed);
        let now = self.since.elapsed().as_millis() as u64;
        let next = self.next.load(Ordering::Relaxed);
        let mine = now >= next
            && self.next.compare_exchange(next, now + 1_000, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        mine.then(|| self.count.swap(0, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_often_is_said_seldom() {
        let often = OncePerSecond::default();
        assert_eq!(often.count_if_due(), Some(1));
        assert!((0..1_000).all(|_| often.count_if_due().is_none()));
        often.next.store(0, Ordering::Relaxed);
        assert_eq!(often.count_if_due(), Some(1_001));
    }

    #[test]
    fn json_is_acceptable_unless_the_client_says_otherwise() {
        let accepts = |path: &str, accept: &'static str| {
            accepts_json(path, &HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]))
        };
        assert!(accepts_json("/v1/events", &HeaderMap::new()));
        assert!(accepts("/v1/events", "text/html, application/json;q=0.9"));
        assert!(accepts("/v1/events", "*/*"));
        assert!(!accepts("/v1/events", "text/html"));
        assert!(accepts("/v1/events/evt_1/payload", "text/html"));
    }
}
