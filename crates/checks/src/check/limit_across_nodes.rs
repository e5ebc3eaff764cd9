//! Hazard: each of three nodes keeps to the limit of a destination, and together they exceed it.
//!
//! Five thousand deliveries (`--count`), accepted by three nodes in turn, wait for one destination of four slots that
//! takes 50 ms; then it is resumed.
//!
//! Holds if the receiver never has more than four requests open, has four open at least 95 % of the time that they
//! take, and gets each event once.

use crate::harness::multi_node::{drain_and_settle, start_nodes};
use crate::harness::prelude::*;

const SLOTS: u32 = 4;
const LATENCY: Duration = Duration::from_millis(50);
const BUSY: f64 = 0.95;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let (mut testbed, source) = start_nodes(TestbedPlan::of_several(options)?, 1, SLOTS).await?;
    testbed.receiver.default_script(Reply::ok().after(LATENCY));
    testbed.client.pause(source.destinations[0]).await?;
    let sent = pump_all(source.pump(Until::Count(options.count(5_000)))).await?;
    let before = testbed.receiver.total();
    testbed.client.resume(source.destinations[0]).await?;
    let patience = LATENCY.mul_f64(sent.accepted as f64 / f64::from(SLOTS) * 2.0) + Duration::from_secs(10);
    let all = testbed.receiver.wait_for_succeeded(sent.accepted, patience).await;
    report.must(all, format!("{} of {} arrived", testbed.receiver.succeeded(), sent.accepted));
    report.must_be("sent_while_paused", before, 0);
    let window = testbed.receiver.span_us().unwrap_or_default();
    // From the first arrival; the tail of the last four is not a full house.
    let busy = testbed.receiver.busy_fraction("d00", SLOTS, window.start..window.end.saturating_sub(50_000));
    report.must_be("most_open", testbed.receiver.max_open("d00"), SLOTS);
    report.must_be_at_least("busy", busy, BUSY);
    drain_and_settle(&mut testbed, &source, &sent, Vec::new(), report).await?;
    testbed.tear_down().await
}
