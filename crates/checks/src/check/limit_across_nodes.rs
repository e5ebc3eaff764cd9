//! Hazard: each of three nodes keeps to the limit of a destination, and together they exceed it.
//!
//! Five thousand deliveries (`--count`), accepted by three nodes in turn, wait for one destination of four slots that
//! takes 50 ms; then it is resumed.
//!
//! Holds if the receiver never has more than four requests open, has four open at least 95 % of the time that they
//! take, and gets each event once.

use std::time::Duration;

use anyhow::{Result, ensure};
use lab::{Reply, Until};

use crate::Ask;
use crate::harness::several::{begin, end};
use crate::harness::{Plan, Report, StoreKind};

const SLOTS: u32 = 4;
const LATENCY: Duration = Duration::from_millis(50);
const BUSY: f64 = 0.95;

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let (mut stage, fleet) = begin(Plan::new(ask, store)?.nodes(ask.nodes(store, 3)), 1, SLOTS).await?;
    stage.receiver.default_script(Reply::ok().after(LATENCY));
    stage.client.pause(fleet.ids[0]).await?;
    let sent = lab::pump::run(fleet.pump(Until::Count(ask.count(5_000)))).await?;
    ensure!(sent.accepted == sent.offered, "not everything was accepted: {sent}");
    let before = stage.receiver.total();
    stage.client.resume(fleet.ids[0]).await?;
    let patience = LATENCY.mul_f64(sent.accepted as f64 / f64::from(SLOTS) * 2.0) + Duration::from_secs(10);
    let all = stage.receiver.wait_for_succeeded(sent.accepted, patience).await;
    report.must(all, format!("{} of {} arrived", stage.receiver.succeeded(), sent.accepted));
    report.exactly("sent_while_paused", before, 0u64);
    let window = stage.receiver.span_us().unwrap_or_default();
    // From the first arrival; the tail of the last four is not a full house.
    let busy = stage.receiver.busy_fraction("d00", SLOTS, window.start..window.end.saturating_sub(50_000));
    report.exactly("most_open", stage.receiver.max_open("d00"), SLOTS);
    report.at_least("busy", busy, BUSY);
    end(&mut stage, &fleet, &sent, Vec::new(), &mut report).await?;
    stage.strike().await?;
    Ok(report)
}
