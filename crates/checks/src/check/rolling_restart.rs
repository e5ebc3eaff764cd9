//! Hazard: a rolling restart, done every week, delays or doubles what passes through.
//!
//! Three nodes under load; one after the other is told to stop (SIGTERM), started again and given time to get its share
//! of the lanes back (`--count` rounds of all three).
//!
//! Holds if nothing is lost and nothing is doubled, no event arrives later than two seconds after its producer first
//! sent it, no request is cut off, and each node exits with 0.

use lab::RequestEnd;

use crate::harness::multi_node::{drain_and_settle, start_nodes};
use crate::harness::prelude::*;

const LATEST_SECONDS: f64 = 2.0;
const CALM: Duration = Duration::from_secs(3);

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let nodes = options.nodes(3);
    let (mut testbed, source) = start_nodes(TestbedPlan::of_several(options)?, 20, 8).await?;
    let pump = Pump::start(source.pump(Until::Stopped).open(options.rate(1_000.0)))?;
    sleep(CALM).await;
    let (mut faults, mut slowest_stop, mut slowest_share) = (Vec::new(), 0.0f64, 0.0f64);
    for at in (0..options.count(1)).flat_map(|_| 0..nodes) {
        let pid = testbed.nodes[at].process()?.pid();
        faults.push(Fault::new(FaultKind::Terminate, testbed.receiver.now_us(), Some(pid)));
        let told = std::time::Instant::now();
        let status = testbed.nodes[at].process_mut()?.stop(Duration::from_secs(30)).await?;
        let status = status.context("a node did not stop within 30 s")?;
        report.must(status.success(), format!("node {at} ended with {status}"));
        slowest_stop = slowest_stop.max(told.elapsed().as_secs_f64());
        testbed.start_node(at).await?;
        slowest_share =
            slowest_share.max(testbed.wait_until_balanced(Duration::from_secs(60)).await?.as_secs_f64());
        sleep(options.seconds(CALM.as_secs())).await;
    }
    let sent = pump.finish().await;
    report.note("slowest_stop_seconds", slowest_stop);
    report.note("slowest_to_even_shares_seconds", slowest_share);
    let (verdict, _) = drain_and_settle(&mut testbed, &source, &sent, faults, report).await?;
    report.must_be("doubled", verdict.duplicates, 0);
    let records = testbed.receiver.snapshot();
    let cut = records.iter().filter(|record| record.end == RequestEnd::Aborted).count();
    report.must_be("cut_off", cut, 0);
    let first = |record: &&Record| record.attempt <= 1;
    let latest = records.iter().filter(first).filter_map(|record| record.end_to_end_us).max();
    report.must_be_at_most("latest_arrival_seconds", latest.unwrap_or(u64::MAX) as f64 / 1e6, LATEST_SECONDS);
    report.note("end_to_end", testbed.receiver.end_to_end());
    testbed.tear_down().await
}
