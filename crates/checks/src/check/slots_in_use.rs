//! Hazard: a destination has work waiting and a slot free: polling, batches that wait for their slowest, a round trip
//! per delivery.
//!
//! A receiver that takes 300 ms on average (log-normal, median 265 ms, sigma 0.5), one destination with 10, 20, 50
//! and 100 slots, always more waiting than fits; thirty seconds each (`--seconds`).
//!
//! Holds if by the receiver's own log the slots are in use at least 98 % of the time, and the 99th percentile of the
//! attempts' duration does not grow with the number of slots.

use std::time::Duration;

use anyhow::Result;
use client::NewDestination;
use lab::{Histogram, Latency, Pump, PumpConfig, Reply, Target, Until};
use serde_json::json;
use tokio::time::sleep;

use crate::Ask;
use crate::harness::fleet::sole_destination;
use crate::harness::report::rounded;
use crate::harness::stage::API_KEY;
use crate::harness::{Plan, Report, StoreKind};

const SLOTS: [u32; 4] = [10, 20, 50, 100];
const MEAN_SECONDS: f64 = 0.3;
const BUSY: f64 = 0.98;
/// A 99th percentile of a thousand draws is off by a tenth now and then.
const FLAT_WITHIN: f64 = 1.25;

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let mut rows = Vec::new();
    let mut first_p99 = None;
    for slots in SLOTS {
        let (busy, durations, per_second) = with_slots(ask, store, slots).await?;
        let p99 = durations.percentile_us(99.0) as f64 / 1000.0;
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
    Ok(report)
}

async fn with_slots(ask: &Ask, store: StoreKind, slots: u32) -> Result<(f64, Histogram, f64)> {
    let stage = Plan::new(ask, store)?.start().await?;
    let latency = Latency::LogNormal { median: Duration::from_millis(265), sigma: 0.5 };
    stage.receiver.default_script(Reply::ok().after(latency));
    let mut plan = NewDestination { max_concurrency: slots, ..stage.destination("d") };
    // The tail of the distribution is part of it.
    plan.timeout_seconds = 30;
    sole_destination(&stage.client, &plan).await?;
    let target = Target::Publish { base: stage.base(), key: API_KEY.into() };
    let rate = f64::from(slots) / MEAN_SECONDS * 1.3;
    let pump = Pump::start(PumpConfig::new(target, Until::Stopped).open(rate))?;

    // Until a backlog has built up.
    sleep(Duration::from_secs(3)).await;
    let (from, before) = (stage.receiver.now_us(), stage.receiver.succeeded());
    sleep(ask.seconds(30)).await;
    let (to, after) = (stage.receiver.now_us(), stage.receiver.succeeded());
    let busy = stage.receiver.busy_fraction("d", slots, from..to);
    let per_second = (after - before) as f64 / ((to - from) as f64 / 1e6);
    drop(pump);
    let rows = stage.database.rows("select duration_us from attempts where outcome = 'success'").await?;
    let durations = rows.iter().filter_map(|row| row[0].number()).map(|micros| micros as u64).collect();
    stage.strike().await?;
    Ok((busy, durations, per_second))
}
