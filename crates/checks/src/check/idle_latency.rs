//! How long an event takes from post to receiver when there is nothing else to do: twenty a second, one at a time.
//!
//! Holds if the median is under ten milliseconds.

use std::time::Duration;

use anyhow::Result;
use lab::{Target, Until};

use crate::Ask;
use crate::harness::fleet::sole_destination;
use crate::harness::stage::API_KEY;
use crate::harness::{Plan, Report, StoreKind};

const P50_MS: f64 = 10.0;

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let stage = Plan::new(ask, store)?.start().await?;
    sole_destination(&stage.client, &stage.destination("d")).await?;
    let target = Target::Publish { base: stage.base(), key: API_KEY.into() };
    let count = ask.count(300);
    let config = lab::PumpConfig::new(target, Until::Count(count)).open(ask.rate(20.0)).connections(1);
    let sent = lab::pump::run(config).await?;
    stage.receiver.wait_for_succeeded(count, Duration::from_secs(10)).await;
    report.exactly("arrived", stage.receiver.succeeded(), count);
    let end_to_end = stage.receiver.end_to_end();
    report.note("ack", &sent.latency);
    report.note("end_to_end", &end_to_end);
    report.at_most("p50_ms", end_to_end.percentile_us(50.0) as f64 / 1000.0, P50_MS);
    stage.strike().await?;
    Ok(report)
}
