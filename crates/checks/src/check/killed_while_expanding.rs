//! Hazard: a node dies while the deliveries of a large event are being made, and some are missing, or there twice.
//!
//! 5,000 destinations. One event for all of them at a time; at a random moment while its deliveries are made the node
//! is killed (SIGKILL) and started again. Repeated until twenty kills (`--count`) have met an expansion under way.
//!
//! Holds if every event that was acknowledged has one delivery for each destination, none missing and none twice, and
//! all of them arrive.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use domain::id::EventId;
use lab::Recording;
use tokio::time::sleep;

use crate::Ask;
use crate::harness::report::rounded;
use crate::harness::{Audit, Plan, Report, Stage, StoreKind, crowd};

const DESTINATIONS: usize = 5_000;
/// A kill that comes too late meets nothing: so many more events are tried.
const TRIES_A_KILL: u64 = 5;

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let mut stage = Plan::new(ask, store)?.start().await?;
    stage.receiver.recording(Recording::Counts);
    stage.stop().await?;
    crowd::assemble(&stage, DESTINATIONS).await?;
    stage.start().await?;

    let kills = ask.count(20);
    let (mut events, mut met) = (Vec::new(), 0);
    // Without a kill first: how long it takes.
    let began = Instant::now();
    events.push(publish(&stage).await?);
    until_expanded(&stage).await?;
    let usual = began.elapsed();
    report.note("usual_seconds", rounded(usual.as_secs_f64()));
    while met < kills && (events.len() as u64) < kills * TRIES_A_KILL {
        quiet(&stage).await?;
        events.push(publish(&stage).await?);
        sleep(usual.mul_f64(rand::random::<f64>())).await;
        stage.kill().await?;
        met += u64::from(crowd::expanding(&stage.database).await? > 0);
        stage.start().await?;
        until_expanded(&stage).await?;
    }
    report.note("events", events.len());
    report.exactly("kills_that_met_an_expansion", met, kills);
    judge(&stage, &events, &mut report).await?;
    stage.strike().await?;
    Ok(report)
}

/// The same with a death at a named place in the code; says whether it was reached so often.
pub(crate) async fn died_at(ask: &Ask, store: StoreKind, place: &str, at_hit: u64) -> Result<(bool, Report)> {
    let mut report = Report::default();
    let mut stage = Plan::with_failpoints(ask, store)?.start().await?;
    stage.receiver.recording(Recording::Counts);
    stage.stop().await?;
    crowd::assemble(&stage, DESTINATIONS).await?;
    stage.set_env("POSTHASTE_FAIL", Some(&format!("{place}:abort:{at_hit}")));
    stage.start().await?;
    let event = publish(&stage).await?;
    let died = stage.wait_for_end(Duration::from_secs(20)).await;
    stage.set_env("POSTHASTE_FAIL", None);
    if !died {
        stage.stop().await?;
    }
    stage.start().await?;
    until_expanded(&stage).await?;
    judge(&stage, &[event], &mut report).await?;
    stage.strike().await?;
    Ok((died, report))
}

async fn judge(stage: &Stage, events: &[EventId], report: &mut Report) -> Result<()> {
    let (mut missing, mut twice) = (0, 0);
    for event in events {
        let (deliveries, destinations) = crowd::made(&stage.database, *event).await?;
        missing += DESTINATIONS as u64 - destinations;
        twice += deliveries - destinations;
    }
    report.exactly("missing", missing, 0u64);
    report.exactly("twice", twice, 0u64);
    report.exactly("left_in_queue", stage.quiesce(Duration::from_secs(120)).await?, 0u64);
    let audit = Audit::of(&stage.database).await?;
    audit.rules(report);
    report.exactly("delivered", audit.delivered, (DESTINATIONS * events.len()) as u64);
    Ok(())
}

async fn publish(stage: &Stage) -> Result<EventId> {
    let accepted = crowd::publish(stage).await.context("an event for all")?;
    ensure!(accepted.deliveries.is_none() && accepted.expanding, "it was answered {accepted:?}");
    Ok(accepted.id)
}

async fn until_expanded(stage: &Stage) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(30);
    while crowd::expanding(&stage.database).await? > 0 {
        ensure!(Instant::now() < deadline, "an expansion is not done after 30 s");
        sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

/// A backlog would slow the next expansion down, and the kill would come too early.
async fn quiet(stage: &Stage) -> Result<()> {
    let left = stage.quiesce(Duration::from_secs(60)).await?;
    ensure!(left == 0, "{left} deliveries wait after a minute");
    Ok(())
}
