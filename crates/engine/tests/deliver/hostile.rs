//! Receivers that mean no good: what they do costs them, and no one else.

use super::{
    PATIENCE,
    bench::{Bench, bench},
};
use domain::{
    delivery::Status,
    id::DestinationId,
    lane::{Explanation, WaitKind},
    limits,
};
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use store::{DeliveryState, Lanes};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, Interest},
    net::{TcpListener, TcpStream},
    sync::watch,
    time::timeout,
};

/// Larger than what the buffers of both sides take.
const LARGE: usize = 4_900_000;

/// Reads the head of each request, answers, and reads no more; the socket stays open for as long as the other side likes.
struct Unlistening {
    addr: SocketAddr,
    open: watch::Receiver<usize>,
    most_open: Arc<AtomicUsize>,
}

impl Unlistening {
    async fn start(answer: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (count, open) = watch::channel(0);
        let most_open = Arc::<AtomicUsize>::default();
        let most = Arc::clone(&most_open);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.send_modify(|open| *open += 1);
                most.fetch_max(*count.borrow(), Ordering::SeqCst);
                let count = count.clone();
                tokio::spawn(async move {
                    answer_and_stop_reading(stream, answer).await;
                    count.send_modify(|open| *open -= 1);
                });
            }
        });
        Self { addr, open, most_open }
    }

    async fn is_left_alone(&self) {
        let mut open = self.open.clone();
        let closed = timeout(PATIENCE, open.wait_for(|open| *open == 0)).await;
        closed.expect("every socket is closed").expect("the receiver goes on");
    }
}

/// The status that ended each of so many deliveries.
async fn ending_statuses(bench: &Bench, destination: DestinationId, count: usize) -> Vec<Option<u16>> {
    bench
        .until(|| async {
            let rows = bench.deliveries(destination).await;
            let ended = rows.iter().all(|row| matches!(row.state, DeliveryState::Ended { .. }));
            (rows.len() == count && ended).then(|| rows.iter().map(|row| row.last_http_status).collect())
        })
        .await
}

async fn answer_and_stop_reading(mut stream: TcpStream, answer: &str) {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    stream.write_all(answer.as_bytes()).await.ok();
    // Nothing is read, so the end of it shows as an error or not at all.
    let _ = stream.ready(Interest::ERROR).await;
}

#[tokio::test]
async fn an_answer_before_the_body_was_read_is_an_answer_and_gives_the_memory_back() {
    let bench = bench().await;
    let receiver = Unlistening::start("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let url = format!("http://{}/", receiver.addr);
    let mut hostile = Vec::new();
    // Together more than the budget of large payloads.
    for n in 0..limits::LARGE_PAYLOADS_BYTES / LARGE + 4 {
        hostile.push(bench.destination(&format!("d{n}"), |it| it.url.clone_from(&url)).await);
    }
    bench.send(&hostile, &vec![b'x'; LARGE]).await;
    for destination in &hostile {
        assert_eq!(bench.ended(*destination).await, (Status::Delivered, None));
    }
    let other = bench.destination("other", |_| {}).await;
    bench.send(&[other], &vec![b'x'; limits::CARRIED_BYTES + 1]).await;
    assert_eq!(bench.ended(other).await, (Status::Delivered, None));
    receiver.is_left_alone().await;
}

#[tokio::test]
async fn a_destination_that_does_not_read_never_has_more_sockets_than_slots() {
    let bench = bench().await;
    let receiver = Unlistening::start("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let url = format!("http://{}/", receiver.addr);
    let destination = bench
        .destination("a", |it| {
            it.url.clone_from(&url);
            it.settings.max_concurrency = Some(1);
        })
        .await;
    for _ in 0..4 {
        bench.send(&[destination], &vec![b'x'; LARGE]).await;
    }
    let delivered = ending_statuses(&bench, destination, 4).await;
    assert_eq!(delivered, [Some(200); 4]);
    receiver.is_left_alone().await;
    assert_eq!(receiver.most_open.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_early_refusal_keeps_its_status() {
    let bench = bench().await;
    let receiver = Unlistening::start("HTTP/1.1 413 Content Too Large\r\ncontent-length: 3\r\n\r\nbig").await;
    let url = format!("http://{}/", receiver.addr);
    let destination = bench.destination("a", |it| it.url.clone_from(&url)).await;
    bench.send(&[destination], &vec![b'x'; LARGE]).await;
    assert_eq!(bench.ended(destination).await, (Status::DeadLetter, Some("rejected")));
    let attempt = bench.attempts(destination).await.remove(0);
    assert_eq!(attempt.http_status, Some(413));
    assert_eq!(attempt.detail.response.unwrap().body.as_deref(), Some("big"));
    receiver.is_left_alone().await;
}

#[tokio::test]
async fn a_request_that_is_not_read_ends_at_its_deadline_with_its_socket() {
    let bench = bench().await;
    let receiver = Unlistening::start("").await;
    let url = format!("http://{}/", receiver.addr);
    let destination = bench
        .destination("a", |it| {
            it.url.clone_from(&url);
            it.settings.timeout = Some(Duration::from_millis(300));
            it.settings.retry_policy = super::schedule(&[]);
        })
        .await;
    bench.send(&[destination], &vec![b'x'; LARGE]).await;
    assert_eq!(bench.ended(destination).await, (Status::DeadLetter, Some("exhausted")));
    receiver.is_left_alone().await;
}

#[tokio::test]
async fn one_that_waits_for_the_memory_of_large_payloads_says_so() {
    let bench = bench().await;
    let receiver = Unlistening::start("").await;
    let url = format!("http://{}/", receiver.addr);
    let fit = 2 * limits::LARGE_PAYLOADS_BYTES / 3 / LARGE;
    let mut hanging = Vec::new();
    for n in 0..fit + 2 {
        hanging.push(bench.destination(&format!("d{n}"), |it| it.url.clone_from(&url)).await);
    }
    bench.send(&hanging, &vec![b'x'; LARGE]).await;
    bench
        .until(|| async {
            let mut rows = Vec::new();
            for destination in &hanging {
                rows.extend(bench.deliveries(*destination).await);
            }
            let rows = rows.into_iter();
            let waiting = rows.filter_map(|row| match row.state {
                DeliveryState::Waiting(delivery) => Some(*delivery),
                DeliveryState::Ended { .. } => None,
            });
            let said =
                bench.handle.explain(waiting.collect()).await.into_iter().filter_map(Explanation::waits);
            let for_memory = said.filter(|it| it.kind == WaitKind::Capacity && it.detail.contains("memory"));
            (for_memory.count() == 2).then_some(())
        })
        .await;
}

#[tokio::test]
async fn interim_answers_without_end_are_cut_off() {
    let bench = bench().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let sent = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&sent);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            while stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.is_ok() {
                count.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    let destination = bench
        .destination("a", |it| {
            it.url.clone_from(&url);
            it.settings.retry_policy = super::schedule(&[]);
        })
        .await;
    bench.send(&[destination], b"{}").await;
    assert_eq!(bench.ended(destination).await, (Status::DeadLetter, Some("exhausted")));
    let attempt = bench.attempts(destination).await.remove(0);
    assert!(attempt.duration < Duration::from_secs(2), "long before its deadline: {:?}", attempt.duration);
}

/// Answers 413 at once and resets the connection, as servers do that will not read what is too large.
#[tokio::test]
async fn a_refusal_and_a_reset_at_once_is_a_refusal() {
    let bench = bench().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut some = vec![0; 64 * 1024];
            let _ = stream.read(&mut some).await;
            let _ = stream.write_all(b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\n\r\n").await;
            // What was not read makes this a reset.
        }
    });
    let destination = bench.destination("a", |it| it.url.clone_from(&url)).await;
    for _ in 0..5 {
        bench.send(&[destination], &vec![b'x'; LARGE]).await;
    }
    assert_eq!(ending_statuses(&bench, destination, 5).await, [Some(413); 5]);
}
