//! Hazard: what several nodes say to each other costs more than they carry.
//!
//! The same closed loop of 128 connections on one node and on four, with everything on the same cores; three pairs, one
//! after the other, of ten seconds each (`--seconds`). With `--rate` as many events a second instead, however many nodes.
//!
//! Holds if the CPU time that nodes and database spend on an event grows by less than 15 % from one node to four (median
//! of three), and everything arrives.

use crate::harness::prelude::*;

const MANY: usize = 4;
const PAIRS: usize = 3;
const DESTINATIONS: usize = 40;
const SLOTS: u32 = 100;
const CONNECTIONS: u64 = 128;
const DEARER: f64 = 1.15;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let many = options.nodes(MANY);
    let (mut alone, mut together) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        alone.push(cost(options, 1, report).await?);
        together.push(cost(options, many, report).await?);
    }
    let show = |costs: &[Cost]| costs.iter().map(Cost::shown).collect::<Vec<_>>();
    report.note("one_node", show(&alone));
    report.note("several_nodes", show(&together));
    let us = |costs: &[Cost]| median(costs.iter().map(|cost| cost.nodes_us + cost.database_us));
    let (one, several) = (us(&alone), us(&together));
    report.note("us_per_event_one", rounded(one));
    report.note("us_per_event_several", rounded(several));
    report.must_be_at_most("dearer_by", several / one, DEARER);
    Ok(())
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

async fn cost(options: &Options, nodes: usize, report: &mut Report) -> Result<Cost> {
    let testbed = TestbedPlan::new(options)?.nodes(nodes).start_balanced().await?;
    testbed.receiver.recording(Recording::Counts);
    let source = RoutedSource::make(&testbed, DESTINATIONS, SLOTS).await?;
    let load = |span| {
        let connections = options.count(CONNECTIONS) as usize;
        let mut config = source.pump_singly(Until::Elapsed(span)).connections(connections);
        config.keep_log = false;
        match options.rate {
            Some(rate) => config.open(rate),
            None => config,
        }
    };
    let warm = lab::pump::run(load(Duration::from_secs(2))).await?;
    testbed.receiver.wait_for_succeeded(warm.accepted, Duration::from_secs(30)).await;
    sleep(Duration::from_millis(500)).await;
    testbed.receiver.clear();
    let before = CpuTime::of(&testbed).await?;
    let sent = lab::pump::run(load(options.seconds(10))).await?;
    let all = testbed.receiver.wait_for_succeeded(sent.accepted, Duration::from_secs(60)).await;
    let spent = CpuTime::spent(&testbed, &before).await?;
    report.must(all, format!("{nodes} nodes: {} of {} arrived", testbed.receiver.succeeded(), sent.accepted));
    let cost = Cost {
        nodes_us: us_per_event(spent.nodes, sent.accepted),
        database_us: us_per_event(spent.database, sent.accepted),
        per_second: sent.rate,
    };
    testbed.tear_down().await?;
    Ok(cost)
}
