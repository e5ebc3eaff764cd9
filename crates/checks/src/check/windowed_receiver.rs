//! Hazard: a receiver that counts requests in windows is run against again and again, or left alone for too long; or
//! everybody else waits with it.
//!
//! A receiver that answers the first twenty requests of every five seconds with 200, and the others with 429 and the whole
//! seconds until the window's end, plus one; a destination of five slots with eighty events (`--count`). Nineteen others
//! run meanwhile (`--rate`), and for a while before.
//!
//! Holds if everything arrives without a retry spent; if after the first window no window sees more requests beyond its
//! limit than the destination has slots; and if the others keep 95 % of their throughput.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Result;
use client::{NewDestination, Publish};
use lab::{Reply, Script};

use crate::Ask;
use crate::harness::fleet::sole_destination;
use crate::harness::others::{Others, unchanged};
use crate::harness::report::rounded;
use crate::harness::{Audit, Plan, Report, StoreKind};

const WINDOW: Duration = Duration::from_secs(5);
const ALLOWED: u64 = 20;
const SLOTS: u32 = 5;
const LATENCY: Duration = Duration::from_millis(20);

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let mut stage = Plan::new(ask, store)?.start().await?;
    let others = Others::assemble(&stage).await?;
    let plan = NewDestination { max_concurrency: SLOTS, ..stage.destination("counting") };
    sole_destination(&stage.client, &plan).await?;
    let pump = others.load(ask.rate(100.0)).await?;
    let before = others.watch(&stage.receiver, ask.seconds(8)).await;

    let windows: Arc<Mutex<Vec<u64>>> = Arc::default();
    stage.receiver.script("counting", counting(windows.clone()));
    let events = ask.count(80);
    let began = Instant::now();
    stage.client.publish_batch(&vec![Publish::json("any", "{}")?; events as usize]).await?;
    // A window for each twenty, and as long again.
    let patience = WINDOW * (2 * events.div_ceil(ALLOWED) as u32);
    let all = async {
        while stage.receiver.succeeded_at("counting") < events && began.elapsed() < patience {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        began.elapsed()
    };
    let (during, took) = tokio::join!(others.watch(&stage.receiver, ask.seconds(8)), all);
    others.finish(pump, &stage.receiver, &mut report).await;
    unchanged(&before, &during, &mut report);
    report.exactly("arrived", stage.receiver.succeeded_at("counting"), events);
    report.note("seconds", rounded(took.as_secs_f64()));
    let windows = windows.lock().expect("no panic while counting").clone();
    let beyond = windows.iter().skip(1).map(|requests| requests.saturating_sub(ALLOWED)).max();
    report.note("requests_a_window", &windows);
    report.at_most("most_beyond_the_limit", beyond.unwrap_or(0) as f64, SLOTS.into());
    report.exactly("left_in_queue", stage.quiesce(Duration::from_secs(5)).await?, 0u64);
    let spent = "select count(*) from attempts where spent > 0";
    report.exactly("retries_spent", stage.database.number(spent).await?, 0u64);
    let audit = Audit::of(&stage.database).await?;
    audit.rules(&mut report);
    report.exactly("dead_letters", audit.dead_letters, 0u64);
    report.must(stage.all_running(), "the node exited");
    stage.strike().await?;
    Ok(report)
}

/// Counts the requests of every window, and answers by their number.
fn counting(windows: Arc<Mutex<Vec<u64>>>) -> Script {
    let began = Instant::now();
    Script::custom(move |_| {
        let mut windows = windows.lock().expect("no panic while counting");
        let at = (began.elapsed().as_micros() / WINDOW.as_micros()) as usize;
        let known = windows.len().max(at + 1);
        windows.resize(known, 0);
        windows[at] += 1;
        if windows[at] <= ALLOWED {
            return Reply::ok().after(LATENCY);
        }
        let left = (WINDOW * (at as u32 + 1)).saturating_sub(began.elapsed());
        Reply::throttled(left.as_secs() + 1).after(LATENCY)
    })
}
