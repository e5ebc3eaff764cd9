//! Hazard: a destination that says 429 is asked again too early, or never; or its 429s use up the retries.
//!
//! Eight destinations with twenty deliveries each say 429 in three windows, each with another Retry-After: two seconds, a
//! date in two seconds, none, -5, 0, far too many seconds, a word, two that differ; then 200. The ladder is 2, 3, 4 s.
//! Nineteen others run meanwhile (`--rate`), and for a while before.
//!
//! Holds if every wait is what was asked for, never shorter and at most a second longer, within [1 s, 24 h], and the
//! ladder's where nothing understandable was asked; if nothing arrives meanwhile and one probe afterwards; if no delivery
//! spends a retry or ends undelivered; and if the others keep 95 % of their throughput.

use std::sync::Mutex;
use std::time::SystemTime;

use serde_json::Map;

use crate::harness::bursts::{Pauses, until_success};
use crate::harness::bystanders::{Bystanders, must_be_unharmed};
use crate::harness::prelude::*;

const LADDER: [u64; 3] = [2, 3, 4];
const ASKED: [u64; 3] = [2, 2, 2];
/// What is said for a date; the receiver makes one.
const DATE: &str = "date";
const CASES: [RetryAfterCase; 8] = [
    RetryAfterCase { name: "seconds", says: &["2"], waits: Some(ASKED) },
    RetryAfterCase { name: "date", says: &[DATE], waits: Some(ASKED) },
    RetryAfterCase { name: "absent", says: &[], waits: Some(LADDER) },
    RetryAfterCase { name: "negative", says: &["-5"], waits: Some(LADDER) },
    RetryAfterCase { name: "zero", says: &["0"], waits: Some([1, 1, 1]) },
    RetryAfterCase { name: "word", says: &["abc"], waits: Some(LADDER) },
    RetryAfterCase { name: "two", says: &["2", "7"], waits: Some(LADDER) },
    RetryAfterCase { name: "ages", says: &["1000000000000"], waits: None },
];
const EVENTS: u64 = 20;
const SLOTS: u32 = 5;
/// Long enough that all slots are in use when the first answer comes.
const LATENCY: Duration = Duration::from_millis(50);
/// Requests closer together than this were under way together.
const SAME_WINDOW: Duration = Duration::from_millis(500);
const DAY_SECONDS: f64 = 86_400.0;
const PATIENCE: Duration = Duration::from_secs(20);

struct RetryAfterCase {
    name: &'static str,
    says: &'static [&'static str],
    /// None: a day.
    waits: Option<[u64; 3]>,
}

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::new(options)?.env("POSTHASTE_THROTTLE_LADDER", "2,3,4").start().await?;
    let bystanders = Bystanders::make(&testbed).await?;
    let mut ids = Vec::new();
    for case in &CASES {
        let plan = testbed.destination_with_slots(case.name, SLOTS);
        let id = testbed.add_destination(&plan, &["trouble"]).await?;
        testbed.client.pause(id).await?;
        testbed.receiver.script(case.name, three_windows(case.says));
        ids.push(id);
    }
    testbed.publish_copies("trouble", EVENTS).await?;

    let pump = bystanders.load(options.rate(100.0)).await?;
    let before = bystanders.watch(&testbed.receiver, options.seconds(8)).await;
    for id in &ids {
        testbed.client.resume(*id).await?;
    }
    let during = bystanders.watch(&testbed.receiver, options.seconds(8).max(Duration::from_secs(12))).await;
    for case in CASES.iter().filter(|case| case.waits.is_some()) {
        testbed.receiver.wait_for_succeeded_at(case.name, EVENTS, PATIENCE).await;
    }
    bystanders.finish(pump, &testbed.receiver, report).await;
    must_be_unharmed(&before, &during, report);
    testbed.quiesce(Duration::from_secs(1)).await?;

    let mut waits = Map::new();
    let [mut early, mut late, mut with_company] = [0u64; 3];
    for case in &CASES {
        let bursts = until_success(&testbed.receiver, case.name, 0);
        let first = bursts.first().map_or(0, |burst| burst.requests);
        report
            .must(first <= SLOTS.into(), format!("{first} requests of {} before its first wait", case.name));
        let wanted = case.waits.as_ref().map_or(&[][..], |waits| &waits[..]);
        let pauses = Pauses::between(&bursts, wanted);
        let right = pauses.seconds.len() == wanted.len();
        report.must(right, format!("{} was left alone {} times", case.name, pauses.seconds.len()));
        early += pauses.too_short;
        late += pauses.too_long;
        with_company += pauses.with_company;
        waits.insert(case.name.into(), json!(pauses.seconds));
        let delivered = if case.waits.is_some() { EVENTS } else { 0 };
        let arrived = testbed.receiver.succeeded_at(case.name);
        report.must(arrived == delivered, format!("{arrived} of {delivered} arrived at {}", case.name));
    }
    report.note("waits_seconds", waits);
    report.must_be("requests_while_throttled", early, 0);
    report.must_be("probes_too_late", late, 0);
    report.must_be("probes_in_company", with_company, 0);
    let day = longest_hold(&testbed, *ids.last().context("there are cases")?.bytes()).await?;
    report.must_be_at_least("longest_hold_seconds", day, DAY_SECONDS);
    report.must_be_at_most("longest_hold_seconds", day, DAY_SECONDS + 1.0);
    let spent = "select (select count(*) from queue where spent > 0)
                      + (select count(*) from attempts where spent > 0)";
    report.must_be("retries_spent", testbed.database.number(spent).await?, 0);
    let audit = TableAudit::of(&testbed.database).await?;
    audit.must_hold(report);
    report.must_be("dead_letters", audit.dead_letters, 0);
    report.must_be("still_waiting", audit.waiting, EVENTS);
    testbed.must_be_running(report);
    testbed.tear_down().await
}

/// 429 with these lines until it has been asked a fourth time after a pause.
fn three_windows(says: &'static [&'static str]) -> Script {
    let seen: Mutex<(Option<Instant>, usize)> = Mutex::default();
    Script::custom(move |_| {
        let mut seen = seen.lock().expect("no panic while counting");
        let (last, windows) = &mut *seen;
        if last.is_none_or(|last| last.elapsed() > SAME_WINDOW) {
            *windows += 1;
        }
        *last = Some(Instant::now());
        if *windows > LADDER.len() {
            return Reply::ok();
        }
        if says == [DATE] {
            return in_two_seconds();
        }
        says.iter().fold(Reply::status(429), |reply, line| reply.header("retry-after", line)).after(LATENCY)
    })
}

/// A date knows whole seconds only, so the answer is given when one has just begun, by any clock.
fn in_two_seconds() -> Reply {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default() + LATENCY;
    let full = Duration::from_secs(now.as_secs() + 1);
    let date = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + full + Duration::from_secs(ASKED[0]));
    Reply::status(429).header("retry-after", &date).after(full - now + 2 * LATENCY)
}

async fn longest_hold(testbed: &Testbed, destination: [u8; 16]) -> Result<f64> {
    let id = testbed.database.literal(&destination);
    let sql = format!("select until - since from holds where destination_id = {id} and reason = 'throttle'");
    Ok(testbed.database.number(&sql).await? as f64 / 1e6)
}
