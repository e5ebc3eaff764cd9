//! Hazard: a node dies, and its lanes with it.
//!
//! Three nodes under load, twenty destinations of four slots. Every three seconds one of them, drawn by a seed, is
//! killed (SIGKILL) and started again a second later, for a minute. At last one is killed and not started again until
//! the others have taken over.
//!
//! Holds if nothing is lost, duplicates stay within what the killed had open or unwritten, no destination ever has more
//! requests open than its limit, and no node sends for a lane it does not own; if the lanes of a killed node are at work
//! a second after its restart, and within the lease and two seconds if it stays away.

use lab::nemesis::{Act, Schedule};

use crate::harness::multi_node::{
    LEASE, TAKEN_OVER_WITHIN, at_work_after, drain_and_settle, lanes_of, play_kills, start_nodes,
};
use crate::harness::prelude::*;

const EVERY: Duration = Duration::from_secs(3);
const DOWN: Duration = Duration::from_secs(1);
/// The promise is the release build's; a debug build on a busy machine has more time.
const BACK_WITHIN: f64 = if cfg!(debug_assertions) { 4.0 } else { 1.0 };

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    play(options, TestbedPlan::of_several(options)?, options.seconds(60), report).await
}

/// The whole of it, on a testbed that is already planned.
pub(crate) async fn play(
    options: &Options,
    plan: TestbedPlan,
    span: Duration,
    report: &mut Report,
) -> Result<()> {
    let (mut testbed, source) = start_nodes(plan, 20, 4).await?;
    let nodes = testbed.nodes.len();
    let schedule = Schedule::every(options.seed(), EVERY, span, nodes, Act::Kill { down: DOWN });
    report.note("seed", schedule.seed);
    let pump = Pump::start(source.pump(Until::Stopped).open(options.rate(500.0)))?;
    let restarts = play_kills(&mut testbed, &schedule).await?;
    let mut faults: Vec<Fault> = restarts.iter().map(|(kill, _)| *kill).collect();
    // One that does not come back.
    let lonely = if nodes > 1 {
        sleep(EVERY).await;
        let kill = testbed.kill_node(nodes - 1).await?;
        faults.push(kill);
        sleep(LEASE + Duration::from_secs(4)).await;
        testbed.start_node(nodes - 1).await?;
        sleep(Duration::from_secs(2)).await;
        Some(kill)
    } else {
        None
    };
    let sent = pump.finish().await;
    report.note("kills", faults.len());
    let (_, ownership) = drain_and_settle(&mut testbed, &source, &sent, faults, report).await?;

    let (records, tenures) = (testbed.receiver.snapshot(), ownership.tenures(&testbed, &source));
    let mut slowest = 0.0f64;
    for (kill, back_us) in restarts {
        let Some(pid) = kill.sender else { continue };
        let lanes = lanes_of(&tenures, pid, kill.at_us);
        slowest = slowest.max(at_work_after(&records, &lanes, pid, back_us));
    }
    report.must_be_at_most("lanes_at_work_after_a_restart_seconds", slowest, BACK_WITHIN);
    if let Some((kill, pid)) = lonely.and_then(|kill| Some((kill, kill.sender?))) {
        let lanes = lanes_of(&tenures, pid, kill.at_us);
        report.note("lanes_taken_over", lanes.len());
        let seconds = at_work_after(&records, &lanes, pid, kill.at_us);
        report.must_be_at_most("lanes_taken_over_after_seconds", seconds, TAKEN_OVER_WITHIN);
    }
    testbed.tear_down().await
}
