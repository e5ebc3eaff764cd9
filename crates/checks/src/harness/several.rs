//! The beginning and the end that checks on several nodes have in common, and what is measured on the way.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use lab::judge::Tenure;
use lab::{Fault, Latency, PumpReport, Record, Reply, Verdict};

use super::audit::settle_accounts_of_all;
use super::ownership::History;
use super::{Fleet, Plan, Report, Stage};

/// Starts the nodes, waits until they share the shards, watches who owns what from then on, and makes the destinations,
/// which take between 5 and 40 ms: slow enough that every fault finds requests open.
pub(crate) async fn begin(plan: Plan, destinations: usize, slots: u32) -> Result<(Stage, Fleet)> {
    let mut stage = plan.start().await?;
    stage.balanced(Duration::from_secs(30)).await?;
    History::begin(&stage.database).await?;
    let fleet = Fleet::assemble(&stage, destinations, slots).await?;
    let latency = Latency::Uniform { from: Duration::from_millis(5), to: Duration::from_millis(40) };
    stage.receiver.default_script(Reply::ok().after(latency));
    Ok((stage, fleet))
}

/// Lets everything drain and settles the accounts.
pub(crate) async fn end(
    stage: &mut Stage,
    fleet: &Fleet,
    sent: &PumpReport,
    faults: Vec<Fault>,
    report: &mut Report,
) -> Result<(Verdict, History)> {
    let left = stage.quiesce(Duration::from_secs(60)).await?;
    report.exactly("left_in_queue", left, 0u64);
    report.note("pump", sent);
    report
        .must(sent.refused.is_empty() && sent.unanswered == 0, "some events were refused or never answered");
    report.must(stage.all_running(), "a node exited");
    settle_accounts_of_all(stage, fleet, fleet.promised(&sent.sent), faults, report).await
}

/// The destinations whose lanes a process owned at a moment.
pub(crate) fn lanes_of(tenures: &[Tenure], sender: u32, at_us: u64) -> Vec<Arc<str>> {
    let owned =
        |tenure: &&Tenure| tenure.sender == sender && (tenure.from_us..tenure.until_us).contains(&at_us);
    tenures.iter().filter(owned).map(|tenure| tenure.destination.clone()).collect()
}

/// How long it took after a moment until all of these lanes were seen at work by somebody else than this process;
/// infinite if one never was.
pub(crate) fn at_work_after(records: &[Record], lanes: &[Arc<str>], sender: u32, from_us: u64) -> f64 {
    let first = |lane: &Arc<str>| {
        let heir = |record: &&Record| {
            record.destination == *lane && record.start_us >= from_us && record.sender != Some(sender)
        };
        let first_us = records.iter().find(heir).map(|record| record.start_us);
        first_us.map_or(f64::INFINITY, |first_us| (first_us - from_us) as f64 / 1e6)
    };
    lanes.iter().map(first).fold(0.0, f64::max)
}
