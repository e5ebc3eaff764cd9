//! Hazard: the deliveries of one event wait for each other.
//!
//! One event for fifty destinations, each of which takes 200 ms to answer; after a first round that opens the
//! connections, ten more (`--count`).
//!
//! Holds if in every round all fifty have answered within 260 ms after the producer had its 202.

use crate::harness::prelude::*;

const DESTINATIONS: usize = 50;
const LATENCY: Duration = Duration::from_millis(200);
const WITHIN_MS: f64 = 260.0;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let testbed = TestbedPlan::new(options)?.start().await?;
    let source = RoutedSource::make(&testbed, DESTINATIONS, 5).await?;
    testbed.receiver.default_script(Reply::ok().after(LATENCY));
    let (mut slowest, mut all) = (0.0f64, Vec::new());
    for round in 0..=options.count(10) {
        let before = testbed.receiver.succeeded();
        let offset_us = lab::clock::unix_us() - testbed.receiver.now_us();
        let config = PumpConfig {
            event_types: vec!["lab.all".into()],
            connections: 1,
            ..PumpConfig::new(source.target(), Until::Count(1))
        };
        let sent = lab::pump::run(config).await?.sent.remove(0);
        ensure!(sent.acked(), "the event was answered {}", sent.status);
        let goal = before + DESTINATIONS as u64;
        ensure!(
            testbed.receiver.wait_for_succeeded(goal, Duration::from_secs(10)).await,
            "not all fifty arrived"
        );
        let id = sent.event_id.as_deref();
        let records = testbed.receiver.snapshot();
        let ends =
            records.iter().filter(|record| Some(&*record.event_id) == id).filter_map(|record| record.end_us);
        let last_us = ends.max().unwrap_or(u64::MAX) + offset_us;
        let after_ms = last_us.saturating_sub(sent.answered_us()) as f64 / 1000.0;
        if round > 0 {
            slowest = slowest.max(after_ms);
            all.push(after_ms.round());
        }
        // The next round finds an idle node.
        testbed.quiesce(Duration::from_secs(5)).await?;
    }
    report.note("rounds_ms", all);
    report.must_be_at_most("slowest_ms", slowest, WITHIN_MS);
    testbed.tear_down().await
}
