//! The receiver does what its scripts say and counts what it sees.

use std::net::SocketAddr;
use std::time::Duration;

use lab::{Latency, Receiver, Recording, Reply, RequestEnd, Script};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const SOON: Duration = Duration::from_secs(5);

async fn send(addr: SocketAddr, path: &str, headers: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    let length = body.len();
    let request =
        format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n{headers}\r\n{body}");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// The answer as text, up to the end of its headers; empty if there was none.
async fn answer(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut text = Vec::new();
    while !text.windows(4).any(|end| end == b"\r\n\r\n") && stream.read_buf(&mut text).await? > 0 {}
    Ok(String::from_utf8(text).unwrap())
}

async fn post(receiver: &Receiver, path: &str) -> std::io::Result<String> {
    answer(&mut send(receiver.addr(), path, "", "{}").await).await
}

#[tokio::test]
async fn open_requests_are_counted_per_destination() {
    let receiver = Receiver::local(Reply::Hang);
    let mut streams = Vec::new();
    for _ in 0..3 {
        streams.push(send(receiver.addr(), "/d/a", "", "{}").await);
    }
    streams.push(send(receiver.addr(), "/d/b", "", "{}").await);
    assert!(receiver.wait_for(4, SOON).await);
    assert_eq!((receiver.open("a"), receiver.open("b")), (3, 1));
    drop(streams);
    assert!(receiver.wait_for_ended(4, SOON).await);
    assert_eq!((receiver.open("a"), receiver.max_open("a")), (0, 3));
    let records = receiver.records("a");
    assert!(records.iter().all(|record| record.end == RequestEnd::Aborted && record.end_us.is_some()));
    let open: Vec<u32> = records.iter().map(|record| record.open_at_start).collect();
    assert_eq!(open, [1, 2, 3]);
}

#[tokio::test]
async fn the_log_carries_the_headers_that_matter() {
    let receiver = Receiver::local(Script::ok());
    let body = lab::body::make(lab::body::Stamp { n: 7, at_us: lab::clock::unix_us() }, "t", 200);
    let headers = "webhook-id: evt_1\r\nposthaste-delivery: dlv_1\r\nposthaste-attempt: 2\r\n\
                   posthaste-sequence: 9\r\nposthaste-replay: rpl_1\r\n";
    let mut stream = send(receiver.addr(), "/d/a", headers, std::str::from_utf8(&body).unwrap()).await;
    assert!(answer(&mut stream).await.unwrap().starts_with("HTTP/1.1 200"));
    let record = &receiver.snapshot()[0];
    assert_eq!((&*record.event_id, &*record.delivery_id, record.attempt), ("evt_1", "dlv_1", 2));
    assert_eq!((record.sequence, record.replay.as_deref(), record.n), (Some(9), Some("rpl_1"), Some(7)));
    assert_eq!(record.body_hash, Some(lab::body::hash(&body)));
    assert!(record.end_to_end_us.unwrap() < 5_000_000);
    assert_eq!(receiver.end_to_end().count(), 1);
    assert!(record.succeeded() && record.kept.is_none());
}

#[tokio::test]
async fn behaviours_come_by_url_and_override_the_script() {
    let receiver = Receiver::local(Reply::status(503));
    let status = |text: String| text.split(' ').nth(1).unwrap_or_default().to_owned();
    assert_eq!(status(post(&receiver, "/d/a").await.unwrap()), "503");
    assert_eq!(status(post(&receiver, "/d/a/ok").await.unwrap()), "200");
    assert_eq!(status(post(&receiver, "/d/a/status-418").await.unwrap()), "418");
    assert_eq!(status(post(&receiver, "/d/a/nonsense").await.unwrap()), "404");
    assert!(post(&receiver, "/d/a/429-2").await.unwrap().contains("retry-after: 2\r\n"));
    assert_eq!(post(&receiver, "/d/a/close").await.unwrap(), "");
    let reset = post(&receiver, "/d/a/reset").await.unwrap_err();
    assert_eq!(reset.kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!(status(post(&receiver, "/elsewhere/x").await.unwrap()), "503");
    assert_eq!((receiver.arrivals("a"), receiver.arrivals("/elsewhere/x"), receiver.total()), (7, 1, 8));
    let endings: Vec<RequestEnd> = receiver.records("a").iter().map(|record| record.end).collect();
    assert_eq!(endings[5..], [RequestEnd::Closed, RequestEnd::Reset]);
}

#[tokio::test]
async fn scripts_change_at_run_time_and_take_turns() {
    let receiver = Receiver::local(Script::ok());
    receiver.script("a", Script::InTurn(vec![Reply::status(500), Reply::throttled(3), Reply::ok()]));
    for expected in ["500", "429", "200", "200"] {
        assert!(post(&receiver, "/d/a").await.unwrap().contains(expected));
    }
    receiver.script("a", Script::custom(|request| Reply::status(200 + request.body.len() as u16)));
    assert!(post(&receiver, "/d/a").await.unwrap().contains("202"));
    receiver.default_script(Reply::status(507));
    assert!(post(&receiver, "/d/b").await.unwrap().contains("507"));
    let (fail, then) = (Reply::status(503), Reply::ok());
    receiver.script("a", Script::FailUntil { until: std::time::Instant::now(), fail, then });
    assert!(post(&receiver, "/d/a").await.unwrap().contains("200"));
}

#[tokio::test]
async fn an_early_answer_does_not_wait_for_the_body() {
    let receiver = Receiver::local(Script::ok());
    let Reply::Answer(refusal) = Reply::status(413) else { unreachable!() };
    receiver.script("a", Script::Early(refusal));
    let mut stream = TcpStream::connect(receiver.addr()).await.unwrap();
    stream.write_all(b"POST /d/a HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n").await.unwrap();
    assert!(answer(&mut stream).await.unwrap().starts_with("HTTP/1.1 413"));
    assert_eq!(receiver.records("a")[0].body_hash, None);
}

#[tokio::test]
async fn slot_use_is_open_time_over_slots_and_window() {
    let receiver = Receiver::local(Reply::ok().after(Latency::Fixed(Duration::from_millis(50))));
    let from = receiver.now_us();
    for _ in 0..4 {
        post(&receiver, "/d/a").await.unwrap();
    }
    let window = from..receiver.now_us();
    let width = (window.end - window.start) as f64;
    let open = receiver.busy_fraction("a", 2, window) * 2.0 * width;
    assert!(open >= 200_000.0 && open <= width, "{open} of {width}");
}

#[tokio::test]
async fn recording_can_be_less_or_more_and_cleared() {
    let any = ([127, 0, 0, 1], 0).into();
    let receiver = Receiver::start_with(any, Script::ok(), Recording::Counts).unwrap();
    post(&receiver, "/d/a").await.unwrap();
    assert_eq!((receiver.total(), receiver.succeeded(), receiver.snapshot().len()), (1, 1, 0));
    receiver.clear();
    assert_eq!((receiver.total(), receiver.max_open("a"), receiver.span_us()), (0, 0, None));
    receiver.recording(Recording::FullWithBodies);
    post(&receiver, "/d/a").await.unwrap();
    let kept = receiver.records("a")[0].kept.clone().unwrap();
    assert_eq!((&kept.body[..], kept.headers["host"].to_str().unwrap()), (&b"{}"[..], "x"));
}

#[tokio::test]
async fn waiting_ends_without_the_count_when_time_is_up() {
    let receiver = Receiver::local(Script::ok());
    assert!(!receiver.wait_for(1, Duration::from_millis(10)).await);
    assert!(!receiver.wait_for_arrivals("a", 1, Duration::from_millis(10)).await);
}
