//! Hazard: a receiver cannot tell a repetition from something new, or the signature is right only once.
//!
//! Five hundred deliveries (`--count`) that are refused twice and taken at the third attempt, and then each replayed
//! once, refused twice again.
//!
//! Holds if `webhook-id` is the event's id on every attempt of both, `posthaste-delivery` tells the two deliveries
//! apart and `posthaste-attempt` counts 1, 2, 3 in each; if `posthaste-replay` is there on the replay alone; and if every
//! request is signed for its own time and verifies.

use std::collections::{BTreeMap, BTreeSet};

use client::{DeliveryQuery, ReplayInput};
use domain::delivery::Status;
use domain::signature::{SigningSecret, verify};

use crate::harness::prelude::*;

const ATTEMPTS: u32 = 3;
/// Less than the pause between two attempts and a bit: each must have been signed anew.
const TOLERANCE_SECONDS: u64 = 1;
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let count = options.count(500);
    let testbed = TestbedPlan::new(options)?.start().await?;
    testbed.receiver.recording(Recording::FullWithBodies);
    testbed.receiver.default_script(Script::custom(|request| {
        if request.attempt < ATTEMPTS { Reply::status(500) } else { Reply::ok() }
    }));
    let plan = testbed.destination_with_slots("d0", 100);
    let plan = NewDestination { retry_policy: retry_policy(&[1; 2]), ..plan };
    let destination = testbed.add_destination(&plan, &[]).await?;
    let mut events = BTreeSet::new();
    for n in 0..count {
        let event = Publish::json("lab.d00", n.to_string())?;
        events.insert(testbed.client.publish(&event).await?.id.to_string());
    }
    ensure!(testbed.quiesce(PATIENCE).await? == 0, "the deliveries did not end");
    let (status, destination_id) = (vec![Status::Delivered], vec![destination]);
    let filter = DeliveryQuery { status, destination_id, ..DeliveryQuery::default() };
    let asked = ReplayInput { filter: Some(filter), rate: Some(1_000), ..ReplayInput::default() };
    report.must_be("matched", testbed.client.estimate_replay(&asked).await?.matched, count);
    let replay = testbed.client.create_replay(&asked, None).await?;
    let ended = async || Ok(testbed.client.replay(replay.id).await?.delivered >= count);
    wait_until("the replay did not end", PATIENCE, 100, ended).await?;
    judge(&testbed, &events, &replay.id.to_string(), count, report).await?;
    testbed.tear_down().await
}

async fn judge(
    testbed: &Testbed,
    events: &BTreeSet<String>,
    replay: &str,
    count: u64,
    report: &mut Report,
) -> Result<()> {
    let destination = testbed.client.destinations(None).await?.data.first().context("a destination")?.id;
    let secret: SigningSecret = testbed.client.destination_secret(destination).await?.secret.parse()?;
    let records = testbed.receiver.snapshot();
    report.must_be("requests", records.len(), count * 2 * u64::from(ATTEMPTS));
    let began_us = lab::clock::unix_us() - testbed.receiver.now_us();
    let mut unsigned = 0u64;
    let mut by_event: BTreeMap<&str, BTreeMap<&str, Vec<&Record>>> = BTreeMap::new();
    for record in &records {
        by_event.entry(&record.event_id).or_default().entry(&record.delivery_id).or_default().push(record);
        unsigned += u64::from(!verifies(&secret, record, began_us));
    }
    report.must_be("signatures_that_do_not_verify", unsigned, 0);
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
    report.must_be("events_with_odd_attempts", odd, 0);
    report.must_be("replays_not_marked_as_such", unmarked, 0);
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
