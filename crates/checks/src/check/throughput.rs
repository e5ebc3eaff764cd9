//! How fast it is, with everything on one machine: events of 512 bytes, one destination with many slots, a pump that
//! sends the next event when it has the answer to the last.
//!
//! Counts from the first post until the last event has arrived, at full durability, and says what an event costs in
//! CPU time at the node, the database, the pump and the receiver; and how that compares with what pump and receiver
//! cost, which depends less on how fast the machine is at the moment. `--seconds` is how long the pump runs in a round.
//!
//! Holds if in the best of three rounds at least 8,000 events a second go through on SQLite, and 5,000 on PostgreSQL, and
//! none is missing in any. The best, because whatever else the machine has to do only ever takes away.

use std::time::Duration;

use anyhow::{Context, Result};
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
const ROUNDS: usize = 3;
const WARM_UP: Duration = Duration::from_secs(2);

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let stage = Plan::new(ask, store)?.start().await?;
    stage.receiver.recording(Recording::Counts);
    let plan = NewDestination { max_concurrency: SLOTS, ..stage.destination("d") };
    sole_destination(&stage.client, &plan).await?;
    let pump = |until| PumpConfig {
        keep_log: false,
        connections: ask.count(CONNECTIONS) as usize,
        ..PumpConfig::new(Target::Publish { base: stage.base(), key: API_KEY.into() }, until)
    };
    let warm = lab::pump::run(pump(Until::Elapsed(WARM_UP))).await?;
    stage.receiver.wait_for_succeeded(warm.accepted, Duration::from_secs(30)).await;

    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let config = pump(Until::Elapsed(ask.seconds(8)));
        rounds.push(one_round(&stage, config, &mut report).await?);
    }
    let best = rounds.iter().max_by(|one, other| one.per_second.total_cmp(&other.per_second));
    let best = best.context("there was no round")?;
    let floor = if store == StoreKind::Sqlite { 8_000.0 } else { 5_000.0 };
    report.at_least("events_per_second", best.per_second, floor);
    report.note("rounds", rounds.iter().map(|round| rounded(round.per_second)).collect::<Vec<_>>());
    best.describe(&mut report);
    report.note("node_rss_mib", stage.node()?.rss_bytes()? >> 20);
    stage.strike().await?;
    Ok(report)
}

struct Round {
    per_second: f64,
    sent: lab::PumpReport,
    end_to_end: lab::Histogram,
    costs: Costs,
}

async fn one_round(stage: &Stage, config: PumpConfig, report: &mut Report) -> Result<Round> {
    stage.receiver.clear();
    let before = Costs::now(stage).await?;
    let began_us = stage.receiver.now_us();
    let sent = lab::pump::run(config).await?;
    let all = stage.receiver.wait_for_succeeded(sent.accepted, Duration::from_secs(60)).await;
    let last_us = stage.receiver.span_us().map_or(0, |span| span.end);
    let after = Costs::now(stage).await?;
    let arrived = stage.receiver.succeeded();
    report.must(all && arrived == sent.accepted, format!("{arrived} of {} arrived", sent.accepted));
    report.must(sent.accepted == sent.offered, format!("{} of {} accepted", sent.accepted, sent.offered));
    let per_second = sent.accepted as f64 / last_us.saturating_sub(began_us).max(1) as f64 * 1e6;
    let end_to_end = stage.receiver.end_to_end();
    Ok(Round { per_second, sent, end_to_end, costs: after.since(&before) })
}

impl Round {
    fn describe(&self, report: &mut Report) {
        let Self { sent, costs, .. } = self;
        let per_event = |cost: Duration| cost.as_secs_f64() * 1e6 / sent.accepted.max(1) as f64;
        report.note("accepted_per_second", rounded(sent.rate));
        report.note("ack_latency", &sent.latency);
        report.note("end_to_end", &self.end_to_end);
        report.note("node_cpu_us_per_event", rounded(per_event(costs.node)));
        report.note("database_cpu_us_per_event", rounded(per_event(costs.database)));
        report.note("pump_cpu_us_per_event", rounded(per_event(sent.cpu)));
        // Everything of our own process that is not the pump is the receiver.
        let receiver = costs.own.saturating_sub(sent.cpu);
        report.note("receiver_cpu_us_per_event", rounded(per_event(receiver)));
        let ratio = (costs.node + costs.database).as_secs_f64() / costs.own.as_secs_f64().max(f64::EPSILON);
        report.note("cpu_of_pump_and_receiver", rounded(ratio));
    }
}

struct Costs {
    node: Duration,
    database: Duration,
    own: Duration,
}

impl Costs {
    fn since(&self, before: &Costs) -> Costs {
        Costs {
            node: self.node - before.node,
            database: self.database - before.database,
            own: self.own - before.own,
        }
    }

    async fn now(stage: &Stage) -> Result<Costs> {
        let database = match stage.database.server() {
            Some(server) => server.cpu_time().await?,
            None => Duration::ZERO,
        };
        Ok(Costs { node: stage.node()?.cpu_time()?, database, own: cpu_time(std::process::id())? })
    }
}
