//! Hazard: the database becomes read-only, as it does while it fails over.
//!
//! Under load on three nodes `default_transaction_read_only` is set for the whole server, for ten seconds, and
//! taken back.
//!
//! Holds if events are answered 503 with Retry-After meanwhile, if everybody serves within five seconds afterwards, if
//! no node exits, nothing is lost and duplicates are within the budget.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use lab::{Fault, FaultKind, Pump, Until};
use tokio::time::sleep;

use crate::Ask;
use crate::harness::outsider::{Outsider, Seen, all_accept, only_accepted_or_refused};
use crate::harness::server::Server;
use crate::harness::several::{begin, end};
use crate::harness::{Plan, Report, StoreKind};

const SERVING_WITHIN: f64 = 5.0;
/// A reload reaches the sessions one after the other.
const SETTLED: Duration = Duration::from_millis(500);

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let (mut stage, fleet) = begin(Plan::new(ask, store)?.nodes(ask.nodes(store, 3)), 20, 4).await?;
    let server = stage.database.server().context("this check needs PostgreSQL")?.clone();

    let pump = Pump::start(fleet.pump(Until::Stopped).open(ask.rate(500.0)))?;
    sleep(Duration::from_secs(3)).await;
    let outsider = Outsider::start(&stage, &fleet, Duration::from_millis(100));
    let mut fault = Fault::of_all(FaultKind::DatabaseAway, stage.receiver.now_us());
    read_only(&server, true).await?;
    let read_only_since = Instant::now() + SETTLED;
    sleep(ask.seconds(10)).await;
    let read_only_until = Instant::now();
    read_only(&server, false).await?;
    fault.until_us = Some(stage.receiver.now_us());
    all_accept(&stage, &fleet, Duration::from_secs(20)).await?;
    report.at_most("serving_again_after_seconds", read_only_until.elapsed().as_secs_f64(), SERVING_WITHIN);
    sleep(Duration::from_secs(2)).await;
    let seen = outsider.finish().await?;
    only_accepted_or_refused(&seen, "answers", &mut report);
    let meanwhile = |seen: &&Seen| seen.asked > read_only_since && seen.asked + seen.took < read_only_until;
    let accepted = seen.iter().filter(meanwhile).filter(|seen| seen.accepted()).count() as u64;
    report.exactly("accepted_while_read_only", accepted, 0u64);
    let sent = pump.finish().await;
    end(&mut stage, &fleet, &sent, vec![fault], &mut report).await?;
    stage.strike().await?;
    Ok(report)
}

async fn read_only(server: &Server, on: bool) -> Result<()> {
    let change = if on {
        "alter system set default_transaction_read_only = on"
    } else {
        "alter system reset default_transaction_read_only"
    };
    server.execute(change).await?;
    server.execute("select pg_reload_conf()").await
}
