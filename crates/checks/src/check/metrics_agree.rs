//! Hazard: metrics that lie.
//!
//! Load on nine destinations: well, slow with one slot, failing once, throttling, rejecting, always failing, hanging up,
//! gone, and in order. Everything may drain; one node is stopped and started; load and drain once more. What a node had
//! counted before its stop counts.
//!
//! Holds if the metrics of all nodes together agree exactly with the tables and with the receiver's own count: events,
//! attempts by outcome, retries, deliveries delivered, dead letters by reason; if nothing is in flight, waiting or overdue at
//! the end; if those who had to wait for a slot were counted, once each; and if a scrape takes at most 50 ms.

use std::time::Duration;

use anyhow::Result;
use client::NewDestination;
use domain::destination::Ordering;
use domain::outcome::{DeadReason, Outcome};
use domain::retry::RetryPolicy;
use lab::{Pump, Reply, Script, Until};
use tokio::time::sleep;

use crate::Ask;
use crate::harness::scrape::Scrape;
use crate::harness::{Fleet, Plan, Report, Stage, StoreKind};

const DESTINATIONS: usize = 9;
const SLOTS: u32 = 8;
/// d01.
const SLOW: usize = 1;
/// Told again for so long.
const TOLD: Duration = Duration::from_millis(1_100);
const SCRAPE_MS: f64 = if cfg!(debug_assertions) { 500.0 } else { 50.0 };

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let mut stage = Plan::new(ask, store)?.nodes(ask.nodes(store, 3)).start().await?;
    stage.balanced(Duration::from_secs(30)).await?;
    let fleet = Fleet::assemble_with(&stage, DESTINATIONS, SLOTS, plan).await?;
    for (at, script) in scripts().into_iter().enumerate() {
        stage.receiver.script(&fleet.names[at], script);
    }
    load(ask, &stage, &fleet, &mut report).await?;
    let mut counted = Scrape::of(&stage.members[0]).await?;
    stage.stop().await?;
    stage.start().await?;
    // A lane that changes hands has its waiting counted by both.
    stage.balanced(Duration::from_secs(30)).await?;
    load(ask, &stage, &fleet, &mut report).await?;
    let mut now = Scrape::default();
    for member in &stage.members {
        now.add(&Scrape::of(member).await?);
    }
    counted.add(&now);
    compare(&stage, &counted, &mut report).await?;
    for gauge in [
        "posthaste_delivery_inflight_per_destination",
        "posthaste_queue_depth",
        "posthaste_queue_oldest_seconds",
    ] {
        report.must(now.has(gauge), format!("{gauge} is missing"));
        report.exactly(gauge, now.sum(gauge) as u64, 0u64);
    }
    let denied = |name: &str| {
        counted.with("posthaste_delivery_concurrency_slot_denied_total", "destination_name", name) as u64
    };
    let slow = &fleet.names[SLOW];
    report.note("denied_at_the_slow_one", denied(slow));
    let arrived = stage.receiver.arrivals(slow);
    report
        .must((1..=arrived).contains(&denied(slow)), "not everybody who waited for a slot was counted, once");
    report.at_most("scrape_ms", counted.took.as_secs_f64() * 1e3, SCRAPE_MS);
    stage.strike().await?;
    Ok(report)
}

fn plan(at: usize, plan: NewDestination) -> NewDestination {
    let mut plan = plan;
    match at {
        SLOW => plan.max_concurrency = 1,
        // Two attempts, a second apart.
        5 | 6 => {
            let schedule = vec![Duration::from_secs(1)];
            plan.retry_policy = RetryPolicy { schedule, ..RetryPolicy::default() };
        }
        8 => plan.ordering = Ordering::Strict,
        _ => {}
    }
    plan
}

fn scripts() -> [Script; DESTINATIONS] {
    let at_first = |first: Reply| {
        Script::custom(move |seen| if seen.attempt <= 1 { first.clone() } else { Reply::ok() })
    };
    [
        Script::ok(),
        Reply::ok().after(Duration::from_millis(30)).into(),
        at_first(Reply::status(500)),
        Script::custom(|seen| if seen.arrival % 20 == 7 { Reply::throttled(1) } else { Reply::ok() }),
        Reply::status(400).into(),
        Reply::status(503).into(),
        Reply::Close.into(),
        Reply::status(410).into(),
        Script::ok(),
    ]
}

async fn load(ask: &Ask, stage: &Stage, fleet: &Fleet, report: &mut Report) -> Result<()> {
    let pump = Pump::start(fleet.pump(Until::Elapsed(ask.seconds(4))).open(ask.rate(200.0)))?;
    let sent = pump.report().await;
    report
        .must(sent.refused.is_empty() && sent.unanswered == 0, "some events were refused or never answered");
    let left = stage.quiesce(Duration::from_secs(60)).await?;
    report.exactly("left_in_queue", left, 0u64);
    sleep(TOLD).await;
    Ok(())
}

async fn compare(stage: &Stage, counted: &Scrape, report: &mut Report) -> Result<()> {
    let database = &stage.database;
    let mut agree = |name: String, counted: f64, table: u64| {
        report.note(&name, table);
        report.must(counted as u64 == table, format!("{name}: {counted} counted, {table} in the tables"));
    };
    let events = database.number("select count(*) from events").await?;
    agree("events".into(), counted.sum("posthaste_events_ingested_total"), events);
    let mut attempts = 0;
    for outcome in Outcome::ALL {
        let of = format!("from attempts where number is not null and outcome = '{outcome}'");
        let rows = database.number(&format!("select count(*) {of}")).await?;
        let metric = counted.with("posthaste_delivery_attempts_total", "outcome", outcome.as_str());
        agree(format!("attempts_{outcome}"), metric, rows);
        attempts += rows;
    }
    agree("attempts".into(), counted.sum("posthaste_attempt_duration_seconds_count"), attempts);
    agree("requests".into(), attempts as f64, stage.receiver.total());
    let retried = "select count(*) from attempts where number is not null and ending is null";
    let late = match database.kind() {
        StoreKind::Sqlite => "late = 1",
        StoreKind::Postgres => "late",
    };
    let late = database.number(&format!("{retried} and {late}")).await?;
    agree("late".into(), 0.0, late);
    agree("retries".into(), counted.sum("posthaste_delivery_retries_total"), database.number(retried).await?);
    let delivered = database.number("select count(*) from attempts where ending = 'delivered'").await?;
    agree("delivered".into(), counted.sum("posthaste_delivery_latency_seconds_count"), delivered);
    agree("answered_2xx".into(), delivered as f64, stage.receiver.succeeded());
    for reason in DeadReason::ALL {
        let of = format!("from attempts where ending = 'dead_letter' and reason = '{reason}'");
        let rows = database.number(&format!("select count(*) {of}")).await?;
        let metric = counted.with("posthaste_dead_letters_total", "reason", reason.as_str());
        agree(format!("dead_letters_{reason}"), metric, rows);
    }
    for met in
        ["attempts_server_error", "attempts_throttled", "attempts_network_error", "dead_letters_exhausted"]
    {
        report.must(report.counted(met) > 0, format!("there were no {met}: nothing was tried"));
    }
    Ok(())
}
