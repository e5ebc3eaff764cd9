//! Hazard: the database's connections are cut one by one, by an administrator or a failing network device.
//!
//! Under load on three nodes, a backend of ours is terminated at random every 100 ms, for thirty seconds.
//!
//! Holds if nothing is lost, every duplicate was cut from its settlement, events are only ever answered 202 or 503
//! with Retry-After, no node exits, every node serves within five seconds afterwards, and the log has no more than
//! twenty lines a second.

use crate::harness::ingest_probe::{IngestProbe, must_accept_again, must_be_accepted_or_refused};
use crate::harness::multi_node::{drain_and_settle, start_usual_nodes};
use crate::harness::prelude::*;

const EVERY: Duration = Duration::from_millis(100);
const LOG_LINES_PER_SECOND: f64 = 20.0;
const VICTIM: &str = "select count(pg_terminate_backend(pid)) from (
    select pid from pg_stat_activity where application_name = 'posthaste' order by random() limit 1) victim";

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let span = options.seconds(30);
    let (mut testbed, source) = start_usual_nodes(options).await?;
    let server = testbed.server()?;

    let pump = Pump::start(source.pump(Until::Stopped).open(options.rate(500.0)))?;
    let probe = IngestProbe::start(&testbed, &source, EVERY);
    sleep(Duration::from_secs(2)).await;
    let (began, mut cut) = (Instant::now(), 0);
    while began.elapsed() < span {
        cut += server.number(VICTIM).await?;
        sleep(EVERY).await;
    }
    let healed = Instant::now();
    report.note("terminated", cut);
    report.must(cut as f64 > span.as_secs_f64() * 3.0, "hardly any connection was cut: nothing was tried");
    must_accept_again(&testbed, &source, healed, report).await?;
    sleep(Duration::from_secs(1)).await;
    let sent = pump.finish().await;
    must_be_accepted_or_refused(&probe.finish().await?, "answers", report);
    let seconds = span.as_secs_f64() + 5.0;
    for node in &testbed.nodes {
        let lines = node.log().lines().count() as f64 / seconds;
        report.must_be_at_most(&format!("log_lines_per_second_{}", node.name), lines, LOG_LINES_PER_SECOND);
    }
    drain_and_settle(&mut testbed, &source, &sent, Vec::new(), report).await?;
    testbed.tear_down().await
}
