//! Hazard: what waits is kept in memory.
//!
//! A million deliveries (`--count`) wait for a destination that hangs; the node starts, looks them over a few times
//! and takes events for another destination meanwhile.
//!
//! Holds if the node's resident memory never exceeds 150 MB, the other destination gets its events, metrics take at most
//! 50 ms and say how many wait (estimated, on PostgreSQL), and the hanging one never has more requests open than its
//! limit, though all of them time out together.

use crate::harness::backlog::BacklogTemplate;
use crate::harness::prelude::*;
use crate::harness::scrape::Scrape;

const LIMIT_MB: f64 = 150.0;
const SLOTS: u32 = 100;
const EVENTS: u64 = 500;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::new(options)?.start().await?;
    testbed.receiver.recording(Recording::Counts);
    testbed.receiver.script("full", Reply::Hang);
    let template = BacklogTemplate::make(&testbed, "full", SLOTS).await?;
    testbed.add_destination(&testbed.destination("other"), &["other"]).await?;
    testbed.stop().await?;
    template.copy(&testbed.database, 0, options.count(1_000_000)).await?;
    template.release(&testbed.database).await?;

    let serving = testbed.start().await?;
    report.note("serving_after_seconds", rounded(serving.as_secs_f64()));
    let mut most = 0;
    for round in 0..EVENTS {
        testbed.client.publish(&Publish::json("other", format!("{{\"n\":{round}}}"))?).await?;
        most = most.max(testbed.process()?.rss_bytes()?);
        sleep(options.seconds(15) / EVENTS as u32).await;
    }
    let scrape = Scrape::of(&testbed.nodes[0]).await?;
    scrape.must_be_quick(report);
    let depth = scrape.sum("posthaste_queue_depth") / options.count(1_000_000) as f64;
    report.note("depth_told", rounded(depth));
    report.must((0.5..2.0).contains(&depth), format!("metrics say that {depth} times as many wait as do"));
    testbed.receiver.wait_for_succeeded(EVENTS, Duration::from_secs(10)).await;
    report.must_be("arrived_at_the_other", testbed.receiver.succeeded_at("other"), EVENTS);
    report.note("waiting", template.waiting(&testbed.database).await?);
    report.must_be_at_most("open_at_the_full_one", testbed.receiver.max_open("full"), SLOTS);
    report.must_be_at_most("most_memory_mb", most as f64 / 1e6, LIMIT_MB);
    testbed.tear_down().await
}
