//! Hazard: the disk says that a flush failed, and the node goes on as if it had not: the pages are marked clean,
//! and the next flush succeeds without them.
//!
//! Under load, the Nth flush of a running node is made to fail with EIO, for N from 1 to 30 (`--count` takes so many
//! of them, spread evenly).
//!
//! Holds if each time the node stops taking events (503, and not ready) or exits with an error within a second, never
//! flushes its log again, acknowledges nothing in between, and after a restart nothing acknowledged is lost.

use lab::Sent;
use lab::process::get_status;

use crate::harness::prelude::*;
use crate::harness::strace::{Strace, SystemCall};

const LAST: u64 = 30;
/// An answer may be on its way when the flush fails: that of the flush before.
const UNDER_WAY_US: u64 = 20_000;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let count = options.count(LAST).clamp(1, LAST);
    let mut slowest = Duration::ZERO;
    for step in 1..=count {
        let n = step * LAST / count;
        let (took, part) = one_failure(options, n).await.with_context(|| format!("flush {n}"))?;
        slowest = slowest.max(took);
        report.must_hold(&format!("flush {n}"), &part);
    }
    report.note("failures", count);
    report.note("slowest_to_notice_ms", slowest.as_millis() as u64);
    Ok(())
}

async fn one_failure(options: &Options, n: u64) -> Result<(Duration, Report)> {
    let mut part = Report::default();
    let mut testbed = TestbedPlan::new(options)?.start().await?;
    let source = RoutedSource::make(&testbed, 3, 4).await?;
    let inject = format!("inject=fdatasync,fsync:error=EIO:when={n}");
    let strace = Strace::attach(&testbed, &["-e", "trace=fdatasync,fsync", "-e", &inject]).await?;
    let pump = Pump::start(source.pump(Until::Stopped).open(options.rate(50.0)))?;

    let failure = injected(&strace).await?;
    let failed_us = failure.at_us.saturating_sub(lab::clock::unix_us() - testbed.receiver.now_us());
    let noticed = refuses(&mut testbed, &source).await?;
    let noticed_us = testbed.receiver.now_us();
    part.must(noticed.is_some(), "it neither refused events nor exited within a second");
    // Time enough to flush again, if it were to.
    sleep(Duration::from_millis(300)).await;
    let alive_until = lab::clock::unix_us();
    let kill = testbed.kill().await?;
    let calls = strace.calls()?;
    let again = calls.iter().filter(|call| call.is_flush() && call.of_log() && call.began > failure.ended);
    part.must_be("flushes_after_the_failure", again.count(), 0);

    testbed.start().await?;
    sleep(Duration::from_millis(300)).await;
    let sent = pump.finish().await;
    testbed.must_drain(Duration::from_secs(30), &mut part).await?;
    let in_between = |sent: &&Sent| {
        sent.acked() && (failure.at_us + UNDER_WAY_US..alive_until).contains(&sent.answered_us())
    };
    part.must_be("acknowledged_in_between", sent.sent.iter().filter(in_between).count(), 0);
    // From the failure on, what was answered could not be written down.
    let [failed, noticed_at] = [failed_us, noticed_us].map(|at_us| Fault::of_all(FaultKind::Kill, at_us));
    settle_accounts(&testbed, &source, source.evidence(&sent, vec![failed, noticed_at, kill]), &mut part)
        .await?;
    testbed.tear_down().await?;
    Ok((noticed.unwrap_or_default(), part))
}

async fn injected(strace: &Strace) -> Result<SystemCall> {
    let mut failure = None;
    wait_until("the flush to fail never came", Duration::from_secs(20), 5, async || {
        let calls = strace.calls().unwrap_or_default();
        failure = calls.into_iter().find(|call| call.text.contains("(INJECTED)"));
        Ok(failure.is_some())
    })
    .await?;
    failure.context("the flush to fail")
}

/// How long it took until the node was gone, or refused events and said that it is not ready.
async fn refuses(testbed: &mut Testbed, source: &RoutedSource) -> Result<Option<Duration>> {
    let began = Instant::now();
    let second = Duration::from_secs(1);
    let request = source.ingest_request("probe", b"{}");
    while began.elapsed() < second {
        if !testbed.is_running() {
            return Ok(Some(began.elapsed()));
        }
        let ready = get_status(testbed.addr, "/readyz", second).await.ok();
        let ingest =
            raw_http::exchange(testbed.addr, &request, second).await.ok().and_then(|answer| answer.status);
        if ready == Some(503) && ingest == Some(503) {
            return Ok(Some(began.elapsed()));
        }
        sleep(Duration::from_millis(10)).await;
    }
    Ok(None)
}
