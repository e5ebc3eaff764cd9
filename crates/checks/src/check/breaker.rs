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

use domain::id::DestinationId;

use crate::harness::bursts::{Pauses, until_success};
use crate::harness::prelude::*;

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

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::new(options)?
        .nodes(options.nodes(3))
        .env("POSTHASTE_BREAKER_ENABLED", "true")
        .env("POSTHASTE_BREAKER_FAILURES", &FAILURES.to_string())
        .env("POSTHASTE_BREAKER_MIN", &AT_LEAST.to_string())
        .env("POSTHASTE_BREAKER_OPEN", "2s")
        .env("POSTHASTE_BREAKER_MAX_OPEN", "4s")
        .start()
        .await?;
    testbed.wait_until_balanced(Duration::from_secs(30)).await?;
    let ill = destination(&testbed, "ill", SLOTS).await?;
    let busy = destination(&testbed, "busy", 1).await?;

    testbed.receiver.script("ill", Reply::status(500).after(LATENCY));
    testbed.publish_copies("ill", EVENTS).await?;
    // The first probe has failed: it is open again, for longer.
    breaker_step(&testbed, ill, 2).await?;
    // Killed while nothing is under way, so that every request has its record.
    sleep(Duration::from_millis(500)).await;
    for at in 0..testbed.nodes.len() {
        testbed.kill_node(at).await?;
    }
    testbed.start_all().await?;
    breaker_step(&testbed, ill, 3).await?;
    testbed.receiver.script("ill", Reply::ok().after(LATENCY));
    let healed = until_delivered(&testbed, "ill", EVENTS).await;
    report.must(
        healed,
        format!("{} of {EVENTS} arrived after it healed", testbed.receiver.succeeded_at("ill")),
    );
    let bursts = until_success(&testbed.receiver, "ill", 0);
    let pauses = Pauses::between(&bursts, &WAITS);
    let first = bursts.first().map_or(0, |burst| burst.requests);
    report.must_be_at_least("requests_until_it_opens", first, FAILURES);
    report.must_be_at_most("requests_until_it_opens", first, FAILURES + u64::from(SLOTS) - 1);
    report.note("open_seconds", &pauses.seconds);
    report.must_be("times_open", pauses.seconds.len(), WAITS.len() as u64);
    report.must_be("requests_while_open", pauses.too_short, 0);
    report.must_be("probes_too_late", pauses.too_long, 0);
    report.must_be("probes_in_company", pauses.with_company, 0);

    let from_us = testbed.receiver.now_us();
    let arrivals = AtomicU64::new(0);
    let every_other = move |_: &lab::ScriptedRequest<'_>| {
        Reply::status(if arrivals.fetch_add(1, Relaxed).is_multiple_of(2) { 500 } else { 200 })
    };
    testbed.receiver.script("ill", Script::custom(every_other));
    let [failing, throttled] = [Reply::status(500), Reply::throttled(1)];
    let replies = [vec![failing; FAILURES as usize - 1], vec![throttled; 3], vec![Reply::ok()]].concat();
    testbed.receiver.script("busy", Script::InTurn(replies));
    testbed.publish_copies("ill", EVENTS).await?;
    testbed.publish_copies("busy", BUSY_EVENTS).await?;
    let opened = async || Ok(breakers(&testbed, ill, "").await? >= 2);
    wait_until("it did not open while every other request failed", PATIENCE, 10, opened).await?;
    // What is under way ends, and nothing starts.
    sleep(LATENCY).await;
    let flapped = testbed.receiver.records("ill").iter().filter(|record| record.start_us >= from_us).count();
    report.must_be_at_least("flapping_requests_until_it_opens", flapped, AT_LEAST);
    report.must_be_at_most("flapping_requests_until_it_opens", flapped, AT_LEAST + u64::from(2 * SLOTS));
    testbed.receiver.script("ill", Reply::ok().after(LATENCY));
    let healed = until_delivered(&testbed, "ill", 2 * EVENTS).await;
    report.must(
        healed,
        format!("{} of {} arrived in the end", testbed.receiver.succeeded_at("ill"), 2 * EVENTS),
    );
    report.must_be("most_open", testbed.receiver.max_open("ill"), SLOTS);
    let all_of_busy = until_delivered(&testbed, "busy", BUSY_EVENTS).await;
    report.must(all_of_busy, "not everything arrived at the one that said 429");
    testbed.must_drain(Duration::from_secs(5), report).await?;

    report.note("times_the_breaker_opened", breakers(&testbed, ill, "").await?);
    report.must_be("breakers_left_open", breakers(&testbed, ill, "and ended_at is null").await?, 0);
    report.must_be("breakers_opened_by_429", breakers(&testbed, busy, "").await?, 0);
    let requests = testbed.receiver.total();
    let number = |sql: &'static str| testbed.database.number(sql);
    report.must_be(
        "attempts",
        number("select count(*) from attempts where number is not null").await?,
        requests,
    );
    let failed = number("select count(*) from attempts where outcome = 'server_error'").await?;
    let spent = number("select cast(sum(spent) as bigint) from attempts where ending is not null").await?;
    report.must_be("retries_spent", spent, failed);
    let audit = TableAudit::of(&testbed.database).await?;
    audit.must_hold(report);
    report.must_be("dead_letters", audit.dead_letters, 0);
    testbed.must_be_running(report);
    testbed.tear_down().await
}

/// With pauses of a second, of which there are more than it can need.
async fn destination(testbed: &Testbed, name: &str, slots: u32) -> Result<DestinationId> {
    let plan = testbed.destination_with_slots(name, slots);
    let plan = NewDestination { retry_policy: retry_policy(&[1; 20]), ..plan };
    testbed.add_destination(&plan, &[name]).await
}

/// Waits until the breaker has opened so many times in a row.
async fn breaker_step(testbed: &Testbed, destination: DestinationId, step: u64) -> Result<()> {
    let more = format!("and step >= {step}");
    let opened = async || Ok(breakers(testbed, destination, &more).await? > 0);
    wait_until(&format!("the breaker did not open {step} times in a row"), PATIENCE, 10, opened).await
}

/// The breaker's holds of a destination, one for each time that it fell ill.
async fn breakers(testbed: &Testbed, destination: DestinationId, more: &str) -> Result<u64> {
    let id = testbed.database.literal(destination.bytes());
    let sql = format!("select count(*) from holds where destination_id = {id} and reason = 'breaker' {more}");
    testbed.database.number(&sql).await
}

async fn until_delivered(testbed: &Testbed, name: &str, count: u64) -> bool {
    testbed.receiver.wait_for_succeeded_at(name, count, PATIENCE).await;
    testbed.receiver.succeeded_at(name) == count
}
