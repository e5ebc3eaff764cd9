//! Hazard: statistics leave out what is not summed up yet, the more the more happens.
//!
//! 600 events a second (`--rate`) for half a minute (`--seconds`), to four destinations: more than a request for statistics
//! reads by itself. They are asked for twice a second meanwhile, of the account and of a destination.
//!
//! Holds if what is told is never older than ten seconds and never less than before, and if within ten seconds of the last
//! delivery it is exactly what was sent and what the receiver got.

use crate::harness::prelude::*;

const DESTINATIONS: usize = 4;
const SLOTS: u32 = 50;
const FRESH_SECONDS: f64 = 10.0;
const EVERY: Duration = Duration::from_millis(500);

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let testbed = TestbedPlan::of_several(options)?.start_balanced().await?;
    let source = RoutedSource::make(&testbed, DESTINATIONS, SLOTS).await?;
    let first = source.destinations[0];
    let load = source.pump_singly(Until::Elapsed(options.seconds(30)));
    let pump = Pump::start(load.open(options.rate(600.0)))?;
    let (began, mut oldest, mut fallen) = (Instant::now(), 0.0f64, 0u64);
    let (mut attempts, mut of_first) = (0, 0);
    while began.elapsed() < options.seconds(30) {
        let stats = testbed.client.stats().await?;
        let destination = testbed.client.destination_stats(first).await?;
        for (until, as_of) in [(stats.until, stats.as_of), (destination.until, destination.as_of)] {
            oldest = oldest.max(until.since(as_of).as_secs_f64());
        }
        fallen += u64::from(stats.totals.attempts < attempts || destination.attempts < of_first);
        (attempts, of_first) = (stats.totals.attempts, destination.attempts);
        sleep(EVERY).await;
    }
    let sent = pump.report().await;
    report.must_all_be_accepted(&sent);
    report.must_be_at_most("oldest_seconds", oldest, FRESH_SECONDS);
    report.must_be("fell", fallen, 0);
    testbed.must_drain(Duration::from_secs(60), report).await?;

    let (expected, got) = (sent.accepted, testbed.receiver.total());
    let of_first = testbed.receiver.arrivals(&source.names[0]);
    let mut told = (0, 0, 0, 0);
    becomes(Duration::from_secs_f64(FRESH_SECONDS), 250, async || {
        let (stats, destination) =
            (testbed.client.stats().await?, testbed.client.destination_stats(first).await?);
        let totals = stats.totals;
        told = (totals.events, totals.delivered, totals.attempts, destination.attempts);
        Ok(told == (expected, expected, got, of_first))
    })
    .await?;
    report.must_be("events_told", told.0, expected);
    report.must_be("delivered_told", told.1, expected);
    report.must_be("attempts_told", told.2, got);
    report.must_be("attempts_of_a_destination_told", told.3, of_first);
    testbed.tear_down().await
}
