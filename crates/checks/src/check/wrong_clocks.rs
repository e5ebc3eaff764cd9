//! Hazard: the nodes' clocks do not agree: leases are stolen, retries come too early or hours late, signatures are
//! refused as too old.
//!
//! Three nodes: the clock of one is two hours fast, of one two hours slow, and that of the third jumps by an hour in the
//! middle of the load and back again. A destination fails every first and second attempt.
//!
//! Holds if every retry comes when it is due by true time, no more than two seconds late; if no node is taken for dead and no
//! shard changes hands; if every request's timestamp is right to a second (and a half, for whole seconds and the way),
//! or its node says that it is not ready; and if nothing is lost and nothing doubled. Needs libfaketime.

use std::collections::HashMap;

use lab::nemesis::ShiftedClock;
use lab::process::get_status;

use crate::harness::multi_node::drain_and_settle;
use crate::harness::ownership::OwnershipLog;
use crate::harness::prelude::*;

const HOUR: i64 = 3_600;
/// The pauses of all checks before the second and the third attempt, in seconds; they vary by a fifth.
const PAUSES: [f64; 2] = [1.0, 2.0];
const VARY: f64 = 0.2;
const LATE: f64 = 2.0;
/// The receiver notices a request a little after it was begun, and its own answer a little before it is read.
const EARLY: f64 = 0.05;
const TIMESTAMP_WITHIN: f64 = 1.5;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let nodes = options.nodes(3);
    let mut testbed = TestbedPlan::of_several(options)?.build().await?;
    let shifts = [2 * HOUR, -2 * HOUR, 0];
    let mut clocks = Vec::new();
    for at in 0..nodes {
        let clock = ShiftedClock::new(&testbed.dir().join(format!("clock-{at}")))?;
        clock.shift(shifts[at % shifts.len()])?;
        testbed.nodes[at].launch.env.extend(clock.env());
        clocks.push(clock);
    }
    testbed.start_all().await?;
    testbed.wait_until_balanced(Duration::from_secs(30)).await?;
    OwnershipLog::begin(&testbed.database).await?;
    let source = RoutedSource::make(&testbed, 20, 4).await?;
    testbed.receiver.recording(Recording::FullWithBodies);
    let failing = |request: &lab::ScriptedRequest<'_>| {
        let unwell = request.destination.as_bytes().last().is_some_and(|last| last % 4 == 0);
        Reply::status(if unwell && request.attempt < 3 { 500 } else { 200 })
    };
    testbed.receiver.default_script(Script::custom(failing));

    let span = options.seconds(40);
    let from_us = testbed.receiver.now_us();
    // Slowly enough for four slots, with three attempts for every event of a destination that fails.
    let pump = Pump::start(source.pump(Until::Elapsed(span)).open(options.rate(200.0)))?;
    sleep(span / 2).await;
    let last = &clocks[nodes - 1];
    let home = shifts[(nodes - 1) % shifts.len()];
    last.shift(home + HOUR)?;
    sleep(span / 8).await;
    last.shift(home)?;
    let sent = pump.report().await;
    let (verdict, ownership) = drain_and_settle(&mut testbed, &source, &sent, Vec::new(), report).await?;
    report.must_be("doubled", verdict.duplicates, 0);
    report.must_be("nodes_replaced", ownership.losses(&testbed, &[]).len(), 0);
    report.must_be("shards_that_changed_hands", ownership.handovers(from_us..u64::MAX), 0);

    let records = testbed.receiver.snapshot();
    judge_pauses(&records, report);
    let wrong = wrong_timestamps(&testbed, &records);
    report.note("requests", records.len());
    let mut unready = 0;
    for node in &testbed.nodes {
        let ready = get_status(node.addr, "/readyz", Duration::from_secs(3)).await.ok();
        unready += u64::from(ready != Some(200));
    }
    report.note("nodes_not_ready", unready);
    report.note("wrong_timestamps", wrong);
    report.must(
        wrong == 0 || unready > 0,
        format!("{wrong} requests have a wrong timestamp, and every node is ready"),
    );
    testbed.tear_down().await
}

/// Requests whose timestamp is not that of the moment they came.
pub(super) fn wrong_timestamps(testbed: &Testbed, records: &[Record]) -> usize {
    let unix_us = lab::clock::unix_us() - testbed.receiver.now_us();
    let off = |record: &Record| {
        let stamp =
            record.kept.as_ref()?.headers.get("webhook-timestamp")?.to_str().ok()?.parse::<f64>().ok()?;
        Some(((record.start_us + unix_us) as f64 / 1e6 - stamp).abs())
    };
    records.iter().filter(|record| off(record).is_none_or(|off| off > TIMESTAMP_WITHIN)).count()
}

pub(super) fn judge_pauses(records: &[Record], report: &mut Report) {
    let mut attempts: HashMap<&str, Vec<&Record>> = HashMap::new();
    for record in records {
        attempts.entry(&record.delivery_id).or_default().push(record);
    }
    let (mut early, mut late, mut retries, mut latest) = (0u64, 0u64, 0u64, 0.0f64);
    for of_one in attempts.values() {
        for pair in of_one.windows(2) {
            let Some(pause) = PAUSES.get(pair[0].attempt as usize - 1) else { continue };
            let waited = (pair[1].start_us - pair[0].end_us.unwrap_or(pair[0].start_us)) as f64 / 1e6;
            retries += 1;
            early += u64::from(waited + EARLY < pause * (1.0 - VARY));
            late += u64::from(waited > pause * (1.0 + VARY) + LATE);
            latest = latest.max(waited - pause);
        }
    }
    report.must_be_at_least("retries", retries, 1.0);
    report.must_be("retries_too_early", early, 0);
    report.must_be("retries_too_late", late, 0);
    report.note("latest_retry_seconds", latest);
}
