//! Hazard: a node that is told to stop drops what it has under way, or goes on as if nothing had been said.
//!
//! Under load, with receivers that take 500 ms and more waiting than their slots hold, the first node gets a SIGTERM;
//! on PostgreSQL a second node is there to go on. Afterwards it is started again, and stopped by two SIGTERMs.
//!
//! Holds if within 200 ms the door is shut or says 503; nothing is started any more; what is under way ends as usual;
//! the process exits with 0 within ten seconds, and nothing is delivered twice; the other node goes on with each lane
//! within a second of its last request. The second SIGTERM ends it within a second, and nothing is lost.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use lab::{Ending, Fault, FaultKind, Pump, Record, Reply, Until};
use tokio::time::sleep;

use crate::Ask;
use crate::harness::audit::{settle_accounts, settle_accounts_of_all};
use crate::harness::ownership::History;
use crate::harness::{Fleet, Plan, Report, Stage, StoreKind, wire};

const DESTINATIONS: usize = 20;
const SLOTS: u32 = 4;
const LATENCY: Duration = Duration::from_millis(500);
const DOOR_MS: f64 = 200.0;
/// A request whose first byte was on its way when the signal came.
const UNDER_WAY_US: u64 = 100_000;
const GONE_WITHIN: f64 = 10.0;
const RESUMED_WITHIN: f64 = 1.0;

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let nodes = ask.nodes(store, 2).min(2);
    let mut stage = Plan::new(ask, store)?.nodes(nodes).start().await?;
    if nodes > 1 {
        stage.balanced(Duration::from_secs(30)).await?;
        History::begin(&stage.database).await?;
    }
    let fleet = Fleet::assemble(&stage, DESTINATIONS, SLOTS).await?;
    stage.receiver.default_script(Reply::ok().after(LATENCY));
    // A third more than the slots can do, so that every lane has work waiting.
    let rate = ask.rate(DESTINATIONS as f64 * f64::from(SLOTS) / LATENCY.as_secs_f64() * 1.3 / 2.0);
    let pump = Pump::start(fleet.pump(Until::Stopped).open(rate))?;
    sleep(ask.seconds(5)).await;

    let pid = stage.node()?.pid();
    let told = Instant::now();
    stage.node()?.terminate().await?;
    let told_us = stage.receiver.now_us();
    report.at_most("door_shut_after_ms", shut(&stage, &fleet, told).await? * 1e3, DOOR_MS);
    let status = stage.node_mut()?.wait(Duration::from_secs(30)).await?;
    let gone = told.elapsed().as_secs_f64();
    report.at_most("gone_after_seconds", gone, GONE_WITHIN);
    report.must(status.is_some_and(|status| status.success()), format!("it ended with {status:?}"));
    let gone_us = stage.receiver.now_us();
    sleep(Duration::from_secs(2)).await;
    judge_stop(&stage, pid, told_us..gone_us, nodes, &mut report);
    let before: u64 = stage.receiver.snapshot().len() as u64;
    report.note("requests_until_the_first_stop", before);

    stage.start().await?;
    sleep(Duration::from_secs(3)).await;
    let pid = stage.node()?.pid();
    let told = Instant::now();
    stage.node()?.terminate().await?;
    sleep(Duration::from_millis(50)).await;
    stage.node()?.terminate().await?;
    let second = Instant::now();
    stage.node_mut()?.wait(Duration::from_secs(30)).await?.context("it did not end")?;
    report.at_most("gone_after_the_second_signal_seconds", second.elapsed().as_secs_f64(), 1.0);
    let mut fault = Fault::new(FaultKind::Kill, stage.receiver.now_us(), Some(pid));
    fault.at_us = fault.at_us.saturating_sub(told.elapsed().as_micros() as u64);
    fault.until_us = Some(stage.receiver.now_us());
    if nodes == 1 {
        fault.sender = None;
    }
    stage.start().await?;
    let sent = pump.finish().await;
    stage.receiver.default_script(Reply::ok());
    let left = stage.quiesce(Duration::from_secs(60)).await?;
    report.exactly("left_in_queue", left, 0u64);
    report
        .must(sent.refused.is_empty() && sent.unanswered == 0, "some events were refused or never answered");
    let promised = fleet.promised(&sent.sent);
    if nodes > 1 {
        let first = Fault::new(FaultKind::Terminate, 0, stage.members[0].runs.first().map(|run| run.0));
        settle_accounts_of_all(&stage, &fleet, promised, vec![first, fault], &mut report).await?;
    } else {
        settle_accounts(&stage, &fleet, promised, vec![fault.at_us, stage.receiver.now_us()], &mut report)
            .await?;
    }
    stage.strike().await?;
    Ok(report)
}

/// How long until the door was shut, or said no.
async fn shut(stage: &Stage, fleet: &Fleet, told: Instant) -> Result<f64> {
    let request = wire::request("POST", &fleet.ingest_path(), &[("x-event-type", "lab.nobody")], b"{}");
    loop {
        let asked = told.elapsed();
        let answer = wire::exchange(stage.addr, &request, Duration::from_secs(5)).await;
        if answer.is_err() || answer.is_ok_and(|answer| matches!(answer.status, None | Some(503))) {
            return Ok(asked.as_secs_f64());
        }
        anyhow::ensure!(told.elapsed() < Duration::from_secs(5), "the door is still open after 5 s");
    }
}

fn judge_stop(stage: &Stage, pid: u32, window: std::ops::Range<u64>, nodes: usize, report: &mut Report) {
    let records = stage.receiver.snapshot();
    // With one node nobody asks who sent.
    let own = |record: &&Record| nodes == 1 || record.sender == Some(pid);
    let started = |record: &&Record| (window.start + UNDER_WAY_US..window.end).contains(&record.start_us);
    report.exactly(
        "started_after_the_signal",
        records.iter().filter(own).filter(started).count() as u64,
        0u64,
    );
    let aborted = records.iter().filter(own).filter(|record| record.ending == Ending::Aborted).count();
    report.exactly("cut_off", aborted as u64, 0u64);
    let mut firsts: HashMap<(&str, &str), u32> = HashMap::new();
    for record in records.iter().filter(|record| record.succeeded()) {
        *firsts.entry((&record.event_id, &record.destination)).or_default() += 1;
    }
    report.exactly("doubled", firsts.values().filter(|count| **count > 1).count() as u64, 0u64);
    if nodes == 1 {
        return;
    }
    // Of each lane that had a request of the stopped node open: from its last end to the other node's first start.
    let mut slowest = 0.0f64;
    let mut lanes = 0;
    for name in stage.receiver.destinations() {
        let here: Vec<&Record> = records.iter().filter(|record| record.destination == name).collect();
        let theirs =
            here.iter().filter(|record| record.sender == Some(pid) && record.end_us >= Some(window.start));
        let Some(last_us) = theirs.filter_map(|record| record.end_us).max() else { continue };
        let next = here.iter().filter(|record| record.sender != Some(pid) && record.start_us >= window.start);
        let next_us = next.map(|record| record.start_us).min();
        let pause = next_us.map_or(f64::INFINITY, |next| next.saturating_sub(last_us) as f64 / 1e6);
        slowest = slowest.max(pause);
        lanes += 1;
    }
    report.note("lanes_handed_over", lanes);
    report.at_most("lane_resumed_after_seconds", slowest, RESUMED_WITHIN);
}
