//! Hazard: the door waits for the deliveries of large events.
//!
//! 5,000 destinations, events for all of them at 20 a second (`--rate`, `--seconds`): 100,000 deliveries a second are
//! made, many more than can be sent.
//!
//! Holds if every event is accepted, 99 of 100 within 20 ms, and each has its 5,000 deliveries in the end, none missing
//! and none twice. An event is answered after a flush, so how long the disk takes for one beside all that is told with it.

use crate::harness::prelude::*;
use crate::harness::{disk, large_fanout};

const DESTINATIONS: u64 = 5_000;
const P99_MS: f64 = 20.0;
/// For what is still to be made when the last event has been sent.
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::new(options)?.start().await?;
    testbed.receiver.recording(Recording::Counts);
    testbed.stop().await?;
    large_fanout::add_destinations(&testbed, DESTINATIONS as usize).await?;
    testbed.start().await?;
    // The first one reads the routes.
    large_fanout::publish(&testbed).await?;

    let config = PumpConfig {
        event_types: vec![large_fanout::EVENT_TYPE.into()],
        keep_log: false,
        ..testbed.publisher(Until::Elapsed(options.seconds(10)))
    };
    let disk = disk::start_probe(testbed.dir())?;
    let sent = lab::pump::run(config.open(options.rate(20.0))).await?;
    let disk = disk.finish().await?;
    let lag = large_fanout::expansions(&testbed.database).await?;
    let ended = Instant::now();
    becomes(PATIENCE, 50, async || Ok(large_fanout::expansions(&testbed.database).await? == 0)).await?;
    report.note("offered", sent.offered);
    report.must_be("accepted", sent.accepted, sent.offered);
    report.note("p50_ms", rounded(sent.latency.percentile_ms(50.0)));
    report.must_be_at_most("p99_ms", sent.latency.percentile_ms(99.0), P99_MS);
    report.note("slowest_ms", rounded(sent.latency.max_ms()));
    report.note("disk_p99_ms", rounded(disk.percentile_ms(99.0)));
    report.note("still_expanding_at_the_end_of_the_load", lag);
    report.note("expanded_after_seconds", rounded(ended.elapsed().as_secs_f64()));
    report.must_be("never_expanded", large_fanout::expansions(&testbed.database).await?, 0);
    report.note("arrived_meanwhile", testbed.receiver.succeeded());

    // Counted when nothing moves any more.
    testbed.kill().await?;
    let wrong = format!(
        "select count(*) from events e left join (
             select event_id, count(*) as n, count(distinct destination_id) as d from (
                 select event_id, delivery_id, destination_id from queue
                 union select event_id, delivery_id, destination_id from attempts
             ) known group by event_id
         ) made on made.event_id = e.id
         where coalesce(made.n, 0) <> {DESTINATIONS} or made.d <> {DESTINATIONS}
            or coalesce(e.deliveries, 0) <> {DESTINATIONS}"
    );
    report.must_be("events_with_other_deliveries", testbed.database.number(&wrong).await?, 0);
    testbed.tear_down().await
}
