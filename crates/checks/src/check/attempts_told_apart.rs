//! Hazard: a receiver cannot tell a repetition from something new, or the signature is right only once.
//!
//! Five hundred deliveries (`--count`) that are refused twice and taken at the third attempt, and then each replayed
//! once, refused twice again.
//!
//! Holds if `webhook-id` is the event's id on every attempt of both, `posthaste-delivery` tells the two deliveries
//! apart and `posthaste-attempt` counts 1, 2, 3 in each; if `posthaste-replay` is there on the replay alone; and if every
//! request is signed for its own time and verifies.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use client::{DeliveryQuery, NewDestination, NewRoute, Publish, ReplayInput};
use domain::{
    delivery::Status,
    signature::{SigningSecret, verify},
};
use lab::{Record, Recording, Reply, Script};
use tokio::time::{Instant, sleep};

use crate::Ask;
use crate::harness::{Plan, Report, Stage, StoreKind};

const ATTEMPTS: u32 = 3;
/// Less than the pause between two attempts and a bit: each must have been signed anew.
const TOLERANCE_SECONDS: u64 = 1;
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let count = ask.count(500);
    let stage = Plan::new(ask, store)?.start().await?;
    stage.receiver.recording(Recording::FullWithBodies);
    stage.receiver.default_script(Script::custom(|seen| {
        if seen.attempt < ATTEMPTS { Reply::status(500) } else { Reply::ok() }
    }));
    let plan = NewDestination {
        max_concurrency: 100,
        retry_policy: domain::retry::RetryPolicy {
            schedule: vec![Duration::from_secs(1); 2],
            ..Default::default()
        },
        ..stage.destination("d0")
    };
    let destination = stage.client.create_destination(&plan).await?.id;
    stage.client.create_route(&NewRoute::to(destination)).await?;
    let mut events = BTreeSet::new();
    for n in 0..count {
        let event = Publish::json("lab.d00", n.to_string())?;
        events.insert(stage.client.publish(&event).await?.id.to_string());
    }
    ensure!(stage.quiesce(PATIENCE).await? == 0, "the deliveries did not end");
    let filter = DeliveryQuery {
        status: vec![Status::Delivered],
        destination_id: vec![destination],
        ..DeliveryQuery::default()
    };
    let asked = ReplayInput { filter: Some(filter), rate: Some(1_000), ..ReplayInput::default() };
    report.exactly("matched", stage.client.estimate_replay(&asked).await?.matched, count);
    let replay = stage.client.create_replay(&asked, None).await?;
    let until = Instant::now() + PATIENCE;
    while stage.client.replay(replay.id).await?.delivered < count {
        ensure!(Instant::now() < until, "the replay did not end");
        sleep(Duration::from_millis(100)).await;
    }
    judge(&stage, &events, &replay.id.to_string(), count, &mut report).await?;
    stage.strike().await?;
    Ok(report)
}

async fn judge(
    stage: &Stage,
    events: &BTreeSet<String>,
    replay: &str,
    count: u64,
    report: &mut Report,
) -> Result<()> {
    let destination = stage.client.destinations(None).await?.data.first().context("a destination")?.id;
    let secret: SigningSecret = stage.client.destination_secret(destination).await?.secret.parse()?;
    let records = stage.receiver.snapshot();
    report.exactly("requests", records.len() as u64, count * 2 * u64::from(ATTEMPTS));
    let began_us = lab::clock::unix_us() - stage.receiver.now_us();
    let mut unsigned = 0u64;
    let mut by_event: BTreeMap<&str, BTreeMap<&str, Vec<&Record>>> = BTreeMap::new();
    for record in &records {
        by_event.entry(&record.event_id).or_default().entry(&record.delivery_id).or_default().push(record);
        unsigned += u64::from(!verifies(&secret, record, began_us));
    }
    report.exactly("signatures_that_do_not_verify", unsigned, 0u64);
    let ids: BTreeSet<String> = by_event.keys().map(|id| (*id).to_owned()).collect();
    report.must(ids == *events, "a `webhook-id` is not an event's id");
    let (mut odd, mut unmarked) = (0u64, 0u64);
    for deliveries in by_event.values() {
        odd += u64::from(deliveries.len() != 2);
        let mut replays = 0;
        for attempts in deliveries.values() {
            let mut numbers: Vec<u32> = attempts.iter().map(|record| record.attempt).collect();
            numbers.sort_unstable();
            odd += u64::from(numbers != Vec::from_iter(1..=ATTEMPTS));
            let marks: BTreeSet<_> = attempts.iter().map(|record| record.replay.as_deref()).collect();
            unmarked += u64::from(marks.len() != 1);
            replays += u64::from(marks.contains(&Some(replay)));
        }
        unmarked += u64::from(replays != 1);
    }
    report.exactly("events_with_odd_attempts", odd, 0u64);
    report.exactly("replays_not_marked_as_such", unmarked, 0u64);
    Ok(())
}

/// Whether it is signed for the time at which it came, with the secret there is.
fn verifies(secret: &SigningSecret, record: &Record, began_us: u64) -> bool {
    let Some(kept) = &record.kept else { return false };
    let header =
        |name: &str| kept.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (id, timestamp, signature) =
        (header("webhook-id"), header("webhook-timestamp"), header("webhook-signature"));
    let now = (began_us + record.start_us) / 1_000_000;
    verify([secret], id, timestamp, signature, &kept.body, now as i64, TOLERANCE_SECONDS).is_ok()
}
