//! Hazard: bad input does something, or is answered with an apology instead of a reason.
//!
//! Every kind of bad input over a real socket: malformed JSON, an unknown field, a wrong type, a body of 6 MiB with
//! and without its length, an unknown token, a revoked key, an id of another account, a cursor of another list, a
//! head that never ends, a body that never ends.
//!
//! Holds if each has its status and its code, and no table has changed.

use std::net::SocketAddr;

use client::{ApiKeyInput, NewAccount};
use domain::id::DestinationId;
use serde_json::Value;

use crate::harness::prelude::*;
use crate::harness::raw_http::{self, RawAnswer, json_request, request};
use crate::harness::testbed::{API_KEY, OPERATOR_KEY};

const SIX_MIB: usize = 6 * 1024 * 1024;
/// Heads have ten seconds; bodies thirty, or five at less than a kilobyte a second.
const HEAD_CLOSED_WITHIN: f64 = 12.0;
const BODY_CLOSED_WITHIN: f64 = 32.0;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let testbed = TestbedPlan::new(options)?.start().await?;
    let source = RoutedSource::make(&testbed, 2, 4).await?;
    let revoked = revoked_key(&testbed).await?;
    let foreign = foreign_destination(&testbed).await?;
    let cursor = cursor_of_destinations(&testbed).await?;
    let before = table_sizes(&testbed.database).await?;

    let ingest = source.ingest_path();
    let long = vec![b'x'; SIX_MIB];
    let chunked = chunked_request(&ingest, &long);
    let get = |path: String| json_request("GET", &path, API_KEY, "");
    let event = |body: &str| json_request("POST", "/v1/events", API_KEY, body);
    let destination = |body: &str| json_request("POST", "/v1/destinations", API_KEY, body);
    let unknown_field = destination(r#"{"name":"x","url":"http://127.0.0.1:9/","retries":3}"#);
    let theirs = format!("/v1/destinations/{foreign}");
    let key_in_url = format!("/v1/routes?key={API_KEY}");
    let cases: Vec<(&str, Vec<u8>, u16, &str)> = vec![
        ("malformed JSON", event("{\"type\":\"a\",\"data\":{"), 400, "invalid_json"),
        ("not JSON at all", destination("name=x"), 400, "invalid_json"),
        ("an unknown field", unknown_field, 422, "validation_failed"),
        ("a wrong type", destination(r#"{"name":7,"url":"http://127.0.0.1:9/"}"#), 422, "validation_failed"),
        ("an event without data", event(r#"{"type":"a"}"#), 422, "validation_failed"),
        ("a body of 6 MiB", request("POST", &ingest, &[], &long), 413, "payload_too_large"),
        ("a body of 6 MiB in chunks", chunked, 413, "payload_too_large"),
        ("an unknown token", request("POST", "/ingest/nobodys-token", &[], b"{}"), 404, "not_found"),
        ("no key", request("GET", "/v1/destinations", &[], b""), 401, "unauthorized"),
        ("a revoked key", json_request("GET", "/v1/destinations", &revoked, ""), 401, "unauthorized"),
        ("an id of another account", get(theirs.clone()), 404, "not_found"),
        ("a change of it", json_request("PATCH", &theirs, API_KEY, r#"{"name":"mine"}"#), 404, "not_found"),
        ("a cursor of another list", get(format!("/v1/routes?cursor={cursor}")), 400, "invalid_cursor"),
        ("a cursor of nowhere", get("/v1/routes?cursor=AAAA".into()), 400, "invalid_cursor"),
        ("an unknown parameter", get("/v1/routes?colour=red".into()), 422, "validation_failed"),
        ("a key in the URL", request("GET", &key_in_url, &[], b""), 400, "credential_in_url"),
    ];
    let asked = cases.len();
    for (what, bytes, status, code) in cases {
        let answer = raw_http::exchange(testbed.addr, &bytes, Duration::from_secs(10)).await?;
        let right = answer.status == Some(status) && answer.code().as_deref() == Some(code);
        report.must(right, format!("{what}: {:?} {:?}, not {status} {code}", answer.status, answer.code()));
    }
    // The slow ones side by side; a second is a long time here.
    let (head, body) = tokio::join!(half_a_head(testbed.addr), endless_body(testbed.addr, &ingest));
    let (head, body) = (head?, body?);
    report.note("half_a_head", head.status);
    report.must_be_at_most("half_a_head_closed_after_seconds", head.took, HEAD_CLOSED_WITHIN);
    report.must(matches!(head.status, None | Some(408)), "half a head has an answer");
    report.note("endless_body", body.status);
    report.must_be_at_most("endless_body_closed_after_seconds", body.took, BODY_CLOSED_WITHIN);
    report.must(body.status == Some(408), "a body that never ends is not answered 408");

    report.note("cases", asked + 2);
    let after = table_sizes(&testbed.database).await?;
    let changed: Vec<_> = before.iter().zip(&after).filter(|(before, after)| before != after).collect();
    report.must(changed.is_empty(), format!("tables have changed: {changed:?}"));
    report.must_be("requests_sent", testbed.receiver.total(), 0);
    testbed.tear_down().await
}

fn chunked_request(path: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: checks\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n",
        body.len()
    );
    [head.as_bytes(), body, b"\r\n0\r\n\r\n"].concat()
}

async fn half_a_head(addr: SocketAddr) -> Result<RawAnswer> {
    let beginning = b"POST /ingest/x HTTP/1.1\r\nhost: checks\r\nx-slow: ";
    Ok(raw_http::trickle(addr, beginning, b"a", Duration::from_secs(1), Duration::from_secs(20)).await?)
}

async fn endless_body(addr: SocketAddr, path: &str) -> Result<RawAnswer> {
    let beginning = format!("POST {path} HTTP/1.1\r\nhost: checks\r\ncontent-length: 100000\r\n\r\nabc");
    let limit = Duration::from_secs(40);
    Ok(raw_http::trickle(addr, beginning.as_bytes(), b"x", Duration::from_secs(1), limit).await?)
}

async fn revoked_key(testbed: &Testbed) -> Result<String> {
    let key =
        testbed.client.create_api_key(&ApiKeyInput { name: "revoked".into(), ..Default::default() }).await?;
    testbed.client.revoke_api_key(key.api_key.id).await?;
    Ok(key.key)
}

/// Of another account, made with a key of its own.
async fn foreign_destination(testbed: &Testbed) -> Result<DestinationId> {
    let operator = testbed.client.with_key(OPERATOR_KEY)?;
    let account = operator.create_account(&NewAccount::new("Another")).await?;
    let body = format!(r#"{{"name":"theirs","account_id":"{}"}}"#, account.id);
    let bytes = json_request("POST", "/v1/api-keys", OPERATOR_KEY, &body);
    let answer = raw_http::exchange(testbed.addr, &bytes, Duration::from_secs(5)).await?;
    let key: Value = serde_json::from_str(answer.body()).with_context(|| answer.text.clone())?;
    let theirs = testbed.client.with_key(key["key"].as_str().context("a new key is shown once")?)?;
    Ok(theirs.create_destination(&testbed.destination("foreign")).await?.id)
}

async fn cursor_of_destinations(testbed: &Testbed) -> Result<String> {
    let page: Value = serde_json::from_slice(&testbed.client.raw("/v1/destinations?limit=1").await?)?;
    Ok(page["next_cursor"].as_str().context("two destinations do not fit a page of one")?.to_owned())
}

async fn table_sizes(database: &Database) -> Result<Vec<(&'static str, u64, u64)>> {
    const TABLES: [&str; 10] = [
        "accounts",
        "api_keys",
        "sources",
        "destinations",
        "routes",
        "events",
        "queue",
        "attempts",
        "idempotency",
        "gates",
    ];
    let mut sizes = Vec::new();
    for table in TABLES {
        let rows = database.count(table).await?;
        let version = match table {
            "accounts" | "sources" | "destinations" | "routes" => {
                database.number(&format!("select coalesce(max(version), 0) from {table}")).await?
            }
            _ => 0,
        };
        sizes.push((table, rows, version));
    }
    Ok(sizes)
}
