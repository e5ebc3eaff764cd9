//! Hazard: a receiver with limits that are not known needs settings that cannot be guessed.
//!
//! A receiver that lets one request a second through and says 429 with `Retry-After: 1` to all others, as Slack does; a
//! destination with `max_concurrency` 1 and no other setting; thirty events (`--count`) at once.
//!
//! Holds if everything arrives, nothing is dead-lettered, and no delivery spends a retry.

use std::sync::Mutex;

use crate::harness::audit::must_all_be_delivered_unspent;
use crate::harness::prelude::*;

const EVERY: Duration = Duration::from_secs(1);
/// Twice what the receiver itself needs for an event.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::new(options)?.start().await?;
    testbed.receiver.script("slack", one_a_second());
    let plan = NewDestination {
        max_concurrency: Some(1),
        ..NewDestination::new("slack", &testbed.receiver.url("/d/slack"))
    };
    testbed.add_destination(&plan, &[]).await?;
    let events = options.count(30);
    let began = Instant::now();
    testbed.publish_copies("note", events).await?;
    testbed.receiver.wait_for_succeeded(events, PATIENCE * events as u32).await;
    report.must_be("arrived", testbed.receiver.succeeded(), events);
    report.note("seconds", rounded(began.elapsed().as_secs_f64()));
    report.note("requests", testbed.receiver.total());
    testbed.must_drain(Duration::from_secs(5), report).await?;
    must_all_be_delivered_unspent(&testbed, report).await?;
    testbed.must_be_running(report);
    testbed.tear_down().await
}

fn one_a_second() -> Script {
    let last: Mutex<Option<Instant>> = Mutex::default();
    Script::custom(move |_| {
        let mut last = last.lock().expect("no panic while looking at the time");
        if last.is_some_and(|last| last.elapsed() < EVERY) {
            return Reply::throttled(EVERY.as_secs());
        }
        *last = Some(Instant::now());
        Reply::ok()
    })
}
