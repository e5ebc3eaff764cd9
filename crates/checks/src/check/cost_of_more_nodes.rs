//! Hazard: what several nodes say to each other costs more than they carry.
//!
//! The same closed loop of 128 connections on one node and on four, with everything on the same cores; three pairs, one
//! after the other, of ten seconds each (`--seconds`). With `--rate` as many events a second instead, however many nodes.
//!
//! Holds if the CPU time that nodes and database spend on an event grows by less than 15 % from one node to four (median
//! of three), and everything arrives.

use std::time::Duration;

use anyhow::Result;
use lab::{Recording, Until};
use serde_json::json;
use tokio::time::sleep;

use crate::Ask;
use crate::harness::report::rounded;
use crate::harness::{Fleet, Plan, Report, Stage, StoreKind};

const MANY: usize = 4;
const PAIRS: usize = 3;
const DESTINATIONS: usize = 40;
const SLOTS: u32 = 100;
const CONNECTIONS: u64 = 128;
const DEARER: f64 = 1.15;

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let many = ask.nodes(store, MANY);
    let (mut alone, mut together) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        alone.push(cost(ask, store, 1, &mut report).await?);
        together.push(cost(ask, store, many, &mut report).await?);
    }
    let show = |costs: &[Cost]| costs.iter().map(Cost::shown).collect::<Vec<_>>();
    report.note("one_node", show(&alone));
    report.note("several_nodes", show(&together));
    let (one, several) = (median(&alone), median(&together));
    report.note("us_per_event_one", rounded(one));
    report.note("us_per_event_several", rounded(several));
    report.at_most("dearer_by", several / one, DEARER);
    Ok(report)
}

struct Cost {
    nodes_us: f64,
    database_us: f64,
    per_second: f64,
}

impl Cost {
    fn shown(&self) -> serde_json::Value {
        json!({
            "nodes_us": rounded(self.nodes_us), "database_us": rounded(self.database_us),
            "events_per_second": rounded(self.per_second),
        })
    }
}

fn median(costs: &[Cost]) -> f64 {
    let mut all: Vec<f64> = costs.iter().map(|cost| cost.nodes_us + cost.database_us).collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

async fn cost(ask: &Ask, store: StoreKind, nodes: usize, report: &mut Report) -> Result<Cost> {
    let mut stage = Plan::new(ask, store)?.nodes(nodes).start().await?;
    stage.balanced(Duration::from_secs(30)).await?;
    stage.receiver.recording(Recording::Counts);
    let fleet = Fleet::assemble(&stage, DESTINATIONS, SLOTS).await?;
    let load = |span| {
        let mut config = fleet.pump(Until::Elapsed(span)).connections(ask.count(CONNECTIONS) as usize);
        // One delivery an event.
        config.event_types.pop();
        config.keep_log = false;
        match ask.rate {
            Some(rate) => config.open(rate),
            None => config,
        }
    };
    let warm = lab::pump::run(load(Duration::from_secs(2))).await?;
    stage.receiver.wait_for_succeeded(warm.accepted, Duration::from_secs(30)).await;
    sleep(Duration::from_millis(500)).await;
    stage.receiver.clear();
    let before = spent(&stage).await?;
    let sent = lab::pump::run(load(ask.seconds(10))).await?;
    let all = stage.receiver.wait_for_succeeded(sent.accepted, Duration::from_secs(60)).await;
    let after = spent(&stage).await?;
    report.must(all, format!("{nodes} nodes: {} of {} arrived", stage.receiver.succeeded(), sent.accepted));
    let each = |from: Duration, to: Duration| (to - from).as_secs_f64() * 1e6 / sent.accepted.max(1) as f64;
    let cost = Cost {
        nodes_us: each(before.0, after.0),
        database_us: each(before.1, after.1),
        per_second: sent.rate,
    };
    stage.strike().await?;
    Ok(cost)
}

/// CPU time of the nodes, and of the database.
async fn spent(stage: &Stage) -> Result<(Duration, Duration)> {
    let mut nodes = Duration::ZERO;
    for member in &stage.members {
        nodes += member.node()?.cpu_time()?;
    }
    let database = match stage.database.server() {
        Some(server) => server.cpu_time().await?,
        None => Duration::ZERO,
    };
    Ok((nodes, database))
}
