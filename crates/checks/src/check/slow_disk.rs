//! Hazard: a disk on which a flush takes 200 ms: requests pile up until the memory is gone.
//!
//! strace delays every `fdatasync` of the node by 200 ms; 500 events a second come in for thirty seconds, each sent
//! once, to five destinations.
//!
//! Holds if what is accepted is accepted within two seconds (99th percentile), what is not gets 503, the node stays
//! below 512 MiB, and nothing accepted is lost. Needs strace.

use std::time::Duration;

use anyhow::Result;
use lab::{Pump, Until};
use tokio::time::sleep;

use crate::Ask;
use crate::harness::audit::settle_accounts;
use crate::harness::strace::Strace;
use crate::harness::{Fleet, Plan, Report, StoreKind};

const DELAY: &str = "inject=fdatasync:delay_enter=200000";
const WITHIN_SECONDS: f64 = 2.0;
const MEMORY_MIB: f64 = 512.0;

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let span = ask.seconds(30);
    let mut stage = Plan::new(ask, store)?.start().await?;
    let fleet = Fleet::assemble(&stage, 5, 20).await?;
    let strace = Strace::attach(&stage, &["-e", "trace=fdatasync", "-e", DELAY]).await?;

    let mut config = fleet.pump(Until::Elapsed(span)).open(ask.rate(500.0)).connections(1_024);
    config.retry_for = Duration::ZERO;
    let pump = Pump::start(config)?;
    let mut most = 0;
    for _ in 0..span.as_millis() / 100 {
        sleep(Duration::from_millis(100)).await;
        most = most.max(stage.node()?.rss_bytes()?);
    }
    let sent = pump.report().await;
    let calls = strace.detach().await?;
    report.note("slow_flushes", calls.iter().filter(|call| call.is_flush()).count());
    report.must(calls.iter().any(|call| call.text.contains("(DELAYED)")), "no flush was delayed");
    report.note("pump", &sent);
    report.at_least("accepted", sent.accepted as f64, 1.0);
    report.at_most("accepted_p99_seconds", sent.latency.percentile_us(99.0) as f64 / 1e6, WITHIN_SECONDS);
    report.at_most("most_memory_mib", most as f64 / f64::from(1 << 20), MEMORY_MIB);
    let wrong = sent.refused.iter().filter(|(status, _)| **status != 503).count() as u64;
    report.exactly("other_answers", wrong + sent.unanswered, 0u64);
    let left = stage.quiesce(Duration::from_secs(60)).await?;
    report.exactly("left_in_queue", left, 0u64);
    report.must(stage.is_running(), "the node exited");
    settle_accounts(&stage, &fleet, fleet.promised(&sent.sent), Vec::new(), &mut report).await?;
    stage.strike().await?;
    Ok(report)
}
