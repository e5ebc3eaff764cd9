//! What the engine does when something inside it breaks, runs late or would grow too large.

use crate::bench::{Bench, bench, bench_with, egress, schedule};
use bytes::Bytes;
use domain::{
    delivery::{Position, Status},
    destination::{Disabled, DisabledReason},
    event::Event,
    id::{DeliveryId, DestinationId, RouteId},
    limits, testing,
    testing::audit_entry,
};
use engine::{
    EngineSettings,
    sink::Sinks,
    transport::{HttpAnswer, HttpRequest, HttpTransport, Transport},
};
use lab::Reply;
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use store::{
    Announce, Catalog, Change, Committed, Ingest, NewDelivery, NewEvent, PreparedEvent, Queue, StoreError,
};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, timeout},
};

const PATIENCE: Duration = Duration::from_secs(10);

/// An internet in which nothing answers, which knows how much it has been given.
struct Silent {
    requests: watch::Sender<usize>,
    bytes: AtomicUsize,
}

impl Silent {
    fn new() -> Arc<Self> {
        Arc::new(Self { requests: watch::Sender::new(0), bytes: AtomicUsize::new(0) })
    }

    async fn has(&self, requests: usize) {
        let mut seen = self.requests.subscribe();
        let enough = seen.wait_for(|count| *count >= requests);
        timeout(PATIENCE, enough).await.expect("the requests are sent").expect("the sender is ours");
    }
}

impl Transport for Silent {
    async fn send(&self, request: HttpRequest) -> HttpAnswer {
        self.bytes.fetch_add(request.body.len(), Ordering::SeqCst);
        self.requests.send_modify(|count| *count += 1);
        std::future::pending().await
    }
}

impl Bench {
    /// Commits many events at once, one delivery each, without announcing them. The payload is in memory once.
    async fn backlog(&self, destinations: &[DestinationId], each: usize, payload: Bytes) -> Vec<Arc<Event>> {
        let now = self.now();
        let account_version = self.store.account(self.account).await.unwrap().version;
        let event = |_| {
            Arc::new(Event { payload: payload.clone(), ..testing::event(self.account, now, rand::random()) })
        };
        let events: Vec<Arc<Event>> = (0..destinations.len() * each).map(event).collect();
        let new = events.iter().zip(destinations.iter().cycle()).map(|(event, destination)| {
            let id = DeliveryId::at(now, rand::random());
            let delivery = NewDelivery::unordered(id, RouteId::MIN, *destination, now);
            let event = PreparedEvent::new(event.clone());
            NewEvent {
                event,
                account_version,
                deliveries: vec![delivery],
                other_routes: Vec::new(),
                expands: false,
                key: None,
            }
        });
        let new: Vec<NewEvent> = new.collect();
        assert!(self.store.commit(&new, now).await.unwrap().iter().all(|done| *done == Committed::New));
        events
    }

    /// Something may wait for them from here on.
    async fn look(&self, destinations: &[DestinationId]) {
        let place = |id: &DestinationId| (*id, DeliveryId::MIN, Position::START);
        self.handle.look(&destinations.iter().map(place).collect::<Vec<_>>()).await;
    }
}

#[tokio::test]
async fn a_loop_that_panics_ends_the_node_with_the_reason() {
    let bench = bench().await;
    let destination = bench.destination("a", |_| {}).await;
    // A flush fails, and the next to throw the dice is the settler, for how long to pause.
    let broken = bench.broken.clone();
    bench.store.interrupt(move |call| {
        if call != "settle" {
            return Ok(());
        }
        broken.store(true, Ordering::SeqCst);
        Err(StoreError::Unavailable("away".into()))
    });
    bench.send(&[destination], b"{}").await;
    let reason = timeout(PATIENCE, bench.engine.failed()).await.expect("the node ends");
    assert_eq!(reason, "settler panicked");
}

#[tokio::test]
async fn a_payload_that_cannot_be_read_is_asked_for_again_after_a_pause() {
    let bench = bench().await;
    let destination = bench.destination("a", |_| {}).await;
    let asked: Arc<Mutex<Vec<Instant>>> = Arc::default();
    bench.store.interrupt({
        let asked = asked.clone();
        move |call| {
            if call != "payload" {
                return Ok(());
            }
            let mut asked = asked.lock().unwrap();
            asked.push(Instant::now());
            // Away for the first three, back for the fourth.
            if asked.len() <= 3 { Err(StoreError::Unavailable("away".into())) } else { Ok(()) }
        }
    });
    bench.send(&[destination], &vec![b'x'; limits::CARRIED_BYTES + 1]).await;
    assert_eq!(bench.ended(destination).await, (Status::Delivered, None));
    let asked = asked.lock().unwrap();
    assert_eq!(asked.len(), 4, "nothing spins meanwhile");
    let pauses = asked.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(pauses.min().unwrap() >= limits::ABANDONED_PAUSE);
}

#[tokio::test]
async fn large_payloads_are_in_memory_a_few_at_a_time() {
    let silent = Silent::new();
    let bench = bench_with(EngineSettings::default(), Some(Sinks::http(silent.clone()))).await;
    const PAYLOAD: usize = 8 * 1024 * 1024;
    // One account gets two thirds.
    let fit = limits::LARGE_PAYLOADS_BYTES * 2 / 3 / PAYLOAD;
    let mut destinations = Vec::new();
    for n in 0..2 * fit {
        destinations.push(bench.destination(&format!("d{n}"), |_| {}).await);
    }
    // One event for all: what counts is how many requests carry it.
    bench.send(&destinations, &vec![b'x'; PAYLOAD]).await;
    silent.has(fit).await;
    // A small one overtakes those that wait for memory: when it is out, they have had their chance.
    let small = bench.destination("small", |_| {}).await;
    bench.send(&[small], b"{}").await;
    silent.has(fit + 1).await;
    assert_eq!(silent.bytes.load(Ordering::SeqCst), fit * PAYLOAD + 2);
}

#[tokio::test]
async fn what_is_fetched_ahead_is_bounded_in_bytes() {
    const LANES: usize = 1_500;
    let silent = Silent::new();
    let bench = bench_with(EngineSettings::default(), Some(Sinks::http(silent.clone()))).await;
    let mut destinations = Vec::new();
    for n in 0..LANES {
        destinations
            .push(bench.destination(&format!("d{n}"), |it| it.settings.max_concurrency = Some(1)).await);
    }
    let payload = Bytes::from(vec![b'x'; limits::CARRIED_BYTES]);
    let events = bench.backlog(&destinations, limits::WINDOW_MIN, payload).await;
    assert!(
        events.len() * limits::CARRIED_BYTES
            > 2 * limits::CARRIED_BUDGET_BYTES + limits::CARRIED_BUDGET_BYTES / 2
    );
    bench.look(&destinations).await;

    // The store has each event once, and so do we: further owners are parcels of the engine.
    let mut most = 0;
    let mut requests = silent.requests.subscribe();
    let deadline = Instant::now() + 3 * PATIENCE;
    while *requests.borrow_and_update() < LANES {
        assert!(Instant::now() < deadline, "every lane gets its turn");
        let held = events.iter().filter(|event| Arc::strong_count(event) > 2).count();
        most = most.max(held * limits::CARRIED_BYTES);
        let _ = timeout(Duration::from_millis(20), requests.changed()).await;
    }
    // A fetch is begun while there is room, and may then bring this much.
    let one_fetch = (limits::FETCH_ROWS + limits::WINDOW_MAX) * limits::CARRIED_BYTES;
    assert!(most <= limits::CARRIED_BUDGET_BYTES + one_fetch, "{} MiB were held", most >> 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_endings_does_not_delay_a_result() {
    const ENDINGS: usize = 40 * limits::ENDING_BATCH;
    let bench = bench().await;
    let gone = bench.destination("gone", |it| it.switch.paused_at = Some(it.created_at)).await;
    let other = bench.destination("other", |_| {}).await;
    bench.backlog(&[gone], ENDINGS, Bytes::from_static(b"{}")).await;
    let flushes = watch::Sender::new(0);
    let mut begun = flushes.subscribe();
    bench.store.interrupt(move |call| {
        if call == "settle" {
            flushes.send_modify(|count| *count += 1);
            // A disk of its own pace: the endings alone take long.
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    });
    let mut row = bench.store.destination(bench.account, gone).await.unwrap();
    row.switch.paused_at = None;
    row.switch.disabled = Some(Disabled { at: bench.now(), reason: DisabledReason::Requested });
    bench.store.update_destination(&row, &audit_entry()).await.unwrap();
    bench.handle.changed(Change::Destinations(bench.account, vec![gone])).await;
    bench.look(&[gone]).await;

    begun.wait_for(|count| *count >= 1).await.expect("endings are being written");
    bench.send(&[other], b"{}").await;
    assert!(bench.receiver.wait_for_succeeded(1, PATIENCE).await);
    let before = *begun.borrow();
    assert_eq!(bench.ended(other).await, (Status::Delivered, None));
    // The one that was under way, its own, and one that may have begun since.
    assert!(*begun.borrow() <= before + 3, "{} flushes went before it", *begun.borrow() - before);
    let (waiting, _) = bench.store.backlog(&[gone], ENDINGS as i64).await.unwrap()[0];
    assert!(waiting > ENDINGS as i64 / 2, "only {waiting} endings were left when the result was durable");
}

/// The real internet, in which everything leads to a listener that never answers.
struct Unanswered {
    inner: HttpTransport,
    silent: std::net::TcpListener,
    /// What that listener had read when the attempt was over; an error if the connection was still open then.
    seen: mpsc::UnboundedSender<std::io::Result<Vec<u8>>>,
}

impl Transport for Unanswered {
    async fn send(&self, mut request: HttpRequest) -> HttpAnswer {
        request.uri = format!("http://{}/", self.silent.local_addr().unwrap()).parse().unwrap();
        request.deadline = Instant::now() + Duration::from_millis(200);
        let answer = self.inner.send(request).await;
        // The attempt is over, and with it its slot, when this returns. Nothing else runs in between: what the
        // destination sees now is what it sees when the next request begins.
        let (mut connection, _) = self.silent.accept().unwrap();
        connection.set_nonblocking(true).unwrap();
        let mut seen = Vec::new();
        let read = std::io::Read::read_to_end(&mut connection, &mut seen);
        self.seen.send(read.map(|_| seen)).unwrap();
        answer
    }
}

#[tokio::test]
async fn a_slot_is_free_only_when_the_connection_of_a_timed_out_request_is_closed() {
    let (seen, mut told) = mpsc::unbounded_channel();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let transport = Arc::new(Unanswered { inner: HttpTransport::new(egress()), silent, seen });
    let bench = bench_with(EngineSettings::default(), Some(Sinks::http(transport))).await;
    let destination = bench.destination("a", |it| it.settings.retry_policy = schedule(&[])).await;
    bench.send(&[destination], b"{}").await;
    let seen = timeout(PATIENCE, told.recv()).await.unwrap().unwrap();
    assert!(seen.expect("closed, not just silent").ends_with(b"{}"));
    assert_eq!(bench.ended(destination).await, (Status::DeadLetter, Some("exhausted")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_time_out_together_are_followed_by_no_more_than_their_number() {
    const SLOTS: u32 = 50;
    // A breaker would open once they have all failed, and nothing would follow.
    let mut settings = EngineSettings::default();
    settings.gate.breaker.enabled = false;
    let bench = bench_with(settings, None).await;
    let destination = bench
        .destination("a", |it| {
            it.settings.max_concurrency = Some(SLOTS);
            it.settings.timeout = Some(Duration::from_secs(1));
            it.settings.retry_policy = schedule(&[]);
        })
        .await;
    bench.receiver.script("a", Reply::Hang);
    for _ in 0..3 * SLOTS {
        bench.send(&[destination], b"{}").await;
    }
    assert!(bench.receiver.wait_for_arrivals("a", (SLOTS + 1).into(), PATIENCE).await);
    // Fewer on a machine so busy that the first are over before the last begin.
    let most = bench.receiver.max_open("a");
    assert!(most <= SLOTS, "{most} were open");
}
