//! Hazard: the database crashes.
//!
//! Under load on three nodes, PostgreSQL is stopped without a checkpoint and started again after three seconds, three times
//! (`--count`). The ingest URL is asked all the while.
//!
//! Holds if events are answered 503 with Retry-After while the database is away, never 500; if the node serves
//! within five seconds after the server accepts connections; if nothing is lost, duplicates are within the budget
//! (each crash counts as a moment at which answers may not have been written down), and the node never exits.

use crate::harness::ingest_probe::{IngestProbe, SERVING_WITHIN, wait_until_all_accept};
use crate::harness::multi_node::{drain_and_settle, start_usual_nodes};
use crate::harness::prelude::*;

const AWAY: Duration = Duration::from_secs(3);
const UNHURT: Duration = Duration::from_secs(5);

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let (mut testbed, source) = start_usual_nodes(options).await?;
    let server = testbed.server()?;

    let pump = Pump::start(source.pump(Until::Stopped).open(options.rate(500.0)))?;
    let (mut crashes, mut slowest, mut meanwhile) = (Vec::new(), Duration::ZERO, Vec::new());
    for _ in 0..options.count(3) {
        sleep(options.seconds(UNHURT.as_secs())).await;
        let probe = IngestProbe::start(&testbed, &source, Duration::from_millis(100));
        let mut crash = Fault::of_all(FaultKind::DatabaseAway, testbed.receiver.now_us());
        server.crash().await?;
        let away_since = Instant::now();
        sleep(AWAY).await;
        let away_until = Instant::now();
        server.resume().await?;
        crash.until_us = Some(testbed.receiver.now_us());
        crashes.push(crash);
        slowest = slowest.max(wait_until_all_accept(&testbed, &source, Duration::from_secs(20)).await?);
        let answers = probe.finish().await?.into_iter();
        meanwhile.extend(answers.filter(|answer| answer.is_between(away_since, away_until)));
    }
    sleep(Duration::from_secs(1)).await;
    let sent = pump.finish().await;
    report.note("crashes", crashes.len());
    report.note("asked_while_away", meanwhile.len());
    let other = meanwhile.iter().filter(|answer| !answer.refused());
    let wrong: Vec<_> = other.map(|answer| answer.status).collect();
    report.must(wrong.is_empty(), format!("answered while the database was away: {wrong:?}"));
    report.must_be_at_most("slowest_recovery_seconds", slowest, SERVING_WITHIN);
    drain_and_settle(&mut testbed, &source, &sent, crashes, report).await?;
    testbed.tear_down().await
}
