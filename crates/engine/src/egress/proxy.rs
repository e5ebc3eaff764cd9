//! The operator's proxy, through which every destination is reached: by CONNECT or by SOCKS5.
//!
//! It is asked for an address that was vetted here, unless the operator leaves names to it. Destinations without TLS are
//! reached by CONNECT too, so that what is sent to them is never the proxy's to read as a request. What it says stays with
//! the operator. The environment (`HTTP_PROXY` and its kin) is not asked.

mod connect;
mod socks5;

use super::{
    Dial, Duplex, Resolve, Security,
    resolutions::{Addresses, HostKey, Resolutions},
};
use http::uri::Authority;
use percent_encoding::percent_decode_str;
use std::{fmt, io, net::SocketAddr, str::FromStr, sync::Arc};
use url::Url;

/// A proxy as the settings name it: `http://[user:password@]host:port` or `socks5://…`. Its credentials print as `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    protocol: ProxyProtocol,
    authority: Authority,
    login: Option<Login>,
    resolves: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProxyProtocol {
    Connect,
    Socks5,
}

#[derive(Clone, PartialEq, Eq)]
struct Login {
    user: String,
    password: String,
}

/// The URL of a proxy that is none. It repeats nothing: there may be a password in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected http://[user:password@]host:port or socks5://[user:password@]host:port")]
pub struct ProxyUrlError;

impl FromStr for Proxy {
    type Err = ProxyUrlError;

    fn from_str(text: &str) -> Result<Self, ProxyUrlError> {
        let url = Url::parse(text.trim()).map_err(|_| ProxyUrlError)?;
        let (protocol, usual_port) = match url.scheme() {
            "http" => (ProxyProtocol::Connect, 80),
            "socks5" => (ProxyProtocol::Socks5, 1080),
            _ => return Err(ProxyUrlError),
        };
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or(ProxyUrlError)?;
        let bare = matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
        let authority = format!("{host}:{}", url.port().unwrap_or(usual_port)).parse();
        let decoded = |text: &str| percent_decode_str(text).decode_utf8().map(String::from);
        let login = match (url.username(), url.password()) {
            ("", None) => None,
            (user, password) => {
                let user = decoded(user).map_err(|_| ProxyUrlError)?;
                let password = decoded(password.unwrap_or_default()).map_err(|_| ProxyUrlError)?;
                // As much as SOCKS5 can say.
                let fits = |text: &str| text.len() <= usize::from(u8::MAX);
                Some(Login { user, password })
                    .filter(|it| fits(&it.user) && fits(&it.password))
                    .ok_or(ProxyUrlError)
                    .map(Some)?
            }
        };
        let authority = authority.ok().filter(|_| bare && url.port() != Some(0)).ok_or(ProxyUrlError)?;
        Ok(Self { protocol, authority, login, resolves: false })
    }
}

impl Proxy {
    /// Names are handed on to it: for a proxy that filters, and that the operator trusts to do it.
    pub fn resolving_names(self, resolves: bool) -> Self {
        Self { resolves, ..self }
    }

    pub(super) fn resolves(&self) -> bool {
        self.resolves
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.protocol {
            ProxyProtocol::Connect => "http",
            ProxyProtocol::Socks5 => "socks5",
        };
        let login = if self.login.is_some() { "***@" } else { "" };
        write!(f, "{scheme}://{login}{}", self.authority)
    }
}

/// What a proxy is asked to connect to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Endpoint<'a> {
    Vetted(SocketAddr),
    Named(&'a str, u16),
}

impl fmt::Display for Endpoint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vetted(address) => write!(f, "{address}"),
            Self::Named(name, port) => write!(f, "{name}:{port}"),
        }
    }
}

/// The way through a proxy.
#[derive(Clone)]
pub(super) struct ProxyTunnels {
    proxy: Proxy,
    /// Its own address is the operator's choice, and not judged.
    resolutions: Arc<Resolutions>,
    dialer: Arc<dyn Dial>,
}

impl ProxyTunnels {
    pub(super) fn new(proxy: Proxy, resolver: Arc<dyn Resolve>, dialer: Arc<dyn Dial>) -> Self {
        Self { proxy, resolutions: Resolutions::new(None, resolver, false), dialer }
    }

    /// A connection to this endpoint. The caller sees to it that it does not take too long.
    pub(super) async fn open(&self, to: Endpoint<'_>) -> io::Result<Box<dyn Duplex>> {
        let opened = self.tunnel(to).await;
        if let Err(error) = &opened {
            tracing::info!(proxy = ?self.proxy, %to, %error, "the proxy made no connection");
        }
        opened
    }

    async fn tunnel(&self, to: Endpoint<'_>) -> io::Result<Box<dyn Duplex>> {
        let mut stream = self.reach().await?;
        let login = self.proxy.login.as_ref();
        match self.proxy.protocol {
            ProxyProtocol::Connect => connect::shake_hands(stream.as_mut(), to, login).await?,
            ProxyProtocol::Socks5 => socks5::shake_hands(stream.as_mut(), to, login).await?,
        }
        Ok(stream)
    }

    async fn reach(&self) -> io::Result<Box<dyn Duplex>> {
        let key = HostKey { security: Security::Plain, authority: self.proxy.authority.clone() };
        let (resolution, _) = self.resolutions.of(&key).await.map_err(io::Error::other)?;
        let Addresses::Vetted(addresses) = &resolution.addresses else {
            return Err(io::Error::other("a proxy is not found by a proxy"));
        };
        let mut last = io::Error::other("it has no address");
        for address in addresses {
            match self.dialer.dial(SocketAddr::new(*address, resolution.port)).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        self.resolutions.doubt(&key, &resolution);
        Err(last)
    }
}

#[cfg(test)]
mod tests;
