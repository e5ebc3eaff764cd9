//! How fast it is, with everything on one machine: events of 512 bytes, one destination with many slots, a pump that
//! sends the next event when it has the answer to the last.
//!
//! Counts from the first post until the last event has arrived, at full durability, and says what an event costs in
//! CPU time at the node, the database, the pump and the receiver. `--seconds` is how long the pump runs.
//!
//! Holds if at least 8,000 events a second go through on SQLite, and 5,000 on PostgreSQL, and none is missing.

use std::time::Duration;

use anyhow::Result;
use client::NewDestination;
use lab::process::cpu_time;
use lab::{PumpConfig, Recording, Target, Until};

use crate::Ask;
use crate::harness::fleet::sole_destination;
use crate::harness::report::rounded;
use crate::harness::stage::API_KEY;
use crate::harness::{Plan, Report, Stage, StoreKind};

const SLOTS: u32 = 1_000;
const CONNECTIONS: u64 = 128;
const WARM_UP: Duration = Duration::from_secs(2);

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let stage = Plan::new(ask, store)?.start().await?;
    stage.receiver.recording(Recording::Counts);
    let plan = NewDestination { max_concurrency: Some(SLOTS), ..stage.destination("d") };
    sole_destination(&stage.client, &plan).await?;
    let pump = |until| PumpConfig {
        keep_log: false,
        connections: ask.count(CONNECTIONS) as usize,
        ..PumpConfig::new(Target::Publish { base: stage.base(), key: API_KEY.into() }, until)
    };
    let warm = lab::pump::run(pump(Until::Elapsed(WARM_UP))).await?;
    stage.receiver.wait_for_succeeded(warm.accepted, Duration::from_secs(30)).await;
    stage.receiver.clear();

    let before = Costs::now(&stage).await?;
    let began_us = stage.receiver.now_us();
    let sent = lab::pump::run(pump(Until::Elapsed(ask.seconds(15)))).await?;
    let all = stage.receiver.wait_for_succeeded(sent.accepted, Duration::from_secs(60)).await;
    let last_us = stage.receiver.span_us().map_or(0, |span| span.end);
    let after = Costs::now(&stage).await?;
    report.must(all, format!("{} of {} arrived", stage.receiver.succeeded(), sent.accepted));
    report.exactly("not_accepted", sent.offered - sent.accepted, 0u64);
    report.exactly("arrived", stage.receiver.succeeded(), sent.accepted);

    let events = sent.accepted.max(1) as f64;
    let seconds = last_us.saturating_sub(began_us) as f64 / 1e6;
    let floor = if store == StoreKind::Sqlite { 8_000.0 } else { 5_000.0 };
    report.at_least("events_per_second", events / seconds, floor);
    report.note("accepted_per_second", rounded(sent.rate));
    report.note("ack_latency", &sent.latency);
    report.note("end_to_end", stage.receiver.end_to_end());
    let per_event = |cost: Duration| rounded(cost.as_secs_f64() * 1e6 / events);
    report.note("node_cpu_us_per_event", per_event(after.node - before.node));
    report.note("database_cpu_us_per_event", per_event(after.database - before.database));
    report.note("pump_cpu_us_per_event", per_event(sent.cpu));
    // Everything of our own process that is not the pump is the receiver.
    report.note("receiver_cpu_us_per_event", per_event((after.own - before.own).saturating_sub(sent.cpu)));
    report.note("node_rss_mib", stage.node()?.rss_bytes()? >> 20);
    stage.strike().await?;
    Ok(report)
}

struct Costs {
    node: Duration,
    database: Duration,
    own: Duration,
}

impl Costs {
    async fn now(stage: &Stage) -> Result<Costs> {
        let database = match stage.database.server() {
            Some(server) => server.cpu_time().await?,
            None => Duration::ZERO,
        };
        Ok(Costs { node: stage.node()?.cpu_time()?, database, own: cpu_time(std::process::id())? })
    }
}
