//! Hazard: order is lost when something fails, or when a lane changes hands; or one that is blocked blocks the others.
//!
//! Three nodes, five destinations with strict order and fifteen without, a hundred events a second. For five seconds all is
//! well, then for five seconds one of the ordered answers 503, three times over. Then every receiver fails one request in
//! five and lets one in fifty hang, until the end, and every three seconds a node, drawn by a seed, is killed (SIGKILL) and
//! started again a second later, for forty seconds (`--seconds`).
//!
//! Holds if at the ordered ones nothing arrives for the first time after something that was committed later, no two of
//! their requests are ever open together, everything drains, nothing is lost, and duplicates stay within what the killed
//! had open or unwritten; and if while the one is blocked the p99 of all others is at most a fifth above what it is
//! otherwise (medians of three).

use std::time::Duration;

use anyhow::Result;
use client::NewDestination;
use domain::destination::Ordering;
use domain::retry::RetryPolicy;
use lab::nemesis::{Act, Schedule};
use lab::{Histogram, Latency, Pump, PumpConfig, Reply, Script, Until};
use tokio::time::{Instant, sleep, sleep_until};

use crate::Ask;
use crate::harness::audit::settle_accounts_of_all;
use crate::harness::others::median;
use crate::harness::ownership::History;
use crate::harness::report::rounded;
use crate::harness::{Fleet, Plan, Report, Stage, StoreKind};

const ORDERED: usize = 5;
const DESTINATIONS: usize = 20;
const SLOTS: u32 = 4;
const BLOCKED: &str = "d00";
const PAIRS: usize = 3;
const SPAN: Duration = Duration::from_secs(5);
const FAILS: f64 = 0.2;
const HANGS: f64 = 0.02;
const EVERY: Duration = Duration::from_secs(3);
const DOWN: Duration = Duration::from_secs(1);
/// An ordered destination that pauses for a second at every failure ends about three deliveries in that time.
const DRAINED_WITHIN: Duration = Duration::from_secs(120);
const TOLERANCE: f64 = 1.2;
/// So much more is the machine's own scheduler and disk, at the five worst of five hundred.
const FLOOR_MS: f64 = 10.0;

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let nodes = ask.nodes(store, 3);
    let mut stage = Plan::new(ask, store)?.nodes(nodes).start().await?;
    stage.balanced(Duration::from_secs(30)).await?;
    History::begin(&stage.database).await?;
    let fleet = Fleet::assemble_with(&stage, DESTINATIONS, SLOTS, kind).await?;
    let latency = Latency::Uniform { from: Duration::from_millis(5), to: Duration::from_millis(40) };
    let well = Reply::ok().after(latency);
    stage.receiver.default_script(well.clone());
    let types = fleet.names.iter().map(|name| format!("lab.{name}")).collect();
    let config = fleet.pump(Until::Stopped).open(ask.rate(100.0));
    let pump = Pump::start(PumpConfig { event_types: types, ..config })?;

    sleep(Duration::from_secs(2)).await;
    let (mut well_ms, mut blocked_ms) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        well_ms.push(p99_of_others(&stage, &fleet).await);
        stage.receiver.script(BLOCKED, Reply::status(503));
        blocked_ms.push(p99_of_others(&stage, &fleet).await);
        stage.receiver.script(BLOCKED, well.clone());
    }
    report.note("each_p99_ms_of_the_others", &well_ms);
    report.note("each_p99_ms_beside_a_blocked_one", &blocked_ms);
    let limit_ms = median(well_ms) * TOLERANCE + FLOOR_MS;
    report.at_most("p99_ms_beside_a_blocked_one", median(blocked_ms), limit_ms);

    let unwell = move |_: &lab::Seen<'_>| match rand::random::<f64>() {
        dice if dice < HANGS => Reply::Hang,
        dice if dice < HANGS + FAILS => Reply::status(503).after(latency),
        _ => well.clone(),
    };
    stage.receiver.default_script(Script::custom(unwell.clone()));
    stage.receiver.script(BLOCKED, Script::custom(unwell));
    let act = Act::Kill { down: DOWN };
    let schedule = Schedule::every(ask.seed(), EVERY, ask.seconds(40), nodes, act);
    report.note("seed", schedule.seed);
    let (began, mut faults) = (Instant::now(), Vec::new());
    for planned in &schedule.acts {
        sleep_until(began + planned.at).await;
        faults.push(stage.kill_one(planned.node).await?);
        sleep(DOWN).await;
        stage.start_one(planned.node).await?;
    }
    sleep_until(began + ask.seconds(40)).await;
    let sent = pump.finish().await;
    report.note("pump", &sent);
    report
        .must(sent.refused.is_empty() && sent.unanswered == 0, "some events were refused or never answered");
    report.note("kills", faults.len());
    let ended = Instant::now();
    let left = stage.quiesce(DRAINED_WITHIN).await?;
    report.exactly("left_in_queue", left, 0u64);
    report.note("drained_after_seconds", rounded(ended.elapsed().as_secs_f64()));
    report.must(stage.all_running(), "a node exited");

    let promised = fleet.promised_singly(&sent.sent);
    let (verdict, _) = settle_accounts_of_all(&stage, &fleet, promised, faults, &mut report).await?;
    report.exactly("inversions", verdict.inversions, 0u64);
    report.exactly("dead_letters", verdict.dead_lettered, 0u64);
    let most = fleet.ordered.iter().map(|name| stage.receiver.max_open(name)).max().unwrap_or(0);
    report.exactly("most_open_at_an_ordered_one", most, 1u32);
    let records = stage.receiver.snapshot();
    let ordered = records.iter().filter(|record| fleet.ordered.contains(&record.destination));
    let unnumbered = ordered.filter(|record| record.sequence.is_none()).count() as u64;
    report.exactly("ordered_requests_without_a_sequence", unnumbered, 0u64);
    stage.strike().await?;
    Ok(report)
}

/// Pauses of a second, so that they drain while a fifth of everything fails; the first few with order.
fn kind(at: usize, plan: NewDestination) -> NewDestination {
    NewDestination {
        ordering: if at < ORDERED { Ordering::Strict } else { Ordering::None },
        timeout_seconds: 1,
        retry_policy: RetryPolicy { schedule: vec![Duration::from_secs(1); 20], ..RetryPolicy::default() },
        ..plan
    }
}

/// From post to first arrival, of what arrives from now on at all but the one that is blocked.
async fn p99_of_others(stage: &Stage, fleet: &Fleet) -> f64 {
    let from_us = stage.receiver.now_us();
    sleep(SPAN).await;
    let others = fleet.names.iter().filter(|name| ***name != *BLOCKED);
    let mut all = Histogram::default();
    for name in others {
        let records = stage.receiver.records(name);
        let since = records.iter().filter(|record| record.start_us >= from_us && record.attempt <= 1);
        all.merge(&since.filter_map(|record| record.end_to_end_us).collect());
    }
    rounded(all.percentile_us(99.0) as f64 / 1e3)
}
