//! Hazard: two processes on one data folder.
//!
//! While a node runs under load, a second one is started on the same folder.
//!
//! Holds if the second exits with code 5 within two seconds, and the first neither loses nor refuses anything nor
//! logs a word about it.

use std::time::{Duration, Instant};

use anyhow::Result;
use lab::{Pump, Until};
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use crate::Ask;
use crate::harness::audit::settle_accounts;
use crate::harness::stage::free_addr;
use crate::harness::{Fleet, Plan, Report, StoreKind};

const IN_USE: i32 = 5;

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let mut stage = Plan::new(ask, store)?.start().await?;
    let fleet = Fleet::assemble(&stage, 2, 4).await?;
    let said_before = stage.log();
    let pump = Pump::start(fleet.pump(Until::Stopped).open(ask.rate(50.0)))?;
    sleep(Duration::from_secs(1)).await;

    let began = Instant::now();
    let second = Command::new(&stage.launch().binary)
        .args(&stage.launch().args)
        .envs(stage.launch().env.iter().map(|(name, value)| (name, value)))
        .env("POSTHASTE_LISTEN", free_addr()?.to_string())
        .kill_on_drop(true)
        .output();
    let second = timeout(Duration::from_secs(10), second).await??;
    report.at_most("second_exits_after_seconds", began.elapsed().as_secs_f64(), 2.0);
    report.note("second_exit_code", second.status.code());
    report.note("second_says", String::from_utf8_lossy(&second.stderr).trim().to_owned());
    report.must(second.status.code() == Some(IN_USE), "the second does not exit with 5");

    sleep(Duration::from_secs(1)).await;
    let sent = pump.finish().await;
    let left = stage.quiesce(Duration::from_secs(30)).await?;
    report.exactly("left_in_queue", left, 0u64);
    report.must(stage.is_running(), "the first node died");
    report.must(sent.accepted == sent.offered && sent.retries == 0, "the first node refused events");
    report.must(stage.log() == said_before, "the first node has something to say about it");
    settle_accounts(&stage, &fleet, fleet.promised(&sent.sent), Vec::new(), &mut report).await?;
    stage.strike().await?;
    Ok(report)
}
