//! How a request came, as far as a cookie is concerned.

use crate::{
    app::App,
    client_address::{ForwardedScheme, X_FORWARDED_FOR, X_FORWARDED_PROTO},
    error::ApiError,
};
use http::{HeaderMap, header, request, uri::Authority};
use std::net::IpAddr;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    /// By TLS, which ends at a proxy: one that we trust says so, or `public_url` does.
    Tls,
    /// In the clear, and the browser names this machine: what is sent leaves it by a tunnel or not at all.
    Loopback,
    /// In the clear over a network.
    Plain,
}

impl Transport {
    pub(crate) fn of(app: &App, parts: &request::Parts) -> Self {
        let said = parts.extensions.get().copied();
        let public_tls = app.config.public_url.starts_with("https://");
        Self::judge(said, public_tls, &parts.headers)
    }

    fn judge(said: Option<ForwardedScheme>, public_tls: bool, headers: &HeaderMap) -> Self {
        // A proxy that nobody trusts has put itself between: what it names is not what the browser named.
        let untold_proxy = [X_FORWARDED_FOR, X_FORWARDED_PROTO, header::FORWARDED]
            .iter()
            .any(|name| headers.contains_key(name));
        if said == Some(ForwardedScheme::Https) {
            Self::Tls
        } else if !untold_proxy && host(headers).is_some_and(|host| is_loopback(host.host())) {
            Self::Loopback
        } else if public_tls {
            Self::Tls
        } else {
            Self::Plain
        }
    }

    /// 403 with what to do, where a session must not begin.
    pub(crate) fn check(self) -> Result<(), ApiError> {
        match self {
            Self::Tls | Self::Loopback => Ok(()),
            Self::Plain => Err(ApiError::tls_needed(HOW_TO)),
        }
    }
}

pub(super) const HOW_TO: &str = "this page came over plain http, by which anybody on the way could take the session: put TLS \
     in front and set `public_url` to its https address, or name the proxy in `trusted_proxies` if it sends \
     `x-forwarded-proto`; or open http://localhost on this machine, or through a tunnel such as `ssh -L`";

/// As the browser names us.
pub(super) fn host(headers: &HeaderMap) -> Option<Authority> {
    headers.get(header::HOST)?.to_str().ok()?.parse().ok()
}

fn is_loopback(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let name = bare.to_ascii_lowercase();
    name == "localhost"
        || name.ends_with(".localhost")
        || bare.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn judged(
        said: Option<ForwardedScheme>,
        public_tls: bool,
        headers: &[(&'static str, &'static str)],
    ) -> Transport {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        Transport::judge(said, public_tls, &map)
    }

    #[test]
    fn only_this_machine_goes_without_tls() {
        for host in
            ["localhost:8080", "127.0.0.1:8080", "127.3.2.1", "[::1]:8080", "LOCALHOST", "a.localhost"]
        {
            assert_eq!(judged(None, false, &[("host", host)]), Transport::Loopback, "{host}");
        }
        for host in
            ["192.168.1.7:8080", "posthaste.example", "localhost.example", "127.0.0.1.example", "[::2]"]
        {
            assert_eq!(judged(None, false, &[("host", host)]), Transport::Plain, "{host}");
            assert_eq!(judged(None, true, &[("host", host)]), Transport::Tls, "{host}");
        }
        assert_eq!(judged(None, false, &[]), Transport::Plain);
    }

    #[test]
    fn a_proxy_that_is_not_trusted_makes_no_loopback_and_one_that_is_says_how_it_was() {
        let proxied = [("host", "127.0.0.1:8080"), ("x-forwarded-for", "198.51.100.7")];
        assert_eq!(judged(None, false, &proxied), Transport::Plain);
        assert_eq!(judged(Some(ForwardedScheme::Https), false, &proxied), Transport::Tls);
        let told = [("host", "127.0.0.1:8080"), ("x-forwarded-proto", "http")];
        assert_eq!(judged(Some(ForwardedScheme::Http), false, &told), Transport::Plain);
        assert_eq!(judged(Some(ForwardedScheme::Http), true, &told), Transport::Tls, "as it was configured");
    }
}
