//! Who asks: the address of the client, also where proxies stand between.
//!
//! What a client says of its own address is worth nothing, what a proxy we trust says of whom it was called by is. So the
//! list is read from its end, where the nearest proxy wrote, and the first address that is no trusted proxy's is the
//! client's. Where the list breaks off or cannot be read, the last address that was vouched for is all that is known.

use http::{Extensions, HeaderMap, HeaderName, header};
use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub(crate) const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
pub(crate) const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// The address that limits and logs go by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClientAddress(pub(crate) IpAddr);

/// Networks whose word about their callers counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustedProxies(Vec<IpNet>);

impl TrustedProxies {
    pub fn new(networks: Vec<IpNet>) -> Self {
        Self(networks)
    }

    pub(crate) fn contain(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }
}

impl ClientAddress {
    /// Of a request that came by a connection from `peer`.
    pub(crate) fn of(peer: IpAddr, headers: &HeaderMap, proxies: &TrustedProxies) -> Self {
        let mut address = peer.to_canonical();
        if proxies.contain(address) {
            // A proxy that writes one of the two may pass the other on as it came. Nearly all write this one.
            if headers.contains_key(X_FORWARDED_FOR) {
                let values = headers.get_all(X_FORWARDED_FOR).iter().rev();
                let hops = values.flat_map(|value| value.to_str().unwrap_or_default().rsplit(','));
                address = last_vouched_for(address, hops, proxies);
            } else {
                let values = headers.get_all(header::FORWARDED).iter().rev();
                let hops = values.flat_map(|value| {
                    value
                        .to_str()
                        .unwrap_or_default()
                        .rsplit(',')
                        .map(|element| for_of(element).unwrap_or_default())
                });
                address = last_vouched_for(address, hops, proxies);
            }
        }
        Self(address)
    }

    /// As the server noted it; a request made in this process comes from nowhere.
    pub(crate) fn noted(extensions: &Extensions) -> Self {
        extensions.get().copied().unwrap_or(Self(Ipv4Addr::UNSPECIFIED.into()))
    }

    /// One household has all addresses of its network.
    pub(crate) fn network(self) -> IpAddr {
        match self.0.to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
        }
    }
}

/// How the client came to a proxy that we trust, in that proxy's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForwardedScheme {
    Http,
    Https,
}

/// Of the last proxy that wrote one: what came before it was another's word.
pub(crate) fn forwarded_scheme(headers: &HeaderMap) -> Option<ForwardedScheme> {
    let last = |name: HeaderName| headers.get_all(name).iter().next_back()?.to_str().ok()?.rsplit(',').next();
    let word = match last(X_FORWARDED_PROTO) {
        Some(word) => word.trim(),
        None => pair_of(last(header::FORWARDED)?, "proto")?,
    };
    if word.eq_ignore_ascii_case("https") {
        Some(ForwardedScheme::Https)
    } else if word.eq_ignore_ascii_case("http") {
        Some(ForwardedScheme::Http)
    } else {
        None
    }
}

/// From hop to hop, the nearest first, as long as each was named by one that is trusted.
fn last_vouched_for<'a>(
    peer: IpAddr,
    hops: impl Iterator<Item = &'a str>,
    proxies: &TrustedProxies,
) -> IpAddr {
    let mut last = peer;
    for hop in hops {
        if !proxies.contain(last) {
            break;
        }
        let Some(address) = parse_hop(hop) else { break };
        last = address;
    }
    last
}

/// An address, with a port or without.
fn parse_hop(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|hop| hop.ip()));
    address.map(|address: IpAddr| address.to_canonical())
}

/// What an element of `Forwarded` says of `for`. No address has a comma or a semicolon in it, quoted or not.
fn for_of(element: &str) -> Option<&str> {
    pair_of(element, "for")
}

fn pair_of<'e>(element: &'e str, wanted: &str) -> Option<&'e str> {
    element.split(';').find_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        name.trim().eq_ignore_ascii_case(wanted).then(|| value.trim().trim_matches('"'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn client(peer: &str, headers: &[(&'static str, &'static str)]) -> String {
        let proxies =
            TrustedProxies::new(vec!["10.0.0.0/8".parse().unwrap(), "2001:db8::/32".parse().unwrap()]);
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        ClientAddress::of(peer.parse().unwrap(), &map, &proxies).0.to_string()
    }

    const X: &str = "x-forwarded-for";

    #[test]
    fn whoever_is_no_trusted_proxy_speaks_for_itself() {
        assert_eq!(client("192.0.2.1", &[(X, "198.51.100.7")]), "192.0.2.1");
        assert_eq!(client("192.0.2.1", &[("forwarded", "for=198.51.100.7")]), "192.0.2.1");
        assert_eq!(client("::ffff:192.0.2.1", &[(X, "198.51.100.7")]), "192.0.2.1");
        let none = ClientAddress::of(
            [10, 0, 0, 1].into(),
            &HeaderMap::from_iter([(X_FORWARDED_FOR, HeaderValue::from_static("198.51.100.7"))]),
            &TrustedProxies::default(),
        );
        assert_eq!(none.0.to_string(), "10.0.0.1");
    }

    #[test]
    fn the_last_address_that_is_no_proxys_is_the_clients() {
        assert_eq!(client("10.0.0.1", &[]), "10.0.0.1");
        assert_eq!(client("::ffff:10.0.0.1", &[(X, "198.51.100.7")]), "198.51.100.7");
        assert_eq!(client("10.0.0.1", &[(X, "1.1.1.1, 198.51.100.7, 10.2.3.4")]), "198.51.100.7");
        assert_eq!(client("10.0.0.1", &[(X, "1.1.1.1, 198.51.100.7"), (X, "10.2.3.4")]), "198.51.100.7");
        assert_eq!(client("10.0.0.1", &[(X, "10.9.9.9,10.2.3.4")]), "10.9.9.9", "proxies all the way");
        assert_eq!(client("10.0.0.1", &[(X, "198.51.100.7:4711")]), "198.51.100.7");
        assert_eq!(client("10.0.0.1", &[(X, "[2620::7]:4711, 2001:db8::1")]), "2620::7");
    }

    #[test]
    fn what_cannot_be_read_ends_at_the_last_that_could_be_trusted() {
        for unreadable in ["unknown", "", "198.51.100.7 10.2.3.4", "1.2.3", "_hidden"] {
            let list: &'static str =
                Box::leak(format!("198.51.100.7, {unreadable}, 10.2.3.4").into_boxed_str());
            assert_eq!(client("10.0.0.1", &[(X, list)]), "10.2.3.4", "{unreadable}");
        }
        assert_eq!(client("10.0.0.1", &[("forwarded", "for=198.51.100.7, proto=https")]), "10.0.0.1");
    }

    #[test]
    fn the_last_proxy_says_how_the_client_came() {
        let scheme = |headers: &[(&'static str, &'static str)]| {
            let pairs = headers.iter().map(|(name, value)| (*name, HeaderValue::from_static(value)));
            let mut map = HeaderMap::new();
            for (name, value) in pairs {
                map.append(name, value);
            }
            forwarded_scheme(&map)
        };
        assert_eq!(scheme(&[]), None);
        assert_eq!(scheme(&[("x-forwarded-proto", "https")]), Some(ForwardedScheme::Https));
        assert_eq!(scheme(&[("x-forwarded-proto", "https, http")]), Some(ForwardedScheme::Http));
        assert_eq!(scheme(&[("forwarded", "for=1.1.1.1;proto=https")]), Some(ForwardedScheme::Https));
        assert_eq!(scheme(&[("x-forwarded-proto", "gopher")]), None);
    }

    #[test]
    fn forwarded_is_read_where_the_other_is_missing() {
        let forwarded =
            ("forwarded", "for=1.1.1.1, For=\"[2620::7]:80\";proto=https;by=10.0.0.2, for=10.2.3.4");
        assert_eq!(client("2001:db8::5", &[forwarded]), "2620::7");
        assert_eq!(client("10.0.0.1", &[forwarded, (X, "198.51.100.7")]), "198.51.100.7");
    }
}
