//! B03. Hazard: the database crashes.
//!
//! Under load, PostgreSQL is stopped without a checkpoint and started again after three seconds, three times
//! (`--count`). An outsider asks the ingest URL all the while.
//!
//! Holds if events are answered 503 with Retry-After while the database is away, never 500; if the node serves
//! within five seconds after the server accepts connections; if nothing is lost, duplicates are within the budget
//! (each crash counts as a moment at which answers may not have been written down), and the node never exits.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use lab::{Latency, Pump, Reply, Until};
use tokio::time::sleep;

use crate::Ask;
use crate::harness::audit::settle_accounts;
use crate::harness::{Fleet, Plan, Report, Stage, StoreKind, wire};

const DESTINATIONS: usize = 20;
const AWAY: Duration = Duration::from_secs(3);
const UNHURT: Duration = Duration::from_secs(5);
const SERVING_WITHIN: f64 = 5.0;

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let mut stage = Plan::new(ask, store)?.start().await?;
    let server = stage.database.server().context("this check needs PostgreSQL")?.clone();
    let fleet = Fleet::assemble(&stage, DESTINATIONS, 4).await?;
    let latency = Latency::Uniform { from: Duration::from_millis(5), to: Duration::from_millis(40) };
    stage.receiver.default_script(Reply::ok().after(latency));

    let pump = Pump::start(fleet.pump(Until::Stopped).open(ask.rate(500.0)))?;
    let (mut crashes, mut slowest) = (Vec::new(), Duration::ZERO);
    let mut answers = Vec::new();
    for _ in 0..ask.count(3) {
        sleep(ask.seconds(UNHURT.as_secs())).await;
        server.crash().await?;
        crashes.push(stage.receiver.now_us());
        let deadline = Instant::now() + AWAY;
        while Instant::now() < deadline {
            answers.push(ask_ingest(&stage, &fleet).await?);
            sleep(Duration::from_millis(100)).await;
        }
        server.resume().await?;
        let up = Instant::now();
        while ask_ingest(&stage, &fleet).await?.status != Some(202) && up.elapsed() < Duration::from_secs(20)
        {
            sleep(Duration::from_millis(20)).await;
        }
        slowest = slowest.max(up.elapsed());
    }
    sleep(Duration::from_secs(1)).await;
    let sent = pump.finish().await;
    let left = stage.quiesce(Duration::from_secs(60)).await?;
    report.exactly("left_in_queue", left, 0u64);
    report.note("crashes", crashes.len());
    report.note("asked_while_away", answers.len());
    let refused = |answer: &&wire::Answer| {
        answer.status == Some(503)
            && answer.header("retry-after").is_some_and(|value| value.parse::<u64>().is_ok())
    };
    let wrong: Vec<_> =
        answers.iter().filter(|answer| !refused(answer)).map(|answer| answer.status).collect();
    report.must(wrong.is_empty(), format!("answered while the database was away: {wrong:?}"));
    report.at_most("slowest_recovery_seconds", slowest.as_secs_f64(), SERVING_WITHIN);
    report.note("pump", &sent);
    report
        .must(sent.refused.is_empty() && sent.unanswered == 0, "some events were refused or never answered");
    report.must(stage.is_running(), "the node exited");
    settle_accounts(&stage, &fleet, fleet.promised(&sent.sent), crashes, &mut report).await?;
    stage.strike().await?;
    Ok(report)
}

/// An event of a type that nobody wants.
async fn ask_ingest(stage: &Stage, fleet: &Fleet) -> Result<wire::Answer> {
    let request = wire::request("POST", &fleet.ingest_path(), &[("x-event-type", "lab.nobody")], b"{}");
    Ok(wire::exchange(stage.addr, &request, Duration::from_secs(10)).await?)
}
