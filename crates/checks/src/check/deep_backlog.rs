//! Hazard: a deep backlog makes everything slow: starting, looking, delivering.
//!
//! A thousand destinations with a thousand waiting deliveries each (`--count` in all), written into the tables; before
//! that the same destinations with a hundred each, for comparison: several seconds of both, for in the first one there is
//! nothing to write to the tables yet.
//!
//! Holds if the node serves within three seconds of its start, keeps below 256 MiB, and delivers at least 80 % as fast from
//! the deep backlog as from the shallow one.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use client::{NewDestination, NewRoute};
use lab::{Recording, Reply};
use tokio::time::sleep;

use crate::Ask;
use crate::harness::backlog::Pattern;
use crate::harness::{Plan, Report, Stage, StoreKind};

const DESTINATIONS: u64 = 1_000;
const SHALLOW_EACH: u64 = 100;
const SERVING_WITHIN: f64 = if cfg!(debug_assertions) { 8.0 } else { 3.0 };
const MEMORY_MIB: f64 = 256.0;
const AS_FAST: f64 = 0.8;

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let mut stage = Plan::new(ask, store)?.start().await?;
    stage.receiver.recording(Recording::Counts);
    stage.receiver.default_script(Reply::ok());
    let pattern = Pattern::make(&stage, "pattern", 5).await?;
    for at in 0..DESTINATIONS {
        let plan = NewDestination { max_concurrency: 5, ..stage.destination(&format!("o{at:04}")) };
        let id = stage.client.create_destination(&plan).await?.id;
        let types = vec!["others".to_owned()];
        stage.client.create_route(&NewRoute { event_types: types, ..NewRoute::to(id) }).await?;
    }
    stage.stop().await?;

    pattern.fan_out(&stage.database, 0, SHALLOW_EACH).await?;
    stage.start().await?;
    let shallow = rate(&stage, DESTINATIONS * SHALLOW_EACH, Duration::from_secs(60), &mut 0).await?;
    stage.stop().await?;
    report.note("shallow_per_second", shallow);

    let each = ask.count(1_000_000) / DESTINATIONS;
    pattern.fan_out(&stage.database, 1, each).await?;
    report.note("waiting", stage.database.number("select count(*) from queue").await?);
    let serving = stage.start().await?;
    report.at_most("serving_after_seconds", serving.as_secs_f64(), SERVING_WITHIN);
    let mut most = 0;
    let span = ask.seconds(30);
    let deep = rate(&stage, each * DESTINATIONS, span, &mut most).await?;
    report.at_least("deep_per_second", deep, shallow * AS_FAST);
    report.at_most("most_memory_mib", most as f64 / f64::from(1 << 20), MEMORY_MIB);
    report.must(stage.is_running(), "the node exited");
    stage.strike().await?;
    Ok(report)
}

/// Deliveries per second, from the first on, for as long as there are any, or for a time.
async fn rate(stage: &Stage, all: u64, span: Duration, most: &mut u64) -> Result<f64> {
    stage.receiver.clear();
    ensure!(stage.receiver.wait_for_succeeded(1, Duration::from_secs(20)).await, "nothing is delivered");
    let (began, first) = (Instant::now(), stage.receiver.succeeded());
    loop {
        let (now, done) = (began.elapsed(), stage.receiver.succeeded());
        *most = (*most).max(stage.node()?.rss_bytes()?);
        if done >= all || now >= span {
            return Ok((done - first) as f64 / now.as_secs_f64());
        }
        sleep(Duration::from_millis(10)).await;
    }
}
