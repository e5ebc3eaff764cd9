//! Hazard: the disk says that a flush failed, and the node goes on as if it had not: the pages are marked clean,
//! and the next flush succeeds without them.
//!
//! Under load, the Nth flush of a running node is made to fail with EIO, for N from 1 to 30 (`--count` takes so many
//! of them, spread evenly).
//!
//! Holds if each time the node stops taking events (503, and not ready) or exits with an error within a second, never
//! flushes its log again, acknowledges nothing in between, and after a restart nothing acknowledged is lost.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use lab::process::get_status;
use lab::{Pump, Sent, Until};
use tokio::time::sleep;

use crate::Ask;
use crate::harness::audit::settle_accounts;
use crate::harness::strace::{Call, Strace};
use crate::harness::{Fleet, Plan, Report, Stage, StoreKind, wire};

const LAST: u64 = 30;
/// An answer may be on its way when the flush fails: that of the flush before.
const UNDER_WAY_US: u64 = 20_000;

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let count = ask.count(LAST).clamp(1, LAST);
    let mut slowest = Duration::ZERO;
    for step in 1..=count {
        let n = step * LAST / count;
        let (took, part) = one_failure(ask, store, n).await.with_context(|| format!("flush {n}"))?;
        slowest = slowest.max(took);
        report.must(part.holds(), format!("flush {n}: {part}"));
    }
    report.note("failures", count);
    report.note("slowest_to_notice_ms", slowest.as_millis() as u64);
    Ok(report)
}

async fn one_failure(ask: &Ask, store: StoreKind, n: u64) -> Result<(Duration, Report)> {
    let mut part = Report::default();
    let mut stage = Plan::new(ask, store)?.start().await?;
    let fleet = Fleet::assemble(&stage, 3, 4).await?;
    let inject = format!("inject=fdatasync,fsync:error=EIO:when={n}");
    let strace = Strace::attach(&stage, &["-e", "trace=fdatasync,fsync", "-e", &inject]).await?;
    let pump = Pump::start(fleet.pump(Until::Stopped).open(ask.rate(50.0)))?;

    let failure = injected(&strace).await?;
    let failed_us = failure.at_us.saturating_sub(lab::clock::unix_us() - stage.receiver.now_us());
    let noticed = refuses(&mut stage, &fleet).await?;
    let noticed_us = stage.receiver.now_us();
    part.must(noticed.is_some(), "it neither refused events nor exited within a second");
    // Time enough to flush again, if it were to.
    sleep(Duration::from_millis(300)).await;
    let alive_until = lab::clock::unix_us();
    let kill = stage.kill().await?;
    let calls = strace.calls()?;
    let again = calls.iter().filter(|call| call.is_flush() && call.of_log() && call.began > failure.ended);
    part.exactly("flushes_after_the_failure", again.count() as u64, 0u64);

    stage.start().await?;
    sleep(Duration::from_millis(300)).await;
    let sent = pump.finish().await;
    let left = stage.quiesce(Duration::from_secs(30)).await?;
    part.exactly("left_in_queue", left, 0u64);
    let in_between = |sent: &&Sent| {
        sent.acked() && (failure.at_us + UNDER_WAY_US..alive_until).contains(&sent.answered_us())
    };
    part.exactly("acknowledged_in_between", sent.sent.iter().filter(in_between).count() as u64, 0u64);
    // From the failure on, what was answered could not be written down.
    let (promised, lost_words) = (fleet.promised(&sent.sent), vec![failed_us, noticed_us, kill]);
    settle_accounts(&stage, &fleet, promised, lost_words, &mut part).await?;
    stage.strike().await?;
    Ok((noticed.unwrap_or_default(), part))
}

async fn injected(strace: &Strace) -> Result<Call> {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let calls = strace.calls().unwrap_or_default();
        if let Some(call) = calls.into_iter().find(|call| call.text.contains("(INJECTED)")) {
            return Ok(call);
        }
        ensure!(Instant::now() < deadline, "the flush to fail never came");
        sleep(Duration::from_millis(5)).await;
    }
}

/// How long it took until the node was gone, or refused events and said that it is not ready.
async fn refuses(stage: &mut Stage, fleet: &Fleet) -> Result<Option<Duration>> {
    let began = Instant::now();
    let second = Duration::from_secs(1);
    let request = wire::request("POST", &fleet.ingest_path(), &[("x-event-type", "probe")], b"{}");
    while began.elapsed() < second {
        if !stage.is_running() {
            return Ok(Some(began.elapsed()));
        }
        let ready = get_status(stage.addr, "/readyz", second).await.ok();
        let ingest = wire::exchange(stage.addr, &request, second).await.ok().and_then(|answer| answer.status);
        if ready == Some(503) && ingest == Some(503) {
            return Ok(Some(began.elapsed()));
        }
        sleep(Duration::from_millis(10)).await;
    }
    Ok(None)
}
