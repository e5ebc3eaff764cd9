//! Hazard: a row stands still for ever, or is lost, and no one is told.
//!
//! After load with retries and dead letters `doctor --audit` looks at the tables beside the running node. Then each
//! fault is planted in them: a waiting delivery is deleted, an event is, a dead letter loses its attempt, deliveries
//! become due in a lane that its owner believes to be paused; and, while the node is frozen, shards lose their owner.
//!
//! Holds if the audit first finds nothing, within seconds, and then each fault, with examples and what to do, and exits
//! with 1. All other checks that settle accounts end with the same audit.

use crate::harness::doctor::{Diagnosis, doctor};
use crate::harness::prelude::*;

const DESTINATIONS: usize = 4;
const REJECTS: usize = 1;
const PAUSED: usize = 2;
const FORGOTTEN: usize = 3;
const WAITING: u64 = 5;
const FREED_SHARDS: u64 = 3;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let testbed = TestbedPlan::new(options)?.start().await?;
    let source = RoutedSource::make(&testbed, DESTINATIONS, 4).await?;
    testbed.receiver.script(&source.names[REJECTS], Reply::status(400));
    let count = options.count(2_000);
    pump_all(source.pump(Until::Count(count))).await?;
    testbed.must_drain(Duration::from_secs(30), report).await?;

    let clean = doctor(&testbed, &["--audit"]).await?;
    report.must(clean.code == Some(0), format!("a clean store: {:?} {:?}", clean.code, clean.troubles()));
    report.must_be_at_most("clean_audit_seconds", clean.took, 5.0);

    plant(&testbed, &source).await?;
    let found = doctor(&testbed, &["--audit"]).await?;
    report.note("audit_seconds_with_faults", found.took.as_secs_f64());
    report.must(found.code == Some(1), format!("doctor ends with {:?}: {}", found.code, found.said));
    for (check, count) in
        [("audit.deliveries", 1), ("audit.attempts", 1), ("audit.dead_letters", 1), ("audit.waiting", 1)]
    {
        is_found(&found, check, count, report);
    }
    is_found(&found, "audit.shards", 0, report);

    free_shards(&testbed).await?;
    let found = doctor(&testbed, &["--audit"]).await?;
    is_found(&found, "audit.shards", FREED_SHARDS, report);
    testbed.process()?.thaw().await?;
    testbed.tear_down().await
}

async fn plant(testbed: &Testbed, source: &RoutedSource) -> Result<()> {
    // What waits for these two goes nowhere.
    for at in [PAUSED, FORGOTTEN] {
        testbed.client.pause(source.destinations[at]).await?;
        let mut config = source.pump(Until::Count(WAITING));
        config.event_types = vec![format!("lab.{}", source.names[at])];
        lab::pump::run(config).await?;
    }
    let database = &testbed.database;
    let [rejects, paused, forgotten] =
        [REJECTS, PAUSED, FORGOTTEN].map(|at| database.literal(source.destinations[at].bytes()));
    let one = |sql: &str| format!("({sql} limit 1)");
    let lost = one(&format!("select delivery_id from queue where destination_id = {paused}"));
    database.write(&format!("delete from queue where delivery_id = {lost}")).await?;
    // Of an event with one delivery, so that it is missed once.
    let single = "select id from events where deliveries = 1";
    let ended = one(&format!(
        "select event_id from attempts where ending = 'delivered' and event_id in ({single}) order by attempt_id"
    ));
    database.write(&format!("delete from events where id = {ended}")).await?;
    let dead = one(&format!(
        "select attempt_id from attempts where destination_id = {rejects} and ending = 'dead_letter'"
    ));
    database
        .write(&format!(
            "update attempts set number = null, outcome = null, http_status = null, started_at = null, \
             duration_us = null, detail = null where attempt_id = {dead}"
        ))
        .await?;
    // Past the account's version: the owner does not hear of it.
    database.write(&format!("update destinations set paused_at = null where id = {forgotten}")).await?;
    // Two rescans.
    tokio::time::sleep(Duration::from_secs(3)).await;
    Ok(())
}

/// The node sleeps, with a lease that does not end, and some of its shards have no owner.
async fn free_shards(testbed: &Testbed) -> Result<()> {
    testbed.process()?.freeze().await?;
    let later = match testbed.database.kind() {
        StoreKind::Sqlite => "expires_at + 3600000000",
        StoreKind::Postgres => "expires_at + interval '1 hour'",
    };
    testbed.database.write(&format!("update nodes set expires_at = {later}")).await?;
    let free = format!("update shards set node_id = null where shard < {FREED_SHARDS}");
    testbed.database.write(&free).await
}

fn is_found(found: &Diagnosis, check: &str, wanted: u64, report: &mut Report) {
    report.note(check, found.finding(check));
    let count = found.count(check);
    report.must(count == Some(wanted), format!("{check} counts {count:?}, not {wanted}"));
    let Some(finding) = found.finding(check).filter(|_| wanted > 0) else { return };
    report.must(!finding.examples.is_empty() && finding.fix.is_some(), format!("{check} does not help"));
}
