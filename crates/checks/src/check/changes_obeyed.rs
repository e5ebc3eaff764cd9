//! Hazard: a change of a destination is accepted by one node, and another goes on as before.
//!
//! Ten thousand deliveries (`--count`) wait for a slow destination whose lane another node owns than the one that is
//! spoken to. One after the other: its URL is changed, its secret rotated, it is paused and resumed, and deleted.
//!
//! Holds if one second after each answer no request starts with the old setting; if what is left at the deletion is
//! cancelled, the log stays quiet, and the events are still there to be read.

use client::{NewRoute, NewSource};
use domain::id::DestinationId;
use lab::Target;

use crate::harness::prelude::*;

const SLOTS: u32 = 20;
const LATENCY: Duration = Duration::from_millis(50);
const WITHIN_US: u64 = 1_000_000;
const WATCH: u64 = 3;
const LOG_LINES: usize = 50;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::of_several(options)?.start_balanced().await?;
    testbed.receiver.recording(Recording::FullWithBodies);
    testbed.receiver.default_script(Reply::ok().after(LATENCY));
    let id = owned_elsewhere(&testbed).await?;
    testbed.client.pause(id).await?;
    let source = testbed.client.create_source(&NewSource::new("pump")).await?;
    testbed.client.create_route(&NewRoute::from_source(source.id, id)).await?;
    let url = source.ingest_url.unwrap_or_default();
    let token = url.rsplit('/').next().unwrap_or_default().to_owned();
    let target = Target::Ingest { base: testbed.base_url(), tokens: vec![token] };
    let events = options.count(10_000);
    let sent = lab::pump::run(PumpConfig::new(target, Until::Count(events)).connections(64)).await?;
    ensure!(sent.accepted == events, "not everything was accepted: {sent}");
    testbed.client.resume(id).await?;
    let watch = options.seconds(WATCH);
    ensure!(testbed.receiver.wait_for_succeeded(20, Duration::from_secs(10)).await, "nothing was delivered");
    sleep(watch).await;

    testbed.client.update_destination(id, &json!({ "url": testbed.receiver.url("/d/new") })).await?;
    let moved = after_the_change(&testbed, watch, |record| &*record.destination != "new").await;
    judge(&testbed, "old_url", moved, report);

    testbed.client.rotate_secret(id).await?;
    let signed_once = |record: &Record| {
        let signature = record.kept.as_ref().and_then(|kept| kept.headers.get("webhook-signature"));
        signature
            .and_then(|value| value.to_str().ok())
            .is_none_or(|value| value.split_whitespace().count() < 2)
    };
    let rotated = after_the_change(&testbed, watch, signed_once).await;
    judge(&testbed, "old_secret", rotated, report);

    testbed.client.pause(id).await?;
    let paused = after_the_change(&testbed, watch, |_| true).await;
    judge(&testbed, "paused", paused, report);
    let waiting = testbed.database.count("queue").await?;
    report.must_be_at_least("waiting_while_paused", waiting, 1.0);
    testbed.client.resume(id).await?;
    let before = testbed.receiver.total();
    report.must(
        testbed.receiver.wait_for(before + 5, Duration::from_secs(3)).await,
        "it does not go on when resumed",
    );

    let said = logged(&testbed);
    testbed.client.delete_destination(id).await?;
    let deleted = after_the_change(&testbed, watch, |_| true).await;
    judge(&testbed, "deleted", deleted, report);
    testbed.must_drain(Duration::from_secs(30), report).await?;
    let cancelled =
        testbed.database.number("select count(*) from attempts where ending = 'cancelled'").await?;
    let delivered =
        testbed.database.number("select count(*) from attempts where ending = 'delivered'").await?;
    report.must_be_at_least("cancelled", cancelled, 1.0);
    report.must_be("endings", cancelled + delivered, events);
    report.must_be("events_kept", testbed.database.count("events").await?, events);
    let first = sent.acked().next().and_then(|sent| sent.event_id.as_deref()?.parse().ok());
    if let Some(first) = first {
        report.must(testbed.client.event(first).await.is_ok(), "an event cannot be read any more");
    }
    report.must_be_at_most("log_lines_after_the_deletion", logged(&testbed) - said, LOG_LINES);
    testbed.must_be_running(report);
    testbed.tear_down().await
}

/// A destination whose lane is not the first node's, if there are others.
async fn owned_elsewhere(testbed: &Testbed) -> Result<DestinationId> {
    for n in 0..64 {
        let plan = testbed.destination_with_slots(&format!("d{n}"), SLOTS);
        let id = testbed.client.create_destination(&plan).await?.id;
        if testbed.nodes.len() == 1 {
            return Ok(id);
        }
        let shard = id.shard();
        let sql =
            format!("select n.label from shards s join nodes n on n.id = s.node_id where s.shard = {shard}");
        let rows = testbed.database.rows(&sql).await?;
        if rows.first().and_then(|row| row[0].text()).is_some_and(|label| label != testbed.nodes[0].name) {
            return Ok(id);
        }
    }
    anyhow::bail!("the first node owns every lane")
}

/// What was seen after a change: how long the old way went on, and how many began more than a second later.
struct OldRequests {
    last_ms: f64,
    too_late: u64,
}

async fn after_the_change(testbed: &Testbed, watch: Duration, old: impl Fn(&Record) -> bool) -> OldRequests {
    let changed_us = testbed.receiver.now_us();
    sleep(watch).await;
    let records = testbed.receiver.snapshot();
    let still_old: Vec<u64> = records
        .iter()
        .filter(|record| record.start_us > changed_us && old(record))
        .map(|record| record.start_us - changed_us)
        .collect();
    let too_late = still_old.iter().filter(|after| **after > WITHIN_US).count() as u64;
    OldRequests { last_ms: still_old.iter().max().map_or(0.0, |last| *last as f64 / 1e3), too_late }
}

fn judge(testbed: &Testbed, what: &str, seen: OldRequests, report: &mut Report) {
    report.note(&format!("{what}_last_seen_ms"), seen.last_ms);
    report.must_be(&format!("{what}_after_a_second"), seen.too_late, 0);
    report.note("requests", testbed.receiver.total());
}

fn logged(testbed: &Testbed) -> usize {
    testbed.nodes.iter().map(|node| node.log().lines().count()).sum()
}
