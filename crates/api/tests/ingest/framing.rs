//! What only bytes on a connection can get wrong: how a body is framed, and who still listens.

use crate::{
    connections::{Served, served, served_from, until_closed},
    world::{TOKEN, World},
};
use domain::limits;
use tokio::io::AsyncWriteExt;

fn post(headers: &str, body: &str) -> Vec<u8> {
    format!("POST /ingest/{TOKEN} HTTP/1.1\r\nhost: x\r\n{headers}\r\n{body}").into_bytes()
}

#[tokio::test]
async fn a_body_that_is_not_chunked_as_it_says_is_malformed() {
    let served = served(|_| {}).await;
    for body in
        ["zz\r\nhello\r\n0\r\n\r\n", "ffffffffffffffff1\r\nhello", "5\r\nhello0\r\n\r\n", "-1\r\nhello\r\n"]
    {
        let answer = served.exchange(&post("transfer-encoding: chunked\r\n", body)).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        assert!(answer.contains("\"malformed_request\"") && answer.contains("connection: close"), "{answer}");
    }
    served.world.assert_nothing_stored().await;
}

#[tokio::test]
async fn the_only_transfer_coding_is_chunked() {
    let served = served(|_| {}).await;
    for codings in [
        "transfer-encoding: gzip, chunked\r\n",
        "transfer-encoding: chunked, chunked\r\n",
        "transfer-encoding: identity\r\ntransfer-encoding: chunked\r\n",
    ] {
        let answer = served.exchange(&post(codings, "5\r\nhello\r\n0\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("connection: close"), "{answer}");
    }
    served.world.assert_nothing_stored().await;
}

#[tokio::test]
async fn who_closes_its_side_after_asking_still_hears_the_answer() {
    let served = served(|_| {}).await;
    let mut stream = served.connect().await;
    stream.write_all(&post("content-length: 5\r\n", "hello")).await.unwrap();
    stream.shutdown().await.unwrap();
    let answer = until_closed(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 202 "), "{answer:?}");
}

/// One answer and no other, in the form of every problem, and then the end.
#[track_caller]
fn is_refused(answer: &str, status: u16, code: &str) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let problem: serde_json::Value = serde_json::from_str(body).expect(answer);
    assert_eq!((&problem["status"], &problem["code"]), (&status.into(), &code.into()), "{answer}");
    for line in [
        "content-type: application/problem+json",
        "connection: close",
        &format!("x-request-id: {}", problem["request_id"].as_str().unwrap()),
    ] {
        assert_eq!(head.matches(line).count(), 1, "{line} in {answer}");
    }
}

/// What would follow in a request that is smuggled in.
const SECOND: &str = "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";

#[tokio::test]
async fn what_two_readers_could_read_differently_is_refused_and_nothing_after_it_is_read() {
    let served = served(|_| {}).await;
    let ingest = format!("/ingest/{TOKEN}");
    let head = |target: &str, lines: &str| format!("POST {target} HTTP/1.1\r\n{lines}\r\n");
    let host = |lines: &str| head(&ingest, &format!("host: x\r\n{lines}"));
    let chunked = "transfer-encoding: chunked\r\n";
    for ambiguous in [
        host(&format!("content-length: 5\r\n{chunked}")) + "0\r\n\r\n",
        host(&format!("{chunked}content-length: 5\r\n")) + "0\r\n\r\n",
        host("content-length: 5\r\ncontent-length: 6\r\n") + "hello",
        host("content-length: 5\r\ncontent-length: 5\r\n") + "hello",
        host("content-length: 5, 5\r\n") + "hello",
        host("content-length: +5\r\n") + "hello",
        host("content-length: 0x5\r\n") + "hello",
        host("content-length:\r\n"),
        host("content-length: 99999999999999999999\r\n"),
        host("transfer-encoding: xchunked\r\n") + "0\r\n\r\n",
        host("transfer-encoding: chunked, identity\r\n") + "0\r\n\r\n",
        host("transfer-encoding:\u{b}chunked\r\n") + "0\r\n\r\n",
        host(&format!("{chunked}{chunked}")) + "0\r\n\r\n",
        host("x-folded: a\r\n b\r\n"),
        host("x-folded: a\r\n\tcontent-length: 5\r\n"),
        host("content-length : 5\r\n") + "hello",
        host("x y: 1\r\n"),
        host(": 1\r\n"),
        host("no colon\r\n"),
        host("x-nul: a\0b\r\n"),
        host("x-return: a\rb\r\n"),
        host("x-line: 1\n"),
        host("").replace("\r\n", "\n"),
        format!("POST {ingest} HTTP/1.1\nhost: x\r\n\r\n"),
        format!("POST {ingest} HTTP/1.1\r\nhost: x\r\n\n"),
        format!("\nPOST {ingest} HTTP/1.1\r\nhost: x\r\n\r\n"),
        head(&ingest, ""),
        host("host: x\r\n"),
        host("host: y\r\n"),
        head(&ingest, "host: x/y\r\n"),
        head(&ingest, "host: a b\r\n"),
        head(&format!("http://y{ingest}"), "host: x\r\n"),
        head(&format!("http://x:81{ingest}"), "host: x\r\n"),
        head(&format!("http://x@y{ingest}"), "host: x\r\n"),
        head(&format!("ftp://x{ingest}"), "host: x\r\n"),
        head("x:80", "host: x\r\n"),
        head("*", "host: x\r\n"),
        head("", "host: x\r\n"),
        format!("POST {ingest}  HTTP/1.1\r\nhost: x\r\n\r\n"),
        format!("POST {ingest}\tHTTP/1.1\r\nhost: x\r\n\r\n"),
        format!("POST {ingest} HTTP/1.2\r\nhost: x\r\n\r\n"),
        format!("POST {ingest} HTTP/1.0\r\nhost: x\r\n{chunked}\r\n0\r\n\r\n"),
        format!("POST {ingest}\r\nhost: x\r\n\r\n"),
        format!("P\u{1}ST {ingest} HTTP/1.1\r\nhost: x\r\n\r\n"),
        format!("POST {ingest}<> HTTP/1.1\r\nhost: x\r\n\r\n"),
        "CONNECT x:80 HTTP/1.1\r\nhost: x:80\r\n\r\n".into(),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".into(),
    ] {
        let answer = served.exchange((ambiguous.clone() + SECOND).as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{ambiguous:?}: {answer}");
        is_refused(&answer, 400, "malformed_request");
    }
    served.world.assert_nothing_stored().await;
}

#[tokio::test]
async fn what_is_unusual_and_clear_is_taken() {
    let served = served(|_| {}).await;
    for clear in [
        format!("POST http://X:80/ingest/{TOKEN} HTTP/1.1\r\nHOST: x:80\r\ncontent-length: 1\r\n\r\nx"),
        format!("\r\nPOST /ingest/{TOKEN} HTTP/1.1\r\nhost:x\r\nContent-Length:\t1 \r\n\r\nx"),
        format!("POST /ingest/{TOKEN} HTTP/1.0\r\ncontent-length: 1\r\n\r\nx"),
        format!(
            "POST /ingest/{TOKEN}?a={{b}}|^[] HTTP/1.1\r\nhost: [::1]:80\r\nx: \u{e9}\r\ncontent-length: 1\r\n\r\nx"
        ),
        format!(
            "POST /ingest/{TOKEN} HTTP/1.1\r\nhost:\r\nTransfer-Encoding: Chunked\r\n\r\n1;a=b\r\nx\r\n0\r\nx-trailer: 1\r\n\r\n"
        ),
    ] {
        let mut stream = served.connect().await;
        stream.write_all(clear.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let answer = until_closed(&mut stream).await;
        assert_eq!(answer.get(8..13), Some(" 202 "), "{clear:?}: {answer}");
    }
}

#[tokio::test]
async fn requests_that_come_together_are_told_apart_by_their_framing() {
    let served = served(|_| {}).await;
    let sized = String::from_utf8(post("content-length: 5\r\n", "hello")).unwrap();
    let chunked =
        String::from_utf8(post("transfer-encoding: chunked\r\n", "5\r\nworld\r\n0\r\n\r\n")).unwrap();
    let ambiguous =
        post("content-length: 5\r\ntransfer-encoding: chunked\r\n", &format!("0\r\n\r\n{SECOND}"));
    let together =
        [sized.as_bytes(), chunked.as_bytes(), SECOND.as_bytes(), sized.as_bytes(), &ambiguous].concat();
    let statuses = |answers: &str| {
        let starts = answers.match_indices("HTTP/1.1 ").map(|(at, start)| at + start.len());
        starts.map(|at| answers[at..at + 3].to_owned()).collect::<Vec<_>>()
    };
    let expected = ["202", "202", "200", "202", "400"];
    assert_eq!(statuses(&served.exchange(&together).await), expected);
    // The same a few bytes at a time, so that no head, no chunk and no line end is whole when it is looked at.
    for step in [1, 3, 64] {
        let mut stream = served.connect().await;
        stream.set_nodelay(true).unwrap();
        let (mut from, mut to) = stream.split();
        let write = async {
            for bytes in together.chunks(step) {
                to.write_all(bytes).await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        let mut answers = String::new();
        let read = tokio::io::AsyncReadExt::read_to_string(&mut from, &mut answers);
        tokio::join!(write, read).1.unwrap();
        assert_eq!(statuses(&answers), expected, "in steps of {step}");
    }
    let stored = served.world.events().await;
    assert_eq!(stored.len(), 4 * 3);
}

fn padded(target: &str, lines: &str, bytes: usize) -> String {
    let start = format!("GET {target} HTTP/1.1\r\nhost: x\r\n{lines}x-pad: ");
    let end = "\r\nconnection: close\r\n\r\n";
    format!("{start}{}{end}", "x".repeat(bytes - start.len() - end.len()))
}

#[tokio::test]
async fn a_head_at_its_limits_is_taken_and_one_beyond_is_refused() {
    let served = served(|_| {}).await;
    let at = padded("/healthz", "", limits::HEAD_BYTES);
    assert!(served.exchange(at.as_bytes()).await.starts_with("HTTP/1.1 200 "));
    for beyond in [limits::HEAD_BYTES + 1, 64 * 1024, 1024 * 1024] {
        is_refused(
            &served.exchange(padded("/healthz", "", beyond).as_bytes()).await,
            431,
            "headers_too_large",
        );
    }
    let lines = |count: usize| "x-many: 1\r\n".repeat(count - 3);
    let many = |count| padded("/healthz", &lines(count), 8_000);
    assert!(served.exchange(many(limits::HEADERS).as_bytes()).await.starts_with("HTTP/1.1 200 "));
    is_refused(&served.exchange(many(limits::HEADERS + 1).as_bytes()).await, 431, "headers_too_large");
    let long = |bytes: usize| padded(&format!("/healthz?{}", "x".repeat(bytes - 9)), "", bytes + 1_000);
    assert!(served.exchange(long(limits::URI_BYTES).as_bytes()).await.starts_with("HTTP/1.1 200 "));
    for beyond in [limits::URI_BYTES + 1, 20_000, 100_000] {
        is_refused(&served.exchange(long(beyond).as_bytes()).await, 414, "uri_too_long");
    }
}

/// A client that sends all it has before it looks for an answer.
async fn write_all_then_read(served: &Served, bytes: &[u8]) -> String {
    let mut stream = served.connect().await;
    stream.write_all(bytes).await.expect("what is refused is read all the same");
    until_closed(&mut stream).await
}

#[tokio::test]
async fn who_sends_everything_before_it_listens_still_hears_why_it_was_refused() {
    let served = served(|config| config.body_limit = 1024 * 1024).await;
    let body = "x".repeat(5 * 1024 * 1024);
    let length = format!("content-length: {}\r\n", body.len());
    let ingest = format!("/ingest/{TOKEN}");
    let request = |path: &str, lines: &str| format!("POST {path} HTTP/1.1\r\nhost: x\r\n{lines}\r\n");
    let bearer = format!("authorization: Bearer {}\r\n", served.world.key);
    let table = [
        (request(&ingest, &length), "413"),
        (request(&ingest, "transfer-encoding: chunked\r\n") + "500000\r\n", "413"),
        (request("/v1/events", &length), "401"),
        (request("/v1/destinations", &length), "401"),
        (request("/ingest/nobody", &length), "413"),
        (
            request(&ingest, &format!("content-encoding: gzip\r\n{}", length.replace("5242880", "1048576"))),
            "415",
        ),
        (request("/v1/events", &format!("{bearer}content-type: text/plain\r\n{length}")), "415"),
        (request(&format!("/v1/events?key={}", served.world.key), &length), "400"),
        (request("/nowhere", &length), "404"),
        (request("/healthz", &length), "405"),
    ];
    for (head, status) in &table {
        let answer = write_all_then_read(&served, format!("{head}{body}").as_bytes()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{head}: {answer:?}");
        assert!(answer.contains("application/problem+json"), "{answer}");
    }
    // One that is faster than its key may be, and one that would wait too long.
    let limited = r#"{"name":"limited","rate_limit":1}"#;
    let limited = served.world.publish("/v1/api-keys", &served.world.key, limited).await;
    let limited = limited.body["key"].as_str().expect("a key").to_owned();
    let too_fast = request("/v1/events", &format!("authorization: Bearer {limited}\r\n{length}"));
    write_all_then_read(&served, format!("{too_fast}{body}").as_bytes()).await;
    let answer = write_all_then_read(&served, format!("{too_fast}{body}").as_bytes()).await;
    is_refused(&answer, 429, "rate_limited");
    served.world.app.drain();
    for (head, _) in table.into_iter().filter(|(head, _)| !head.contains("/healthz")) {
        let answer = write_all_then_read(&served, format!("{head}{body}").as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 503 "), "{head}: {answer:?}");
    }
    served.world.assert_nothing_stored().await;
}

#[tokio::test]
async fn who_sends_to_a_full_queue_before_it_listens_hears_that_it_is_overloaded() {
    // Nothing is committed here, so that the one place is never free again.
    let served = served_from(World::stopped(|config| config.ingest_queue = 1).await).await;
    let mut first = Box::pin(served.world.ingest(TOKEN, &[], "first"));
    assert!(futures_util::poll!(&mut first).is_pending());
    let body = "x".repeat(4 * 1024 * 1024);
    let whole = post(&format!("content-length: {}\r\n", body.len()), &body);
    let chunked = post("transfer-encoding: chunked\r\n", &format!("400000\r\n{body}\r\n0\r\n\r\n"));
    for request in [whole, chunked] {
        is_refused(&write_all_then_read(&served, &request).await, 503, "overloaded");
    }
}

#[tokio::test]
async fn a_connection_too_many_hears_why_although_it_sends_first() {
    let served = served(|config| config.connections = 1).await;
    let _first = served.connect().await;
    let body = "x".repeat(5 * 1024 * 1024);
    let request = post(&format!("content-length: {}\r\n", body.len()), &body);
    is_refused(&write_all_then_read(&served, &request).await, 503, "overloaded");
}
