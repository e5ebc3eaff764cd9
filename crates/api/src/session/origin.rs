//! Whether what changes something comes from a page of ours.

use super::{Transport, transport};
use crate::{app::App, error::ApiError};
use http::{HeaderName, header, request};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// 403 unless the browser says so, in the words it has: `Sec-Fetch-Site`, or `Origin` where it does not send that one.
pub(super) fn check(app: &App, parts: &request::Parts) -> Result<(), ApiError> {
    let ours = match parts.headers.get(SEC_FETCH_SITE) {
        Some(site) => site == "same-origin",
        None => parts.headers.get(header::ORIGIN).is_some_and(|origin| {
            origin.to_str().is_ok_and(|origin| {
                let by_host = origin_by_host(app, parts);
                by_host.is_some_and(|ours| ours.eq_ignore_ascii_case(origin))
                    || public_origin(&app.config.public_url).eq_ignore_ascii_case(origin)
            })
        }),
    };
    if ours {
        return Ok(());
    }
    Err(ApiError::cross_site("a page of another site may not do this with a session of ours"))
}

fn origin_by_host(app: &App, parts: &request::Parts) -> Option<String> {
    let scheme = match Transport::of(app, parts) {
        Transport::Tls => "https",
        Transport::Loopback | Transport::Plain => "http",
    };
    transport::host(&parts.headers).map(|host| format!("{scheme}://{host}"))
}

/// Without what may come after the host.
fn public_origin(url: &str) -> &str {
    let authority = url.find("://").map_or(0, |at| at + 3);
    url[authority..].find('/').map_or(url, |end| &url[..authority + end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_has_no_path() {
        assert_eq!(public_origin("https://hooks.example"), "https://hooks.example");
        assert_eq!(public_origin("https://hooks.example:8443/posthaste"), "https://hooks.example:8443");
    }
}
