//! Hazard: events that were acknowledged are lost when the process dies.
//!
//! Load on twenty destinations of four slots, one of which answers 500 for the first ten seconds; every two seconds
//! the node is killed (SIGKILL) and started again at once; then everything may drain.
//!
//! Holds if nothing is lost, duplicates stay within what was open or unwritten at the kills, no destination ever has
//! more requests open than its limit, and every restart serves within a second.

use tokio::time::sleep_until;

use crate::harness::multi_node::SLOW_ENOUGH;
use crate::harness::prelude::*;

const DESTINATIONS: usize = 20;
const SLOTS: u32 = 4;
const KILL_EVERY: Duration = Duration::from_secs(2);
/// The promise is the release build's; a debug build on a busy machine has more time.
const SERVING_WITHIN: f64 = if cfg!(debug_assertions) { 4.0 } else { 1.0 };

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let span = options.seconds(30);
    let mut testbed = TestbedPlan::new(options)?.start().await?;
    let source = RoutedSource::make(&testbed, DESTINATIONS, SLOTS).await?;
    let well = Reply::ok().after(SLOW_ENOUGH);
    testbed.receiver.default_script(well.clone());
    let ill = Reply::status(500).after(SLOW_ENOUGH);
    let until = Instant::now() + (span / 3).min(Duration::from_secs(10));
    testbed
        .receiver
        .script(&source.names[DESTINATIONS - 1], Script::FailUntil { until, fail: ill, then: well });

    let pump = Pump::start(source.pump(Until::Elapsed(span)).open(options.rate(500.0)))?;
    let began = tokio::time::Instant::now();
    let (mut kills, mut slowest) = (Vec::new(), Duration::ZERO);
    while began.elapsed() + KILL_EVERY < span {
        sleep_until(began + KILL_EVERY * (kills.len() as u32 + 1)).await;
        kills.push(testbed.kill().await?);
        slowest = slowest.max(testbed.start().await?);
    }
    let sent = pump.report().await;
    report.note("kills", kills.len());
    report.must_be_at_most("slowest_restart_seconds", slowest, SERVING_WITHIN);
    report.must_all_be_accepted(&sent);
    settle_accounts(&testbed, &source, source.evidence(&sent, kills), report).await?;
    testbed.tear_down().await
}
