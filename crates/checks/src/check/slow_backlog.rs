//! Hazard: a slow destination with a long backlog makes the quiet ones wait.
//!
//! Nineteen destinations get five events a second each (`--rate` in all), once alone and once beside one that takes five
//! seconds to answer and for which a hundred thousand wait (`--count`). Three such pairs, one after the other, of
//! `--seconds` each.
//!
//! Holds if beside it the 99th percentile from post to arrival is at most a second, and at most a fifth above that without
//! it (median of three), and if all slots of the slow one are in use.

use crate::harness::bystanders::BystanderTestbed;
use crate::harness::prelude::*;

const SLOW: Duration = Duration::from_secs(5);
const SLOTS: u32 = 5;
const PAIRS: usize = 3;
const P99_MS: f64 = 1_000.0;
const TOLERANCE: f64 = 1.2;
/// So much more is the machine's own scheduler, at the five worst of five hundred.
const FLOOR_MS: f64 = 5.0;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut alone = prepare(options, 0).await?;
    let mut beside = prepare(options, options.count(100_000)).await?;
    let mut pairs = Pairs::default();
    for _ in 0..PAIRS {
        pairs.alone.push(p99_ms(&mut alone, options, report).await?);
        pairs.beside.push(p99_ms(&mut beside, options, report).await?);
        let open = beside.testbed.receiver.max_open("noisy");
        report.must(open == SLOTS, format!("the slow one had {open} requests open"));
    }
    report.note("waiting", beside.template.waiting(&beside.testbed.database).await?);
    let (alone_ms, beside_ms) = pairs.medians("p99_ms_alone", "p99_ms_beside", report);
    report.note("p99_ms_alone", alone_ms);
    report.must_be_at_most("p99_ms_beside", beside_ms, (alone_ms * TOLERANCE + FLOOR_MS).min(P99_MS));
    alone.testbed.tear_down().await?;
    beside.testbed.tear_down().await
}

async fn prepare(options: &Options, backlog: u64) -> Result<BystanderTestbed> {
    let mut side = BystanderTestbed::start(TestbedPlan::new(options)?, "noisy", SLOTS).await?;
    side.testbed.receiver.script("noisy", Reply::ok().after(SLOW));
    let patience = json!({ "timeout_seconds": 2 * SLOW.as_secs() });
    side.testbed.client.update_destination(side.template.destination, &patience).await?;
    side.fill(backlog).await?;
    Ok(side)
}

async fn p99_ms(side: &mut BystanderTestbed, options: &Options, report: &mut Report) -> Result<f64> {
    side.testbed.receiver.clear();
    side.testbed.start().await?;
    let pump = side.bystanders.load(options.rate(95.0)).await?;
    let arrived = side.bystanders.watch(&side.testbed.receiver, options.seconds(5)).await;
    ensure!(arrived.events > 0, "nothing arrived at the quiet ones");
    side.bystanders.finish(pump, &side.testbed.receiver, report).await;
    side.wait_until_settled().await?;
    // Not stopped: the slow one would hold it up.
    side.testbed.kill().await?;
    Ok(rounded(arrived.end_to_end.percentile_ms(99.0)))
}
