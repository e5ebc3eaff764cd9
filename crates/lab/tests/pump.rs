//! The pump loses nothing, repeats what was not answered, and keeps its rate.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lab::{Evidence, Load, Pump, PumpConfig, Receiver, Recording, Reply, Script, Target, Until, judge, pump};

fn to(receiver: &Receiver, path: &str, until: Until) -> PumpConfig {
    PumpConfig::new(Target::Url(receiver.url(path)), until)
}

/// A receiver that plays a very small posthaste: `first` to a new key, 200 to one it knows.
fn ingest(first: Reply) -> Script {
    let seen = std::sync::Mutex::new(HashMap::new());
    Script::custom(move |request| {
        let key = request.headers["idempotency-key"].to_str().unwrap().to_owned();
        let mut seen = seen.lock().unwrap();
        let times = seen.entry(key.clone()).or_insert(0);
        *times += 1;
        let answer = format!("{{\"id\":\"evt_{key}\",\"status\":\"queued\"}}");
        if *times == 1 { first.clone() } else { Reply::ok() }.body(answer)
    })
}

#[tokio::test]
async fn closed_loop_sends_each_event_once_and_measures_a_rate() {
    let receiver = Receiver::local(Script::ok());
    let report = pump::run(to(&receiver, "/d/x", Until::Count(2_000)).connections(8)).await.unwrap();
    assert_eq!((report.offered, report.accepted, report.retries), (2_000, 2_000, 0));
    assert!(report.rate > 0.0 && report.latency.count() == 2_000);
    assert!(receiver.max_open("x") <= 8);
    let numbers: Vec<u64> = report.sent.iter().map(|sent| sent.n).collect();
    assert_eq!(numbers, (0..2_000).collect::<Vec<_>>());
    let mut arrived = receiver.records("x");
    arrived.sort_by_key(|record| record.n);
    assert_eq!(arrived.len(), 2_000);
    for (sent, record) in report.sent.iter().zip(&arrived) {
        assert_eq!((Some(sent.n), Some(sent.body_hash)), (record.n, record.body_hash));
    }
    assert_eq!(receiver.end_to_end().count(), 2_000);
}

#[tokio::test]
async fn open_loop_keeps_its_rate_while_answers_are_slow() {
    let receiver = Receiver::local(Reply::ok().after(Duration::from_millis(100)));
    let config = to(&receiver, "/d/x", Until::Count(200)).open(200.0);
    let report = pump::run(config).await.unwrap();
    assert_eq!(report.accepted, 200);
    // One after another they would take twenty seconds.
    assert!((1_000_000..5_000_000).contains(&report.elapsed_us), "{report}");
    assert!(report.latency.percentile_us(1.0) >= 99_000, "{report}");
}

#[tokio::test]
async fn unanswered_and_refused_events_are_repeated_with_the_same_key() {
    for first in [Reply::Close, Reply::Reset, Reply::Hang, Reply::status(503), Reply::throttled(60)] {
        let receiver = Receiver::start_with(
            ([127, 0, 0, 1], 0).into(),
            ingest(first.clone()),
            Recording::FullWithBodies,
        )
        .unwrap();
        let target = Target::Ingest { base: receiver.url(""), tokens: vec!["tok".into()] };
        let mut config = PumpConfig::new(target, Until::Count(5));
        config.answer_timeout = Duration::from_millis(100);
        config.max_pause = Duration::from_millis(20);
        let report = pump::run(config).await.unwrap();
        assert_eq!((report.duplicates, report.retries), (5, 5), "{first:?}: {report}");
        assert!(report.acked().all(|sent| sent.tries == 2));
        let requests = receiver.records("/ingest/tok");
        assert_eq!(requests.len(), 10);
        let bodies: std::collections::HashSet<_> = requests.iter().map(|record| record.body_hash).collect();
        assert_eq!(bodies.len(), 5, "a repeat is the same body");
    }
}

#[tokio::test]
async fn a_refusal_is_final_and_counted_by_its_status() {
    let receiver = Receiver::local(Reply::status(413));
    let report = pump::run(to(&receiver, "/d/x", Until::Count(3))).await.unwrap();
    assert_eq!((report.refused.get(&413), report.retries), (Some(&3), 0));
}

#[tokio::test]
async fn giving_up_is_reported() {
    let receiver = Receiver::local(Reply::Close);
    let mut config = to(&receiver, "/d/x", Until::Count(2));
    config.retry_for = Duration::ZERO;
    let report = pump::run(config).await.unwrap();
    assert_eq!((report.unanswered, report.sent[0].status, report.sent[0].tries), (2, 0, 1));
}

#[tokio::test]
async fn a_pump_stops_when_told_even_between_two_slow_events() {
    let receiver = Receiver::local(Script::ok());
    let mut config = to(&receiver, "/d/x", Until::Stopped);
    config.load = Load::Open { per_second: 0.1 };
    let pump = Pump::start(config).unwrap();
    assert!(receiver.wait_for(1, Duration::from_secs(5)).await);
    let report = pump.finish().await;
    assert_eq!((report.offered, report.accepted), (1, 1));
}

#[tokio::test]
async fn the_judge_agrees_with_a_faultless_run_and_sees_a_theft() {
    let receiver = Receiver::local(Script::ok());
    receiver.script("/ingest/tok", ingest(Reply::status(202)));
    let target = Target::Ingest { base: receiver.url(""), tokens: vec!["tok".into()] };
    let report = pump::run(PumpConfig::new(target, Until::Count(50)).connections(2)).await.unwrap();
    assert_eq!(report.accepted, 50);
    // Stand in for the engine: what came in goes out to `a` under the event's id.
    let mut received = receiver.records("/ingest/tok");
    received.sort_by_key(|record| record.n);
    for (record, sent) in received.iter_mut().zip(&report.sent) {
        record.destination = "a".into();
        record.event_id = sent.event_id.as_deref().unwrap().into();
    }
    let a: Arc<str> = "a".into();
    let acked = judge::acked(&report.sent, |_| vec![a.clone()]);
    let limits = HashMap::from([(a.clone(), 2)]);
    let mut evidence = Evidence { acked, received, limits, ..Evidence::default() };
    assert!(evidence.judge().holds, "{}", evidence.judge());
    evidence.received.pop();
    assert_eq!(evidence.judge().lost, 1);
}
