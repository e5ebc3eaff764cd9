//! Hazard: a node sleeps longer than its lease and wakes up believing that it still owns its lanes.
//!
//! Three nodes under load; at ten seconds and at forty (`--count` of them) one of them, drawn by a seed, is stopped
//! (SIGSTOP) for 25 seconds and then goes on.
//!
//! Holds if nothing is lost; if after its thaw the node sends nothing for a lane that is not its own; if what it
//! settles late moves nothing, so that every delivery ends once; if no destination has more requests open than its
//! limit and those that were under way at the stop; if the others have taken over within the lease and two seconds;
//! and if the node has its share of the lanes again within twenty seconds of its thaw, in the same process.

use lab::nemesis::{Act, Schedule};
use tokio::time::{Instant, sleep_until};

use crate::harness::multi_node::{
    TAKEN_OVER_WITHIN, at_work_after, drain_and_settle, lanes_of, start_usual_nodes,
};
use crate::harness::prelude::*;

const STILL: u64 = 25;
const FIRST: Duration = Duration::from_secs(10);
const CALM: Duration = Duration::from_secs(5);
const BACK_WITHIN: Duration = Duration::from_secs(20);

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let still = options.seconds(STILL);
    let (mut testbed, source) = start_usual_nodes(options).await?;
    let times: Vec<Duration> = (0..options.count(2) as u32).map(|n| FIRST + (still + CALM) * n).collect();
    let schedule = Schedule::at(options.seed(), &times, testbed.nodes.len(), Act::Freeze { still });
    report.note("seed", schedule.seed);
    let mut config = source.pump(Until::Stopped).open(options.rate(500.0));
    // A frozen door says nothing; a producer with others to go to does not wait for long.
    config.answer_timeout = Duration::from_secs(3);
    let pump = Pump::start(config)?;
    let began = Instant::now();
    let (mut faults, mut slowest_return) = (Vec::new(), Duration::ZERO);
    for planned in &schedule.acts {
        sleep_until(began + planned.at).await;
        let mut freeze = testbed.freeze_node(planned.node).await?;
        sleep(still).await;
        testbed.thaw_node(planned.node, &mut freeze).await?;
        faults.push(freeze);
        slowest_return = slowest_return.max(testbed.wait_until_balanced(Duration::from_secs(30)).await?);
    }
    sleep(CALM).await;
    let sent = pump.finish().await;
    let (_, ownership) = drain_and_settle(&mut testbed, &source, &sent, faults.clone(), report).await?;

    let (records, tenures) = (testbed.receiver.snapshot(), ownership.tenures(&testbed, &source));
    let mut slowest = 0.0f64;
    for (freeze, pid) in faults.iter().filter_map(|freeze| Some((freeze, freeze.sender?))) {
        let lanes = lanes_of(&tenures, pid, freeze.at_us);
        slowest = slowest.max(at_work_after(&records, &lanes, pid, freeze.at_us));
    }
    report.must_be_at_most("lanes_taken_over_after_seconds", slowest, TAKEN_OVER_WITHIN);
    report.must_be_at_most("shares_even_after_the_thaw_seconds", slowest_return, BACK_WITHIN);
    let late = testbed.database.number("select count(*) from attempts where late").await?;
    report.note("late_settlements", late);
    let lost = ownership.losses(&testbed, &faults).len();
    report.must_be("nodes_replaced", lost, faults.len() as u64);
    testbed.tear_down().await
}
