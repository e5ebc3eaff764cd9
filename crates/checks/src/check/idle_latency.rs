//! How long an event takes from post to receiver when there is nothing else to do: twenty a second, one at a time.
//!
//! Holds if the median is under ten milliseconds.

use crate::harness::prelude::*;

const P50_MS: f64 = 10.0;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let testbed = TestbedPlan::new(options)?.start().await?;
    testbed.add_destination(&testbed.destination("d"), &[]).await?;
    let count = options.count(300);
    let config = testbed.publisher(Until::Count(count)).open(options.rate(20.0)).connections(1);
    let sent = lab::pump::run(config).await?;
    testbed.receiver.wait_for_succeeded(count, Duration::from_secs(10)).await;
    report.must_be("arrived", testbed.receiver.succeeded(), count);
    let end_to_end = testbed.receiver.end_to_end();
    report.note("ack", &sent.latency);
    report.note("end_to_end", &end_to_end);
    report.must_be_at_most("p50_ms", end_to_end.percentile_ms(50.0), P50_MS);
    testbed.tear_down().await
}
