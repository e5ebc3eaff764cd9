//! Hazard: a receiver with limits that nobody knows needs settings that nobody can guess.
//!
//! A receiver that lets one request a second through and says 429 with `Retry-After: 1` to all others, as Slack does; a
//! destination with `max_concurrency` 1 and no other setting; thirty events (`--count`) at once.
//!
//! Holds if everything arrives, nothing is dead-lettered, and no delivery spends a retry.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::Result;
use client::{NewDestination, Publish};
use lab::{Reply, Script};

use crate::Ask;
use crate::harness::fleet::sole_destination;
use crate::harness::report::rounded;
use crate::harness::{Audit, Plan, Report, StoreKind};

const EVERY: Duration = Duration::from_secs(1);
/// Twice what the receiver itself needs for an event.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let mut stage = Plan::new(ask, store)?.start().await?;
    stage.receiver.script("slack", one_a_second());
    let plan = NewDestination {
        max_concurrency: 1,
        ..NewDestination::new("slack", &stage.receiver.url("/d/slack"))
    };
    sole_destination(&stage.client, &plan).await?;
    let events = ask.count(30);
    let began = Instant::now();
    stage.client.publish_batch(&vec![Publish::json("note", "{}")?; events as usize]).await?;
    stage.receiver.wait_for_succeeded(events, PATIENCE * events as u32).await;
    report.exactly("arrived", stage.receiver.succeeded(), events);
    report.note("seconds", rounded(began.elapsed().as_secs_f64()));
    report.note("requests", stage.receiver.total());
    report.exactly("left_in_queue", stage.quiesce(Duration::from_secs(5)).await?, 0u64);
    let spent = "select count(*) from attempts where spent > 0";
    report.exactly("retries_spent", stage.database.number(spent).await?, 0u64);
    let audit = Audit::of(&stage.database).await?;
    audit.rules(&mut report);
    report.exactly("dead_letters", audit.dead_letters, 0u64);
    report.must(stage.all_running(), "the node exited");
    stage.strike().await?;
    Ok(report)
}

fn one_a_second() -> Script {
    let last: Mutex<Option<Instant>> = Mutex::default();
    Script::custom(move |_| {
        let mut last = last.lock().expect("no panic while looking at the time");
        if last.is_some_and(|last| last.elapsed() < EVERY) {
            return Reply::throttled(EVERY.as_secs());
        }
        *last = Some(Instant::now());
        Reply::ok()
    })
}
