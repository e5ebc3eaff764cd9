//! The targets.

use domain::{
    address::{AddressPolicy, UrlError},
    cloud_event::{CloudEvent, Structured, batch},
    filter::{Filter, Subject},
    json::{Document, JsonKind, JsonValue},
    limits,
    pattern::Pattern,
    retry::parse_retry_after,
    signature::{SigningSecret, key_pair::KeyPair, verify},
    trace::TraceContext,
};
use serde_json::{Value, json};
use std::{net::IpAddr, sync::LazyLock};

pub(crate) const ALL: &[(&str, fn(&[u8]))] = &[
    ("retry_after", retry_after),
    ("filter", filter),
    ("pattern", pattern),
    ("url_policy", url_policy),
    ("json_reader", json_reader),
    ("signature", signature),
    ("cloud_event", cloud_event),
    ("traceparent", traceparent),
    ("api_key", api_key),
    ("http_answer", http_answer),
    ("request_head", request_head),
    ("api_query", api_query),
    ("forwarded", forwarded),
];

fn text(data: &[u8]) -> Option<&str> {
    std::str::from_utf8(data).ok()
}

/// Up to the first line feed, and the rest.
fn two(data: &[u8]) -> (&[u8], &[u8]) {
    let place = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    (&data[..place], data.get(place + 1..).unwrap_or_default())
}

fn retry_after(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let lines: Vec<&str> = text.split('\n').collect();
    if let Some(pause) = parse_retry_after(&lines, 1_790_000_000) {
        assert!((limits::RETRY_AFTER_MIN..=limits::RETRY_AFTER_MAX).contains(&pause));
    }
}

fn filter(data: &[u8]) {
    let (filter, payload) = two(data);
    let Ok(filter) = serde_json::from_slice::<Value>(filter) else { return };
    let Ok(filter) = Filter::compile(&filter) else { return };
    let (headers, metadata) = (json!({"x-kind": "a"}), json!({}));
    let document = Document::parse(payload);
    let subject =
        Subject { event_type: "a.b", data: document.as_ref(), headers: &headers, metadata: &metadata };
    assert_eq!(filter.matches(&subject), filter.explain(&subject).is_none());
}

fn pattern(data: &[u8]) {
    let (pattern, event_type) = two(data);
    let (Some(pattern), Some(event_type)) = (text(pattern), text(event_type)) else { return };
    if let Ok(parsed) = pattern.parse::<Pattern>() {
        assert_eq!(parsed.as_str(), pattern);
        parsed.matches(event_type);
    }
}

fn url_policy(data: &[u8]) {
    static POLICY: LazyLock<AddressPolicy> = LazyLock::new(AddressPolicy::default);
    let Some(text) = text(data) else { return };
    match POLICY.check_url(text) {
        Ok(url) => {
            assert_eq!(url.scheme(), "https");
            let host = url.host_str().expect("a URL that may be called has a host");
            if let Ok(address) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
                assert!(POLICY.permits(address), "{text} is {address}");
            }
            assert_eq!(POLICY.check_url(url.as_str()).as_ref(), Ok(&url), "what is kept is what is called");
        }
        Err(UrlError::Blocked | UrlError::Invalid(_)) => {}
    }
}

fn json_reader(data: &[u8]) {
    let ours = Document::parse(data);
    let theirs = serde_json::from_slice::<Value>(data);
    // Theirs goes deeper; what both read must be the same.
    if let (Some(ours), Ok(theirs)) = (&ours, &theirs) {
        assert!(is_same(ours.root(), theirs), "{theirs}");
    }
    assert!(ours.is_none() || theirs.is_ok(), "what is no JSON was read");
}

/// Asked as a filter asks: by name and element, since a tree for people leaves out what is large.
fn is_same(ours: JsonValue<'_>, theirs: &Value) -> bool {
    match (ours.kind(), theirs) {
        (JsonKind::Null, Value::Null) => true,
        (JsonKind::Bool(ours), Value::Bool(theirs)) => ours == *theirs,
        (JsonKind::Number(ours), Value::Number(theirs)) => ours == *theirs,
        (JsonKind::Text(ours), Value::String(theirs)) => ours == theirs,
        (JsonKind::Array, Value::Array(theirs)) => {
            let mut elements = ours.elements().into_iter().flatten();
            theirs.iter().all(|theirs| elements.next().is_some_and(|ours| is_same(ours, theirs)))
                && elements.next().is_none()
        }
        (JsonKind::Object, Value::Object(theirs)) => {
            ours.members().all(|(name, _)| theirs.contains_key(name))
                && theirs
                    .iter()
                    .all(|(name, theirs)| ours.field(name).is_some_and(|ours| is_same(ours, theirs)))
        }
        _ => false,
    }
}

fn signature(data: &[u8]) {
    static SECRET: LazyLock<SigningSecret> =
        LazyLock::new(|| SigningSecret::from_bytes(&[7; 32]).expect("32 bytes"));
    let (id, rest) = two(data);
    let (timestamp, rest) = two(rest);
    let (presented, body) = two(rest);
    let [Some(id), Some(timestamp), Some(presented)] = [id, timestamp, presented].map(text) else { return };
    if let Ok(pair) = presented.parse::<KeyPair>() {
        assert_eq!(pair.expose().as_str(), presented);
    }
    assert!(verify([&*SECRET], id, timestamp, presented, body, 1_790_000_000, 300).is_err(), "a forgery");
}

/// Attributes as headers, a line each, or a document, or a batch of them: what is read comes back as it was.
fn cloud_event(data: &[u8]) {
    let lines: Vec<(String, Vec<u8>)> = data
        .split(|byte| *byte == b'\n')
        .filter_map(|line| {
            let at = line.iter().position(|byte| *byte == b':')?;
            Some((String::from_utf8(line[..at].to_vec()).ok()?, line[at + 1..].to_vec()))
        })
        .collect();
    let headers = lines.iter().map(|(name, value)| (name.as_str(), value.as_slice()));
    if let Ok(event) = CloudEvent::of_headers(headers) {
        same_again(&event);
    }
    if let Ok(Structured { event, content_type, payload }) = Structured::parse(data) {
        same_again(&event);
        let written = event.document(&content_type, &payload);
        let back = Structured::parse(&written).expect("what was written is read");
        assert_eq!(back.event, event);
        if !payload.is_empty() {
            // White space around a JSON document is no part of it.
            assert_eq!(back.payload.trim_ascii(), payload.trim_ascii());
            assert_eq!(back.content_type, content_type);
        }
    }
    if let Ok(documents) = batch(data, 3) {
        assert!(documents.len() <= 3);
    }
}

/// By the headers that are kept of it.
fn same_again(event: &CloudEvent) {
    let headers = event.headers();
    assert!(headers.iter().all(|(_, value)| value.bytes().all(|byte| byte.is_ascii_graphic())));
    let back = CloudEvent::of_headers(headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())));
    assert_eq!(back.as_ref(), Ok(event));
    let key = event.idempotency_key();
    assert!(key.len() <= limits::IDEMPOTENCY_KEY_BYTES && key.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
}

fn traceparent(data: &[u8]) {
    if let Some(context) = text(data).and_then(TraceContext::parse) {
        assert_ne!(context.span_id, 0);
    }
}

fn api_key(data: &[u8]) {
    let Some(text) = text(data) else { return };
    if let Some(key) = api::keys::KeyText::parse(text) {
        assert_eq!(key.expose(), text);
    }
    api::fuzzed::key_in_url(text);
}

fn http_answer(data: &[u8]) {
    engine::fuzzed::http_answer(data);
}

fn request_head(data: &[u8]) {
    api::fuzzed::request_head(data);
}

fn api_query(data: &[u8]) {
    if let Some(query) = text(data) {
        api::fuzzed::list_query(query);
    }
}

fn forwarded(data: &[u8]) {
    api::fuzzed::forwarded(data);
}
