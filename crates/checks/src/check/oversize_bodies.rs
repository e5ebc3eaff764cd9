//! Hazard: a body that is far too large is read, kept, or waited for.
//!
//! With a limit of 1 MiB: a gibibyte that is announced, a gibibyte in chunks, by ingest URL and by API; twenty clients that
//! send as fast as they can and never look up; clients that send 5 MiB before they read; and a request with more behind it
//! than it announced.
//!
//! Holds if who announces too much is refused before it has sent any of it, and who sends chunks no later than 64 KiB
//! after the limit, with 413 and the end of the connection; if who reads only then still sees the answer; if who just goes
//! on is cut off after some 16 MiB; if the node's memory stays as it is; and if nothing is stored but the ten bytes that
//! were announced.

use std::net::SocketAddr;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::harness::prelude::*;
use crate::harness::raw_http::{RawAnswer, written_first};
use crate::harness::testbed::API_KEY;

const LIMIT: usize = 1 << 20;
/// Of the management API.
const SMALL_LIMIT: usize = 256 << 10;
const SLACK: usize = 64 << 10;
const GIB: usize = 1 << 30;
const SENDERS: u64 = 20;
/// What is still read of a refused body, and what two sockets hold.
const SENT_MAX_MIB: f64 = 40.0;
/// Twenty bodies of the limit and their buffers, and not a gibibyte of any.
const MEMORY_GROWTH_MIB: f64 = 64.0;
const AT_ONCE: Duration = Duration::from_secs(2);

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let testbed = TestbedPlan::new(options)?.env("POSTHASTE_LIMITS_BODY", "1MiB").start().await?;
    let source = RoutedSource::make(&testbed, 1, 4).await?;
    let ingest = source.ingest_path();
    let ways = [(ingest.as_str(), LIMIT), ("/v1/events", LIMIT), ("/v1/destinations", SMALL_LIMIT)];
    for (path, limit) in ways {
        let announced = head(path, &format!("content-length: {GIB}\r\n"));
        let answer = raw_http::exchange(testbed.addr, announced.as_bytes(), AT_ONCE).await?;
        must_be_413(&answer, &format!("a gibibyte announced to {path}"), report);
        let chunked = head(path, "transfer-encoding: chunked\r\n") + &format!("{GIB:x}\r\n");
        let bytes = [chunked.as_bytes(), &vec![b' '; limit + SLACK]].concat();
        let answer = raw_http::exchange(testbed.addr, &bytes, AT_ONCE).await?;
        must_be_413(&answer, &format!("64 KiB too much in chunks to {path}"), report);
        let large = head(path, &format!("content-length: {}\r\n", 5 << 20));
        let bytes = [large.as_bytes(), &vec![b' '; 5 << 20]].concat();
        let answer = written_first(testbed.addr, &bytes, Duration::from_secs(10)).await?;
        must_be_413(&answer, &format!("5 MiB to {path} before anything is read"), report);
    }

    let before = testbed.process()?.rss_bytes()?;
    let mut senders = JoinSet::new();
    for at in 0..options.count(SENDERS) {
        let lines = if at % 2 == 0 {
            format!("content-length: {GIB}\r\n")
        } else {
            "transfer-encoding: chunked\r\n".into()
        };
        let chunk = if at % 2 == 0 { String::new() } else { format!("{GIB:x}\r\n") };
        senders.spawn(send_on(testbed.addr, head(&ingest, &lines) + &chunk));
    }
    let (mut most_sent, mut most) = (0, before);
    while let Some(sent) = senders.join_next().await {
        most_sent = most_sent.max(sent??);
        most = most.max(testbed.process()?.rss_bytes()?);
    }
    report.must_be_at_most("most_sent_mib", mib(most_sent as u64), SENT_MAX_MIB);
    report.must_be_at_most("memory_growth_mib", mib(most.saturating_sub(before)), MEMORY_GROWTH_MIB);
    report.must_be("stored_of_what_was_refused", testbed.database.count("events").await?, 0);

    let more = head(&ingest, "content-length: 10\r\n") + "0123456789and more\r\n\r\n";
    let answer = raw_http::exchange(testbed.addr, more.as_bytes(), AT_ONCE).await?;
    report.must(answer.statuses() == [202, 400], format!("more than announced: {:?}", answer.statuses()));
    let stored = testbed.database.count("events").await?;
    report.must_be("stored", stored, 1);
    let payload = only_payload(&testbed).await?;
    report.must(payload == b"0123456789", "what was stored is not what was announced");
    testbed.tear_down().await
}

fn head(path: &str, lines: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: checks\r\nauthorization: Bearer {API_KEY}\r\ncontent-type: application/json\r\n\
         {lines}\r\n"
    )
}

fn must_be_413(answer: &RawAnswer, what: &str, report: &mut Report) {
    let right = answer.statuses() == [413] && answer.code().as_deref() == Some("payload_too_large");
    report.must(right, format!("{what}: {:?} {:?}", answer.statuses(), answer.code()));
    report.must(answer.header("connection") == Some("close"), format!("{what}: the connection goes on"));
    report.must(answer.closed, format!("{what}: not closed within {:?}", answer.took));
}

/// Sends until it is stopped, and never reads; how many bytes went out.
async fn send_on(addr: SocketAddr, head: String) -> Result<usize> {
    let mut stream = TcpStream::connect(addr).await?;
    stream.write_all(head.as_bytes()).await?;
    let (piece, mut sent) = (vec![b'x'; 64 << 10], 0);
    while sent < GIB {
        match timeout(Duration::from_secs(15), stream.write(&piece)).await {
            Ok(Ok(written)) => sent += written,
            _ => break,
        }
    }
    Ok(sent)
}

async fn only_payload(testbed: &Testbed) -> Result<Vec<u8>> {
    let page: serde_json::Value = serde_json::from_slice(&testbed.client.raw("/v1/events?limit=1").await?)?;
    let id = page["data"][0]["id"].as_str().context("an event is listed")?;
    Ok(testbed.client.event_payload(id.parse()?).await?.to_vec())
}
