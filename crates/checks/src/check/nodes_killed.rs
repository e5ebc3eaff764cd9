//! Hazard: a node dies, and its lanes with it.
//!
//! Three nodes under load, twenty destinations of four slots. Every three seconds one of them, drawn by a seed, is
//! killed (SIGKILL) and started again a second later, for a minute. At last one is killed and not started again until
//! the others have taken over.
//!
//! Holds if nothing is lost, duplicates stay within what the killed had open or unwritten, no destination ever has more
//! requests open than its limit, and nobody sends for a lane it does not own; if the lanes of a killed node are at work
//! a second after its restart, and within the lease and two seconds if it stays away.

use std::time::Duration;

use anyhow::Result;
use lab::nemesis::{Act, Schedule};
use lab::{Pump, Until};
use tokio::time::{Instant, sleep, sleep_until};

use crate::Ask;
use crate::harness::several::{at_work_after, begin, end, lanes_of};
use crate::harness::{Plan, Report, StoreKind};

const EVERY: Duration = Duration::from_secs(3);
const DOWN: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(10);
/// The promise is the release build's; a debug build on a busy machine has more time.
const BACK_WITHIN: f64 = if cfg!(debug_assertions) { 4.0 } else { 1.0 };
const TAKEN_OVER_WITHIN: f64 = 12.0;

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let nodes = ask.nodes(store, 3);
    let plan = Plan::new(ask, store)?.nodes(nodes);
    played(ask, plan, nodes, ask.seconds(60), &mut report).await?;
    Ok(report)
}

/// The whole of it, on a stage that is already planned.
pub(crate) async fn played(
    ask: &Ask,
    plan: Plan,
    nodes: usize,
    span: Duration,
    report: &mut Report,
) -> Result<()> {
    let (mut stage, fleet) = begin(plan, 20, 4).await?;
    let schedule = Schedule::every(ask.seed(), EVERY, span, nodes, Act::Kill { down: DOWN });
    report.note("seed", schedule.seed);
    let pump = Pump::start(fleet.pump(Until::Stopped).open(ask.rate(500.0)))?;
    let began = Instant::now();
    let (mut faults, mut restarts) = (Vec::new(), Vec::new());
    for planned in &schedule.acts {
        sleep_until(began + planned.at).await;
        let kill = stage.kill_one(planned.node).await?;
        sleep(DOWN).await;
        stage.start_one(planned.node).await?;
        restarts.push((kill, stage.receiver.now_us()));
        faults.push(kill);
    }
    // One that does not come back.
    let lonely = if nodes > 1 {
        sleep(EVERY).await;
        let kill = stage.kill_one(nodes - 1).await?;
        faults.push(kill);
        sleep(LEASE + Duration::from_secs(4)).await;
        stage.start_one(nodes - 1).await?;
        sleep(Duration::from_secs(2)).await;
        Some(kill)
    } else {
        None
    };
    let sent = pump.finish().await;
    report.note("kills", faults.len());
    let (_, history) = end(&mut stage, &fleet, &sent, faults, report).await?;

    let (records, tenures) = (stage.receiver.snapshot(), history.tenures(&stage, &fleet));
    let mut slowest = 0.0f64;
    for (kill, back_us) in restarts {
        let Some(pid) = kill.sender else { continue };
        let lanes = lanes_of(&tenures, pid, kill.at_us);
        slowest = slowest.max(at_work_after(&records, &lanes, pid, back_us));
    }
    report.at_most("lanes_at_work_after_a_restart_seconds", slowest, BACK_WITHIN);
    if let Some((kill, pid)) = lonely.and_then(|kill| Some((kill, kill.sender?))) {
        let lanes = lanes_of(&tenures, pid, kill.at_us);
        report.note("lanes_taken_over", lanes.len());
        let seconds = at_work_after(&records, &lanes, pid, kill.at_us);
        report.at_most("lanes_taken_over_after_seconds", seconds, TAKEN_OVER_WITHIN);
    }
    stage.strike().await
}
