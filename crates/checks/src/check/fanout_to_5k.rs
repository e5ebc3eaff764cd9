//! Hazard: the door waits for the deliveries of large events.
//!
//! 5,000 destinations, events for all of them at 20 a second (`--rate`, `--seconds`): 100,000 deliveries a second are
//! made, many more than can be sent.
//!
//! Holds if every event is accepted, 99 of 100 within 20 ms, and each has its 5,000 deliveries in the end, none missing
//! and none twice. An event is answered after a flush, so how long the disk takes for one beside all that is told with it.

use std::time::{Duration, Instant};

use anyhow::Result;
use lab::{PumpConfig, Recording, Target, Until};
use tokio::time::sleep;

use crate::Ask;
use crate::harness::disk::DiskProbe;
use crate::harness::report::rounded;
use crate::harness::stage::API_KEY;
use crate::harness::{Plan, Report, StoreKind, crowd};

const DESTINATIONS: u64 = 5_000;
const P99_MS: f64 = 20.0;
/// For what is still to be made when the last event has been sent.
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let mut stage = Plan::new(ask, store)?.start().await?;
    stage.receiver.recording(Recording::Counts);
    stage.stop().await?;
    crowd::assemble(&stage, DESTINATIONS as usize).await?;
    stage.start().await?;
    // The first one reads the routes.
    crowd::publish(&stage).await?;

    let target = Target::Publish { base: stage.base(), key: API_KEY.into() };
    let config = PumpConfig {
        event_types: vec![crowd::EVENT_TYPE.into()],
        keep_log: false,
        ..PumpConfig::new(target, Until::Elapsed(ask.seconds(10)))
    };
    let disk = DiskProbe::start(stage.dir())?;
    let sent = lab::pump::run_apart(config.open(ask.rate(20.0))).await?;
    let disk = disk.stop()?;
    let lag = crowd::expanding(&stage.database).await?;
    let ended = Instant::now();
    while crowd::expanding(&stage.database).await? > 0 && ended.elapsed() < PATIENCE {
        sleep(Duration::from_millis(50)).await;
    }
    report.note("offered", sent.offered);
    report.exactly("accepted", sent.accepted, sent.offered);
    report.note("p50_ms", rounded(sent.latency.percentile_us(50.0) as f64 / 1e3));
    report.at_most("p99_ms", sent.latency.percentile_us(99.0) as f64 / 1e3, P99_MS);
    report.note("slowest_ms", rounded(sent.latency.max_us() as f64 / 1e3));
    report.note("disk_p99_ms", rounded(disk.percentile_us(99.0) as f64 / 1e3));
    report.note("still_expanding_at_the_end_of_the_load", lag);
    report.note("expanded_after_seconds", rounded(ended.elapsed().as_secs_f64()));
    report.exactly("never_expanded", crowd::expanding(&stage.database).await?, 0u64);
    report.note("arrived_meanwhile", stage.receiver.succeeded());

    // Counted when nothing moves any more.
    stage.kill().await?;
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
    report.exactly("events_with_other_deliveries", stage.database.number(&wrong).await?, 0u64);
    stage.strike().await?;
    Ok(report)
}
