//! Hazard: the database's connections are cut one by one, by an administrator or a failing network device.
//!
//! Under load on three nodes, a backend of ours is terminated at random every 100 ms, for thirty seconds.
//!
//! Holds if nothing is lost, every duplicate was cut from its settlement, events are only ever answered 202 or 503
//! with Retry-After, no node exits, everybody serves within five seconds afterwards, and the log has no more than
//! twenty lines a second.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use lab::{Pump, Until};
use tokio::time::sleep;

use crate::Ask;
use crate::harness::outsider::{Outsider, all_accept, only_accepted_or_refused};
use crate::harness::several::{begin, end};
use crate::harness::{Plan, Report, StoreKind};

const EVERY: Duration = Duration::from_millis(100);
const SERVING_WITHIN: f64 = 5.0;
const LOG_LINES_PER_SECOND: f64 = 20.0;
const VICTIM: &str = "select count(pg_terminate_backend(pid)) from (
    select pid from pg_stat_activity where application_name = 'posthaste' order by random() limit 1) victim";

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let span = ask.seconds(30);
    let (mut stage, fleet) = begin(Plan::new(ask, store)?.nodes(ask.nodes(store, 3)), 20, 4).await?;
    let server = stage.database.server().context("this check needs PostgreSQL")?.clone();

    let pump = Pump::start(fleet.pump(Until::Stopped).open(ask.rate(500.0)))?;
    let outsider = Outsider::start(&stage, &fleet, EVERY);
    sleep(Duration::from_secs(2)).await;
    let (began, mut cut) = (Instant::now(), 0);
    while began.elapsed() < span {
        cut += server.number(VICTIM).await?;
        sleep(EVERY).await;
    }
    let healed = Instant::now();
    report.note("terminated", cut);
    report.must(cut as f64 > span.as_secs_f64() * 3.0, "hardly any connection was cut: nothing was tried");
    all_accept(&stage, &fleet, Duration::from_secs(20)).await?;
    report.at_most("serving_again_after_seconds", healed.elapsed().as_secs_f64(), SERVING_WITHIN);
    sleep(Duration::from_secs(1)).await;
    let sent = pump.finish().await;
    only_accepted_or_refused(&outsider.finish().await?, "answers", &mut report);
    let seconds = span.as_secs_f64() + 5.0;
    for member in &stage.members {
        let lines = member.log().lines().count() as f64 / seconds;
        report.at_most(&format!("log_lines_per_second_{}", member.name), lines, LOG_LINES_PER_SECOND);
    }
    end(&mut stage, &fleet, &sent, Vec::new(), &mut report).await?;
    stage.strike().await?;
    Ok(report)
}
