//! Hazard: a receiver that counts requests in windows is run against again and again, or left alone for too long; or
//! the other destinations wait with it.
//!
//! A receiver that answers the first twenty requests of every five seconds with 200, and the others with 429 and the whole
//! seconds until the window's end, plus one; a destination of five slots with eighty events (`--count`). Nineteen others
//! run meanwhile (`--rate`), and for a while before.
//!
//! Holds if everything arrives without a retry spent; if after the first window no window sees more requests beyond its
//! limit than the destination has slots; and if the others keep 95 % of their throughput.

use std::sync::{Arc, Mutex};

use crate::harness::audit::must_all_be_delivered_unspent;
use crate::harness::bystanders::{Bystanders, must_be_unharmed};
use crate::harness::prelude::*;

const WINDOW: Duration = Duration::from_secs(5);
const ALLOWED: u64 = 20;
const SLOTS: u32 = 5;
const LATENCY: Duration = Duration::from_millis(20);

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::new(options)?.start().await?;
    let bystanders = Bystanders::make(&testbed).await?;
    testbed.add_destination(&testbed.destination_with_slots("counting", SLOTS), &[]).await?;
    let pump = bystanders.load(options.rate(100.0)).await?;
    let before = bystanders.watch(&testbed.receiver, options.seconds(8)).await;

    let windows: Arc<Mutex<Vec<u64>>> = Arc::default();
    testbed.receiver.script("counting", counting(windows.clone()));
    let events = options.count(80);
    let began = Instant::now();
    testbed.publish_copies("any", events).await?;
    // A window for each twenty, and as long again.
    let patience = WINDOW * (2 * events.div_ceil(ALLOWED) as u32);
    let all = async {
        testbed.receiver.wait_for_succeeded_at("counting", events, patience).await;
        began.elapsed()
    };
    let (during, took) = tokio::join!(bystanders.watch(&testbed.receiver, options.seconds(8)), all);
    bystanders.finish(pump, &testbed.receiver, report).await;
    must_be_unharmed(&before, &during, report);
    report.must_be("arrived", testbed.receiver.succeeded_at("counting"), events);
    report.note("seconds", rounded(took.as_secs_f64()));
    let windows = windows.lock().expect("no panic while counting").clone();
    let beyond = windows.iter().skip(1).map(|requests| requests.saturating_sub(ALLOWED)).max();
    report.note("requests_a_window", &windows);
    report.must_be_at_most("most_beyond_the_limit", beyond.unwrap_or(0), SLOTS);
    testbed.must_drain(Duration::from_secs(5), report).await?;
    must_all_be_delivered_unspent(&testbed, report).await?;
    testbed.must_be_running(report);
    testbed.tear_down().await
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
