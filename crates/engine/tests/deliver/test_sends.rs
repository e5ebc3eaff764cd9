//! Tests of a destination: a slot of its lane, on whichever node that is, and no trace.

use crate::{
    bench::{Bench, bench},
    nodes::two,
};
use domain::{
    destination::{Disabled, DisabledReason, RateLimit},
    id::DestinationId,
    lane::WaitKind,
    limits,
    outcome::Outcome,
    testing,
    testing::audit_entry,
};
use engine::{EngineHandle, TestSend, TestSendError};
use lab::{Latency, Reply, Script};
use std::{sync::Arc, time::Duration};
use store::{Catalog, History, Lanes, Page, TestSends};
use tokio::time::Instant;

const PATIENCE: Duration = Duration::from_secs(10);
const A_WHILE: Duration = Duration::from_millis(300);

impl Bench {
    pub(crate) fn test_of(&self, destination_id: DestinationId) -> TestSend {
        let event = testing::event(self.account, self.now(), rand::random());
        TestSend { destination_id, event: Arc::new(event), forced: false }
    }

    async fn test(&self, destination: DestinationId, forced: bool) -> Result<Outcome, WaitKind> {
        match self.handle.test_send(TestSend { forced, ..self.test_of(destination) }).await {
            Ok(attempt) => Ok(attempt.outcome),
            Err(TestSendError::Waits(waits)) => Err(waits.kind),
            Err(other) => panic!("{other}"),
        }
    }

    fn test_in_background(
        &self,
        handle: &Arc<EngineHandle>,
        destination: DestinationId,
    ) -> tokio::task::JoinHandle<Result<(), TestSendError>> {
        let (handle, test) = (Arc::clone(handle), self.test_of(destination));
        tokio::spawn(async move { handle.test_send(test).await.map(drop) })
    }
}

#[tokio::test]
async fn a_test_waits_for_a_slot_and_leaves_no_trace() {
    let bench = bench().await;
    bench.receiver.default_script(Reply::ok().after(Latency::Fixed(A_WHILE)));
    let destination = bench.destination("a", |it| it.settings.max_concurrency = Some(1)).await;
    bench.send(&[destination], b"{}").await;
    assert!(bench.receiver.wait_for_arrivals("a", 1, PATIENCE).await);
    let (first, second) = tokio::join!(bench.test(destination, false), bench.test(destination, true));
    assert_eq!((first, second), (Ok(Outcome::Success), Ok(Outcome::Success)));
    bench.send(&[destination], b"{}").await;
    assert!(bench.receiver.wait_for_succeeded(4, PATIENCE).await);
    assert_eq!((bench.receiver.arrivals("a"), bench.receiver.max_open("a")), (4, 1));
    let deliveries = bench.deliveries(destination).await;
    assert_eq!(deliveries.len(), 2, "of the tests there is none");
    let page = Page { before: None, limit: 10 };
    let attempts = bench.store.attempts_of_destination(bench.account, destination, page).await.unwrap().rows;
    assert!(attempts.len() <= 2, "{attempts:?}");
}

#[tokio::test]
async fn a_test_that_finds_no_slot_in_time_says_so() {
    let bench = bench().await;
    bench.receiver.default_script(Script::from(Reply::Hang));
    let destination = bench.destination("a", |it| it.settings.max_concurrency = Some(1)).await;
    bench.send(&[destination], b"{}").await;
    assert!(bench.receiver.wait_for_arrivals("a", 1, PATIENCE).await);
    let begun = Instant::now();
    assert_eq!(bench.test(destination, true).await, Err(WaitKind::Concurrency));
    assert!(begun.elapsed() >= limits::TEST_SLOT_WAIT && begun.elapsed() < limits::TEST_SLOT_WAIT * 2);
    assert_eq!(bench.receiver.arrivals("a"), 1);
}

#[tokio::test]
async fn what_holds_a_destination_holds_its_tests_unless_they_are_forced() {
    let bench = bench().await;
    let now = bench.now();
    let paused = bench.destination("paused", |it| it.switch.paused_at = Some(now)).await;
    let disabled = Some(Disabled { at: now, reason: DisabledReason::Requested });
    let disabled = bench.destination("disabled", |it| it.switch.disabled = disabled).await;
    let rate = Some(RateLimit { requests: 1, per_seconds: 60 });
    // The owner before this one may have sent something just now.
    let paced = bench.destination("paced", |it| it.rate_limit = rate).await;
    let throttled = bench.destination("throttled", |_| {}).await;
    bench.receiver.script("throttled", Script::InTurn(vec![Reply::throttled(60), Reply::ok()]));
    bench.send(&[throttled], b"{}").await;
    bench.until(|| async { bench.handle.views(&[throttled]).await[0].as_ref()?.hold.clone() }).await;
    for (destination, kind) in [
        (paused, WaitKind::Paused),
        (disabled, WaitKind::Capacity),
        (paced, WaitKind::Rate),
        (throttled, WaitKind::Throttle),
    ] {
        let begun = Instant::now();
        assert_eq!(bench.test(destination, false).await, Err(kind));
        assert!(
            begun.elapsed() < limits::TEST_SLOT_WAIT,
            "it cannot come in time, and need not be waited for"
        );
        assert_eq!(bench.test(destination, true).await, Ok(Outcome::Success), "{kind}");
    }
}

#[tokio::test]
async fn a_test_that_nobody_waits_for_ends_and_gives_its_slot_back() {
    let bench = bench().await;
    bench.receiver.script("a", Script::InTurn(vec![Reply::Hang, Reply::ok()]));
    let destination = bench.destination("a", |it| it.settings.max_concurrency = Some(1)).await;
    let test = bench.test_in_background(&bench.handle, destination);
    assert!(bench.receiver.wait_for_arrivals("a", 1, PATIENCE).await);
    bench.send(&[destination], b"{}").await;
    test.abort();
    assert!(bench.receiver.wait_for_succeeded_at("a", 1, PATIENCE).await);
    assert_eq!((bench.receiver.arrivals("a"), bench.receiver.max_open("a")), (2, 1));
}

#[tokio::test]
async fn a_test_that_nobody_waits_for_any_more_is_not_begun() {
    let bench = bench().await;
    bench.receiver.script("a", Reply::ok().after(Latency::Fixed(A_WHILE)));
    let destination = bench.destination("a", |it| it.settings.max_concurrency = Some(1)).await;
    bench.send(&[destination], b"{}").await;
    assert!(bench.receiver.wait_for_arrivals("a", 1, PATIENCE).await);
    let test = bench.test_in_background(&bench.handle, destination);
    // It is asked in its turn, after the test.
    bench.handle.views(&[destination]).await;
    test.abort();
    assert!(bench.receiver.wait_for_succeeded(1, PATIENCE).await);
    assert_eq!(bench.test(destination, false).await, Ok(Outcome::Success));
    assert_eq!(bench.receiver.arrivals("a"), 2);
}

#[tokio::test]
async fn a_test_of_another_nodes_lane_takes_a_slot_there() {
    let (bench, peer) = two().await;
    bench.receiver.default_script(Reply::ok().after(Latency::Fixed(A_WHILE)));
    let destination = bench.destination_with(peer.id, "a", |it| it.settings.max_concurrency = Some(1)).await;
    bench.send(&[destination], b"{}").await;
    assert!(bench.receiver.wait_for_arrivals("a", 1, PATIENCE).await);
    let here = bench.handle.test_send(bench.test_of(destination));
    let there = peer.handle.test_send(bench.test_of(destination));
    let (here, there) = tokio::join!(here, there);
    assert_eq!((here.unwrap().node, there.unwrap().node), (peer.id, peer.id));
    assert_eq!((bench.receiver.arrivals("a"), bench.receiver.max_open("a")), (3, 1));

    let now = bench.now();
    let mut row = bench.store.destination(bench.account, destination).await.unwrap();
    row.switch.paused_at = Some(now);
    bench.store.update_destination(&row, &audit_entry()).await.unwrap();
    bench
        .until(|| async { (bench.test(destination, false).await == Err(WaitKind::Paused)).then_some(()) })
        .await;
    assert_eq!(bench.test(destination, true).await, Ok(Outcome::Success));
}

#[tokio::test]
async fn a_test_on_another_node_ends_when_nobody_waits_for_it() {
    let (bench, peer) = two().await;
    bench.receiver.script("a", Script::InTurn(vec![Reply::Hang, Reply::ok()]));
    let destination = bench.destination_with(peer.id, "a", |it| it.settings.max_concurrency = Some(1)).await;
    let test = bench.test_in_background(&bench.handle, destination);
    assert!(bench.receiver.wait_for_arrivals("a", 1, PATIENCE).await);
    bench.send(&[destination], b"{}").await;
    test.abort();
    assert!(bench.receiver.wait_for_succeeded_at("a", 1, PATIENCE).await);
    assert_eq!((bench.receiver.arrivals("a"), bench.receiver.max_open("a")), (2, 1));
    assert_eq!(bench.store.take_tests(&[destination.shard()], 9).await.unwrap(), []);
}
