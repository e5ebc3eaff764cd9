//! Hazard: the database is away for longer than every lease: the nodes take each other for dead, lanes change hands, and
//! what was delivered meanwhile is delivered again.
//!
//! Three nodes under load; PostgreSQL crashes and comes back after sixty seconds (`--seconds`).
//!
//! Holds if nothing is lost, nothing is doubled but what was cut off in flight, no shard changes hands, no node exits,
//! events are refused with 503 and Retry-After meanwhile, and every node serves within five seconds afterwards.

use lab::RequestEnd;

use crate::harness::ingest_probe::{IngestProbe, must_accept_again, must_be_accepted_or_refused};
use crate::harness::multi_node::{drain_and_settle, start_usual_nodes};
use crate::harness::prelude::*;

const UNHURT: Duration = Duration::from_secs(5);

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let (mut testbed, source) = start_usual_nodes(options).await?;
    let server = testbed.server()?;
    let away = options.seconds(60);
    let mut config = source.pump(Until::Stopped).open(options.rate(500.0));
    config.retry_for = away + Duration::from_secs(60);
    let pump = Pump::start(config)?;
    sleep(UNHURT).await;
    let probe = IngestProbe::start(&testbed, &source, Duration::from_millis(200));
    let shares = testbed.shards_by_node().await?;
    server.crash().await?;
    let crash_us = testbed.receiver.now_us();
    sleep(away).await;
    server.resume().await?;
    let up = Instant::now();
    must_accept_again(&testbed, &source, up, report).await?;
    // Longer than a lease: a node that were taken for dead now would show it.
    sleep(Duration::from_secs(12)).await;
    let until_us = testbed.receiver.now_us();
    must_be_accepted_or_refused(&probe.finish().await?, "answers", report);
    let sent = pump.finish().await;

    let records = testbed.receiver.snapshot();
    let cut = |record: &&Record| {
        record.end == RequestEnd::Aborted
            && record.end_us.is_some_and(|end| end >= crash_us && end <= until_us)
    };
    let cut = records.iter().filter(cut).count() as u64;
    report.note("cut_in_flight", cut);
    let (verdict, ownership) = drain_and_settle(&mut testbed, &source, &sent, Vec::new(), report).await?;
    report.must(
        verdict.duplicates <= cut,
        format!("{} duplicates, {cut} requests cut in flight", verdict.duplicates),
    );
    report.must_be("shards_that_changed_hands", ownership.handovers(crash_us..until_us), 0);
    report.must_be("nodes_replaced", ownership.losses(&testbed, &[]).len(), 0);
    report.note("shares", json!({ "before": shares, "after": testbed.shards_by_node().await? }));
    testbed.tear_down().await
}
