//! Hazard: a limit that is one off, is answered with another status than was promised, or with an apology.
//!
//! [`table`] has every limit of what comes in, with an input just within it and one just beyond. Besides, every URL of the
//! OpenAPI document is asked with every method that it does not have, and every one that takes JSON is given another type
//! of content and bodies that do not fit; and what takes too long is waited for.
//!
//! Holds if each input within is taken, each beyond is refused with its status and its code, every refusal is a complete
//! problem document with the headers that belong to it, and nothing is ever answered with 500. `--only` runs the rows whose
//! name begins so.

mod setup;
mod table;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use domain::limits;
use serde_json::Value;
use setup::Setup;
use table::Case;

use crate::harness::prelude::*;
use crate::harness::raw_http::{RawAnswer, json_request, request, trickle};
use crate::harness::testbed::API_KEY;

const LIMIT: Duration = Duration::from_secs(20);
/// Beyond a deadline, for the clocks.
const LATE: Duration = Duration::from_secs(2);

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::new(options)?.start().await?;
    let setup = Setup::make(&testbed).await?;
    let mut rows = table::rows(&setup);
    rows.retain(|row| options.only.as_ref().is_none_or(|only| row.what.starts_with(only)));
    let addr = testbed.addr;
    for row in &rows {
        for (side, case) in [("within", &row.within), ("beyond", &row.beyond)] {
            let answer = raw_http::exchange(addr, &case.bytes, LIMIT).await?;
            judge(&format!("{}, {side}", row.what), case, &answer, report);
        }
    }
    report.note("rows", rows.len());
    if options.only.is_none() {
        let shapes = wrong_shapes(&testbed, report).await?;
        report.note("wrong_shapes", shapes.values().sum::<u64>());
        report.note("wrong_shape_answers", shapes);
        let (head, body) = tokio::join!(half_a_head(addr), slow_body(addr, &setup.ingest));
        must_be_late("half a head", &head?, limits::HEAD_DEADLINE, report);
        must_be_late("a slow body", &body?, limits::BODY_GRACE, report);
        guesses(&testbed, report).await?;
    }
    testbed.must_be_running(report);
    testbed.tear_down().await
}

fn judge(what: &str, case: &Case, answer: &RawAnswer, report: &mut Report) {
    let problem: Value = serde_json::from_str(answer.body()).unwrap_or_default();
    let field = problem["errors"][0]["code"].as_str().unwrap_or_default();
    if case.code.is_empty() {
        let said =
            format!("{what}: {:?} {:?} {field}, not {}", answer.statuses(), answer.code(), case.status);
        report.must(answer.statuses() == [case.status], said);
        return;
    }
    let right = answer.statuses() == [case.status] && answer.code().as_deref() == Some(case.code);
    let right = right && (case.field.is_empty() || field == case.field);
    let wanted = format!("{} {} {}", case.status, case.code, case.field);
    report.must(right, format!("{what}: {:?} {:?} {field}, not {wanted}", answer.statuses(), answer.code()));
    must_be_complete(what, answer, &problem, report);
}

/// A problem document with everything that belongs to it, and nothing half said.
fn must_be_complete(what: &str, answer: &RawAnswer, problem: &Value, report: &mut Report) {
    let header = |name: &str| answer.header(name).unwrap_or_default();
    let status = answer.status.unwrap_or_default();
    let code = problem["code"].as_str().unwrap_or_default();
    let mut missing = Vec::new();
    let mut must = |holds: bool, name: &'static str| missing.extend((!holds).then_some(name));
    must(header("content-type") == "application/problem+json", "content-type");
    must(
        !header("x-request-id").is_empty() && problem["request_id"] == header("x-request-id"),
        "x-request-id",
    );
    must(problem["status"] == status && problem["type"] == format!("/docs/errors#{code}"), "its members");
    let in_seconds = header("retry-after").parse().is_ok_and(|seconds: u64| (1..=60).contains(&seconds));
    must(matches!(status, 429 | 503) == in_seconds, "retry-after");
    must((status == 401) == (header("www-authenticate") == "Bearer"), "www-authenticate");
    must((status == 405) != header("allow").is_empty(), "allow");
    let ends = matches!(
        code,
        "malformed_request" | "request_timeout" | "payload_too_large" | "uri_too_long" | "headers_too_large"
    );
    must(!ends || header("connection") == "close", "connection");
    must(answer.closed, "the end");
    report.must(missing.is_empty(), format!("{what}: {status} without {missing:?}"));
}

/// Every URL with every method it does not have, and every body with what does not fit; how often which status came.
async fn wrong_shapes(testbed: &Testbed, report: &mut Report) -> Result<BTreeMap<u16, u64>> {
    let document: Value = serde_json::from_slice(&testbed.client.raw("/openapi.json").await?)?;
    let mut statuses = BTreeMap::new();
    for (template, operations) in document["paths"].as_object().context("a document has paths")? {
        let (path, operations) = (sample(template), operations.as_object().context("operations")?);
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"] {
            let operation = operations.get(&method.to_ascii_lowercase());
            let asked: Vec<(Vec<u8>, &[u16])> = match operation {
                None => vec![(json_request(method, &path, API_KEY, ""), &[405][..])],
                Some(operation) if takes_json(operation) => wrong_bodies(method, &path),
                Some(_) => continue,
            };
            for (bytes, expected) in asked {
                let answer = raw_http::exchange(testbed.addr, &bytes, LIMIT).await?;
                let status = answer.status.unwrap_or_default();
                *statuses.entry(status).or_insert(0) += 1;
                let what = format!("{method} {path} {:?}", String::from_utf8_lossy(&bytes).lines().last());
                report.must(expected.contains(&status), format!("{what}: {status}, not of {expected:?}"));
                if status >= 400 {
                    must_be_complete(&what, &answer, &serde_json::from_str(answer.body())?, report);
                }
            }
        }
    }
    Ok(statuses)
}

fn takes_json(operation: &Value) -> bool {
    operation.pointer("/requestBody/content/application~1json").is_some()
}

/// Another type of content, and JSON of other shapes. What is not there may be told before its body is looked at, and an
/// operator's URL is not an account's.
fn wrong_bodies(method: &str, path: &str) -> Vec<(Vec<u8>, &'static [u16])> {
    let bearer = format!("Bearer {API_KEY}");
    let plain = [("authorization", bearer.as_str()), ("content-type", "text/plain")];
    let mut asked: Vec<(Vec<u8>, &[u16])> =
        vec![(request(method, path, &plain, b"{}"), &[415, 403, 404][..])];
    for body in ["[]", "7", "null", "\"x\"", r#"{"no such member":1}"#, r#"{"name":[],"url":{},"type":7}"#] {
        asked.push((json_request(method, path, API_KEY, body), &[422, 403, 404]));
    }
    for body in ["{", "{]", "{\"a\":1,}", "\u{feff}{}", "{}{}"] {
        asked.push((json_request(method, path, API_KEY, body), &[400, 403, 404]));
    }
    asked
}

/// With ids that are well-formed and nobody's.
fn sample(template: &str) -> String {
    let kinds = [
        ("destinations", "dst"),
        ("deliveries", "dlv"),
        ("events", "evt"),
        ("routes", "rte"),
        ("sources", "src"),
    ];
    let kind = kinds.iter().find(|(list, _)| template.contains(list)).map_or("key", |(_, kind)| kind);
    template.replace("{id}", &format!("{kind}_01h455vb4pex5vsknk084sn02q")).replace("{token}", "nobodys")
}

async fn half_a_head(addr: SocketAddr) -> Result<RawAnswer> {
    let head = b"GET /healthz HTTP/1.1\r\nhost: checks\r\nx-half: ";
    Ok(trickle(addr, head, b"x", Duration::from_secs(1), LIMIT).await?)
}

async fn slow_body(addr: SocketAddr, path: &str) -> Result<RawAnswer> {
    let head = format!("POST {path} HTTP/1.1\r\nhost: checks\r\ncontent-length: 100000\r\n\r\n");
    Ok(trickle(addr, head.as_bytes(), b"x", Duration::from_secs(1), LIMIT).await?)
}

fn must_be_late(what: &str, answer: &RawAnswer, deadline: Duration, report: &mut Report) {
    let right = answer.statuses() == [408] && answer.code().as_deref() == Some("request_timeout");
    report.must(right, format!("{what}: {:?} {:?}", answer.statuses(), answer.code()));
    report.must(answer.took >= deadline, format!("{what} was given up after {:?}", answer.took));
    report.must(answer.took <= deadline + LATE, format!("{what} was waited for {:?}", answer.took));
}

/// As many wrong credentials as there may be, one more, and a right one behind them.
async fn guesses(testbed: &Testbed, report: &mut Report) -> Result<()> {
    let mut statuses = BTreeMap::new();
    // Some of them have been spent on the rows above, and some come back meanwhile.
    for _ in 0..2 * limits::WRONG_CREDENTIALS {
        let guess = json_request("GET", "/v1/account", "phk_guess", "");
        let answer = raw_http::exchange(testbed.addr, &guess, LIMIT).await?;
        *statuses.entry(answer.status.unwrap_or_default()).or_insert(0) += 1;
        must_be_complete("a guess", &answer, &serde_json::from_str(answer.body())?, report);
    }
    let (told, refused) = (statuses.remove(&401).unwrap_or(0), statuses.remove(&429).unwrap_or(0));
    report.note("guesses", json!({ "unauthorized": told, "rate_limited": refused }));
    report.must(statuses.is_empty(), format!("guesses are answered {statuses:?}"));
    report.must(told <= limits::WRONG_CREDENTIALS + 1 && refused > 0, "guesses are not limited");
    let right =
        raw_http::exchange(testbed.addr, &json_request("GET", "/v1/account", API_KEY, ""), LIMIT).await?;
    report.must(
        right.status == Some(200),
        format!("a key suffers for the guesses of others: {:?}", right.status),
    );
    Ok(())
}
