//! What every page says to the browser about itself.

use super::Transport;
use crate::app::App;
use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use domain::limits;
use http::{HeaderMap, HeaderName, HeaderValue, header};

/// Nothing but what is ours, nothing inline, in no frame.
const PAGE: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'";
/// What is no page is shown as none.
const DATA: &str = "default-src 'none'; frame-ancestors 'none'; sandbox";

/// Around pages and what signs in and out.
pub(crate) async fn of_page(State(app): State<App>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let transport = Transport::of(&app, &parts);
    let mut answer = next.run(Request::from_parts(parts, body)).await;
    on_page(answer.headers_mut(), transport);
    answer
}

pub(super) fn on_page(headers: &mut HeaderMap, transport: Transport) {
    put(headers, header::CONTENT_SECURITY_POLICY, PAGE);
    common(headers, transport);
}

/// Of what is answered under `/ui/v1`.
pub(crate) fn of_data(headers: &mut HeaderMap, transport: Transport) {
    // The bytes of a stranger are what the stranger says they are: a browser is told of text, to be saved.
    if headers.contains_key(header::CONTENT_DISPOSITION) {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    }
    put(headers, header::CONTENT_SECURITY_POLICY, DATA);
    common(headers, transport);
}

fn common(headers: &mut HeaderMap, transport: Transport) {
    put(headers, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    put(headers, header::X_FRAME_OPTIONS, "DENY");
    put(headers, header::REFERRER_POLICY, "no-referrer");
    put(headers, HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    put(headers, HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    // Files say themselves for how long they are good.
    put(headers, header::CACHE_CONTROL, "no-store");
    if transport == Transport::Tls {
        let hsts = HeaderValue::try_from(format!("max-age={}", limits::HSTS_SECONDS));
        headers.insert(header::STRICT_TRANSPORT_SECURITY, hsts.expect("digits are ASCII"));
    }
}

fn put(headers: &mut HeaderMap, name: HeaderName, value: &'static str) {
    headers.entry(name).or_insert(HeaderValue::from_static(value));
}
