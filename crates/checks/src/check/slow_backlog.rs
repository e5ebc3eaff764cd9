//! Hazard: a slow destination with a long backlog makes the quiet ones wait.
//!
//! Nineteen destinations get five events a second each (`--rate` in all), once alone and once beside one that takes five
//! seconds to answer and for which a hundred thousand wait (`--count`). Three such pairs, one after the other, of
//! `--seconds` each.
//!
//! Holds if beside it the 99th percentile from post to arrival is at most a second, and at most a fifth above that without
//! it (median of three), and if all slots of the slow one are in use.

use std::time::Duration;

use anyhow::{Result, ensure};
use lab::Reply;
use serde_json::json;

use crate::Ask;
use crate::harness::others::{Ground, median};
use crate::harness::report::rounded;
use crate::harness::{Plan, Report, StoreKind};

const SLOW: Duration = Duration::from_secs(5);
const SLOTS: u32 = 5;
const PAIRS: usize = 3;
const P99_MS: f64 = 1_000.0;
const TOLERANCE: f64 = 1.2;
/// So much more is the machine's own scheduler, at the five worst of five hundred.
const FLOOR_MS: f64 = 5.0;

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let mut alone = prepare(ask, store, 0).await?;
    let mut beside = prepare(ask, store, ask.count(100_000)).await?;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        without.push(p99_ms(&mut alone, ask, &mut report).await?);
        with.push(p99_ms(&mut beside, ask, &mut report).await?);
        let open = beside.stage.receiver.max_open("noisy");
        report.must(open == SLOTS, format!("the slow one had {open} requests open"));
    }
    report.note("waiting", beside.pattern.waiting(&beside.stage.database).await?);
    report.note("each_p99_ms_alone", &without);
    report.note("each_p99_ms_beside", &with);
    let (alone_ms, beside_ms) = (median(without), median(with));
    report.note("p99_ms_alone", alone_ms);
    report.at_most("p99_ms_beside", beside_ms, (alone_ms * TOLERANCE + FLOOR_MS).min(P99_MS));
    alone.stage.strike().await?;
    beside.stage.strike().await?;
    Ok(report)
}

async fn prepare(ask: &Ask, store: StoreKind, backlog: u64) -> Result<Ground> {
    let mut ground = Ground::prepare(Plan::new(ask, store)?, "noisy", SLOTS).await?;
    ground.stage.receiver.script("noisy", Reply::ok().after(SLOW));
    let patience = json!({ "timeout_seconds": 2 * SLOW.as_secs() });
    ground.stage.client.update_destination(ground.pattern.destination, &patience).await?;
    ground.fill(backlog).await?;
    Ok(ground)
}

async fn p99_ms(ground: &mut Ground, ask: &Ask, report: &mut Report) -> Result<f64> {
    ground.stage.receiver.clear();
    ground.stage.start().await?;
    let pump = ground.others.load(ask.rate(95.0)).await?;
    let arrived = ground.others.watch(&ground.stage.receiver, ask.seconds(5)).await;
    ensure!(arrived.events > 0, "nothing arrived at the quiet ones");
    ground.others.finish(pump, &ground.stage.receiver, report).await;
    ground.settled().await?;
    // Not stopped: the slow one would hold it up.
    ground.stage.kill().await?;
    Ok(rounded(arrived.p99_ms()))
}
