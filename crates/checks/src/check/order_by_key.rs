//! Hazard: a key that cannot go on holds up the other keys of its destination; or two of one key are sent at once.
//!
//! A destination of ten slots, ordered by key. Ten thousand events (`--count`) of one key, the first of which is answered
//! 503 until it is let through, and a thousand over that and forty-nine other keys.
//!
//! Holds if everything of the other keys arrives while the one is blocked, ten at once, and nothing of the blocked key but
//! its first; if after its release everything else does; and if for every key the order is that of the commits, and no two
//! of its requests are ever open together.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use domain::destination::Ordering;
use lab::body::{Stamp, make, stamp};

use crate::harness::prelude::*;

const SLOTS: u32 = 10;
const KEYS: u64 = 50;
const SPREAD: u64 = 1_000;
const BLOCKED: u64 = 0;
/// Events of one request.
const STEP: u64 = 1_000;
/// Long enough that all slots are in use.
const LATENCY: Duration = Duration::from_millis(20);
const OTHERS_WITHIN: Duration = Duration::from_secs(15);
/// One after the other, each with a flush of its own in the worst case.
const EACH_WITHIN: Duration = Duration::from_millis(20);

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::of_several(options)?.start_balanced().await?;
    let backlog = options.count(10_000).max(1);
    let released = Arc::new(AtomicBool::new(false));
    testbed.receiver.default_script(first_is_blocked(backlog, released.clone()));
    let plan = NewDestination {
        ordering: Ordering::Key,
        retry_policy: retry_policy(&[1; 20]),
        ..testbed.destination_with_slots("keys", SLOTS)
    };
    testbed.add_destination(&plan, &[]).await?;
    let all = backlog + SPREAD;
    for from in (0..all).step_by(STEP as usize) {
        publish(&testbed, from..(from + STEP).min(all), backlog).await?;
    }

    let of_others = (backlog..all).filter(|n| key_of(*n, backlog) != BLOCKED).count() as u64;
    let began = Instant::now();
    testbed.receiver.wait_for_succeeded(of_others, OTHERS_WITHIN).await;
    report.note("seconds_for_the_other_keys", rounded(began.elapsed().as_secs_f64()));
    report.must_be("arrived_while_blocked", testbed.receiver.succeeded(), of_others);
    report.must_be("most_open", testbed.receiver.max_open("keys"), SLOTS);
    let sent_of_blocked = testbed.receiver.records("keys");
    let of_blocked = |record: &&Record| record.n.is_none_or(|n| n > 0 && key_of(n, backlog) == BLOCKED);
    report.must_be("sent_past_the_first", sent_of_blocked.iter().filter(of_blocked).count(), 0);

    released.store(true, Relaxed);
    let began = Instant::now();
    let patience = OTHERS_WITHIN + EACH_WITHIN * (all - of_others) as u32;
    testbed.receiver.wait_for_succeeded(all, patience).await;
    report.note("seconds_for_the_blocked_key", rounded(began.elapsed().as_secs_f64()));
    report.must_be("arrived", testbed.receiver.succeeded(), all);
    testbed.must_drain(Duration::from_secs(5), report).await?;
    let records = testbed.receiver.records("keys");
    let (inverted, together) = out_of_order(&records, backlog);
    report.must_be("inversions", inverted, 0);
    report.must_be("two_of_a_key_open", together, 0);
    let unnumbered = records.iter().filter(|record| record.sequence.is_none()).count() as u64;
    report.must_be("requests_without_a_sequence", unnumbered, 0);
    let audit = TableAudit::of(&testbed.database).await?;
    audit.must_hold(report);
    report.must_be("delivered", audit.delivered, all);
    testbed.must_be_running(report);
    testbed.tear_down().await
}

/// The backlog is all of one key; the rest goes to all keys in turn.
fn key_of(n: u64, backlog: u64) -> u64 {
    if n < backlog { BLOCKED } else { (n - backlog) % KEYS }
}

async fn publish(testbed: &Testbed, numbers: std::ops::Range<u64>, backlog: u64) -> Result<()> {
    let event = |n: u64| -> Result<Publish> {
        let body = make(Stamp { n, at_us: lab::clock::unix_us() }, "key", 0);
        let event = Publish::json("key", String::from_utf8(body.to_vec())?)?;
        Ok(Publish { ordering_key: Some(format!("k{}", key_of(n, backlog))), ..event })
    };
    testbed.publish_all(&numbers.map(event).collect::<Result<Vec<_>>>()?).await
}

fn first_is_blocked(backlog: u64, released: Arc<AtomicBool>) -> Script {
    Script::custom(move |request| match stamp(request.body).map(|stamp| key_of(stamp.n, backlog)) {
        Some(BLOCKED) if !released.load(Relaxed) => Reply::status(503),
        Some(BLOCKED) => Reply::ok(),
        _ => Reply::ok().after(LATENCY),
    })
}

/// First arrivals of a key after a later one of it, and requests that began while another of the key was open.
fn out_of_order(records: &[Record], backlog: u64) -> (u64, u64) {
    // Of each key: the latest event that has arrived, and until when its requests have been open.
    let mut keys: HashMap<u64, (u64, u64)> = HashMap::new();
    let (mut inverted, mut together) = (0, 0);
    for record in records {
        let Some(n) = record.n else { continue };
        let (latest, open_until_us) = keys.entry(key_of(n, backlog)).or_default();
        // A retry is of the latest: whatever is earlier has ended before.
        inverted += u64::from(n < *latest);
        together += u64::from(record.start_us < *open_until_us);
        *latest = n.max(*latest);
        *open_until_us = record.end_us.unwrap_or(u64::MAX).max(*open_until_us);
    }
    (inverted, together)
}
