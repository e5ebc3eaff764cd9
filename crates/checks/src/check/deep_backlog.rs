//! Hazard: a deep backlog makes everything slow: starting, looking, delivering.
//!
//! A thousand destinations with a thousand waiting deliveries each (`--count` in all), written into the tables; before
//! that the same destinations with a hundred each, for comparison: several seconds of both, for in the first one there is
//! nothing to write to the tables yet.
//!
//! Holds if the node serves within three seconds of its start, keeps below 256 MiB, and delivers at least 80 % as fast from
//! the deep backlog as from the shallow one.

use crate::harness::backlog::BacklogTemplate;
use crate::harness::prelude::*;

const DESTINATIONS: u64 = 1_000;
const SHALLOW_EACH: u64 = 100;
const SERVING_WITHIN: f64 = if cfg!(debug_assertions) { 8.0 } else { 3.0 };
const MEMORY_MIB: f64 = 256.0;
const AS_FAST: f64 = 0.8;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::new(options)?.start().await?;
    testbed.receiver.recording(Recording::Counts);
    testbed.receiver.default_script(Reply::ok());
    let template = BacklogTemplate::make(&testbed, "template", 5).await?;
    for at in 0..DESTINATIONS {
        let plan = testbed.destination_with_slots(&format!("o{at:04}"), 5);
        testbed.add_destination(&plan, &["others"]).await?;
    }
    testbed.stop().await?;

    template.fan_out(&testbed.database, 0, SHALLOW_EACH).await?;
    testbed.start().await?;
    let shallow = rate(&testbed, DESTINATIONS * SHALLOW_EACH, Duration::from_secs(60), &mut 0).await?;
    testbed.stop().await?;
    report.note("shallow_per_second", shallow);

    let each = options.count(1_000_000) / DESTINATIONS;
    template.fan_out(&testbed.database, 1, each).await?;
    report.note("waiting", testbed.database.count("queue").await?);
    let serving = testbed.start().await?;
    report.must_be_at_most("serving_after_seconds", serving, SERVING_WITHIN);
    let mut most = 0;
    let span = options.seconds(30);
    let deep = rate(&testbed, each * DESTINATIONS, span, &mut most).await?;
    report.must_be_at_least("deep_per_second", deep, shallow * AS_FAST);
    report.must_be_at_most("most_memory_mib", mib(most), MEMORY_MIB);
    testbed.must_be_running(report);
    testbed.tear_down().await
}

/// Deliveries per second, from the first on, for as long as there are any, or for a time.
async fn rate(testbed: &Testbed, all: u64, span: Duration, most: &mut u64) -> Result<f64> {
    testbed.receiver.clear();
    ensure!(testbed.receiver.wait_for_succeeded(1, Duration::from_secs(20)).await, "nothing is delivered");
    let (began, first) = (Instant::now(), testbed.receiver.succeeded());
    loop {
        let (now, done) = (began.elapsed(), testbed.receiver.succeeded());
        *most = (*most).max(testbed.process()?.rss_bytes()?);
        if done >= all || now >= span {
            return Ok((done - first) as f64 / now.as_secs_f64());
        }
        sleep(Duration::from_millis(10)).await;
    }
}
