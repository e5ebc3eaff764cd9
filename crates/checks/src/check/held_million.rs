//! Hazard: what waits for a destination that may not be asked is looked over again and again, and everybody pays for it.
//!
//! Nineteen destinations under a steady load (`--rate`), once alone and once beside one for which a million wait
//! (`--count`), and which said 429 and asked for an hour. Three such pairs, one after the other, of `--seconds` each.
//!
//! Holds if the CPU time that node and database spend on an event of the others is the same within a tenth (median of
//! three), and if the one that is held gets no request after its first ones, over the restarts too.

use std::time::Duration;

use anyhow::{Result, ensure};
use lab::Reply;

use crate::Ask;
use crate::harness::others::{Ground, median};
use crate::harness::report::rounded;
use crate::harness::{Plan, Report, StoreKind};

const AN_HOUR: u64 = 3_600;
const SLOTS: u32 = 5;
const PAIRS: usize = 3;
const DEARER: f64 = 1.1;

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let mut alone = prepare(ask, store, 0).await?;
    let mut beside = prepare(ask, store, ask.count(1_000_000)).await?;
    // It says 429 and is held from then on.
    beside.stage.start().await?;
    let asked = beside.stage.receiver.wait_for_arrivals("held", 1, Duration::from_secs(20)).await;
    ensure!(asked, "the one with the backlog was never asked");
    tokio::time::sleep(Duration::from_secs(1)).await;
    beside.stage.stop().await?;
    report.at_most("requests_before_the_hold", beside.stage.receiver.arrivals("held") as f64, SLOTS.into());

    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        without.push(us_per_event(&mut alone, ask, &mut report).await?);
        with.push(us_per_event(&mut beside, ask, &mut report).await?);
        report.exactly("requests_while_held", beside.stage.receiver.arrivals("held"), 0u64);
    }
    report.note("waiting", beside.pattern.waiting(&beside.stage.database).await?);
    report.note("each_us_per_event_alone", &without);
    report.note("each_us_per_event_beside", &with);
    let (alone_us, beside_us) = (median(without), median(with));
    report.note("us_per_event_alone", alone_us);
    report.note("us_per_event_beside", beside_us);
    report.at_most("dearer_by", beside_us / alone_us, DEARER);
    alone.stage.strike().await?;
    beside.stage.strike().await?;
    Ok(report)
}

async fn prepare(ask: &Ask, store: StoreKind, backlog: u64) -> Result<Ground> {
    let mut ground = Ground::prepare(Plan::new(ask, store)?, "held", SLOTS).await?;
    ground.stage.receiver.script("held", Reply::throttled(AN_HOUR));
    ground.fill(backlog).await?;
    Ok(ground)
}

/// CPU time of node and database for an event of the others; the node runs for this only.
async fn us_per_event(ground: &mut Ground, ask: &Ask, report: &mut Report) -> Result<f64> {
    ground.stage.receiver.clear();
    ground.stage.start().await?;
    let pump = ground.others.load(ask.rate(500.0)).await?;
    let before = ground.cpu().await?;
    let arrived = ground.others.watch(&ground.stage.receiver, ask.seconds(6)).await;
    let cpu = ground.cpu().await?.saturating_sub(before);
    ensure!(arrived.events > 0, "nothing arrived at the others");
    ground.others.finish(pump, &ground.stage.receiver, report).await;
    ground.stage.stop().await?;
    Ok(rounded(cpu.as_secs_f64() * 1e6 / arrived.events as f64))
}
