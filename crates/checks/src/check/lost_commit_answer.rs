//! Hazard: the database commits, and the answer is lost: was it, or was it not?
//!
//! A proxy between node and PostgreSQL lets one in five ingest statements through, discards the reply and cuts the
//! connection. The pump repeats whatever is not acknowledged, with the same key.
//!
//! Holds if every key is exactly one event, everything acknowledged is stored and delivered, and no event lacks a
//! delivery that it was committed with.

use lab::Proxy;

use crate::harness::postgres_server::PostgresServer;
use crate::harness::prelude::*;

/// The first words of the ingest statement.
const NEEDLE: &[u8] = b"posthaste:ingest";
const LOST: f64 = 0.2;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let proxy = Proxy::start(PostgresServer::start().await?.addr()?)?;
    let mut testbed = TestbedPlan::new(options)?.database_addr(proxy.addr()).start().await?;
    let source = RoutedSource::make(&testbed, 5, 20).await?;

    proxy.cut_reply_after(NEEDLE, LOST);
    let pump = Pump::start(source.pump(Until::Elapsed(options.seconds(30))).open(options.rate(200.0)))?;
    let sent = pump.report().await;
    proxy.heal().await;
    testbed.must_drain(Duration::from_secs(60), report).await?;
    report.note("lost_replies", proxy.lost_replies());
    report.must(proxy.lost_replies() > 10, "hardly any reply was lost: nothing was tried");
    report.must_all_be_accepted(&sent);
    testbed.must_be_running(report);
    let stored = testbed.database.count("events").await?;
    let acked = sent.acked().count() as u64;
    report.must_be("events_stored", stored, acked);
    let tried_again = sent.sent.iter().map(|sent| sent.tries).max().context("nothing was sent")?;
    report.note("most_tries", tried_again);
    settle_accounts(&testbed, &source, source.evidence(&sent, Vec::new()), report).await?;
    testbed.tear_down().await
}
