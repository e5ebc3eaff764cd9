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
use std::time::Duration;

use anyhow::Result;
use lab::nemesis::ShiftedClock;
use lab::process::get_status;
use lab::{Pump, Record, Recording, Reply, Script, Until};
use tokio::time::sleep;

use crate::Ask;
use crate::harness::ownership::History;
use crate::harness::several::end;
use crate::harness::{Fleet, Plan, Report, StoreKind};

const HOUR: i64 = 3_600;
/// The pauses of all checks before the second and the third attempt, in seconds; they vary by a fifth.
const PAUSES: [f64; 2] = [1.0, 2.0];
const VARY: f64 = 0.2;
const LATE: f64 = 2.0;
/// The receiver notices a request a little after it was begun, and its own answer a little before it is read.
const EARLY: f64 = 0.05;
const TIMESTAMP_WITHIN: f64 = 1.5;

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let nodes = ask.nodes(store, 3);
    let mut stage = Plan::new(ask, store)?.nodes(nodes).set().await?;
    let shifts = [2 * HOUR, -2 * HOUR, 0];
    let mut clocks = Vec::new();
    for at in 0..nodes {
        let clock = ShiftedClock::new(&stage.dir().join(format!("clock-{at}")))?;
        clock.shift(shifts[at % shifts.len()])?;
        stage.members[at].launch.env.extend(clock.env());
        clocks.push(clock);
    }
    stage.start_all().await?;
    stage.balanced(Duration::from_secs(30)).await?;
    History::begin(&stage.database).await?;
    let fleet = Fleet::assemble(&stage, 20, 4).await?;
    stage.receiver.recording(Recording::FullWithBodies);
    let failing = |seen: &lab::Seen<'_>| {
        let unwell = seen.destination.as_bytes().last().is_some_and(|last| last % 4 == 0);
        Reply::status(if unwell && seen.attempt < 3 { 500 } else { 200 })
    };
    stage.receiver.default_script(Script::custom(failing));

    let span = ask.seconds(40);
    let from_us = stage.receiver.now_us();
    // Slowly enough for four slots, with three attempts for every event of a destination that fails.
    let pump = Pump::start(fleet.pump(Until::Elapsed(span)).open(ask.rate(200.0)))?;
    sleep(span / 2).await;
    let last = &clocks[nodes - 1];
    let home = shifts[(nodes - 1) % shifts.len()];
    last.shift(home + HOUR)?;
    sleep(span / 8).await;
    last.shift(home)?;
    let sent = pump.report().await;
    let (verdict, history) = end(&mut stage, &fleet, &sent, Vec::new(), &mut report).await?;
    report.exactly("doubled", verdict.duplicates, 0u64);
    report.exactly("nodes_replaced", history.losses(&stage, &[]).len() as u64, 0u64);
    report.exactly("shards_that_changed_hands", history.handovers(from_us..u64::MAX) as u64, 0u64);

    let records = stage.receiver.snapshot();
    judge_pauses(&records, &mut report);
    let unix_us = lab::clock::unix_us() - stage.receiver.now_us();
    let off = |record: &Record| {
        let stamp =
            record.kept.as_ref()?.headers.get("webhook-timestamp")?.to_str().ok()?.parse::<f64>().ok()?;
        Some(((record.start_us + unix_us) as f64 / 1e6 - stamp).abs())
    };
    let wrong = records.iter().filter(|record| off(record).is_none_or(|off| off > TIMESTAMP_WITHIN)).count();
    report.note("requests", records.len());
    let mut unready = 0;
    for member in &stage.members {
        let ready = get_status(member.addr, "/readyz", Duration::from_secs(3)).await.ok();
        unready += u64::from(ready != Some(200));
    }
    report.note("nodes_not_ready", unready);
    report.note("wrong_timestamps", wrong);
    report.must(
        wrong == 0 || unready > 0,
        format!("{wrong} requests have a wrong timestamp, and every node is ready"),
    );
    stage.strike().await?;
    Ok(report)
}

fn judge_pauses(records: &[Record], report: &mut Report) {
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
    report.at_least("retries", retries as f64, 1.0);
    report.exactly("retries_too_early", early, 0u64);
    report.exactly("retries_too_late", late, 0u64);
    report.note("latest_retry_seconds", latest);
}
