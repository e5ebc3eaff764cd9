//! Hazard: JSON made to hurt its reader: nested without end, with a million keys, numbers of a million digits, strings that
//! are none.
//!
//! Each document goes to an ingest URL, where it is bytes, and, cut to what is taken there, to every kind of body that the
//! API reads.
//!
//! Holds if the ingest URL takes each and gives it back byte for byte on either store; if the API answers 400, 413 or 422,
//! takes what is harmless, and never says 500; if reading one costs 20 ms of CPU time at most (release build); and if the
//! node lives.

use serde_json::Value;

use crate::harness::prelude::*;
use crate::harness::raw_http::{json_request, request};
use crate::harness::testbed::API_KEY;

/// A debug build takes its time, and is not measured.
const ROUNDS: u32 = if cfg!(debug_assertions) { 2 } else { 10 };
const CPU_MS: f64 = 20.0;
/// What the API takes.
const SMALL: usize = 250_000;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::new(options)?.env("POSTHASTE_LIMITS_BODY", "16MiB").start().await?;
    let source = RoutedSource::make(&testbed, 1, 4).await?;
    let limit = Duration::from_secs(20);
    for (what, document) in bombs(1_000_000) {
        let bytes =
            request("POST", &source.ingest_path(), &[("content-type", "application/json")], &document);
        let answer = raw_http::exchange(testbed.addr, &bytes, limit).await?;
        let accepted: Value = serde_json::from_str(answer.body()).unwrap_or_default();
        let Some(id) = accepted["id"].as_str().filter(|_| answer.status == Some(202)) else {
            report.must(
                false,
                format!("{what} is not taken as bytes: {:?} {:?}", answer.status, answer.code()),
            );
            continue;
        };
        let kept = testbed.client.event_payload(id.parse()?).await?;
        report.must(kept == document, format!("{what} is not kept byte for byte"));
    }

    let (mut answers, mut dearest) = (std::collections::BTreeMap::new(), 0.0f64);
    for (what, document) in bombs(SMALL / 12) {
        for (method, path, before, after) in BODIES {
            let body = [before.as_bytes(), &document, after.as_bytes()].concat();
            if body.len() > SMALL + 5_000 {
                continue;
            }
            let cpu = testbed.process()?.cpu_time()?;
            for _ in 0..ROUNDS {
                let bytes = raw_json(method, path, &body);
                let answer = raw_http::exchange(testbed.addr, &bytes, limit).await?;
                let status = answer.status.unwrap_or_default();
                *answers.entry(status).or_insert(0u64) += 1;
                // An event's data may be any JSON; else it would not be an event's.
                let harmless =
                    status == 202 && path.ends_with("/events") || status == 200 && path.ends_with("/preview");
                let refused = matches!(status, 400 | 413 | 422) && answer.code().is_some();
                report.must(harmless || refused, format!("{what} at {path}: {status} {:?}", answer.code()));
            }
            let spent = testbed.process()?.cpu_time()?.saturating_sub(cpu).as_secs_f64() * 1_000.0;
            dearest = dearest.max(spent / f64::from(ROUNDS));
        }
    }
    report.note("answers", &answers);
    report.must(answers.len() > 1, "no bomb was refused, or none was taken");
    report.note("dearest_ms", rounded(dearest));
    if !cfg!(debug_assertions) {
        report.must_be_at_most("cpu_ms_of_one", dearest, CPU_MS);
    }
    testbed.must_be_running(report);
    testbed.tear_down().await
}

/// Where a document is put: method, path, and what stands around it.
const BODIES: [(&str, &str, &str, &str); 6] = [
    ("POST", "/v1/events", r#"{"type":"lab.bomb","data":"#, "}"),
    ("POST", "/v1/events", r#"{"type":"lab.bomb","data":1,"metadata":"#, "}"),
    ("POST", "/v1/routes/preview", r#"{"type":"lab.bomb","data":"#, "}"),
    ("POST", "/v1/routes", r#"{"destination_id":"#, "}"),
    ("POST", "/v1/destinations", r#"{"url":"http://127.0.0.1:9/","name":"#, "}"),
    ("PATCH", "/v1/account", "", ""),
];

fn raw_json(method: &str, path: &str, body: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(body) {
        Ok(text) => json_request(method, path, API_KEY, text),
        Err(_) => {
            let bearer = format!("Bearer {API_KEY}");
            let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
            request(method, path, &headers, body)
        }
    }
}

/// Of so many parts each: the deepest has a tenth of that.
fn bombs(size: usize) -> Vec<(&'static str, Vec<u8>)> {
    let deep = size / 10;
    let keys: Vec<String> = (0..size).map(|at| format!("\"k{at}\":0")).collect();
    let text = |text: String| text.into_bytes();
    vec![
        ("nesting without end", text("[".repeat(deep))),
        ("nesting that is closed", text("[".repeat(deep) + &"]".repeat(deep))),
        ("objects in objects", text("{\"a\":".repeat(deep) + "1" + &"}".repeat(deep))),
        ("a great many keys", text(format!("{{{}}}", keys.join(",")))),
        ("a number of a great many digits", text("9".repeat(size))),
        ("an exponent without end", text(format!("1e{}", "9".repeat(size)))),
        ("a fraction without end", text(format!("0.{}", "1".repeat(size)))),
        ("one key twice", text(r#"{"a":1,"a":2}"#.into())),
        ("one key a great many times", text(format!("{{{}}}", vec!["\"a\":0"; size].join(",")))),
        ("a NUL that is escaped", text("\"a\\u0000b\"".into())),
        ("a NUL", b"\"a\0b\"".to_vec()),
        ("a lone surrogate", text("\"\\ud800\"".into())),
        ("surrogates the wrong way round", text("\"\\udc00\\ud800\"".into())),
        ("bytes that are not UTF-8", b"\"\xff\xfe\xc0\x80\xed\xa0\x80\"".to_vec()),
        ("a byte order mark", [&b"\xef\xbb\xbf"[..], b"{\"a\":1}"].concat()),
        ("UTF-16", "{\"a\":1}".encode_utf16().flat_map(u16::to_le_bytes).collect()),
        ("a string of escapes", text(format!("\"{}\"", "\\u0041".repeat(size / 6)))),
        ("a string of backslashes", text(format!("\"{}\"", "\\\\".repeat(size / 2)))),
        ("a string without end", text(format!("\"{}", "a".repeat(size)))),
        ("nothing but spaces", text(" ".repeat(size))),
        ("not a number", text("NaN".into())),
        ("two documents", text("{} {}".into())),
    ]
}
