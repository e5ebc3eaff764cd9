//! Hazard: a disk on which a flush takes 200 ms: requests pile up until the memory is gone.
//!
//! strace delays every `fdatasync` of the node by 200 ms; 500 events a second come in for thirty seconds, each sent
//! once, to five destinations.
//!
//! Holds if what is accepted is accepted within two seconds (99th percentile), what is not gets 503, the node stays
//! below 512 MiB, and nothing accepted is lost. Needs strace.

use crate::harness::prelude::*;
use crate::harness::strace::Strace;

const DELAY: &str = "inject=fdatasync:delay_enter=200000";
const WITHIN_SECONDS: f64 = 2.0;
const MEMORY_MIB: f64 = 512.0;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let span = options.seconds(30);
    let mut testbed = TestbedPlan::new(options)?.start().await?;
    let source = RoutedSource::make(&testbed, 5, 20).await?;
    let strace = Strace::attach(&testbed, &["-e", "trace=fdatasync", "-e", DELAY]).await?;

    let mut config = source.pump(Until::Elapsed(span)).open(options.rate(500.0)).connections(1_024);
    config.retry_for = Duration::ZERO;
    let pump = Pump::start(config)?;
    let mut most = 0;
    for _ in 0..span.as_millis() / 100 {
        sleep(Duration::from_millis(100)).await;
        most = most.max(testbed.process()?.rss_bytes()?);
    }
    let sent = pump.report().await;
    let calls = strace.detach().await?;
    report.note("slow_flushes", calls.iter().filter(|call| call.is_flush()).count());
    report.must(calls.iter().any(|call| call.text.contains("(DELAYED)")), "no flush was delayed");
    report.must_be_at_least("accepted", sent.accepted, 1.0);
    report.must_be_at_most("accepted_p99_seconds", sent.latency.percentile(99.0), WITHIN_SECONDS);
    report.must_be_at_most("most_memory_mib", mib(most), MEMORY_MIB);
    report.must_be_accepted_or_refused(&sent);
    testbed.must_be_running(report);
    settle_accounts(&testbed, &source, source.evidence(&sent, Vec::new()), report).await?;
    testbed.tear_down().await
}
