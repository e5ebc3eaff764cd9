//! Hazard: events that were acknowledged are lost when the process dies.
//!
//! Load on twenty destinations of four slots, one of which answers 500 for the first ten seconds; every two seconds
//! the node is killed (SIGKILL) and started again at once; then everything may drain.
//!
//! Holds if nothing is lost, duplicates stay within what was open or unwritten at the kills, no destination ever has
//! more requests open than its limit, and every restart serves within a second.

use std::time::{Duration, Instant};

use anyhow::Result;
use lab::{Latency, Pump, Reply, Script, Until};
use tokio::time::sleep_until;

use crate::Ask;
use crate::harness::audit::settle_accounts;
use crate::harness::{Fleet, Plan, Report, StoreKind};

const DESTINATIONS: usize = 20;
const SLOTS: u32 = 4;
const KILL_EVERY: Duration = Duration::from_secs(2);
/// The promise is the release build's; a debug build on a busy machine has more time.
const SERVING_WITHIN: f64 = if cfg!(debug_assertions) { 4.0 } else { 1.0 };

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let span = ask.seconds(30);
    let mut stage = Plan::new(ask, store)?.start().await?;
    let fleet = Fleet::assemble(&stage, DESTINATIONS, SLOTS).await?;
    // Slow enough that every kill finds requests open.
    let latency = Latency::Uniform { from: Duration::from_millis(5), to: Duration::from_millis(40) };
    let well = Reply::ok().after(latency);
    stage.receiver.default_script(well.clone());
    let ill = Reply::status(500).after(latency);
    let until = Instant::now() + (span / 3).min(Duration::from_secs(10));
    stage.receiver.script(&fleet.names[DESTINATIONS - 1], Script::FailUntil { until, fail: ill, then: well });

    let pump = Pump::start(fleet.pump(Until::Elapsed(span)).open(ask.rate(500.0)))?;
    let began = tokio::time::Instant::now();
    let (mut kills, mut slowest) = (Vec::new(), Duration::ZERO);
    while began.elapsed() + KILL_EVERY < span {
        sleep_until(began + KILL_EVERY * (kills.len() as u32 + 1)).await;
        kills.push(stage.kill().await?);
        slowest = slowest.max(stage.start().await?);
    }
    let sent = pump.report().await;
    let left = stage.quiesce(Duration::from_secs(60)).await?;
    report.exactly("left_in_queue", left, 0u64);
    report.note("kills", kills.len());
    report.at_most("slowest_restart_seconds", slowest.as_secs_f64(), SERVING_WITHIN);
    report.note("pump", &sent);
    report
        .must(sent.refused.is_empty() && sent.unanswered == 0, "some events were refused or never answered");
    settle_accounts(&stage, &fleet, fleet.promised(&sent.sent), kills, &mut report).await?;
    stage.strike().await?;
    Ok(report)
}
