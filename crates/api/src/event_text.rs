//! What an inbound request says about its event besides the payload: type, idempotency key, content type, headers.

use crate::error::ApiError;
use domain::{
    event::{EventType, Headers},
    limits,
};
use http::{HeaderMap, HeaderName, header};
use serde::{
    Deserializer as _,
    de::{self, IgnoredAny, MapAccess, Visitor},
};
use std::{borrow::Cow, fmt};

const EVENT_TYPE: HeaderName = HeaderName::from_static("x-event-type");
/// Providers that name the type in a header of their own.
static PROVIDER_TYPES: [HeaderName; 3] = [
    HeaderName::from_static("x-github-event"),
    HeaderName::from_static("x-shopify-topic"),
    HeaderName::from_static("linear-event"),
];
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The first that is there counts.
static IDEMPOTENCY_KEYS: [HeaderName; 9] = [
    IDEMPOTENCY_KEY,
    HeaderName::from_static("webhook-id"),
    HeaderName::from_static("x-webhook-id"),
    HeaderName::from_static("x-event-id"),
    HeaderName::from_static("svix-id"),
    HeaderName::from_static("x-github-delivery"),
    HeaderName::from_static("x-shopify-webhook-id"),
    HeaderName::from_static("i-twilio-idempotency-token"),
    HeaderName::from_static("linear-delivery"),
];
const TRACE_HEADERS: [&str; 2] = ["traceparent", "tracestate"];

/// `X-Event-Type`, else the provider's header, else `type` or `event` of a JSON object, else unknown. Only our own
/// header can be wrong: what a provider calls its events is not the caller's choice.
pub(crate) fn event_type(headers: &HeaderMap, payload: &[u8]) -> Result<EventType, ApiError> {
    if let Some(given) = given_type(headers)? {
        return Ok(given);
    }
    let provider = PROVIDER_TYPES.iter().find_map(|name| headers.get(name)?.to_str().ok());
    if let Some(text) = provider {
        return Ok(EventType::of_provider(text));
    }
    Ok(type_in_body(payload).and_then(|text| text.parse().ok()).unwrap_or_else(EventType::unknown))
}

/// What our own header says.
pub(crate) fn given_type(headers: &HeaderMap) -> Result<Option<EventType>, ApiError> {
    let given = single_value(headers, &EVENT_TYPE)?.map(str::parse).transpose();
    given.map_err(|error: domain::event::EventTypeError| {
        ApiError::invalid_field("/x-event-type", "invalid_event_type", error.to_string())
    })
}

/// Walks over the members of an object without building anything from them, and stops at the first string `type`.
fn type_in_body(payload: &[u8]) -> Option<String> {
    if payload.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return None;
    }
    let mut found = TypesInBody::default();
    let mut from = serde_json::Deserializer::from_slice(payload);
    let whole = (&mut from).deserialize_map(TopLevelMembers(&mut found));
    // A body that turns out not to be JSON says nothing about its type.
    match (found, whole) {
        (TypesInBody { named: Some(text), .. }, _) => Some(text),
        (TypesInBody { event, .. }, Ok(())) => event,
        _ => None,
    }
}

#[derive(Default)]
struct TypesInBody {
    named: Option<String>,
    event: Option<String>,
}

struct TopLevelMembers<'f>(&'f mut TypesInBody);

impl<'de> Visitor<'de> for TopLevelMembers<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<Cow<'de, str>>()? {
            match &*name {
                "type" => {
                    if let MaybeText(Some(text)) = members.next_value()? {
                        self.0.named = Some(text);
                        return Err(de::Error::custom("found"));
                    }
                }
                "event" => {
                    if let MaybeText(Some(text)) = members.next_value()? {
                        self.0.event.get_or_insert(text);
                    }
                }
                _ => drop(members.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// A string, or something else that does not matter.
struct MaybeText(Option<String>);

impl<'de> de::Deserialize<'de> for MaybeText {
    fn deserialize<D: de::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let raw = <&'de serde_json::value::RawValue>::deserialize(from)?;
        let is_text = raw.get().starts_with('"') && raw.get().len() <= 2 + 6 * limits::EVENT_TYPE_BYTES;
        Ok(Self(is_text.then(|| serde_json::from_str(raw.get()).ok()).flatten()))
    }
}

/// The key a repeat is recognised by: 1 to 255 printable characters.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let Some(name) = IDEMPOTENCY_KEYS.iter().find(|name| headers.contains_key(*name)) else {
        return Ok(None);
    };
    let text = single_value(headers, name)?.unwrap_or_default();
    let key = if name == IDEMPOTENCY_KEY && text.starts_with('"') {
        unquote(text).ok_or_else(|| malformed_header(name, "is not a well-formed quoted string"))?
    } else {
        text.to_owned()
    };
    if !is_idempotency_key(&key) {
        return Err(malformed_header(name, "must be 1 to 255 printable ASCII characters"));
    }
    Ok(Some(key))
}

/// What `POST /v1/events` takes as a key: the one header that means nothing else.
pub(crate) fn publish_key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    if headers.contains_key(IDEMPOTENCY_KEY) { idempotency_key(headers) } else { Ok(None) }
}

pub(crate) fn is_idempotency_key(key: &str) -> bool {
    (1..=limits::IDEMPOTENCY_KEY_BYTES).contains(&key.len())
        && key.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

/// `text/csv; charset=utf-8`: a type and a subtype, then parameters, of which it matters only that they can be sent.
pub(crate) fn is_media_type(text: &str) -> bool {
    let (essence, parameters) = text.split_once(';').unwrap_or((text, ""));
    let of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let is_token = |text: &str| !text.is_empty() && text.bytes().all(of_token);
    let kinds = essence.trim_end_matches(' ').split_once('/');
    kinds.is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype))
        && parameters.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

/// A structured-field string (RFC 9651): quotes around, `\"` and `\\` inside.
fn unquote(text: &str) -> Option<String> {
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    let mut plain = String::with_capacity(inner.len());
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => plain.push(characters.next().filter(|escaped| matches!(escaped, '"' | '\\'))?),
            '"' => return None,
            other => plain.push(other),
        }
    }
    Some(plain)
}

/// What the destination will be told; unlike other headers it must be fit to be sent again.
pub(crate) fn content_type(headers: &HeaderMap) -> Result<String, ApiError> {
    let text = single_value(headers, &header::CONTENT_TYPE)?.unwrap_or("application/octet-stream");
    if text.len() > limits::CONTENT_TYPE_BYTES {
        return Err(malformed_header(&header::CONTENT_TYPE, "is too long"));
    }
    Ok(text.to_owned())
}

/// The headers that are kept with the event: no credentials, nothing about the connection, and not too much.
pub(crate) fn kept_headers(headers: &HeaderMap) -> Headers {
    let hop_by_hop: Vec<&str> = headers
        .get_all(header::CONNECTION)
        .iter()
        .flat_map(|value| value.to_str().unwrap_or_default().split(','))
        .map(str::trim)
        .collect();
    let mut room = limits::EVENT_HEADERS_BYTES;
    let mut kept = Vec::with_capacity(headers.len());
    for (name, value) in headers {
        let name = name.as_str();
        if is_dropped(name) || hop_by_hop.iter().any(|dropped| dropped.eq_ignore_ascii_case(name)) {
            continue;
        }
        let Some(left) = room.checked_sub(name.len() + value.len()) else { continue };
        room = left;
        kept.push((name.to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()));
    }
    kept
}

/// What is kept of a publishing request: its headers are about the request, and the trace goes on.
pub(crate) fn kept_publish_headers(headers: &HeaderMap) -> Headers {
    let value =
        |name: &str| headers.get(name)?.to_str().ok().map(|value| (name.to_owned(), value.to_owned()));
    TRACE_HEADERS.into_iter().filter_map(value).collect()
}

fn is_dropped(name: &str) -> bool {
    matches!(
        name,
        "authorization"
            | "cookie"
            | "proxy-authorization"
            | "proxy-connection"
            | "proxy-authenticate"
            | "connection"
            | "keep-alive"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
            | "content-length"
            | "expect"
            | "host"
    )
}

/// The one value of a header; 400 if it is there twice or holds what is not text.
fn single_value<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, ApiError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(malformed_header(name, "can be given once only"));
    }
    value.to_str().map(Some).map_err(|_| malformed_header(name, "must be printable ASCII"))
}

fn malformed_header(name: &HeaderName, what: &str) -> ApiError {
    ApiError::invalid_header(format!("the header `{name}` {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use http::HeaderValue;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        map
    }

    fn type_of(pairs: &[(&'static str, &'static str)], body: &str) -> String {
        event_type(&headers(pairs), body.as_bytes()).unwrap().to_string()
    }

    #[test]
    fn the_type_is_our_header_then_the_providers_then_the_bodys() {
        let body = r#"{"type":"of.body"}"#;
        assert_eq!(type_of(&[("x-event-type", "ours"), ("x-github-event", "push")], body), "ours");
        assert_eq!(type_of(&[("x-shopify-topic", "orders/paid")], body), "orders.paid");
        assert_eq!(type_of(&[], body), "of.body");
        assert_eq!(type_of(&[], r#" {"a":{"type":"deep"},"event":"of.event","b":[1]}"#), "of.event");
        assert_eq!(type_of(&[], r#"{"event":"of.event","type":"wins"}"#), "wins");
        assert_eq!(type_of(&[], r#"{"type":7,"event":"of.event"}"#), "of.event");
        assert_eq!(type_of(&[], r#"{"t\u0079pe":"esc\u0061ped"}"#), "escaped");
        for nothing in
            ["", "null", "[1]", r#"{"type":"not valid!"}"#, r#"{"event":"cut"#, "plain", r#"{"type":7}"#]
        {
            assert_eq!(type_of(&[], nothing), "unknown", "{nothing}");
        }
    }

    #[test]
    fn our_own_header_must_be_right() {
        for text in ["not valid!", "posthaste.test"] {
            let error = event_type(&headers(&[("x-event-type", text)]), b"").unwrap_err();
            assert_eq!(error.code(), Code::ValidationFailed);
        }
    }

    #[test]
    fn an_idempotency_key_may_be_quoted() {
        let key = |pairs| idempotency_key(&headers(pairs)).map_err(|error| error.code());
        assert_eq!(key(&[]), Ok(None));
        assert_eq!(key(&[("idempotency-key", "a b")]), Ok(Some("a b".into())));
        assert_eq!(key(&[("idempotency-key", r#""a\"b\\""#)]), Ok(Some(r#"a"b\"#.into())));
        assert_eq!(key(&[("x-github-delivery", "1"), ("webhook-id", "2")]), Ok(Some("2".into())));
        for bad in [r#""a"#, r#""a\x""#, r#""""#, ""] {
            assert_eq!(
                idempotency_key(&headers(&[("idempotency-key", bad)])).unwrap_err().code(),
                Code::InvalidHeader
            );
        }
        assert_eq!(key(&[("webhook-id", "a"), ("webhook-id", "b")]), Err(Code::InvalidHeader));
        assert!(is_idempotency_key(&"k".repeat(255)) && !is_idempotency_key(&"k".repeat(256)));
    }

    #[test]
    fn credentials_and_the_connections_headers_are_not_kept() {
        let kept = kept_headers(&headers(&[
            ("authorization", "Bearer x"),
            ("cookie", "a=b"),
            ("connection", "x-private, close"),
            ("x-private", "1"),
            ("traceparent", "00-1"),
            ("x-a", "1"),
            ("x-a", "2"),
        ]));
        let expected = [("traceparent", "00-1"), ("x-a", "1"), ("x-a", "2")];
        assert_eq!(kept, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn a_media_type_is_a_type_and_a_subtype() {
        for fits in ["text/csv", "application/vnd.api+json ; charset=\"utf-8\"", "a/b;"] {
            assert!(is_media_type(fits), "{fits}");
        }
        for not in [
            "",
            "text",
            "/",
            "text/",
            "/csv",
            "te xt/csv",
            "text/csv/x",
            " text/csv",
            "text/csv;\n",
            "téxt/csv",
        ] {
            assert!(!is_media_type(not), "{not}");
        }
    }

    #[test]
    fn kept_headers_are_bounded() {
        let mut map = HeaderMap::new();
        for _ in 0..20 {
            map.append("x-large", HeaderValue::from_str(&"v".repeat(1024)).unwrap());
        }
        let bytes: usize = kept_headers(&map).iter().map(|(name, value)| name.len() + value.len()).sum();
        assert!(bytes > limits::EVENT_HEADERS_BYTES - 2048 && bytes <= limits::EVENT_HEADERS_BYTES);
    }
}
