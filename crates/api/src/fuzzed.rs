//! What `fuzz/` reaches of this crate.

use crate::{
    client_address::{ClientAddress, TrustedProxies},
    keys,
    page::List,
    server,
};
use contract::DeliveryQuery;
use domain::limits;
use http::{HeaderMap, HeaderValue, header};
use std::net::IpAddr;

/// A head that is taken has a bounded size.
pub fn request_head(bytes: &[u8]) {
    if let Some(length) = server::fuzzed_head(bytes) {
        assert!(length <= limits::HEAD_BYTES + bytes.len().min(1_024), "a head of {length} bytes");
    }
}

/// The query of a list, with a cursor that cannot be ours.
pub fn list_query(query: &str) {
    if let Ok(list) = List::<DeliveryQuery>::of_text("/v1/deliveries", query) {
        assert!((1..=limits::PAGE_MAX).contains(&list.limit));
    }
}

pub fn key_in_url(text: &str) {
    if let Ok(uri) = text.parse() {
        keys::is_key_in_url(&uri);
    }
}

/// Two headers, by lines: the client's address is one that a proxy we trust has named.
pub fn forwarded(bytes: &[u8]) {
    let proxies = TrustedProxies::new(vec!["127.0.0.0/8".parse().expect("a network")]);
    let mut lines = bytes.split(|byte| *byte == b'\n').map(HeaderValue::from_bytes);
    let mut headers = HeaderMap::new();
    if let Some(Ok(value)) = lines.next() {
        headers.insert("x-forwarded-for", value);
    }
    if let Some(Ok(value)) = lines.next() {
        headers.insert(header::FORWARDED, value);
    }
    for peer in [[127, 0, 0, 1], [203, 0, 113, 9]].map(IpAddr::from) {
        let client = ClientAddress::of(peer, &headers, &proxies);
        assert!(proxies_trust(peer) || client.0 == peer, "a stranger's word counted");
    }
}

fn proxies_trust(peer: IpAddr) -> bool {
    peer.is_loopback()
}
