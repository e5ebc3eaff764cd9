//! Answers that are not read: what they hold is bounded, shared out between accounts, and given up.

use crate::{
    connections::{Served, served, until_closed},
    world::request,
};
use domain::account::KeyKind;
use std::time::{Duration, Instant};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, Interest},
    net::TcpStream,
    time::timeout,
};

const MIB: usize = 1024 * 1024;
const PAYLOAD: usize = 4 * MIB;

fn get(path: &str, key: &str, closing: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {key}\r\n{closing}\r\n").into_bytes()
}

/// The path of a payload as large as that.
async fn payload(served: &Served, key: &str) -> String {
    let world = &served.world;
    let data = "x".repeat(PAYLOAD - 2);
    let body = format!("{{\"type\":\"a.b\",\"data\":\"{data}\"}}");
    let answer = world.publish("/v1/events", key, body).await;
    format!("/v1/events/{}/payload", answer.body["id"].as_str().expect("an event"))
}

/// Asks, and reads no more than the status of the answer.
async fn ask_and_stop_reading(served: &Served, asked: &[u8]) -> (TcpStream, u16) {
    let mut stream = served.connect_narrow().await;
    stream.write_all(asked).await.unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).await.unwrap();
    (stream, std::str::from_utf8(&status[9..]).unwrap().parse().unwrap())
}

async fn metric(served: &Served, key: Option<&str>, name: &str) -> usize {
    let authorization = key.map(|key| format!("authorization: Bearer {key}"));
    let headers: Vec<&str> = authorization.iter().map(String::as_str).collect();
    let text = served.world.text(request("GET", "/metrics", &headers, "")).await;
    let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).expect(name);
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn what_is_not_read_stays_within_the_budget_leaves_room_for_others_and_is_given_up() {
    let served = served(|config| {
        config.answer_bytes = 16 * MIB;
        config.deadlines.answer_room = Duration::from_millis(50);
        config.deadlines.answer_grace = Duration::from_secs(2);
    })
    .await;
    let key = served.world.key.clone();
    let (_, neighbour) = served.world.neighbour().await;
    let (path, theirs) = (payload(&served, &key).await, payload(&served, &neighbour).await);

    let mut silent = Vec::new();
    for _ in 0..6 {
        silent.push(ask_and_stop_reading(&served, &get(&path, &key, "")).await);
    }
    let statuses: Vec<u16> = silent.iter().map(|(_, status)| *status).collect();
    assert_eq!(statuses, [200, 200, 503, 503, 503, 503], "two of four mebibytes are its share");
    let held = metric(&served, None, "posthaste_answers_bytes").await;
    assert_eq!(held, 2 * PAYLOAD);

    // Another account does not notice.
    let asked = Instant::now();
    let small = served.exchange(&get("/v1/events", &neighbour, "connection: close\r\n")).await;
    assert!(small.starts_with("HTTP/1.1 200 "), "{small}");
    let large = served.exchange(&get(&theirs, &neighbour, "connection: close\r\n")).await;
    assert!(large.starts_with("HTTP/1.1 200 ") && large.len() > PAYLOAD);
    assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
    // Nor do small answers to the account itself, and one that is refused is told when to come back.
    let own = served.exchange(&get("/healthz", &key, "connection: close\r\n")).await;
    assert!(own.starts_with("HTTP/1.1 200 "), "{own}");
    let refused = until_closed_after(&served, &get(&path, &key, "connection: close\r\n")).await;
    assert!(
        refused.contains("\"code\":\"overloaded\"") && refused.contains("retry-after: 1\r\n"),
        "{refused}"
    );

    for (stream, status) in &silent {
        if *status == 200 {
            let cut_off = timeout(Duration::from_secs(10), stream.ready(Interest::ERROR)).await;
            cut_off.expect("a client that does not read is cut off").unwrap();
        }
    }
    let again = served.exchange(&get(&path, &key, "connection: close\r\n")).await;
    assert!(again.starts_with("HTTP/1.1 200 ") && again.len() > PAYLOAD);
    let (operator, _) = served.world.new_key(KeyKind::Operator, None).await;
    assert_eq!(metric(&served, Some(&operator), "posthaste_answers_bytes").await, 0);
    assert_eq!(metric(&served, Some(&operator), "posthaste_answers_waiting").await, 0);
}

async fn until_closed_after(served: &Served, asked: &[u8]) -> String {
    let mut stream = served.connect().await;
    stream.write_all(asked).await.unwrap();
    until_closed(&mut stream).await
}

#[tokio::test]
async fn a_large_answer_of_any_kind_needs_room() {
    // Less than a page takes to be made: it is made alone.
    let served = served(|config| {
        config.answer_bytes = 2 * MIB;
        config.deadlines.answer_room = Duration::from_millis(50);
    })
    .await;
    let key = served.world.key.clone();
    let path = payload(&served, &key).await;
    let (_silent, status) = ask_and_stop_reading(&served, &get(&path, &key, "")).await;
    assert_eq!(status, 200, "one that is larger than all there is gets all there is");
    for path in ["/v1/events", "/v1/deliveries", "/v1/routes", "/v1/stats", path.as_str()] {
        served.world.get(path, &key).await.is(503, "overloaded");
    }
    served.world.publish("/v1/events", &key, r#"{"type":"a.b","data":1}"#).await.accepted("queued", 1);
    assert_eq!(served.world.get("/readyz", &key).await.status, 200);
}
