//! Hazard: a node sleeps longer than its lease and wakes up believing that it still owns its lanes.
//!
//! Three nodes under load; at ten seconds and at forty (`--count` of them) one of them, drawn by a seed, is stopped
//! (SIGSTOP) for 25 seconds and then goes on.
//!
//! Holds if nothing is lost; if after its thaw the node sends nothing for a lane that is not its own; if what it
//! settles late moves nothing, so that every delivery ends once; if no destination has more requests open than its
//! limit and those that were under way at the stop; if the others have taken over within the lease and two seconds;
//! and if the node has its share of the lanes again within twenty seconds of its thaw, in the same process.

use std::time::Duration;

use anyhow::Result;
use lab::nemesis::{Act, Schedule};
use lab::{Pump, Until};
use tokio::time::{Instant, sleep, sleep_until};

use crate::Ask;
use crate::harness::several::{at_work_after, begin, end, lanes_of};
use crate::harness::{Plan, Report, StoreKind};

const STILL: u64 = 25;
const FIRST: Duration = Duration::from_secs(10);
const CALM: Duration = Duration::from_secs(5);
const TAKEN_OVER_WITHIN: f64 = 12.0;
const BACK_WITHIN: Duration = Duration::from_secs(20);

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let nodes = ask.nodes(store, 3);
    let still = ask.seconds(STILL);
    let (mut stage, fleet) = begin(Plan::new(ask, store)?.nodes(nodes), 20, 4).await?;
    let times: Vec<Duration> = (0..ask.count(2) as u32).map(|n| FIRST + (still + CALM) * n).collect();
    let schedule = Schedule::at(ask.seed(), &times, nodes, Act::Freeze { still });
    report.note("seed", schedule.seed);
    let mut config = fleet.pump(Until::Stopped).open(ask.rate(500.0));
    // A frozen door says nothing; a producer with others to go to does not wait for long.
    config.answer_timeout = Duration::from_secs(3);
    let pump = Pump::start(config)?;
    let began = Instant::now();
    let (mut faults, mut slowest_return) = (Vec::new(), Duration::ZERO);
    for planned in &schedule.acts {
        sleep_until(began + planned.at).await;
        let mut freeze = stage.freeze_one(planned.node).await?;
        sleep(still).await;
        stage.thaw_one(planned.node, &mut freeze).await?;
        faults.push(freeze);
        slowest_return = slowest_return.max(stage.balanced(Duration::from_secs(30)).await?);
    }
    sleep(CALM).await;
    let sent = pump.finish().await;
    let (_, history) = end(&mut stage, &fleet, &sent, faults.clone(), &mut report).await?;

    let (records, tenures) = (stage.receiver.snapshot(), history.tenures(&stage, &fleet));
    let mut slowest = 0.0f64;
    for (freeze, pid) in faults.iter().filter_map(|freeze| Some((freeze, freeze.sender?))) {
        let lanes = lanes_of(&tenures, pid, freeze.at_us);
        slowest = slowest.max(at_work_after(&records, &lanes, pid, freeze.at_us));
    }
    report.at_most("lanes_taken_over_after_seconds", slowest, TAKEN_OVER_WITHIN);
    report.at_most(
        "shares_even_after_the_thaw_seconds",
        slowest_return.as_secs_f64(),
        BACK_WITHIN.as_secs_f64(),
    );
    let late = stage.database.number("select count(*) from attempts where late").await?;
    report.note("late_settlements", late);
    let lost = history.losses(&stage, &faults).len();
    report.exactly("nodes_replaced", lost as u64, faults.len() as u64);
    stage.strike().await?;
    Ok(report)
}
