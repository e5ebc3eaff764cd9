//! Hazard: a destination has work waiting and a slot free: polling, batches that wait for their slowest, a round trip
//! per delivery.
//!
//! A receiver that takes 300 ms on average (log-normal, median 265 ms, sigma 0.5), one destination with 10, 20, 50
//! and 100 slots, always more waiting than fits; thirty seconds each (`--seconds`).
//!
//! Holds if by the receiver's own log the slots are in use at least 98 % of the time, and the 99th percentile of the
//! attempts' duration does not grow with the number of slots.

use lab::{Histogram, Latency};

use crate::harness::prelude::*;

const SLOTS: [u32; 4] = [10, 20, 50, 100];
const MEAN_SECONDS: f64 = 0.3;
const BUSY: f64 = 0.98;
/// A 99th percentile of a thousand draws is off by a tenth now and then.
const FLAT_WITHIN: f64 = 1.25;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut rows = Vec::new();
    let mut first_p99 = None;
    for slots in SLOTS {
        let (busy, durations, per_second) = with_slots(options, slots).await?;
        let p99 = durations.percentile_ms(99.0);
        let first = *first_p99.get_or_insert(p99);
        rows.push(json!({
            "slots": slots, "busy": rounded(busy), "per_second": rounded(per_second), "attempt_p99_ms": rounded(p99)
        }));
        report.must(busy >= BUSY, format!("{slots} slots are busy {:.1} % of the time", busy * 100.0));
        report.must(
            p99 <= first * FLAT_WITHIN,
            format!("with {slots} slots the p99 is {p99:.0} ms, not {first:.0}"),
        );
    }
    report.note("runs", rows);
    Ok(())
}

async fn with_slots(options: &Options, slots: u32) -> Result<(f64, Histogram, f64)> {
    let testbed = TestbedPlan::new(options)?.start().await?;
    let latency = Latency::LogNormal { median: Duration::from_millis(265), sigma: 0.5 };
    testbed.receiver.default_script(Reply::ok().after(latency));
    let mut plan = testbed.destination_with_slots("d", slots);
    // The tail of the distribution is part of it.
    plan.timeout_seconds = Some(30);
    testbed.add_destination(&plan, &[]).await?;
    let rate = f64::from(slots) / MEAN_SECONDS * 1.3;
    let pump = Pump::start(testbed.publisher(Until::Stopped).open(rate))?;

    // Until a backlog has built up.
    sleep(Duration::from_secs(3)).await;
    let (from, before) = (testbed.receiver.now_us(), testbed.receiver.succeeded());
    sleep(options.seconds(30)).await;
    let (to, after) = (testbed.receiver.now_us(), testbed.receiver.succeeded());
    let busy = testbed.receiver.busy_fraction("d", slots, from..to);
    let per_second = (after - before) as f64 / ((to - from) as f64 / 1e6);
    drop(pump);
    let rows = testbed.database.rows("select duration_us from attempts where outcome = 'success'").await?;
    let durations = rows.iter().filter_map(|row| row[0].number()).map(|micros| micros as u64).collect();
    testbed.tear_down().await?;
    Ok((busy, durations, per_second))
}
