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

use std::time::{Duration, Instant};

use anyhow::Result;
use client::{DeliveryQuery, ReplayInput};
use domain::{delivery::Status, id::DeliveryId};
use lab::{Load, PumpConfig, Recording, Reply, Target, Until};
use tokio::time::sleep;

use crate::Ask;
use crate::harness::fleet::sole_destination;
use crate::harness::stage::API_KEY;
use crate::harness::{Plan, Report, Stage, StoreKind, leftovers};

const MEMORY_MIB: f64 = 256.0;
/// Rows, at the least: a million events of a day with all that belongs to them in half an hour.
const FORGETS_A_SECOND: u64 = 2_000;

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let mut stage = Plan::new(ask, store)?.forgetting(Some(2), 1).start().await?;
    stage.receiver.recording(Recording::Counts);
    stage.receiver.default_script(Reply::ok());
    stage.receiver.script("failing", Reply::status(503));
    for name in ["healthy", "failing"] {
        let mut plan = stage.destination(name);
        plan.max_concurrency = 50;
        plan.retry_policy =
            domain::retry::RetryPolicy { schedule: vec![Duration::from_secs(3); 20], ..Default::default() };
        sole_destination(&stage.client, &plan).await?;
    }
    stage.client.update_own_account(&serde_json::json!({ "retention_days": 1 })).await?;

    let span = ask.seconds(40);
    let target = Target::Publish { base: stage.base(), key: API_KEY.into() };
    let config = PumpConfig {
        load: Load::Open { per_second: ask.rate(100.0) },
        ..PumpConfig::new(target, Until::Elapsed(span))
    };
    let pump = tokio::spawn(lab::pump::run(config));
    let (began, mut orphans, mut most, mut killed) = (Instant::now(), 0, 0, false);
    let mut replayed = 0;
    while began.elapsed() < span {
        sleep(Duration::from_millis(500)).await;
        orphans = orphans.max(leftovers::count(&stage.database).await?);
        replayed += replay_some(&stage, &mut report).await?;
        if !killed && began.elapsed() > span / 2 {
            stage.kill().await?;
            stage.start().await?;
            killed = true;
        }
        most = most.max(stage.node()?.rss_bytes()?);
    }
    let sent = pump.await??;
    let waiting = stage.database.number("select count(*) from queue").await?;
    report.must(waiting > 0, "nothing waited beyond its retention");
    report.note("waited_beyond_retention", waiting);
    report.exactly("bodies_missing", bodies_missing(&stage).await?, 0u64);

    stage.receiver.script("failing", Reply::ok());
    let left = stage.quiesce(Duration::from_secs(60)).await?;
    report.exactly("left_in_queue", left, 0u64);
    let accepted = sent.accepted + sent.duplicates;
    report.note("accepted", accepted);
    report.at_least("arrived_at_the_failing", stage.receiver.succeeded_at("failing") as f64, accepted as f64);
    report.at_least("arrived_at_the_healthy", stage.receiver.succeeded_at("healthy") as f64, accepted as f64);
    orphans = orphans.max(leftovers::count(&stage.database).await?);
    report.note("replays", replayed);
    report.must(replayed > 0, "nothing was replayed");
    report.exactly("orphans", orphans, 0u64);
    // A fast node replays more, and so has more to forget.
    let (began, to_forget) = (Instant::now(), kept(&stage).await?);
    let soon = Duration::from_secs(30 + to_forget / FORGETS_A_SECOND);
    let mut left = to_forget;
    while left > 0 && began.elapsed() < soon {
        sleep(Duration::from_millis(500)).await;
        left = kept(&stage).await?;
    }
    report.note("rows_to_forget", to_forget);
    report.note("forgotten_after_seconds", began.elapsed().as_secs());
    report.exactly("left_of_what_has_ended", left, 0u64);
    report.at_most("most_memory_mib", most as f64 / f64::from(1 << 20), MEMORY_MIB);
    report.must(stage.is_running(), "the node exited");
    stage.strike().await?;
    Ok(report)
}

/// Rows about what has happened.
async fn kept(stage: &Stage) -> Result<u64> {
    let mut rows = 0;
    for table in ["events", "attempts", "replays", "replayed"] {
        rows += stage.database.number(&format!("select count(*) from {table}")).await?;
    }
    Ok(rows)
}

async fn bodies_missing(stage: &Stage) -> Result<u64> {
    let sql =
        "select count(*) from queue q where not exists (select 1 from events e where e.id = q.event_id)";
    stage.database.number(sql).await
}

/// Asks for what has been delivered once more, by a filter and one by its id; gives how many replays were made. What is
/// no longer kept is answered so, and nothing is ever a fault of ours.
async fn replay_some(stage: &Stage, report: &mut Report) -> Result<u64> {
    let filter = Some(DeliveryQuery { status: vec![Status::Delivered], ..DeliveryQuery::default() });
    let all = ReplayInput { filter, rate: Some(200), ..ReplayInput::default() };
    let some = "select delivery_id from attempts where ending = 'delivered' order by delivery_id limit 1";
    let oldest = stage.database.rows(some).await?.first().and_then(|row| row[0].id());
    let mut made = 0;
    let mut answers = vec![stage.client.create_replay(&all, None).await.map(|_| ())];
    if let Some(id) = oldest {
        answers.push(stage.client.replay_delivery(DeliveryId::from_bytes(id)).await.map(|_| ()));
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
