//! Hazard: the database becomes read-only, as it does while it fails over.
//!
//! Under load on three nodes `default_transaction_read_only` is set for the whole server, for ten seconds, and
//! taken back.
//!
//! Holds if events are answered 503 with Retry-After meanwhile, if everybody serves within five seconds afterwards, if
//! no node exits, nothing is lost and duplicates are within the budget.

use std::time::{Duration, Instant};

use anyhow::Result;
use lab::{Fault, FaultKind, Pump, Until};
use tokio::time::sleep;

use crate::harness::ingest_probe::{IngestProbe, must_be_accepted_or_refused, wait_until_all_accept};
use crate::harness::multi_node::{settle_fleet, start_usual_fleet};
use crate::harness::postgres_server::PostgresServer;
use crate::harness::{Options, Report};

const SERVING_WITHIN: f64 = 5.0;
/// A reload reaches the sessions one after the other.
const SETTLED: Duration = Duration::from_millis(500);

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let (mut testbed, fleet) = start_usual_fleet(options).await?;
    let server = testbed.server()?;

    let pump = Pump::start(fleet.pump(Until::Stopped).open(options.rate(500.0)))?;
    sleep(Duration::from_secs(3)).await;
    let probe = IngestProbe::start(&testbed, &fleet, Duration::from_millis(100));
    let mut fault = Fault::of_all(FaultKind::DatabaseAway, testbed.receiver.now_us());
    read_only(&server, true).await?;
    let read_only_since = Instant::now() + SETTLED;
    sleep(options.seconds(10)).await;
    let read_only_until = Instant::now();
    read_only(&server, false).await?;
    fault.until_us = Some(testbed.receiver.now_us());
    wait_until_all_accept(&testbed, &fleet, Duration::from_secs(20)).await?;
    report.must_be_at_most("serving_again_after_seconds", read_only_until.elapsed(), SERVING_WITHIN);
    sleep(Duration::from_secs(2)).await;
    let answers = probe.finish().await?;
    must_be_accepted_or_refused(&answers, "answers", report);
    let meanwhile = answers.iter().filter(|answer| answer.is_between(read_only_since, read_only_until));
    let accepted = meanwhile.filter(|answer| answer.accepted()).count();
    report.must_be("accepted_while_read_only", accepted, 0);
    let sent = pump.finish().await;
    settle_fleet(&mut testbed, &fleet, &sent, vec![fault], report).await?;
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
