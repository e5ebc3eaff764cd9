//! Hazard: two processes on one data folder.
//!
//! While a node runs under load, a second one is started on the same folder.
//!
//! Holds if the second exits with code 5 within two seconds, and the first neither loses nor refuses anything nor
//! logs a word about it.

use tokio::process::Command;
use tokio::time::timeout;

use crate::harness::prelude::*;
use crate::harness::testbed::free_addr;

const IN_USE: i32 = 5;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::new(options)?.start().await?;
    let source = RoutedSource::make(&testbed, 2, 4).await?;
    let said_before = testbed.log();
    let pump = Pump::start(source.pump(Until::Stopped).open(options.rate(50.0)))?;
    sleep(Duration::from_secs(1)).await;

    let began = Instant::now();
    let second = Command::new(&testbed.launch().binary)
        .args(&testbed.launch().args)
        .envs(testbed.launch().env.iter().map(|(name, value)| (name, value)))
        .env("POSTHASTE_LISTEN", free_addr()?.to_string())
        .kill_on_drop(true)
        .output();
    let second = timeout(Duration::from_secs(10), second).await??;
    report.must_be_at_most("second_exits_after_seconds", began.elapsed(), 2.0);
    report.note("second_exit_code", second.status.code());
    report.note("second_says", String::from_utf8_lossy(&second.stderr).trim().to_owned());
    report.must(second.status.code() == Some(IN_USE), "the second does not exit with 5");

    sleep(Duration::from_secs(1)).await;
    let sent = pump.finish().await;
    testbed.must_drain(Duration::from_secs(30), report).await?;
    testbed.must_be_running(report);
    report.must(sent.accepted == sent.offered && sent.retries == 0, "the first node refused events");
    report.must(testbed.log() == said_before, "the first node has something to say about it");
    settle_accounts(&testbed, &source, source.evidence(&sent, Vec::new()), report).await?;
    testbed.tear_down().await
}
