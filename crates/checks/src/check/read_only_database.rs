//! Hazard: the database becomes read-only, as it does while it fails over.
//!
//! Under load on three nodes `default_transaction_read_only` is set for the whole server, for ten seconds, and
//! taken back.
//!
//! Holds if events are answered 503 with Retry-After meanwhile, if every node serves within five seconds afterwards, if
//! no node exits, nothing is lost and duplicates are within the budget.

use crate::harness::ingest_probe::{IngestProbe, must_accept_again, must_be_accepted_or_refused};
use crate::harness::multi_node::{drain_and_settle, start_usual_nodes};
use crate::harness::postgres_server::PostgresServer;
use crate::harness::prelude::*;

/// A reload reaches the sessions one after the other.
const SETTLED: Duration = Duration::from_millis(500);

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let (mut testbed, source) = start_usual_nodes(options).await?;
    let server = testbed.server()?;

    let pump = Pump::start(source.pump(Until::Stopped).open(options.rate(500.0)))?;
    sleep(Duration::from_secs(3)).await;
    let probe = IngestProbe::start(&testbed, &source, Duration::from_millis(100));
    let mut fault = Fault::of_all(FaultKind::DatabaseAway, testbed.receiver.now_us());
    read_only(&server, true).await?;
    let read_only_since = Instant::now() + SETTLED;
    sleep(options.seconds(10)).await;
    let read_only_until = Instant::now();
    read_only(&server, false).await?;
    fault.until_us = Some(testbed.receiver.now_us());
    must_accept_again(&testbed, &source, read_only_until, report).await?;
    sleep(Duration::from_secs(2)).await;
    let answers = probe.finish().await?;
    must_be_accepted_or_refused(&answers, "answers", report);
    let meanwhile = answers.iter().filter(|answer| answer.is_between(read_only_since, read_only_until));
    let accepted = meanwhile.filter(|answer| answer.accepted()).count();
    report.must_be("accepted_while_read_only", accepted, 0);
    let sent = pump.finish().await;
    drain_and_settle(&mut testbed, &source, &sent, vec![fault], report).await?;
    testbed.tear_down().await
}

async fn read_only(server: &PostgresServer, on: bool) -> Result<()> {
    let change = if on {
        "alter system set default_transaction_read_only = on"
    } else {
        "alter system reset default_transaction_read_only"
    };
    server.execute(change).await?;
    server.execute("select pg_reload_conf()").await
}
