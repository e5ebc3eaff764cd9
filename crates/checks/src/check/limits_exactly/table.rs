//! Every limit of what comes in: an input just within it and how that is answered, one just beyond and how that is. The
//! numbers are those of `domain`; a limit that is not here is not promised.

use domain::{filter, limits};
use serde_json::{Value, json};

use super::setup::Setup;
use crate::harness::raw_http::{json_request, request};
use crate::harness::testbed::API_KEY;

pub(super) struct Row {
    pub(super) what: &'static str,
    pub(super) within: Case,
    pub(super) beyond: Case,
}

pub(super) struct Case {
    pub(super) bytes: Vec<u8>,
    pub(super) status: u16,
    /// Of the problem; nothing where it is none.
    pub(super) code: &'static str,
    /// Of the field it is about, where it is about one.
    pub(super) field: &'static str,
}

fn row(
    what: &'static str,
    within: (u16, Vec<u8>),
    beyond: (u16, &'static str, &'static str, Vec<u8>),
) -> Row {
    let (status, bytes) = within;
    let within = Case { bytes, status, code: "", field: "" };
    let (status, code, field, bytes) = beyond;
    Row { what, within, beyond: Case { bytes, status, code, field } }
}

/// The input of a size: at the limit, and one more.
fn sized(
    what: &'static str,
    limit: usize,
    status: u16,
    beyond: (u16, &'static str, &'static str),
    input: impl Fn(usize) -> Vec<u8>,
) -> Row {
    let (refused, code, field) = beyond;
    row(what, (status, input(limit)), (refused, code, field, input(limit + 1)))
}

/// The table.
pub(super) fn rows(setup: &Setup) -> Vec<Row> {
    [
        heads(),
        bodies(setup),
        documents(setup),
        access(setup),
        events(setup),
        destinations(setup),
        lists(setup),
    ]
    .into_iter()
    .flatten()
    .collect()
}

const LARGE_HEAD: (u16, &str, &str) = (431, "headers_too_large", "");
const LARGE_BODY: (u16, &str, &str) = (413, "payload_too_large", "");
const MEDIA_TYPE: (u16, &str, &str) = (415, "unsupported_media_type", "");

/// Invalid, with the code of the field.
const fn invalid(field: &'static str) -> (u16, &'static str, &'static str) {
    (422, "validation_failed", field)
}

fn heads() -> Vec<Row> {
    let get = |target: &str, lines: &str| {
        format!("GET {target} HTTP/1.1\r\nhost: checks\r\nconnection: close\r\n{lines}\r\n")
    };
    let head = |bytes: usize| {
        let empty = get("/healthz", "x-pad: \r\n").len();
        get("/healthz", &format!("x-pad: {}\r\n", "x".repeat(bytes - empty))).into_bytes()
    };
    let targets = |bytes: usize| get(&format!("/healthz?{}", "x".repeat(bytes - 9)), "").into_bytes();
    let post = |lines: &str| {
        format!("POST /healthz HTTP/1.1\r\nhost: checks\r\nconnection: close\r\n{lines}\r\n0\r\n\r\n")
            .into_bytes()
    };
    vec![
        sized("bytes of a head", limits::HEAD_BYTES, 200, LARGE_HEAD, head),
        row("64 KiB in one header", (200, head(20_000)), (431, "headers_too_large", "", head(64 << 10))),
        sized("headers", limits::HEADERS, 200, LARGE_HEAD, |count| {
            get("/healthz", &"x-many: 1\r\n".repeat(count - 2)).into_bytes()
        }),
        row("200 headers", (200, get("/healthz", "").into_bytes()), {
            let (status, code, field) = LARGE_HEAD;
            (status, code, field, get("/healthz", &"x-many: 1\r\n".repeat(198)).into_bytes())
        }),
        sized("bytes of a URI", limits::URI_BYTES, 200, (414, "uri_too_long", ""), targets),
        row("a URI of 100 KB", (200, targets(1_000)), (414, "uri_too_long", "", targets(100_000))),
        row(
            "one way to say where a body ends",
            (405, post("transfer-encoding: chunked\r\n")),
            (400, "malformed_request", "", post("transfer-encoding: chunked\r\ncontent-length: 5\r\n")),
        ),
        row(
            "what there is",
            (200, get("/healthz", "").into_bytes()),
            (404, "not_found", "", get("/nowhere", "").into_bytes()),
        ),
        row(
            "the methods there are",
            (200, get("/healthz", "").into_bytes()),
            (405, "method_not_allowed", "", request("DELETE", "/healthz", &[], b"")),
        ),
    ]
}

fn bodies(setup: &Setup) -> Vec<Row> {
    let ingest =
        |headers: &[(&str, &str)], bytes: usize| request("POST", &setup.ingest, headers, &vec![b'x'; bytes]);
    let chunked = |bytes: usize| {
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: checks\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n{bytes:x}\r\n",
            setup.ingest
        );
        [head.as_bytes(), &vec![b'x'; bytes], b"\r\n0\r\n\r\n"].concat()
    };
    let padded = |path: &str, body: &str, bytes: usize| {
        json_request("POST", path, API_KEY, &format!("{body}{}", " ".repeat(bytes - body.len())))
    };
    let typed = |content_type: &str| {
        let (bearer, body) = (format!("Bearer {API_KEY}"), br#"{"type":"lab.a","data":1}"#);
        request(
            "POST",
            "/v1/events",
            &[("authorization", bearer.as_str()), ("content-type", content_type)],
            body,
        )
    };
    let event = r#"{"type":"lab.a","data":1}"#;
    let (unsupported, code, field) = MEDIA_TYPE;
    vec![
        sized("bytes of an event", limits::BODY_BYTES_DEFAULT, 202, LARGE_BODY, |bytes| ingest(&[], bytes)),
        sized("bytes of an event in chunks", limits::BODY_BYTES_DEFAULT, 202, LARGE_BODY, chunked),
        sized("bytes of a published event", limits::BODY_BYTES_DEFAULT, 202, LARGE_BODY, |bytes| {
            padded("/v1/events", event, bytes)
        }),
        sized("bytes of a management request", limits::MANAGEMENT_BODY_BYTES, 200, LARGE_BODY, |bytes| {
            padded("/v1/routes/preview", event, bytes)
        }),
        row(
            "a body as it is",
            (202, ingest(&[("content-encoding", "identity")], 5)),
            (unsupported, code, field, ingest(&[("content-encoding", "gzip")], 5)),
        ),
        row(
            "a body of JSON",
            (202, typed("application/json; charset=utf-8")),
            (unsupported, code, field, typed("text/plain")),
        ),
        row(
            "an answer of JSON",
            (200, setup.get("/v1/account", &[("accept", "application/json")])),
            (406, "not_acceptable", "", setup.get("/v1/account", &[("accept", "text/html")])),
        ),
    ]
}

fn documents(setup: &Setup) -> Vec<Row> {
    let publish = |body: String| json_request("POST", "/v1/events", API_KEY, &body);
    let nested = |depth: usize| {
        let inner = depth - 1;
        publish(format!(r#"{{"type":"lab.a","data":{}{}}}"#, "[".repeat(inner), "]".repeat(inner)))
    };
    let keys = |count: usize| {
        let members: Vec<String> = (0..count - 2).map(|at| format!("\"k{at}\":0")).collect();
        let body = format!(r#"{{"type":"lab.a","data":{{{}}}}}"#, members.join(","));
        json_request("POST", "/v1/routes/preview", API_KEY, &body)
    };
    let json = |body: &str| json_request("POST", "/v1/destinations", API_KEY, body);
    let known = setup.destination(json!({})).to_string();
    vec![
        sized("depth of JSON", limits::JSON_DEPTH, 202, (400, "invalid_json", ""), nested),
        sized("keys of JSON", limits::JSON_KEYS, 200, (400, "invalid_json", ""), keys),
        row("well-formed JSON", (201, json(&known)), (400, "invalid_json", "", json("{\"name\":"))),
        row("known fields", (201, json(&known)), {
            let body = setup.destination(json!({ "colour": "red" })).to_string();
            (422, "validation_failed", "unknown_field", json(&body))
        }),
        row("the types of fields", (201, json(&known)), {
            let body = setup.destination(json!({ "name": 7 })).to_string();
            (422, "validation_failed", "invalid_type", json(&body))
        }),
        row("fields that are needed", (201, json(&known)), {
            (422, "validation_failed", "missing_field", json(r#"{"name":"x"}"#))
        }),
        row("an object", (201, json(&known)), (422, "validation_failed", "invalid_type", json("[]"))),
    ]
}

fn access(setup: &Setup) -> Vec<Row> {
    let with = |key: &str| json_request("GET", "/v1/account", key, "");
    let known = || (200, with(API_KEY));
    let unauthorized = |bytes| (401, "unauthorized", "", bytes);
    let patch = |path: String| json_request("PATCH", &path, API_KEY, r#"{"name":"mine"}"#);
    let own = format!("/v1/destinations/{}", setup.destination_id);
    let foreign = format!("/v1/destinations/{}", setup.foreign_destination);
    let ingest = |path: &str| request("POST", path, &[], b"x");
    let if_match = |version: &str| {
        let bearer = format!("Bearer {API_KEY}");
        let headers =
            [("authorization", bearer.as_str()), ("content-type", "application/json"), ("if-match", version)];
        request("PATCH", &own, &headers, br#"{"name":"versioned"}"#)
    };
    let limited =
        |_: usize| json_request("POST", "/v1/events", &setup.limited_key, r#"{"type":"lab.a","data":1}"#);
    vec![
        row("a credential", known(), unauthorized(request("GET", "/v1/account", &[], b""))),
        row("a credential that is whole", known(), unauthorized(with(&API_KEY[..54]))),
        row("a credential that exists", known(), unauthorized(with(&setup.unknown_key))),
        row("a credential that was not revoked", known(), unauthorized(with(&setup.revoked_key))),
        row("a credential that has not expired", known(), unauthorized(with(&setup.expired_key))),
        row("a credential in its header", known(), {
            (400, "credential_in_url", "", request("GET", &format!("/v1/account?key={API_KEY}"), &[], b""))
        }),
        row("the scope of a key", (200, with(&setup.narrow_key)), {
            let body = setup.destination(json!({})).to_string();
            (403, "scope_missing", "", json_request("POST", "/v1/destinations", &setup.narrow_key, &body))
        }),
        row("objects of the account", (200, patch(own.clone())), (404, "not_found", "", patch(foreign))),
        row(
            "a source that is known",
            (202, ingest(&setup.ingest)),
            (404, "not_found", "", ingest("/ingest/nobodys")),
        ),
        row("a source that is enabled", (202, ingest(&setup.ingest)), {
            (403, "source_disabled", "", ingest(&setup.disabled_ingest))
        }),
        row(
            "the version that was read",
            (200, if_match("*")),
            (412, "version_mismatch", "", if_match("\"0\"")),
        ),
        row("a uid that is free", (201, setup.create(json!({ "uid": "lab-uid" }))), {
            (409, "uid_taken", "", setup.create(json!({ "uid": "lab-uid" })))
        }),
        sized("events a second of a key", 1, 202, (429, "rate_limited", ""), limited),
    ]
}

fn events(setup: &Setup) -> Vec<Row> {
    let publish = |member: &str, value: Value| {
        let mut event = json!({ "type": "lab.a", "data": 1 });
        event[member] = value;
        json_request("POST", "/v1/events", API_KEY, &event.to_string())
    };
    let keyed = |key: &str, body: &[u8]| request("POST", &setup.ingest, &[("idempotency-key", key)], body);
    let batch = |count: usize| {
        let events = json!({ "events": vec![json!({ "type": "lab.a", "data": 1 }); count] });
        json_request("POST", "/v1/events/batch", API_KEY, &events.to_string())
    };
    let metadata = |bytes: usize| {
        let raw = format!(r#"{{"a":"{}"}}"#, "x".repeat(bytes - 8));
        json_request(
            "POST",
            "/v1/events",
            API_KEY,
            &format!(r#"{{"type":"lab.a","data":1,"metadata":{raw}}}"#),
        )
    };
    let header_type =
        |event_type: &str| request("POST", &setup.ingest, &[("x-event-type", event_type)], b"x");
    let text = |length: usize| Value::from("k".repeat(length));
    vec![
        sized(
            "bytes of an idempotency key",
            limits::IDEMPOTENCY_KEY_BYTES,
            202,
            (400, "invalid_header", ""),
            |n| keyed(&"k".repeat(n), b"x"),
        ),
        sized(
            "bytes of an idempotency key in a body",
            limits::IDEMPOTENCY_KEY_BYTES,
            202,
            invalid("invalid_value"),
            |n| publish("idempotency_key", format!("b{}", "k".repeat(n - 1)).into()),
        ),
        row("one body for each key", (202, keyed("one-body", b"a")), {
            (409, "idempotency_conflict", "", keyed("one-body", b"b"))
        }),
        sized("bytes of an event type", limits::EVENT_TYPE_BYTES, 202, invalid("invalid_event_type"), |n| {
            publish("type", text(n))
        }),
        row("types that are not ours", (202, publish("type", "posthaste_like".into())), {
            (422, "validation_failed", "invalid_event_type", publish("type", "posthaste.like".into()))
        }),
        row("a type in a header", (202, header_type("lab.a")), {
            (422, "validation_failed", "invalid_event_type", header_type("not valid"))
        }),
        sized("bytes of an ordering key", limits::ORDERING_KEY_BYTES, 202, invalid("invalid_value"), |n| {
            publish("ordering_key", text(n))
        }),
        sized("bytes of metadata", limits::METADATA_BYTES, 202, invalid("too_long"), metadata),
        sized("events of a batch", limits::BATCH_EVENTS, 202, (422, "validation_failed", ""), batch),
    ]
}

fn destinations(setup: &Setup) -> Vec<Row> {
    let create = |member: &str, value: Value| setup.create(json!({ member: value }));
    let url = |bytes: usize| {
        let base = "http://127.0.0.1:9/";
        create("url", format!("{base}{}", "x".repeat(bytes - base.len())).into())
    };
    let headers = |count: usize| {
        let named: serde_json::Map<_, _> = (0..count).map(|at| (format!("x-{at}"), json!("1"))).collect();
        create("headers", named.into())
    };
    let header = |name: String, value: String| create("headers", json!({ name: value }));
    let schedule = |pauses: Vec<u64>| create("retry_policy", json!({ "schedule_seconds": pauses }));
    let route = |member: &str, value: Value| {
        let mut route = json!({ "destination_id": setup.destination_id });
        route[member] = value;
        json_request("POST", "/v1/routes", API_KEY, &route.to_string())
    };
    let filter_of = |bytes: usize| {
        let empty = json!({ "data": { "a": "" } }).to_string().len();
        route("filter", json!({ "data": { "a": "x".repeat(bytes - empty) } }))
    };
    let clauses = |count: usize| {
        let members: serde_json::Map<_, _> = (0..count).map(|at| (format!("k{at}"), json!(1))).collect();
        route("filter", json!({ "data": members }))
    };
    let deep = |depth: usize| {
        let inner = (0..depth - 2).fold(json!({ "b": 1 }), |inner, _| json!({ "a": inner }));
        route("filter", json!({ "data": inner }))
    };
    let least = |what, member: &'static str| {
        row(what, (201, create(member, 1.into())), {
            (422, "validation_failed", "out_of_range", create(member, 0.into()))
        })
    };
    let most = |what, member: &'static str, limit: u64| {
        sized(what, limit as usize, 201, invalid("out_of_range"), |n| create(member, n.into()))
    };
    vec![
        sized("characters of a name", limits::NAME_CHARS, 201, invalid("invalid_name"), |n| {
            create("name", "n".repeat(n).into())
        }),
        sized("bytes of a uid", limits::UID_BYTES, 201, invalid("invalid_uid"), |n| {
            create("uid", "u".repeat(n).into())
        }),
        sized("bytes of a URL", limits::URL_BYTES, 201, invalid("invalid_url"), url),
        row("addresses that may be called", (201, create("url", "http://127.0.0.1:9/".into())), {
            (422, "validation_failed", "blocked_target", create("url", "http://10.0.0.1/".into()))
        }),
        most("requests open at once", "max_concurrency", limits::MAX_CONCURRENCY_MAX.into()),
        least("requests open at once, at least", "max_concurrency"),
        most("seconds of an attempt", "timeout_seconds", limits::TIMEOUT_MAX.as_secs()),
        least("seconds of an attempt, at least", "timeout_seconds"),
        sized("pauses of a schedule", 20, 201, invalid("too_many"), |n| schedule(vec![1; n])),
        sized("seconds of a pause", 24 * 3_600, 201, invalid("out_of_range"), |n| schedule(vec![n as u64])),
        sized("headers of a destination", limits::CUSTOM_HEADERS, 201, invalid("too_many"), headers),
        sized(
            "bytes of a header's name",
            limits::CUSTOM_HEADER_NAME_BYTES,
            201,
            invalid("invalid_header_name"),
            |n| header("x".repeat(n), "1".into()),
        ),
        sized(
            "bytes of a header's value",
            limits::CUSTOM_HEADER_VALUE_BYTES,
            201,
            invalid("invalid_header_value"),
            |n| header("x-value".into(), "v".repeat(n)),
        ),
        row("headers that are not ours", (201, header("x-mine".into(), "1".into())), {
            (422, "validation_failed", "reserved_header", header("host".into(), "1".into()))
        }),
        row("headers that can be seen", (201, header("x-seen".into(), "~".into())), {
            (422, "validation_failed", "invalid_header_value", header("x-seen".into(), "é".into()))
        }),
        sized("patterns of a route", limits::ROUTE_PATTERNS, 201, invalid("invalid_length"), |n| {
            route("event_types", (0..n).map(|at| format!("lab.{at}")).collect::<Vec<_>>().into())
        }),
        sized("bytes of a filter", filter::FILTER_MAX_BYTES, 201, invalid("too_large"), filter_of),
        sized("clauses of a filter", filter::FILTER_MAX_CLAUSES, 201, invalid("too_many_clauses"), clauses),
        sized("depth of a filter", filter::FILTER_MAX_DEPTH, 201, invalid("too_deep"), deep),
    ]
}

fn lists(setup: &Setup) -> Vec<Row> {
    let page = |size: usize| setup.get(&format!("/v1/events?limit={size}"), &[]);
    let replay = |count: usize| {
        let body = json!({ "delivery_ids": vec![&setup.delivery_id; count], "dry_run": true });
        json_request("POST", "/v1/replays", API_KEY, &body.to_string())
    };
    vec![
        sized("rows of a page", limits::PAGE_MAX, 200, invalid("out_of_range"), page),
        row("rows of a page, at least", (200, page(1)), (422, "validation_failed", "out_of_range", page(0))),
        row(
            "a cursor of the list",
            (200, setup.get(&format!("/v1/destinations?cursor={}", setup.cursor), &[])),
            (400, "invalid_cursor", "", setup.get(&format!("/v1/routes?cursor={}", setup.cursor), &[])),
        ),
        row("parameters that are known", (200, page(1)), {
            (422, "validation_failed", "unknown_parameter", setup.get("/v1/events?colour=red", &[]))
        }),
        sized("ids of a replay", limits::REPLAY_IDS, 200, invalid("too_many"), replay),
    ]
}
