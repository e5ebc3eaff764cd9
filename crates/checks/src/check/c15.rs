//! C15. Hazard: retention eats what is alive: deliveries that wait, or the payloads they need.
//!
//! Days of retention that are two seconds long, and an account that keeps one of them. Events come at `--rate` for
//! `--seconds`, to a destination that answers and to one that fails for as long and is healthy then; so half of what
//! comes waits far beyond its retention. The node is killed in the middle.
//!
//! Holds if every event reaches both destinations with the body it came with, if nothing was ever left in a table
//! without what it belongs to, if what has ended is gone soon after, and memory stays flat.

use std::time::{Duration, Instant};

use anyhow::Result;
use lab::{Load, PumpConfig, Recording, Reply, Target, Until};
use tokio::time::sleep;

use crate::Ask;
use crate::harness::fleet::sole_destination;
use crate::harness::stage::API_KEY;
use crate::harness::{Plan, Report, Stage, StoreKind};

const MEMORY_MIB: f64 = 256.0;

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let mut stage = Plan::new(ask, store)?.forgetting(Some(2), 1).start().await?;
    stage.receiver.recording(Recording::Counts);
    stage.receiver.default_script(Reply::ok());
    stage.receiver.script("failing", Reply::status(503));
    for name in ["healthy", "failing"] {
        let mut plan = stage.destination(name);
        plan.max_concurrency = Some(50);
        plan.retry_policy = Some(domain::retry::RetryPolicy {
            schedule: vec![Duration::from_secs(3); 20],
            ..Default::default()
        });
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
    while began.elapsed() < span {
        sleep(Duration::from_millis(500)).await;
        orphans = orphans.max(without_what_they_belong_to(&stage).await?);
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
    orphans = orphans.max(without_what_they_belong_to(&stage).await?);
    report.exactly("orphans", orphans, 0u64);
    let mut kept = u64::MAX;
    for _ in 0..60 {
        kept = stage.database.number("select count(*) from events").await?
            + stage.database.number("select count(*) from attempts").await?;
        if kept == 0 {
            break;
        }
        sleep(Duration::from_millis(500)).await;
    }
    report.exactly("left_of_what_has_ended", kept, 0u64);
    report.at_most("most_memory_mib", most as f64 / f64::from(1 << 20), MEMORY_MIB);
    report.must(stage.is_running(), "the node exited");
    stage.strike().await?;
    Ok(report)
}

async fn bodies_missing(stage: &Stage) -> Result<u64> {
    let sql =
        "select count(*) from queue q where not exists (select 1 from events e where e.id = q.event_id)";
    stage.database.number(sql).await
}

async fn without_what_they_belong_to(stage: &Stage) -> Result<u64> {
    let sql = "select (select count(*) from queue q where not exists (select 1 from events e where e.id = q.event_id))
                    + (select count(*) from attempts a where not exists (select 1 from events e where e.id = a.event_id))
                    + (select count(*) from expansions x where not exists (select 1 from events e where e.id = x.event_id))";
    stage.database.number(sql).await
}
