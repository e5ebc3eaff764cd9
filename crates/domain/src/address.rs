//! Which addresses and URLs may be called: the pure half of the guard against requests forged through us.
//!
//! A URL is checked when a destination is written and again when a request is built; every address a name resolves to
//! is judged by [`AddressPolicy::permits`] right before the socket is opened. Names are the belt, addresses the braces:
//! a name that passes here proves nothing about where it leads. Nothing is resolved here.

mod host_pattern;

pub use host_pattern::{HostListError, HostPattern, parse_host_list};

use crate::limits;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use url::{Host, Url};

/// A network, such as `192.0.2.0/24`; an address alone is a network of one.
pub fn network(text: &str) -> Option<IpNet> {
    let network = text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
    network.map(|network: IpNet| network.trunc())
}

/// What the operator lets this installation call. The default is strict: public addresses over https.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AddressPolicy {
    /// Called although the built-in rule forbids it.
    pub allow: Vec<IpNet>,
    /// Never called, whatever else says so.
    pub deny: Vec<IpNet>,
    /// Local names that may be called: `intranet`, or `*.corp.internal` for everything below. Their addresses are
    /// judged like all others.
    pub allow_hosts: Vec<HostPattern>,
    /// Names that are never called, whatever else says so.
    pub deny_hosts: Vec<HostPattern>,
    /// This network has a NAT64 gateway: `64:ff9b::/96` is called, where the IPv4 address in it may be.
    pub nat64: bool,
    pub allow_http: bool,
}

/// Why a URL cannot be a destination. The texts are for the account: they name no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    #[error("{0}")]
    Invalid(String),
    #[error(
        "the host is not one this installation may call; an operator can allow it with egress.allow or egress.allow_hosts"
    )]
    Blocked,
}

impl UrlError {
    /// The code of the problem document.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "invalid_url",
            Self::Blocked => "blocked_target",
        }
    }
}

impl AddressPolicy {
    /// Whether a socket may be opened to this address. The operator's networks win, deny over allow.
    pub fn permits(&self, ip: IpAddr) -> bool {
        if self.deny.iter().any(|net| net.contains(&ip)) {
            return false;
        }
        let allowed = self.allow.iter().any(|net| net.contains(&ip));
        match ip {
            IpAddr::V4(ip) => allowed || !within(&FORBIDDEN_V4, ip),
            // Spelled as IPv6 and ending at an IPv4 address: the operator turns the spelling on, the IPv4 rule judges.
            IpAddr::V6(ip) => match (ip.to_ipv4_mapped(), behind_nat64(ip)) {
                (Some(inner), _) => allowed && self.permits(inner.into()),
                (None, Some(inner)) => self.nat64 && self.permits(inner.into()),
                (None, None) => {
                    allowed || (GLOBAL_V6.contains(&ip) && !FORBIDDEN_V6.iter().any(|net| net.contains(&ip)))
                }
            },
        }
    }

    /// Reads a URL that is to be called, in the one form it is used in from here on.
    pub fn check_url(&self, text: &str) -> Result<Url, UrlError> {
        if text.len() > limits::URL_BYTES {
            return invalid(format!("is longer than {} bytes", limits::URL_BYTES));
        }
        // Parsers differ over these, and a URL that two parsers read differently is an attack or a mistake.
        if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
            return invalid("contains spaces, control characters or backslashes");
        }
        let mut url =
            Url::parse(text).map_err(|error| UrlError::Invalid(format!("is not a URL: {error}")))?;
        match url.scheme() {
            "https" => {}
            "http" if self.allow_http => {}
            "http" => return invalid("must use https; an operator can allow http with egress.allow_http"),
            _ if self.allow_http => return invalid("must use https or http"),
            _ => return invalid("must use https"),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return invalid("contains a user name or password; use the destination's auth instead");
        }
        if url.fragment().is_some() {
            return invalid("has a fragment, which is never sent");
        }
        if url.port() == Some(0) {
            return invalid("has port 0");
        }
        if url.as_str().len() > limits::URL_BYTES {
            return invalid(format!("is longer than {} bytes when written out", limits::URL_BYTES));
        }
        match url.host() {
            None => return invalid("has no host"),
            Some(Host::Ipv4(ip)) if self.permits(ip.into()) => {}
            Some(Host::Ipv6(ip)) if self.permits(ip.into()) => {}
            Some(Host::Ipv4(_) | Host::Ipv6(_)) => return Err(UrlError::Blocked),
            Some(Host::Domain(name)) => {
                let name = self.check_name(name)?.to_owned();
                url.set_host(Some(&name))
                    .map_err(|error| UrlError::Invalid(format!("is not a URL: {error}")))?;
            }
        }
        Ok(url)
    }

    /// The name without its trailing dot: certificates and `Host` headers know it so.
    fn check_name<'n>(&self, name: &'n str) -> Result<&'n str, UrlError> {
        let name = name.strip_suffix('.').unwrap_or(name);
        if name.len() > HOST_BYTES {
            return invalid(format!("has a host longer than {HOST_BYTES} bytes"));
        }
        if name.split('.').any(|label| label.is_empty() || label.len() > LABEL_BYTES) {
            return invalid("has a host that is no domain name");
        }
        let covered = |patterns: &[HostPattern]| patterns.iter().any(|pattern| pattern.covers(name));
        let allowed = !is_local(name)
            || covered(&self.allow_hosts)
            || (is_loopback(name) && self.permits(Ipv4Addr::LOCALHOST.into()));
        if allowed && !covered(&self.deny_hosts) { Ok(name) } else { Err(UrlError::Blocked) }
    }
}

/// Networks separated by commas, as in `127.0.0.0/8,10.1.2.3`: a bare address is a network of one.
pub fn parse_allow_list(text: &str) -> Result<Vec<IpNet>, AllowListError> {
    let net = |part: &str| {
        let one = part.parse::<IpAddr>().map(IpNet::from).ok();
        one.or_else(|| part.parse::<IpNet>().ok().map(|net| net.trunc()))
            .ok_or_else(|| AllowListError(part.into()))
    };
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(net).collect()
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither an address nor a network such as 10.0.0.0/8")]
pub struct AllowListError(String);

/// The longest domain name there is, written without its trailing dot.
const HOST_BYTES: usize = 253;
const LABEL_BYTES: usize = 63;

/// IANA's special-purpose registry: this host, private, shared, loopback, link-local, protocol assignments,
/// documentation, the old 6to4 relays, benchmarks, multicast, reserved and broadcast.
const FORBIDDEN_V4: [Ipv4Net; 15] = [
    v4([0, 0, 0, 0], 8),
    v4([10, 0, 0, 0], 8),
    v4([100, 64, 0, 0], 10),
    v4([127, 0, 0, 0], 8),
    v4([169, 254, 0, 0], 16),
    v4([172, 16, 0, 0], 12),
    v4([192, 0, 0, 0], 24),
    v4([192, 0, 2, 0], 24),
    v4([192, 88, 99, 0], 24),
    v4([192, 168, 0, 0], 16),
    v4([198, 18, 0, 0], 15),
    v4([198, 51, 100, 0], 24),
    v4([203, 0, 113, 0], 24),
    v4([224, 0, 0, 0], 4),
    v4([240, 0, 0, 0], 4),
];

/// Global unicast: everything else in IPv6 is special or not yet given out.
const GLOBAL_V6: Ipv6Net = v6([0x2000, 0], 3);

/// Within global unicast: protocol assignments with Teredo, documentation twice, and 6to4.
const FORBIDDEN_V6: [Ipv6Net; 4] =
    [v6([0x2001, 0], 23), v6([0x2001, 0xdb8], 32), v6([0x2002, 0], 16), v6([0x3fff, 0], 20)];

const NAT64: Ipv6Net = v6([0x64, 0xff9b], 96);

const fn v4(octets: [u8; 4], length: u8) -> Ipv4Net {
    let [a, b, c, d] = octets;
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), length)
}

const fn v6(head: [u16; 2], length: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(head[0], head[1], 0, 0, 0, 0, 0, 0), length)
}

fn within(nets: &[Ipv4Net], ip: Ipv4Addr) -> bool {
    nets.iter().any(|net| net.contains(&ip))
}

/// The IPv4 address that a packet to this one ends at, where there is a NAT64 gateway (RFC 6052's well-known prefix).
fn behind_nat64(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let [.., a, b, c, d] = ip.octets();
    NAT64.contains(&ip).then(|| Ipv4Addr::new(a, b, c, d))
}

/// Names that mean something else in every network. The name is in lower case, without its trailing dot.
fn is_local(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    !name.contains('.') || matches!(last, "localhost" | "local" | "internal")
}

fn is_loopback(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

fn invalid<T>(detail: impl Into<String>) -> Result<T, UrlError> {
    Err(UrlError::Invalid(detail.into()))
}

#[cfg(test)]
mod tests;
