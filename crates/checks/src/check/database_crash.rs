//! Hazard: the database crashes.
//!
//! Under load on three nodes, PostgreSQL is stopped without a checkpoint and started again after three seconds, three times
//! (`--count`). An outsider asks the ingest URL all the while.
//!
//! Holds if events are answered 503 with Retry-After while the database is away, never 500; if the node serves
//! within five seconds after the server accepts connections; if nothing is lost, duplicates are within the budget
//! (each crash counts as a moment at which answers may not have been written down), and the node never exits.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use lab::{Fault, FaultKind, Pump, Until};
use tokio::time::sleep;

use crate::Ask;
use crate::harness::outsider::{Outsider, Seen, all_accept};
use crate::harness::several::{begin, end};
use crate::harness::{Plan, Report, StoreKind};

const DESTINATIONS: usize = 20;
const AWAY: Duration = Duration::from_secs(3);
const UNHURT: Duration = Duration::from_secs(5);
const SERVING_WITHIN: f64 = 5.0;

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let (mut stage, fleet) =
        begin(Plan::new(ask, store)?.nodes(ask.nodes(store, 3)), DESTINATIONS, 4).await?;
    let server = stage.database.server().context("this check needs PostgreSQL")?.clone();

    let pump = Pump::start(fleet.pump(Until::Stopped).open(ask.rate(500.0)))?;
    let (mut crashes, mut slowest, mut seen) = (Vec::new(), Duration::ZERO, Vec::new());
    for _ in 0..ask.count(3) {
        sleep(ask.seconds(UNHURT.as_secs())).await;
        let outsider = Outsider::start(&stage, &fleet, Duration::from_millis(100));
        let mut crash = Fault::of_all(FaultKind::DatabaseAway, stage.receiver.now_us());
        server.crash().await?;
        let away_since = Instant::now();
        sleep(AWAY).await;
        let away_until = Instant::now();
        server.resume().await?;
        crash.until_us = Some(stage.receiver.now_us());
        crashes.push(crash);
        slowest = slowest.max(all_accept(&stage, &fleet, Duration::from_secs(20)).await?);
        let meanwhile = |seen: &Seen| seen.asked > away_since && seen.asked + seen.took < away_until;
        seen.extend(outsider.finish().await?.into_iter().filter(meanwhile));
    }
    sleep(Duration::from_secs(1)).await;
    let sent = pump.finish().await;
    report.note("crashes", crashes.len());
    report.note("asked_while_away", seen.len());
    let wrong: Vec<_> = seen.iter().filter(|seen| !seen.refused()).map(|seen| seen.status).collect();
    report.must(wrong.is_empty(), format!("answered while the database was away: {wrong:?}"));
    report.at_most("slowest_recovery_seconds", slowest.as_secs_f64(), SERVING_WITHIN);
    end(&mut stage, &fleet, &sent, crashes, &mut report).await?;
    stage.strike().await?;
    Ok(report)
}
