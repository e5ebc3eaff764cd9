//! Hazard: a payload is altered on its way: reordered, re-escaped, rounded, trimmed, re-encoded.
//!
//! Ten thousand generated bodies (`--count`): JSON of every awkward kind, and bytes that are no JSON at all, under
//! many content types; one in ten through `POST /v1/events`, the others by ingest URL. Every tenth is answered 500
//! at its first attempt, so that it goes through the store and a retry as well.
//!
//! Holds if every body arrives with the hash it was sent with, and nothing is lost or sent twice.

use std::sync::Arc;

use bytes::Bytes;
use client::{Accepted, Client, NewRoute};
use http::{HeaderName, HeaderValue, header};
use lab::body;
use lab::judge::Acked;
use rand::RngExt as _;
use tokio::task::JoinSet;

use crate::harness::prelude::*;

const SENDERS: u64 = 32;
const RETRIED: u64 = 10;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let count = options.count(10_000);
    let testbed = TestbedPlan::new(options)?.start().await?;
    let source = RoutedSource::make(&testbed, 1, 100).await?;
    testbed.client.create_route(&NewRoute::to(source.destinations[0])).await?;
    testbed.receiver.default_script(Script::custom(|request| {
        let retried = body::hash(request.body).is_multiple_of(RETRIED);
        if retried && request.attempt == 1 { Reply::status(500) } else { Reply::ok() }
    }));

    let mut senders = JoinSet::new();
    for sender in 0..SENDERS {
        let (anonymous, keyed) = (Client::without_key(&testbed.base_url())?, testbed.client.clone());
        let (path, destination) = (source.ingest_path(), source.names[0].clone());
        let mine = (sender..count).step_by(SENDERS as usize);
        senders.spawn(async move {
            let mut acked = Vec::new();
            for n in mine {
                acked.push(send(&anonymous, &keyed, &path, &destination, n).await?);
            }
            Ok::<_, anyhow::Error>(acked)
        });
    }
    let mut acked = Vec::new();
    while let Some(part) = senders.join_next().await {
        acked.extend(part??);
    }
    testbed.must_drain(Duration::from_secs(60), report).await?;
    report.must_be("bodies", acked.len(), count);
    let retries = testbed.receiver.snapshot().iter().filter(|record| record.attempt == 2).count();
    report.note("retried", retries);
    report.must(retries as u64 > count / 20, "hardly anything was retried");
    settle_accounts(&testbed, &source, Evidence { acked, ..Evidence::default() }, report).await?;
    testbed.tear_down().await
}

async fn send(
    anonymous: &Client,
    keyed: &Client,
    path: &str,
    destination: &Arc<str>,
    n: u64,
) -> Result<Acked> {
    let sent_us = lab::clock::unix_us();
    let (accepted, bytes): (Accepted, Bytes) = if n.is_multiple_of(10) {
        let text = json_text(n);
        (keyed.publish(&Publish::json("lab.d00", text.clone())?).await?, text.into())
    } else {
        let (content_type, bytes) =
            if n.is_multiple_of(3) { raw_bytes(n) } else { (JSON, json_text(n).into()) };
        let headers = [
            (HeaderName::from_static("x-event-type"), HeaderValue::from_static("lab.d00")),
            (header::CONTENT_TYPE, HeaderValue::from_static(content_type)),
        ];
        let accepted = anonymous.ingest(path, &headers, bytes.clone()).await;
        (accepted.with_context(|| format!("body {n}: {:?}", &bytes[..bytes.len().min(80)]))?, bytes)
    };
    Ok(Acked {
        event_id: accepted.id.to_string().into(),
        body_hash: body::hash(&bytes),
        sent_us,
        answered_us: lab::clock::unix_us(),
        destinations: vec![destination.clone()],
    })
}

const JSON: &str = "application/json";
const TYPES: [&str; 8] = [
    "application/octet-stream",
    "text/plain",
    "text/plain; charset=iso-8859-1",
    "application/xml",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/json; charset=utf-16",
    "image/png",
];

/// Valid JSON that a parser and a printer would write differently. `n` makes each one its own.
fn json_text(n: u64) -> String {
    const ODD: [&str; 16] = [
        r#"{"z":1,"a":2,"m":{"b":1,"a":2}}"#,
        r#"{"a":1,"a":2,"a":{"a":3}}"#,
        "1e400",
        "9223372036854775809",
        "-0.0",
        "0.1000000000000000055511151231257827",
        r#""\u00e9\u0301é\u200d""#,
        r#""\ud800 alone, and \udc00""#,
        r#""\u0000 and \u001f""#,
        r#""\/\b\f\n\r\t\"\\""#,
        "[1,\r\n\t2 , 3\n]",
        r#"{"":"","\u0022":"😀"}"#,
        "true",
        "null",
        "[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]",
        r#"{"k":12345678901234567890123456789012345678901234567890}"#,
    ];
    let mut rng = rand::rng();
    let space = [" ", "", "\n", "\r\n", "\t "][rng.random_range(0..5)];
    let pad = "é x\\u0041".repeat(rng.random_range(0..40));
    let odd = ODD[(n / 10 % 16) as usize];
    format!("{{{space}\"n\" :{n},\"odd\":{odd},\"pad\":\"{pad}\"{space}}}")
}

/// Anything at all.
fn raw_bytes(n: u64) -> (&'static str, Bytes) {
    let mut rng = rand::rng();
    let length = rng.random_range(0..4096);
    let mut bytes: Vec<u8> = n.to_le_bytes().to_vec();
    bytes.extend((0..length).map(|_| rng.random::<u8>()));
    match n % 7 {
        // What looks like text with a mark, a line ending or a zero at its edges.
        0 => bytes.splice(0..0, [0xef, 0xbb, 0xbf]).for_each(drop),
        1 => bytes.extend(b"\r\n"),
        2 => bytes.push(0),
        3 => bytes.insert(0, 0),
        _ => {}
    }
    (TYPES[(n % 8) as usize], bytes.into())
}
