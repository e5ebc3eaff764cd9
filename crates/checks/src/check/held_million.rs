//! Hazard: what waits for a destination that may not be asked is looked over again and again, at the expense of all other destinations.
//!
//! Nineteen destinations under a steady load (`--rate`), once alone and once beside one for which a million wait
//! (`--count`), and which said 429 and asked for an hour. Three such pairs, one after the other, of `--seconds` each.
//!
//! Holds if the CPU time that node and database spend on an event of the others is the same within a tenth (median of
//! three), and if the one that is held gets no request after its first ones, over the restarts too.

use crate::harness::bystanders::BystanderTestbed;
use crate::harness::prelude::*;

const AN_HOUR: u64 = 3_600;
const SLOTS: u32 = 5;
const PAIRS: usize = 3;
const DEARER: f64 = 1.1;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut alone = prepare(options, 0).await?;
    let mut beside = prepare(options, options.count(1_000_000)).await?;
    // It says 429 and is held from then on.
    beside.testbed.start().await?;
    let asked = beside.testbed.receiver.wait_for_arrivals("held", 1, Duration::from_secs(20)).await;
    ensure!(asked, "the one with the backlog was never asked");
    tokio::time::sleep(Duration::from_secs(1)).await;
    beside.testbed.stop().await?;
    report.must_be_at_most("requests_before_the_hold", beside.testbed.receiver.arrivals("held"), SLOTS);

    let mut pairs = Pairs::default();
    for _ in 0..PAIRS {
        pairs.alone.push(measure(&mut alone, options, report).await?);
        pairs.beside.push(measure(&mut beside, options, report).await?);
        report.must_be("requests_while_held", beside.testbed.receiver.arrivals("held"), 0);
    }
    report.note("waiting", beside.template.waiting(&beside.testbed.database).await?);
    let (alone_us, beside_us) = pairs.medians("us_per_event_alone", "us_per_event_beside", report);
    report.note("us_per_event_alone", alone_us);
    report.note("us_per_event_beside", beside_us);
    report.must_be_at_most("dearer_by", beside_us / alone_us, DEARER);
    alone.testbed.tear_down().await?;
    beside.testbed.tear_down().await
}

async fn prepare(options: &Options, backlog: u64) -> Result<BystanderTestbed> {
    let mut side = BystanderTestbed::start(TestbedPlan::new(options)?, "held", SLOTS).await?;
    side.testbed.receiver.script("held", Reply::throttled(AN_HOUR));
    side.fill(backlog).await?;
    Ok(side)
}

/// CPU time of node and database for an event of the others; the node runs for this only.
async fn measure(side: &mut BystanderTestbed, options: &Options, report: &mut Report) -> Result<f64> {
    side.testbed.receiver.clear();
    side.testbed.start().await?;
    let pump = side.bystanders.load(options.rate(500.0)).await?;
    let before = CpuTime::of(&side.testbed).await?;
    let arrived = side.bystanders.watch(&side.testbed.receiver, options.seconds(6)).await;
    let spent = CpuTime::spent(&side.testbed, &before).await?;
    ensure!(arrived.events > 0, "nothing arrived at the others");
    side.bystanders.finish(pump, &side.testbed.receiver, report).await;
    side.testbed.stop().await?;
    Ok(rounded(us_per_event(spent.of_nodes_and_database(), arrived.events)))
}
