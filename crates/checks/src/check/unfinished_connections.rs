//! Hazard: connections that never finish what they began use up the node.
//!
//! A baseline of 100 events a second; then five thousand connections with half a head and two thousand with a body of
//! one byte a second are held open beside the same load.
//!
//! Holds if half heads are closed within ten seconds and slow bodies within thirty (a second more for the clocks), if
//! the good traffic is all accepted and its 99th percentile stays within twice the baseline, and if the node keeps its
//! memory (512 MiB) and lives.

use tokio::task::JoinSet;

use crate::harness::prelude::*;

const HALF_HEADS: usize = 5_000;
const SLOW_BODIES: usize = 2_000;
/// One after the other: what is tried is that they stay, not how fast they come.
const EVERY: Duration = Duration::from_millis(1);
const HEAD_WITHIN: f64 = 11.0;
const BODY_WITHIN: f64 = 31.0;
const TOLERANCE: f64 = 2.0;
/// Below this the machine's own noise decides.
const QUIET_MS: f64 = 10.0;
const MEMORY_MIB: f64 = 512.0;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::new(options)?.start().await?;
    let source = RoutedSource::make(&testbed, 5, 20).await?;
    let load = |span| source.pump(Until::Elapsed(span)).open(options.rate(100.0));
    let alone = lab::pump::run(load(options.seconds(10))).await?;

    let scale = options.count(HALF_HEADS as u64 + SLOW_BODIES as u64) as usize;
    let (heads, bodies) =
        (scale * HALF_HEADS / (HALF_HEADS + SLOW_BODIES), scale * SLOW_BODIES / (HALF_HEADS + SLOW_BODIES));
    let mut attackers = JoinSet::new();
    let (addr, path) = (testbed.addr, source.ingest_path());
    let head = format!("POST {path} HTTP/1.1\r\nhost: checks\r\nx-event-type: lab.d");
    let body = format!("{head}00\r\ncontent-length: 10000\r\n\r\n{{");
    for (count, beginning, more) in [(heads, head, &b""[..]), (bodies, body, b"x")] {
        for at in 0..count {
            let beginning = beginning.clone();
            attackers.spawn(async move {
                sleep(EVERY * at as u32).await;
                let second = Duration::from_secs(1);
                let held = raw_http::trickle(addr, beginning.as_bytes(), more, second, 60 * second).await;
                (more.is_empty(), held.ok().map(|held| held.took.as_secs_f64()))
            });
        }
    }
    let beside = tokio::spawn(lab::pump::run(load(options.seconds(10).max(Duration::from_secs(35)))));
    let (mut slowest_head, mut slowest_body, mut failed, mut most) = (0.0f64, 0.0f64, 0u64, 0);
    while let Some(attacker) = attackers.join_next().await {
        most = most.max(testbed.process()?.rss_bytes().unwrap_or(0));
        match attacker? {
            (true, Some(held)) => slowest_head = slowest_head.max(held),
            (false, Some(held)) => slowest_body = slowest_body.max(held),
            (_, None) => failed += 1,
        }
    }
    let beside = beside.await??;
    report.note("attackers", scale);
    report.note("attackers_turned_away", failed);
    report.must_be_at_most("slowest_half_head_seconds", slowest_head, HEAD_WITHIN);
    report.must_be_at_most("slowest_body_seconds", slowest_body, BODY_WITHIN);
    report.must_be("good_events_not_accepted", beside.offered - beside.accepted - beside.duplicates, 0);
    let [alone_ms, beside_ms] = [&alone, &beside].map(|sent| sent.latency.percentile_ms(99.0));
    report.note("p99_alone_ms", rounded(alone_ms));
    report.must_be_at_most("p99_beside_ms", beside_ms, (alone_ms * TOLERANCE).max(QUIET_MS));
    report.must_be_at_most("most_memory_mib", mib(most), MEMORY_MIB);
    testbed.must_be_running(report);
    testbed.tear_down().await
}
