//! Hazard: the database is away for longer than every lease: the nodes take each other for dead, lanes change hands, and
//! what was delivered meanwhile is delivered again.
//!
//! Three nodes under load; PostgreSQL crashes and comes back after sixty seconds (`--seconds`).
//!
//! Holds if nothing is lost, nothing is doubled but what was cut off in flight, no shard changes hands, no node exits,
//! events are refused with 503 and Retry-After meanwhile, and everybody serves within five seconds afterwards.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use lab::{Ending, Pump, Record, Until};
use tokio::time::sleep;

use crate::Ask;
use crate::harness::outsider::{Outsider, all_accept, only_accepted_or_refused};
use crate::harness::several::{begin, end};
use crate::harness::{Plan, Report, StoreKind};

const UNHURT: Duration = Duration::from_secs(5);
const SERVING_WITHIN: f64 = 5.0;

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let (mut stage, fleet) = begin(Plan::new(ask, store)?.nodes(ask.nodes(store, 3)), 20, 4).await?;
    let server = stage.database.server().context("this check needs PostgreSQL")?.clone();
    let away = ask.seconds(60);
    let mut config = fleet.pump(Until::Stopped).open(ask.rate(500.0));
    config.retry_for = away + Duration::from_secs(60);
    let pump = Pump::start(config)?;
    sleep(UNHURT).await;
    let outsider = Outsider::start(&stage, &fleet, Duration::from_millis(200));
    let shares = stage.shares().await?;
    server.crash().await?;
    let crash_us = stage.receiver.now_us();
    sleep(away).await;
    server.resume().await?;
    let up = Instant::now();
    all_accept(&stage, &fleet, Duration::from_secs(30)).await?;
    report.at_most("serving_again_after_seconds", up.elapsed().as_secs_f64(), SERVING_WITHIN);
    // Longer than a lease: whoever were taken for dead now would show it.
    sleep(Duration::from_secs(12)).await;
    let until_us = stage.receiver.now_us();
    only_accepted_or_refused(&outsider.finish().await?, "answers", &mut report);
    let sent = pump.finish().await;

    let records = stage.receiver.snapshot();
    let cut = |record: &&Record| {
        record.ending == Ending::Aborted
            && record.end_us.is_some_and(|end| end >= crash_us && end <= until_us)
    };
    let cut = records.iter().filter(cut).count() as u64;
    report.note("cut_in_flight", cut);
    let (verdict, history) = end(&mut stage, &fleet, &sent, Vec::new(), &mut report).await?;
    report.must(
        verdict.duplicates <= cut,
        format!("{} duplicates, {cut} requests cut in flight", verdict.duplicates),
    );
    report.exactly("shards_that_changed_hands", history.handovers(crash_us..until_us) as u64, 0u64);
    report.exactly("nodes_replaced", history.losses(&stage, &[]).len() as u64, 0u64);
    report.note("shares", json_pair(&shares, &stage.shares().await?));
    stage.strike().await?;
    Ok(report)
}

fn json_pair(before: &[u64], after: &[u64]) -> serde_json::Value {
    serde_json::json!({ "before": before, "after": after })
}
