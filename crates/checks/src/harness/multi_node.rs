//! The beginning and the end that checks on several nodes have in common, and what is measured on the way.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use lab::judge::Tenure;
use lab::nemesis::{Act, Schedule};
use lab::{Fault, Latency, PumpReport, Record, Reply, Verdict};
use tokio::time::{Instant, sleep, sleep_until};

use super::audit::settle_accounts_of_all;
use super::ownership::OwnershipLog;
use super::{Options, Report, RoutedSource, Testbed, TestbedPlan};

/// Starts the nodes, waits until they share the shards, watches which owns what from then on, and makes the destinations.
pub(crate) async fn start_nodes(
    plan: TestbedPlan,
    destinations: usize,
    slots: u32,
) -> Result<(Testbed, RoutedSource)> {
    let testbed = start_watched(plan).await?;
    let source = RoutedSource::make(&testbed, destinations, slots).await?;
    testbed.receiver.default_script(Reply::ok().after(SLOW_ENOUGH));
    Ok((testbed, source))
}

/// The usual: three nodes, twenty destinations of four slots.
pub(crate) async fn start_usual_nodes(options: &Options) -> Result<(Testbed, RoutedSource)> {
    start_nodes(TestbedPlan::of_several(options)?, 20, 4).await
}

/// Nodes that share the shards, and are watched from then on.
pub(crate) async fn start_watched(plan: TestbedPlan) -> Result<Testbed> {
    let testbed = plan.start_balanced().await?;
    OwnershipLog::begin(&testbed.database).await?;
    Ok(testbed)
}

/// For how long a node may act without a renewal, by the settings of all checks.
pub(crate) const LEASE: Duration = Duration::from_secs(10);
/// The lanes of a node that stays away are at work elsewhere by then.
pub(crate) const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(12);

/// Every fault finds requests open.
pub(crate) const SLOW_ENOUGH: Latency =
    Latency::Uniform { from: Duration::from_millis(5), to: Duration::from_millis(40) };

/// Kills nodes as planned and starts each again a while later. Each kill, and when its node was back.
pub(crate) async fn play_kills(testbed: &mut Testbed, schedule: &Schedule) -> Result<Vec<(Fault, u64)>> {
    let (began, mut kills) = (Instant::now(), Vec::new());
    for planned in &schedule.acts {
        let Act::Kill { down } = planned.act else { continue };
        sleep_until(began + planned.at).await;
        let kill = testbed.kill_node(planned.node).await?;
        sleep(down).await;
        testbed.start_node(planned.node).await?;
        kills.push((kill, testbed.receiver.now_us()));
    }
    Ok(kills)
}

/// Everything was accepted, no node has ended, and the accounts are settled once nothing waits any more.
pub(crate) async fn drain_and_settle(
    testbed: &mut Testbed,
    source: &RoutedSource,
    sent: &PumpReport,
    faults: Vec<Fault>,
    report: &mut Report,
) -> Result<(Verdict, OwnershipLog)> {
    report.must_all_be_accepted(sent);
    testbed.must_be_running(report);
    settle_accounts_of_all(testbed, source, source.evidence(sent, faults), report).await
}

/// The destinations whose lanes a process owned at a moment.
pub(crate) fn lanes_of(tenures: &[Tenure], sender: u32, at_us: u64) -> Vec<Arc<str>> {
    let owned =
        |tenure: &&Tenure| tenure.sender == sender && (tenure.from_us..tenure.until_us).contains(&at_us);
    tenures.iter().filter(owned).map(|tenure| tenure.destination.clone()).collect()
}

/// How long it took after a moment until all of these lanes were seen at work by another process than this one;
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
