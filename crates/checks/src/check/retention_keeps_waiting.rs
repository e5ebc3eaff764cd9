//! Hazard: retention eats what is alive: deliveries that wait, or the payloads they need.
//!
//! Days of retention that are two seconds long, and an account that keeps one of them. Events come at `--rate` for
//! `--seconds`, to a destination that answers and to one that fails for as long and is healthy then; so half of what
//! comes waits far beyond its retention. All the while what has been delivered is replayed, by a filter and one by one.
//! The node is killed in the middle.
//!
//! Holds if every event reaches both destinations with the body it came with, if nothing was ever left in a table
//! without what it belongs to, if a replay of what is gone is refused and never a fault, if what has ended is gone soon
//! after, and memory stays flat.

use client::{DeliveryQuery, ReplayInput};
use domain::delivery::Status;
use domain::id::DeliveryId;
use lab::Load;

use crate::harness::orphans;
use crate::harness::prelude::*;

const MEMORY_MIB: f64 = 256.0;
/// Rows, at the least: a million events of a day with all that belongs to them in half an hour.
const FORGETS_A_SECOND: u64 = 2_000;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::new(options)?.short_retention(Some(2), 1).start().await?;
    testbed.receiver.recording(Recording::Counts);
    testbed.receiver.default_script(Reply::ok());
    testbed.receiver.script("failing", Reply::status(503));
    for name in ["healthy", "failing"] {
        let slow = testbed.destination_with_slots(name, 50);
        let plan = NewDestination { retry_policy: retry_policy(&[3; 20]), ..slow };
        testbed.add_destination(&plan, &[]).await?;
    }
    testbed.client.update_own_account(&serde_json::json!({ "retention_days": 1 })).await?;

    let span = options.seconds(40);
    let mut config = testbed.publisher(Until::Elapsed(span));
    config.load = Load::Open { per_second: options.rate(100.0) };
    let pump = Pump::start(config)?;
    let (began, mut orphans, mut most, mut killed) = (Instant::now(), 0, 0, false);
    let mut replayed = 0;
    while began.elapsed() < span {
        sleep(Duration::from_millis(500)).await;
        orphans = orphans.max(orphans::count(&testbed.database).await?);
        replayed += replay_some(&testbed, report).await?;
        if !killed && began.elapsed() > span / 2 {
            testbed.kill().await?;
            testbed.start().await?;
            killed = true;
        }
        most = most.max(testbed.process()?.rss_bytes()?);
    }
    let sent = pump.report().await;
    let waiting = testbed.database.count("queue").await?;
    report.must(waiting > 0, "nothing waited beyond its retention");
    report.note("waited_beyond_retention", waiting);
    report.must_be("bodies_missing", bodies_missing(&testbed).await?, 0);

    testbed.receiver.script("failing", Reply::ok());
    testbed.must_drain(Duration::from_secs(60), report).await?;
    let accepted = sent.accepted + sent.duplicates;
    report.note("accepted", accepted);
    report.must_be_at_least("arrived_at_the_failing", testbed.receiver.succeeded_at("failing"), accepted);
    report.must_be_at_least("arrived_at_the_healthy", testbed.receiver.succeeded_at("healthy"), accepted);
    orphans = orphans.max(orphans::count(&testbed.database).await?);
    report.note("replays", replayed);
    report.must(replayed > 0, "nothing was replayed");
    report.must_be("orphans", orphans, 0);
    // A fast node replays more, and so has more to forget.
    let (began, to_forget) = (Instant::now(), kept(&testbed).await?);
    let soon = Duration::from_secs(30 + to_forget / FORGETS_A_SECOND);
    let mut left = to_forget;
    becomes(soon, 500, async || {
        left = kept(&testbed).await?;
        Ok(left == 0)
    })
    .await?;
    report.note("rows_to_forget", to_forget);
    report.note("forgotten_after_seconds", began.elapsed().as_secs());
    report.must_be("left_of_what_has_ended", left, 0);
    report.must_be_at_most("most_memory_mib", mib(most), MEMORY_MIB);
    testbed.must_be_running(report);
    testbed.tear_down().await
}

/// Rows about what has happened.
async fn kept(testbed: &Testbed) -> Result<u64> {
    let mut rows = 0;
    for table in ["events", "attempts", "replays", "replayed"] {
        rows += testbed.database.count(table).await?;
    }
    Ok(rows)
}

async fn bodies_missing(testbed: &Testbed) -> Result<u64> {
    let sql =
        "select count(*) from queue q where not exists (select 1 from events e where e.id = q.event_id)";
    testbed.database.number(sql).await
}

/// Asks for what has been delivered once more, by a filter and one by its id; gives how many replays were made. What is
/// no longer kept is answered so, and nothing is ever a fault of ours.
async fn replay_some(testbed: &Testbed, report: &mut Report) -> Result<u64> {
    let filter = Some(DeliveryQuery { status: vec![Status::Delivered], ..DeliveryQuery::default() });
    let all = ReplayInput { filter, rate: Some(200), ..ReplayInput::default() };
    let some = "select delivery_id from attempts where ending = 'delivered' order by delivery_id limit 1";
    let oldest = testbed.database.rows(some).await?.first().and_then(|row| row[0].id());
    let mut made = 0;
    let mut answers = vec![testbed.client.create_replay(&all, None).await.map(|_| ())];
    if let Some(id) = oldest {
        answers.push(testbed.client.replay_delivery(DeliveryId::from_bytes(id)).await.map(|_| ()));
    }
    for answer in answers {
        match answer {
            Ok(()) => made += 1,
            Err(client::Error::Refused { problem, .. }) => {
                report.must(problem.status < 500, format!("a replay was answered {problem:?}"));
            }
            // The node is killed once.
            Err(_) => {}
        }
    }
    Ok(made)
}
