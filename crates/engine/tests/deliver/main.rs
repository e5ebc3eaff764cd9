//! Does the engine keep its hands in order? Real HTTP against a scripted receiver.

mod bench;
mod credentials;
mod defaults;
mod encrypted;
mod failures;
mod fanout;
mod guard;
mod hardening;
mod hostile;
mod lane_rollups;
mod loops;
mod metrics;
mod nodes;
mod order;
mod signing;
mod sinks;
mod test_sends;
mod tls;
mod tokens;

use bench::{Wish, bench, bench_with, schedule};
use domain::{delivery::Status, outcome::Outcome, signature, testing::audit_entry};
use engine::{
    EngineSettings,
    sink::Sinks,
    transport::{HttpAnswer, HttpRequest, HttpResponse, Transport},
};
use lab::{Reply, Script};
use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use store::{Announce, Catalog, Change, DeliveryState, History, Lanes, Queue};

const PATIENCE: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_delivery_arrives_signed_and_byte_exact() {
    let bench = bench().await;
    let destination = bench.destination("a", |_| {}).await;
    let event = bench.send(&[destination], b"{\"n\": 1.0 }").await;
    assert!(bench.receiver.wait_for_succeeded(1, PATIENCE).await);
    assert_eq!(bench.ended(destination).await, (Status::Delivered, None));

    let record = bench.receiver.snapshot().pop().unwrap();
    let kept = record.kept.unwrap();
    let header = |name: &str| kept.headers.get(name).unwrap().to_str().unwrap().to_owned();
    assert_eq!(&kept.body[..], b"{\"n\": 1.0 }");
    assert_eq!(header("webhook-id"), event.to_string());
    assert_eq!(header("posthaste-attempt"), "1");
    assert_eq!(header("posthaste-event-type"), "test.sent");
    assert_eq!(header("accept-encoding"), "identity");
    assert!(header("user-agent").starts_with("Posthaste/"));
    let (timestamp, signed) = (header("webhook-timestamp"), header("webhook-signature"));
    let now = bench.now().seconds();
    signature::verify([&bench.secret], &header("webhook-id"), &timestamp, &signed, &kept.body, now, 300)
        .unwrap();
}

#[tokio::test]
async fn a_failure_is_retried_by_schedule_and_ends_exhausted() {
    let bench = bench().await;
    let destination = bench.destination("a", |it| it.settings.retry_policy = schedule(&[1])).await;
    bench.receiver.script("a", Reply::status(500));
    bench.send(&[destination], b"{}").await;
    assert_eq!(bench.ended(destination).await, (Status::DeadLetter, Some("exhausted")));

    let records = bench.receiver.snapshot();
    assert_eq!(records.iter().map(|record| record.attempt).collect::<Vec<_>>(), [1, 2]);
    let pause = records[1].start_us - records[0].end_us.unwrap();
    assert!((1_000_000..1_500_000).contains(&pause), "retried after {pause} µs");
}

#[tokio::test]
async fn a_429_holds_the_destination_for_as_long_as_it_asked() {
    let bench = bench().await;
    let destination = bench.destination("a", |it| it.settings.max_concurrency = Some(1)).await;
    bench.receiver.script("a", Script::InTurn(vec![Reply::throttled(1), Reply::ok()]));
    bench.send(&[destination], b"{}").await;
    bench.send(&[destination], b"{}").await;
    assert!(bench.receiver.wait_for_succeeded(2, PATIENCE).await);
    let records = bench.receiver.snapshot();
    assert_eq!(records.len(), 3);
    assert!(records[1].start_us - records[0].end_us.unwrap() >= 1_000_000);
    assert_eq!(records[0].delivery_id, records[1].delivery_id, "a throttled delivery keeps its place");
}

#[tokio::test]
async fn a_rate_limit_is_never_exceeded_and_spreads_the_requests() {
    let bench = bench().await;
    let rate_limit = Some(domain::destination::RateLimit { requests: 20, per_seconds: 1 });
    let destination = bench.destination("a", |it| it.rate_limit = rate_limit).await;
    bench.receiver.script("a", Reply::ok());
    for _ in 0..50 {
        bench.send(&[destination], b"{}").await;
    }
    assert!(bench.receiver.wait_for_succeeded(50, PATIENCE).await);
    let mut starts: Vec<u64> = bench.receiver.snapshot().iter().map(|record| record.start_us).collect();
    starts.sort_unstable();
    // Beyond the limit by nothing but the way from here to there.
    let most = |stretch: u64| {
        starts
            .iter()
            .map(|from| starts.iter().filter(|at| (*from..from + stretch).contains(at)).count())
            .max()
    };
    assert!(most(950_000) <= Some(20), "{:?} in a second", most(950_000));
    assert!(most(100_000) <= Some(4), "{:?} at once", most(100_000));
    let span = starts[49] - starts[0];
    assert!((2_300_000..3_500_000).contains(&span), "{span} µs for 50");
}

#[tokio::test]
async fn the_limit_is_never_exceeded_and_fully_used() {
    let bench = bench().await;
    let destination = bench.destination("a", |it| it.settings.max_concurrency = Some(3)).await;
    bench.receiver.script("a", Reply::ok().after(lab::Latency::Fixed(Duration::from_millis(10))));
    for _ in 0..60 {
        bench.send(&[destination], b"{}").await;
    }
    assert!(bench.receiver.wait_for_succeeded(60, PATIENCE).await);
    assert_eq!(bench.receiver.max_open("a"), 3);
}

#[tokio::test]
async fn a_destination_that_hangs_delays_no_other() {
    let bench = bench().await;
    let hanging = bench.destination("hanging", |_| {}).await;
    bench.receiver.script("hanging", Reply::Hang);
    for _ in 0..180 {
        bench.send(&[hanging], b"{}").await;
    }
    let mut others = Vec::new();
    for n in 0..19 {
        others.push(bench.destination(&format!("other{n}"), |_| {}).await);
    }
    bench.send(&others, b"{}").await;
    assert!(bench.receiver.wait_for_succeeded(19, Duration::from_secs(1)).await);
    assert_eq!(bench.receiver.open("hanging"), 5);
}

#[tokio::test]
async fn redirects_are_not_followed_and_resets_are_retried() {
    let bench = bench().await;
    let redirecting = bench.destination("redirecting", |_| {}).await;
    let target = bench.receiver.url("/d/elsewhere");
    bench.receiver.script("redirecting", Reply::status(302).header("location", target.as_str()));
    bench.send(&[redirecting], b"{}").await;
    assert_eq!(bench.ended(redirecting).await, (Status::DeadLetter, Some("rejected")));
    assert_eq!(bench.receiver.arrivals("elsewhere"), 0);

    let resetting = bench.destination("resetting", |it| it.settings.retry_policy = schedule(&[])).await;
    bench.receiver.script("resetting", Reply::Reset);
    bench.send(&[resetting], b"{}").await;
    assert_eq!(bench.ended(resetting).await, (Status::DeadLetter, Some("exhausted")));
    assert_eq!(bench.deliveries(resetting).await[0].last_outcome, Some(Outcome::NetworkError));
}

#[tokio::test]
async fn a_slow_destination_times_out_within_its_own_time() {
    let bench = bench().await;
    let slow = bench
        .destination("slow", |it| {
            it.settings.timeout = Some(Duration::from_secs(1));
            it.settings.retry_policy = schedule(&[]);
        })
        .await;
    bench.receiver.script("slow", Reply::Hang);
    bench.send(&[slow], b"{}").await;
    assert_eq!(bench.ended(slow).await, (Status::DeadLetter, Some("exhausted")));
    let delivery = bench.deliveries(slow).await.remove(0);
    assert_eq!(delivery.last_outcome, Some(Outcome::Timeout));
    let attempts = bench.store.attempts_of_delivery(bench.account, delivery.id, 10).await.unwrap();
    assert!((1_000..1_300).contains(&attempts[0].duration.as_millis()), "{:?}", attempts[0].duration);
}

#[tokio::test]
async fn a_forbidden_address_and_an_unusable_row_end_as_dead_letters_with_their_reason() {
    let bench = bench().await;
    let blocked = bench.destination("blocked", |it| it.url = "http://10.0.0.1/".into()).await;
    let no_secret = bench.destination("no secret", |it| it.secret = Default::default()).await;
    let bad_header =
        bench.destination("bad header", |it| it.headers = vec![("a\nb".into(), "c".into())]).await;
    let bad_url = bench.destination("bad url", |it| it.url = "http://[".into()).await;
    let good = bench.destination("good", |_| {}).await;
    bench.send(&[blocked, no_secret, bad_header, bad_url, good], b"{}").await;
    assert_eq!(bench.ended(good).await, (Status::Delivered, None));
    assert_eq!(bench.ended(blocked).await, (Status::DeadLetter, Some("blocked")));
    for unusable in [no_secret, bad_header, bad_url] {
        assert_eq!(bench.ended(unusable).await, (Status::DeadLetter, Some("undeliverable")));
    }
}

#[tokio::test]
async fn a_410_disables_the_destination_and_ends_what_waits() {
    let bench = bench().await;
    let gone = bench.destination("gone", |it| it.settings.max_concurrency = Some(1)).await;
    bench.receiver.script("gone", Reply::status(410).after(lab::Latency::Fixed(Duration::from_millis(50))));
    for _ in 0..5 {
        bench.send(&[gone], b"{}").await;
    }
    let reasons = bench
        .until(|| async {
            let rows = bench.deliveries(gone).await;
            let reasons: Vec<_> = rows
                .iter()
                .filter_map(|row| match &row.state {
                    DeliveryState::Ended { ending, .. } => ending.reason(),
                    DeliveryState::Waiting(_) => None,
                })
                .collect();
            (reasons.len() == 5).then_some(reasons)
        })
        .await;
    assert_eq!(
        reasons.iter().filter(|reason| **reason == "gone").count() as u64,
        bench.receiver.arrivals("gone")
    );
    assert!(reasons.contains(&"destination_disabled"));
    assert!(bench.store.destination(bench.account, gone).await.unwrap().switch.disabled.is_some());
}

#[tokio::test]
async fn a_paused_destination_gets_nothing_until_it_is_resumed() {
    let bench = bench().await;
    let now = bench.now();
    let paused = bench.destination("paused", |it| it.switch.paused_at = Some(now)).await;
    bench.send(&[paused], b"{}").await;
    let waiting = bench.deliveries(paused).await.remove(0);
    let DeliveryState::Waiting(delivery) = waiting.state else { panic!("it ended") };
    // The lane answers once it has read its destination: that it is paused is then certain.
    bench
        .until(|| async {
            let why = bench.handle.explain(vec![(*delivery).clone()]).await.remove(0).waits()?;
            (why.kind == domain::lane::WaitKind::Paused).then_some(())
        })
        .await;
    assert_eq!(bench.receiver.total(), 0);

    let mut row = bench.store.destination(bench.account, paused).await.unwrap();
    row.switch.paused_at = None;
    row.switch.resumed_at = Some(bench.now());
    bench.store.update_destination(&row, &audit_entry()).await.unwrap();
    bench.handle.changed(Change::Destinations(bench.account, vec![paused])).await;
    assert_eq!(bench.ended(paused).await, (Status::Delivered, None));
}

#[tokio::test]
async fn what_waited_before_the_start_is_found_by_the_rescan() {
    let settings = EngineSettings { rescan: Duration::from_millis(50), ..EngineSettings::default() };
    let bench = bench_with(settings, None).await;
    let destination = bench.destination("a", |_| {}).await;
    let event = bench.send_silently(destination).await;
    assert!(bench.receiver.wait_for_succeeded(1, PATIENCE).await);
    assert_eq!(bench.receiver.snapshot()[0].event_id.as_ref(), event.to_string());
}

#[tokio::test]
async fn a_large_payload_is_read_when_it_starts() {
    let bench = bench().await;
    let destination = bench.destination("a", |_| {}).await;
    let payload = vec![b'x'; 3 * domain::limits::CARRIED_BYTES];
    bench.send(&[destination], &payload).await;
    assert!(bench.receiver.wait_for_succeeded(1, PATIENCE).await);
    assert_eq!(bench.receiver.snapshot()[0].kept.as_ref().unwrap().body.len(), payload.len());
}

/// An internet in which every other request makes us panic.
struct Panicking(std::sync::atomic::AtomicU32);

impl Transport for Panicking {
    async fn send(&self, _: HttpRequest) -> HttpAnswer {
        let n = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        assert!(n % 2 == 1, "a bug");
        answered()
    }
}

fn answered() -> HttpAnswer {
    let received =
        HttpResponse { status: 200, headers: Default::default(), body: Default::default(), truncated: false };
    HttpAnswer { result: Ok(received), connection: None, first_byte: None }
}

#[tokio::test]
async fn a_panic_is_recorded_retried_and_leaks_no_slot() {
    let transport = Arc::new(Panicking(Default::default()));
    let bench = bench_with(EngineSettings::default(), Some(Sinks::http(transport))).await;
    let destination = bench
        .destination("a", |it| {
            it.settings.max_concurrency = Some(1);
            it.settings.retry_policy = schedule(&[1]);
        })
        .await;
    bench.send(&[destination], b"{}").await;
    assert_eq!(bench.ended(destination).await, (Status::Delivered, None));
    let delivery = bench.deliveries(destination).await.remove(0);
    let attempts = bench.store.attempts_of_delivery(bench.account, delivery.id, 10).await.unwrap();
    assert_eq!(
        attempts.iter().map(|it| it.outcome).collect::<Vec<_>>(),
        [Outcome::InternalError, Outcome::Success]
    );
    let view = bench.handle.views(&[destination]).await.remove(0).unwrap();
    assert_eq!(view.in_flight, 0);
}

#[tokio::test]
async fn a_graceful_stop_finishes_what_is_open_and_starts_nothing_more() {
    let bench = bench().await;
    let destination = bench.destination("a", |it| it.settings.max_concurrency = Some(2)).await;
    bench.receiver.script("a", Reply::ok().after(lab::Latency::Fixed(Duration::from_millis(200))));
    for _ in 0..10 {
        bench.send(&[destination], b"{}").await;
    }
    assert!(bench.receiver.wait_for(2, PATIENCE).await);
    let (store, account) = (bench.store.clone(), bench.account);
    bench.engine.stop(Duration::from_secs(5)).await;
    assert_eq!(bench.receiver.total(), 2);
    assert_eq!(bench.receiver.succeeded(), 2);
    let backlog = store.backlog(&[destination], 100).await.unwrap();
    assert_eq!(backlog[0].0, 8, "what was open is settled: {account}");
}

/// An internet that answers when it is looked at for the second time: nothing but the end of the grace time does that.
#[derive(Default)]
struct AtTheLastMoment(tokio::sync::Notify);

impl Transport for AtTheLastMoment {
    async fn send(&self, _: HttpRequest) -> HttpAnswer {
        self.0.notify_one();
        let mut seen = false;
        let again = |_: &mut Context<'_>| match std::mem::replace(&mut seen, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        };
        std::future::poll_fn(again).await;
        answered()
    }
}

#[tokio::test]
async fn what_ends_in_the_moment_the_grace_time_does_is_written() {
    let transport = Arc::new(AtTheLastMoment::default());
    let bench = bench_with(EngineSettings::default(), Some(Sinks::http(transport.clone()))).await;
    let destination = bench.destination("a", |_| {}).await;
    bench.send(&[destination], b"{}").await;
    transport.0.notified().await;
    let store = bench.store.clone();
    bench.engine.stop(Duration::ZERO).await;
    assert_eq!(store.backlog(&[destination], 100).await.unwrap()[0].0, 0, "it was delivered");
}

#[tokio::test]
async fn a_header_that_is_set_is_sent_as_it_is_set_whatever_comes_in() {
    let bench = bench().await;
    let destination = bench
        .destination("a", |it| {
            it.headers = vec![("x-tenant".into(), "ours".into())];
            it.forward_headers = vec!["x-tenant".into(), "x-request-id".into()];
        })
        .await;
    let headers = &[("x-tenant", "theirs"), ("x-request-id", "7")];
    bench.send_as(destination, b"{}", Wish { headers, ..Wish::default() }).await;
    bench.ended(destination).await;
    let kept = bench.receiver.snapshot().pop().unwrap().kept.unwrap();
    assert_eq!(kept.headers["x-tenant"], "ours");
    assert_eq!(kept.headers["x-request-id"], "7");
}

#[tokio::test]
async fn a_forwarded_header_is_sent_beyond_ascii_too_and_left_out_where_it_cannot_be() {
    let bench = bench().await;
    let forwarded = |it: &mut domain::destination::Destination| {
        it.forward_headers = vec!["x-city".into(), "x-line".into()]
    };
    let destination = bench.destination("a", forwarded).await;
    let headers = &[("x-city", "Zürich"), ("x-line", "a\nb: c")];
    bench.send_as(destination, b"{}", Wish { headers, ..Wish::default() }).await;
    bench.ended(destination).await;
    let kept = bench.receiver.snapshot().pop().unwrap().kept.unwrap();
    assert_eq!(kept.headers["x-city"].as_bytes(), "Zürich".as_bytes());
    assert!(!kept.headers.contains_key("x-line") && !kept.headers.contains_key("b"));
}

#[tokio::test]
async fn what_an_answer_repeats_of_a_credential_is_not_kept() {
    let bench = bench().await;
    let reply = Reply::status(400).header("set-cookie", "session=1").header("x-echo", "Bearer open-sesame");
    bench.receiver.script("a", reply.body("you sent open-sesame"));
    let destination = bench.destination_with_token("a", "open-sesame").await;
    bench.send(&[destination], b"{}").await;
    bench.ended(destination).await;
    let kept = bench.attempts(destination).await.remove(0).detail.response.unwrap();
    assert_eq!(kept.body.as_deref(), Some("you sent ***"));
    for name in ["set-cookie", "x-echo"] {
        assert!(kept.headers.contains(&(name.into(), "***".into())), "{:?}", kept.headers);
    }
}
