//! Hazard: what waits is kept in memory.
//!
//! A million deliveries (`--count`) wait for a destination that hangs; the node starts, looks them over a few times
//! and takes events for another destination meanwhile.
//!
//! Holds if the node's resident memory never exceeds 150 MB, the other destination gets its events, metrics take at most
//! 50 ms and say how many wait (estimated, on PostgreSQL), and the hanging one never has more requests open than its
//! limit, though all of them time out together.

use std::time::Duration;

use anyhow::Result;
use client::{NewRoute, Publish};
use lab::{Recording, Reply};
use tokio::time::sleep;

use crate::Ask;
use crate::harness::backlog::Pattern;
use crate::harness::report::rounded;
use crate::harness::scrape::Scrape;
use crate::harness::{Plan, Report, StoreKind};

const LIMIT_MB: f64 = 150.0;
const SCRAPE_MS: f64 = if cfg!(debug_assertions) { 500.0 } else { 50.0 };
const SLOTS: u32 = 100;
const EVENTS: u64 = 500;

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let mut stage = Plan::new(ask, store)?.start().await?;
    stage.receiver.recording(Recording::Counts);
    stage.receiver.script("full", Reply::Hang);
    let pattern = Pattern::make(&stage, "full", SLOTS).await?;
    let other = stage.client.create_destination(&stage.destination("other")).await?.id;
    let route = NewRoute { event_types: vec!["other".into()], ..NewRoute::to(other) };
    stage.client.create_route(&route).await?;
    stage.stop().await?;
    pattern.copy(&stage.database, 0, ask.count(1_000_000)).await?;
    pattern.release(&stage.database).await?;

    let serving = stage.start().await?;
    report.note("serving_after_seconds", rounded(serving.as_secs_f64()));
    let mut most = 0;
    for round in 0..EVENTS {
        stage.client.publish(&Publish::json("other", format!("{{\"n\":{round}}}"))?).await?;
        most = most.max(stage.node()?.rss_bytes()?);
        sleep(ask.seconds(15) / EVENTS as u32).await;
    }
    let scrape = Scrape::of(&stage.members[0]).await?;
    report.at_most("scrape_ms", scrape.took.as_secs_f64() * 1e3, SCRAPE_MS);
    let depth = scrape.sum("posthaste_queue_depth") / ask.count(1_000_000) as f64;
    report.note("depth_told", rounded(depth));
    report.must((0.5..2.0).contains(&depth), format!("metrics say that {depth} times as many wait as do"));
    stage.receiver.wait_for_succeeded(EVENTS, Duration::from_secs(10)).await;
    report.exactly("arrived_at_the_other", stage.receiver.succeeded_at("other"), EVENTS);
    report.note("waiting", pattern.waiting(&stage.database).await?);
    report.at_most("open_at_the_full_one", stage.receiver.max_open("full").into(), SLOTS.into());
    report.at_most("most_memory_mb", most as f64 / 1e6, LIMIT_MB);
    stage.strike().await?;
    Ok(report)
}
