//! Hazard: a request that a proxy in front of us reads differently carries a second one in.
//!
//! Every request of which two readers could disagree where it ends, each followed by one that would store an event; alone
//! on its connection, behind a good request, and a few bytes at a time.
//!
//! Holds if each is answered with one 400 and the end of its connection, if nothing behind it is read as a request, and if
//! two good requests behind each other are two events all the same.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::prelude::*;
use crate::harness::raw_http::RawAnswer;

const CLOSED_WITHIN: Duration = Duration::from_secs(5);

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let testbed = TestbedPlan::new(options)?.start().await?;
    let source = RoutedSource::make(&testbed, 1, 4).await?;
    let path = source.ingest_path();
    let good = request(&path, "host: checks\r\ncontent-length: 5\r\n", "hello");
    let answer = trickle(&testbed, &[good.as_str(), &good, "\r\n", &good].concat(), usize::MAX).await?;
    report
        .must(answer.statuses() == [202; 3], format!("good ones behind each other: {:?}", answer.statuses()));
    let mut stored = 3;
    for (what, ambiguous) in ambiguous(&path) {
        for (before, step) in [("", usize::MAX), (good.as_str(), usize::MAX), (good.as_str(), 7)] {
            let answer = trickle(&testbed, &[before, &ambiguous, &good].concat(), step).await?;
            let expected: &[u16] = if before.is_empty() { &[400] } else { &[202, 400] };
            stored += expected.len() as u64 - 1;
            report.must(
                answer.statuses() == expected,
                format!("{what}, in steps of {step}: {:?}, not {expected:?}", answer.statuses()),
            );
            report.must(answer.closed, format!("{what}: not closed within {CLOSED_WITHIN:?}"));
            let last = answer.text.rfind("HTTP/1.1 400").map_or("", |at| &answer.text[at..]);
            let told = last.contains("application/problem+json") && last.contains("\"malformed_request\"");
            report.must(told, format!("{what}: refused without a reason"));
        }
    }
    report.note("cases", ambiguous(&path).len() * 3);
    report.must_be("events_stored", testbed.database.count("events").await?, stored);
    testbed.tear_down().await
}

fn request(target: &str, lines: &str, body: &str) -> String {
    format!("POST {target} HTTP/1.1\r\n{lines}\r\n{body}")
}

/// What each is, and how it looks.
fn ambiguous(path: &str) -> Vec<(&'static str, String)> {
    let host = |lines: &str, body: &str| request(path, &format!("host: checks\r\n{lines}"), body);
    let nothing = "0\r\n\r\n";
    vec![
        ("a length before chunks", host("content-length: 5\r\ntransfer-encoding: chunked\r\n", nothing)),
        ("a length after chunks", host("transfer-encoding: chunked\r\ncontent-length: 5\r\n", nothing)),
        ("two lengths", host("content-length: 5\r\ncontent-length: 0\r\n", "hello")),
        ("one length twice", host("content-length: 5\r\ncontent-length: 5\r\n", "hello")),
        ("two lengths in one", host("content-length: 5, 0\r\n", "hello")),
        ("a length with a sign", host("content-length: +5\r\n", "hello")),
        ("a length that is negative", host("content-length: -5\r\n", "hello")),
        ("a length in hexadecimal", host("content-length: 0x5\r\n", "hello")),
        ("a length beyond all bounds", host("content-length: 18446744073709551621\r\n", "hello")),
        ("a coding that sounds like chunks", host("transfer-encoding: xchunked\r\n", nothing)),
        ("a coding before chunks", host("transfer-encoding: gzip, chunked\r\n", nothing)),
        ("a coding after chunks", host("transfer-encoding: chunked, identity\r\n", nothing)),
        ("chunks twice", host("transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n", nothing)),
        ("chunks behind a vertical tab", host("transfer-encoding: \u{b}chunked\r\n", nothing)),
        ("a space before the colon", host("content-length : 5\r\n", "hello")),
        ("a space before the colon of chunks", host("transfer-encoding : chunked\r\n", nothing)),
        ("a line that is continued", host("x-a: b\r\n content-length: 5\r\n", "hello")),
        ("a first line that is continued", request(path, " host: checks\r\n", "")),
        ("lines that end with a line feed", host("", "").replace("\r\n", "\n")),
        ("one line that ends so", host("x-a: b\ncontent-length: 5\r\n", "hello")),
        ("an empty line that ends so", format!("POST {path} HTTP/1.1\r\nhost: checks\r\n\n")),
        ("a carriage return in a line", host("x-a: b\rcontent-length: 5\r\n", "hello")),
        ("a NUL in a line", host("x-a: b\0\r\n", "")),
        ("a line without a colon", host("content-length\r\n", "")),
        ("no host", request(path, "", "")),
        ("two hosts", host("host: checks\r\n", "")),
        ("a host with a path", request(path, "host: checks/x\r\n", "")),
        ("another host in the target", request(&format!("http://other{path}"), "host: checks\r\n", "")),
        ("a user in the target", request(&format!("http://checks@other{path}"), "host: checks\r\n", "")),
        ("a target of another protocol", request(&format!("gopher://checks{path}"), "host: checks\r\n", "")),
        ("a target that is a host", request("checks:80", "host: checks:80\r\n", "")),
        ("two spaces before the version", format!("POST {path}  HTTP/1.1\r\nhost: checks\r\n\r\n")),
        ("no version", format!("POST {path}\r\nhost: checks\r\n\r\n")),
        ("a version to come", format!("POST {path} HTTP/1.2\r\nhost: checks\r\n\r\n")),
        (
            "chunks in HTTP/1.0",
            format!("POST {path} HTTP/1.0\r\nhost: checks\r\ntransfer-encoding: chunked\r\n\r\n{nothing}"),
        ),
        ("the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned()),
    ]
}

/// Sends it in steps, closes our side, and reads to the end.
async fn trickle(testbed: &Testbed, text: &str, step: usize) -> Result<RawAnswer> {
    let began = Instant::now();
    let mut stream = TcpStream::connect(testbed.addr).await?;
    stream.set_nodelay(true)?;
    let (mut from, mut to) = stream.split();
    let mut bytes = Vec::new();
    let write = async {
        for piece in text.as_bytes().chunks(step.min(text.len())) {
            if to.write_all(piece).await.is_err() {
                return;
            }
            tokio::task::yield_now().await;
        }
        let _ = to.shutdown().await;
    };
    let both = async { tokio::join!(write, from.read_to_end(&mut bytes)).1.is_ok() };
    let closed = tokio::time::timeout(CLOSED_WITHIN, both).await.unwrap_or(false);
    Ok(RawAnswer::new(&bytes, began.elapsed(), closed))
}
