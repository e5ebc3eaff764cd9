//! Hazard: a node that is told to stop drops what it has under way, or goes on as if nothing had been said.
//!
//! Under load, with receivers that take 500 ms and more waiting than their slots hold, the first node gets a SIGTERM;
//! on PostgreSQL a second node is there to go on. Afterwards it is started again, and stopped by two SIGTERMs.
//!
//! Holds if within 200 ms the door is shut or says 503; nothing is started any more; what is under way ends as usual;
//! the process exits with 0 within ten seconds, and nothing is delivered twice; the other node goes on with each lane
//! within a second of its last request. The second SIGTERM ends it within a second, and nothing is lost.

use std::collections::HashMap;

use lab::RequestEnd;

use crate::harness::audit::settle_accounts_of_all;
use crate::harness::multi_node::start_watched;
use crate::harness::prelude::*;

const DESTINATIONS: usize = 20;
const SLOTS: u32 = 4;
const LATENCY: Duration = Duration::from_millis(500);
const DOOR_MS: f64 = 200.0;
/// A request whose first byte was on its way when the signal came.
const UNDER_WAY_US: u64 = 100_000;
const GONE_WITHIN: f64 = 10.0;
const RESUMED_WITHIN: f64 = 1.0;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let nodes = options.nodes(2).min(2);
    let plan = TestbedPlan::new(options)?.nodes(nodes);
    let mut testbed = if nodes > 1 { start_watched(plan).await? } else { plan.start().await? };
    let source = RoutedSource::make(&testbed, DESTINATIONS, SLOTS).await?;
    testbed.receiver.default_script(Reply::ok().after(LATENCY));
    // A third more than the slots can do, so that every lane has work waiting.
    let rate = options.rate(DESTINATIONS as f64 * f64::from(SLOTS) / LATENCY.as_secs_f64() * 1.3 / 2.0);
    let pump = Pump::start(source.pump(Until::Stopped).open(rate))?;
    sleep(options.seconds(5)).await;

    let pid = testbed.process()?.pid();
    let told = Instant::now();
    testbed.process()?.terminate().await?;
    let told_us = testbed.receiver.now_us();
    report.must_be_at_most("door_shut_after_ms", shut(&testbed, &source, told).await? * 1e3, DOOR_MS);
    let status = testbed.process_mut()?.wait(Duration::from_secs(30)).await?;
    let gone = told.elapsed().as_secs_f64();
    report.must_be_at_most("gone_after_seconds", gone, GONE_WITHIN);
    report.must(status.is_some_and(|status| status.success()), format!("it ended with {status:?}"));
    let gone_us = testbed.receiver.now_us();
    sleep(Duration::from_secs(2)).await;
    judge_stop(&testbed, pid, told_us..gone_us, nodes, report);
    let before: u64 = testbed.receiver.snapshot().len() as u64;
    report.note("requests_until_the_first_stop", before);

    testbed.start().await?;
    sleep(Duration::from_secs(3)).await;
    let pid = testbed.process()?.pid();
    let told = Instant::now();
    testbed.process()?.terminate().await?;
    sleep(Duration::from_millis(50)).await;
    testbed.process()?.terminate().await?;
    let second = Instant::now();
    testbed.process_mut()?.wait(Duration::from_secs(30)).await?.context("it did not end")?;
    report.must_be_at_most("gone_after_the_second_signal_seconds", second.elapsed(), 1.0);
    let mut fault = Fault::new(FaultKind::Kill, testbed.receiver.now_us(), Some(pid));
    fault.at_us = fault.at_us.saturating_sub(told.elapsed().as_micros() as u64);
    fault.until_us = Some(testbed.receiver.now_us());
    if nodes == 1 {
        fault.sender = None;
    }
    testbed.start().await?;
    let sent = pump.finish().await;
    testbed.receiver.default_script(Reply::ok());
    report.must_all_be_accepted(&sent);
    if nodes > 1 {
        let first = Fault::new(FaultKind::Terminate, 0, testbed.nodes[0].runs.first().map(|run| run.0));
        settle_accounts_of_all(&testbed, &source, source.evidence(&sent, vec![first, fault]), report).await?;
    } else {
        settle_accounts(&testbed, &source, source.evidence(&sent, vec![fault]), report).await?;
    }
    testbed.tear_down().await
}

/// How long until the door was shut, or said no.
async fn shut(testbed: &Testbed, source: &RoutedSource, told: Instant) -> Result<f64> {
    let request = source.ingest_request("lab.nobody", b"{}");
    loop {
        let asked = told.elapsed();
        let answer = raw_http::exchange(testbed.addr, &request, Duration::from_secs(5)).await;
        if answer.is_err() || answer.is_ok_and(|answer| matches!(answer.status, None | Some(503))) {
            return Ok(asked.as_secs_f64());
        }
        anyhow::ensure!(told.elapsed() < Duration::from_secs(5), "the door is still open after 5 s");
    }
}

fn judge_stop(testbed: &Testbed, pid: u32, window: std::ops::Range<u64>, nodes: usize, report: &mut Report) {
    let records = testbed.receiver.snapshot();
    // With one node the receiver does not look for the sender.
    let own = |record: &&Record| nodes == 1 || record.sender == Some(pid);
    let started = |record: &&Record| (window.start + UNDER_WAY_US..window.end).contains(&record.start_us);
    report.must_be(
        "started_after_the_signal",
        records.iter().filter(own).filter(started).count() as u64,
        0u64,
    );
    let aborted = records.iter().filter(own).filter(|record| record.end == RequestEnd::Aborted).count();
    report.must_be("cut_off", aborted, 0);
    let mut firsts: HashMap<(&str, &str), u32> = HashMap::new();
    for record in records.iter().filter(|record| record.succeeded()) {
        *firsts.entry((&record.event_id, &record.destination)).or_default() += 1;
    }
    report.must_be("doubled", firsts.values().filter(|count| **count > 1).count(), 0);
    if nodes == 1 {
        return;
    }
    // Of each lane that had a request of the stopped node open: from its last end to the other node's first start.
    let mut slowest = 0.0f64;
    let mut lanes = 0;
    for name in testbed.receiver.destinations() {
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
    report.must_be_at_most("lane_resumed_after_seconds", slowest, RESUMED_WITHIN);
}
