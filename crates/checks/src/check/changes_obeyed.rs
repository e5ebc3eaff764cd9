//! Hazard: a change of a destination is accepted by one node, and another goes on as before.
//!
//! Ten thousand deliveries (`--count`) wait for a slow destination whose lane another node owns than the one that is
//! spoken to. One after the other: its URL is changed, its secret rotated, it is paused and resumed, and deleted.
//!
//! Holds if one second after each answer no request starts with the old setting; if what is left at the deletion is
//! cancelled, the log stays quiet, and the events are still there to be read.

use std::time::Duration;

use anyhow::{Result, ensure};
use client::{NewDestination, NewRoute, NewSource};
use domain::id::DestinationId;
use lab::{PumpConfig, Record, Recording, Reply, Target, Until};
use serde_json::json;
use tokio::time::sleep;

use crate::Ask;
use crate::harness::{Plan, Report, Stage, StoreKind};

const SLOTS: u32 = 20;
const LATENCY: Duration = Duration::from_millis(50);
const WITHIN_US: u64 = 1_000_000;
const WATCH: u64 = 3;
const LOG_LINES: usize = 50;

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let mut stage = Plan::new(ask, store)?.nodes(ask.nodes(store, 3)).start().await?;
    stage.balanced(Duration::from_secs(30)).await?;
    stage.receiver.recording(Recording::FullWithBodies);
    stage.receiver.default_script(Reply::ok().after(LATENCY));
    let id = owned_elsewhere(&stage).await?;
    stage.client.pause(id).await?;
    let source = stage.client.create_source(&NewSource::new("pump")).await?;
    stage.client.create_route(&NewRoute::from_source(source.id, id)).await?;
    let token = source.ingest_url.rsplit('/').next().unwrap_or_default().to_owned();
    let target = Target::Ingest { base: stage.base(), tokens: vec![token] };
    let events = ask.count(10_000);
    let sent = lab::pump::run(PumpConfig::new(target, Until::Count(events)).connections(64)).await?;
    ensure!(sent.accepted == events, "not everything was accepted: {sent}");
    stage.client.resume(id).await?;
    let watch = ask.seconds(WATCH);
    ensure!(stage.receiver.wait_for_succeeded(20, Duration::from_secs(10)).await, "nothing was delivered");
    sleep(watch).await;

    stage.client.update_destination(id, &json!({ "url": stage.receiver.url("/d/new") })).await?;
    let moved = after_the_change(&stage, watch, |record| &*record.destination != "new").await;
    judge(&stage, "old_url", moved, &mut report);

    stage.client.rotate_secret(id).await?;
    let signed_once = |record: &Record| {
        let signature = record.kept.as_ref().and_then(|kept| kept.headers.get("webhook-signature"));
        signature
            .and_then(|value| value.to_str().ok())
            .is_none_or(|value| value.split_whitespace().count() < 2)
    };
    let rotated = after_the_change(&stage, watch, signed_once).await;
    judge(&stage, "old_secret", rotated, &mut report);

    stage.client.pause(id).await?;
    let paused = after_the_change(&stage, watch, |_| true).await;
    judge(&stage, "paused", paused, &mut report);
    let waiting = stage.database.number("select count(*) from queue").await?;
    report.at_least("waiting_while_paused", waiting as f64, 1.0);
    stage.client.resume(id).await?;
    let before = stage.receiver.total();
    report.must(
        stage.receiver.wait_for(before + 5, Duration::from_secs(3)).await,
        "it does not go on when resumed",
    );

    let said = logged(&stage);
    stage.client.delete_destination(id).await?;
    let deleted = after_the_change(&stage, watch, |_| true).await;
    judge(&stage, "deleted", deleted, &mut report);
    let left = stage.quiesce(Duration::from_secs(30)).await?;
    report.exactly("left_in_queue", left, 0u64);
    let cancelled = stage.database.number("select count(*) from attempts where ending = 'cancelled'").await?;
    let delivered = stage.database.number("select count(*) from attempts where ending = 'delivered'").await?;
    report.at_least("cancelled", cancelled as f64, 1.0);
    report.exactly("endings", cancelled + delivered, events);
    report.exactly("events_kept", stage.database.number("select count(*) from events").await?, events);
    let first = sent.acked().next().and_then(|sent| sent.event_id.as_deref()?.parse().ok());
    if let Some(first) = first {
        report.must(stage.client.event(first).await.is_ok(), "an event cannot be read any more");
    }
    report.at_most("log_lines_after_the_deletion", (logged(&stage) - said) as f64, LOG_LINES as f64);
    report.must(stage.all_running(), "a node exited");
    stage.strike().await?;
    Ok(report)
}

/// A destination whose lane is not the first node's, if there are others.
async fn owned_elsewhere(stage: &Stage) -> Result<DestinationId> {
    for n in 0..64 {
        let plan = NewDestination { max_concurrency: SLOTS, ..stage.destination(&format!("d{n}")) };
        let id = stage.client.create_destination(&plan).await?.id;
        if stage.members.len() == 1 {
            return Ok(id);
        }
        let shard = id.shard();
        let sql =
            format!("select n.label from shards s join nodes n on n.id = s.node_id where s.shard = {shard}");
        let rows = stage.database.rows(&sql).await?;
        if rows.first().and_then(|row| row[0].text()).is_some_and(|label| label != stage.members[0].name) {
            return Ok(id);
        }
    }
    anyhow::bail!("the first node owns every lane")
}

/// What was seen after a change: how long the old way went on, and how many began more than a second later.
struct Seen {
    last_ms: f64,
    too_late: u64,
}

async fn after_the_change(stage: &Stage, watch: Duration, old: impl Fn(&Record) -> bool) -> Seen {
    let changed_us = stage.receiver.now_us();
    sleep(watch).await;
    let records = stage.receiver.snapshot();
    let still_old: Vec<u64> = records
        .iter()
        .filter(|record| record.start_us > changed_us && old(record))
        .map(|record| record.start_us - changed_us)
        .collect();
    let too_late = still_old.iter().filter(|after| **after > WITHIN_US).count() as u64;
    Seen { last_ms: still_old.iter().max().map_or(0.0, |last| *last as f64 / 1e3), too_late }
}

fn judge(stage: &Stage, what: &str, seen: Seen, report: &mut Report) {
    report.note(&format!("{what}_last_seen_ms"), seen.last_ms);
    report.exactly(&format!("{what}_after_a_second"), seen.too_late, 0u64);
    report.note("requests", stage.receiver.total());
}

fn logged(stage: &Stage) -> usize {
    stage.members.iter().map(|member| member.log().lines().count()).sum()
}
