//! Hazard: a destination that is down is hammered, or given up, or forgotten; or its breaker spends the retries.
//!
//! The breaker opens after five failures in a row, or half of twenty, for two seconds, then four. Sixty deliveries wait for
//! a destination of four slots that fails every time; while the breaker is open, all nodes are killed and started again
//! (three on PostgreSQL). Then it heals. Then sixty more, and it fails every other time; then it heals. Another one fails
//! four times, says 429 three times, and is well.
//!
//! Holds if the breaker opens after the failures that are set, and those under way with them; if nothing arrives while it
//! is open, over the restart too, and then one single probe from all nodes together; if it closes when a probe succeeds;
//! if 429s do not count; and if every attempt on record is a request that arrived, every retry spent one of them, and
//! everything is delivered.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Result, ensure};
use client::{NewDestination, NewRoute, Publish};
use domain::id::DestinationId;
use domain::retry::RetryPolicy;
use lab::{Reply, Script};
use tokio::time::{Instant, sleep};

use crate::Ask;
use crate::harness::bursts::{Pauses, until_success};
use crate::harness::{Audit, Plan, Report, Stage, StoreKind};

const FAILURES: u64 = 5;
const AT_LEAST: u64 = 20;
/// Two seconds, then twice as long at most.
const WAITS: [u64; 3] = [2, 4, 4];
const SLOTS: u32 = 4;
const EVENTS: u64 = 60;
const BUSY_EVENTS: u64 = 10;
/// Long enough that a second probe would be seen beside the first.
const LATENCY: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let mut stage = Plan::new(ask, store)?
        .nodes(ask.nodes(store, 3))
        .env("POSTHASTE_BREAKER_ENABLED", "true")
        .env("POSTHASTE_BREAKER_FAILURES", &FAILURES.to_string())
        .env("POSTHASTE_BREAKER_MIN", &AT_LEAST.to_string())
        .env("POSTHASTE_BREAKER_OPEN", "2s")
        .env("POSTHASTE_BREAKER_MAX_OPEN", "4s")
        .start()
        .await?;
    stage.balanced(Duration::from_secs(30)).await?;
    let ill = destination(&stage, "ill", SLOTS).await?;
    let busy = destination(&stage, "busy", 1).await?;

    stage.receiver.script("ill", Reply::status(500).after(LATENCY));
    publish(&stage, "ill", EVENTS).await?;
    // The first probe has failed: it is open again, for longer.
    breaker_step(&stage, ill, 2).await?;
    // Killed while nothing is under way, so that every request has its record.
    sleep(Duration::from_millis(500)).await;
    for at in 0..stage.members.len() {
        stage.kill_one(at).await?;
    }
    stage.start_all().await?;
    breaker_step(&stage, ill, 3).await?;
    stage.receiver.script("ill", Reply::ok().after(LATENCY));
    let healed = until_delivered(&stage, "ill", EVENTS).await;
    report
        .must(healed, format!("{} of {EVENTS} arrived after it healed", stage.receiver.succeeded_at("ill")));
    let bursts = until_success(&stage.receiver, "ill", 0);
    let pauses = Pauses::between(&bursts, &WAITS);
    let first = bursts.first().map_or(0, |burst| burst.requests);
    report.at_least("requests_until_it_opens", first as f64, FAILURES as f64);
    report.at_most("requests_until_it_opens", first as f64, (FAILURES + u64::from(SLOTS) - 1) as f64);
    report.note("open_seconds", &pauses.seconds);
    report.exactly("times_open", pauses.seconds.len() as u64, WAITS.len() as u64);
    report.exactly("requests_while_open", pauses.too_short, 0u64);
    report.exactly("probes_too_late", pauses.too_long, 0u64);
    report.exactly("probes_in_company", pauses.crowded, 0u64);

    let from_us = stage.receiver.now_us();
    let arrivals = AtomicU64::new(0);
    let every_other = move |_: &lab::Seen<'_>| {
        Reply::status(if arrivals.fetch_add(1, Relaxed).is_multiple_of(2) { 500 } else { 200 })
    };
    stage.receiver.script("ill", Script::custom(every_other));
    let [failing, throttled] = [Reply::status(500), Reply::throttled(1)];
    let replies = [vec![failing; FAILURES as usize - 1], vec![throttled; 3], vec![Reply::ok()]].concat();
    stage.receiver.script("busy", Script::InTurn(replies));
    publish(&stage, "ill", EVENTS).await?;
    publish(&stage, "busy", BUSY_EVENTS).await?;
    while breakers(&stage, ill, "").await? < 2 {
        let late = stage.receiver.now_us() - from_us > PATIENCE.as_micros() as u64;
        ensure!(!late, "it did not open while every other request failed");
        sleep(Duration::from_millis(10)).await;
    }
    // What is under way ends, and nothing starts.
    sleep(LATENCY).await;
    let flapped = stage.receiver.records("ill").iter().filter(|record| record.start_us >= from_us).count();
    report.at_least("flapping_requests_until_it_opens", flapped as f64, AT_LEAST as f64);
    report.at_most(
        "flapping_requests_until_it_opens",
        flapped as f64,
        (AT_LEAST + u64::from(2 * SLOTS)) as f64,
    );
    stage.receiver.script("ill", Reply::ok().after(LATENCY));
    let healed = until_delivered(&stage, "ill", 2 * EVENTS).await;
    report
        .must(healed, format!("{} of {} arrived in the end", stage.receiver.succeeded_at("ill"), 2 * EVENTS));
    report.exactly("most_open", stage.receiver.max_open("ill"), SLOTS);
    let all_of_busy = until_delivered(&stage, "busy", BUSY_EVENTS).await;
    report.must(all_of_busy, "not everything arrived at the one that said 429");
    report.exactly("left_in_queue", stage.quiesce(Duration::from_secs(5)).await?, 0u64);

    report.note("times_the_breaker_opened", breakers(&stage, ill, "").await?);
    report.exactly("breakers_left_open", breakers(&stage, ill, "and ended_at is null").await?, 0u64);
    report.exactly("breakers_opened_by_429", breakers(&stage, busy, "").await?, 0u64);
    let requests = stage.receiver.total();
    let number = |sql: &'static str| stage.database.number(sql);
    report.exactly(
        "attempts",
        number("select count(*) from attempts where number is not null").await?,
        requests,
    );
    let failed = number("select count(*) from attempts where outcome = 'server_error'").await?;
    let spent = number("select cast(sum(spent) as bigint) from attempts where ending is not null").await?;
    report.exactly("retries_spent", spent, failed);
    let audit = Audit::of(&stage.database).await?;
    audit.rules(&mut report);
    report.exactly("dead_letters", audit.dead_letters, 0u64);
    report.must(stage.all_running(), "a node exited");
    stage.strike().await?;
    Ok(report)
}

/// With pauses of a second, of which there are more than it can need.
async fn destination(stage: &Stage, name: &str, slots: u32) -> Result<DestinationId> {
    let retry_policy = RetryPolicy { schedule: vec![Duration::from_secs(1); 20], ..RetryPolicy::default() };
    let plan = NewDestination { max_concurrency: slots, retry_policy, ..stage.destination(name) };
    let id = stage.client.create_destination(&plan).await?.id;
    let route = NewRoute { event_types: vec![name.into()], ..NewRoute::to(id) };
    stage.client.create_route(&route).await?;
    Ok(id)
}

async fn publish(stage: &Stage, event_type: &str, count: u64) -> Result<()> {
    stage.client.publish_batch(&vec![Publish::json(event_type, "{}")?; count as usize]).await?;
    Ok(())
}

/// Waits until the breaker has opened so many times in a row.
async fn breaker_step(stage: &Stage, destination: DestinationId, step: u64) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let more = format!("and step >= {step}");
    while breakers(stage, destination, &more).await? == 0 {
        ensure!(Instant::now() < deadline, "the breaker did not open {step} times in a row");
        sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// The breaker's holds of a destination, one for each time that it fell ill.
async fn breakers(stage: &Stage, destination: DestinationId, more: &str) -> Result<u64> {
    let id = stage.database.literal(destination.bytes());
    let sql = format!("select count(*) from holds where destination_id = {id} and reason = 'breaker' {more}");
    stage.database.number(&sql).await
}

async fn until_delivered(stage: &Stage, name: &str, count: u64) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while stage.receiver.succeeded_at(name) < count && Instant::now() < deadline {
        sleep(Duration::from_millis(20)).await;
    }
    stage.receiver.succeeded_at(name) == count
}
