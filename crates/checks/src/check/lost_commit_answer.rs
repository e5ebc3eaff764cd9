//! Hazard: the database commits, and the answer is lost: was it, or was it not?
//!
//! A proxy between node and PostgreSQL lets one in five ingest statements through, discards the reply and cuts the
//! connection. The pump repeats whatever is not acknowledged, with the same key.
//!
//! Holds if every key is exactly one event, everything acknowledged is stored and delivered, and no event lacks a
//! delivery that it was committed with.

use std::time::Duration;

use anyhow::{Context, Result};
use lab::{Proxy, Pump, Until};

use crate::Ask;
use crate::harness::audit::settle_accounts;
use crate::harness::server::Server;
use crate::harness::{Fleet, Plan, Report, StoreKind};

/// The first words of the ingest statement.
const NEEDLE: &[u8] = b"posthaste:ingest";
const LOST: f64 = 0.2;

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let proxy = Proxy::start(Server::start().await?.addr()?)?;
    let mut stage = Plan::new(ask, store)?.database_addr(proxy.addr()).start().await?;
    let fleet = Fleet::assemble(&stage, 5, 20).await?;

    proxy.cut_reply_after(NEEDLE, LOST);
    let pump = Pump::start(fleet.pump(Until::Elapsed(ask.seconds(30))).open(ask.rate(200.0)))?;
    let sent = pump.report().await;
    proxy.heal().await;
    let left = stage.quiesce(Duration::from_secs(60)).await?;
    report.exactly("left_in_queue", left, 0u64);
    report.note("lost_replies", proxy.lost_replies());
    report.must(proxy.lost_replies() > 10, "hardly any reply was lost: nothing was tried");
    report.note("pump", &sent);
    report
        .must(sent.refused.is_empty() && sent.unanswered == 0, "some events were refused or never answered");
    report.must(stage.is_running(), "the node exited");
    let stored = stage.database.number("select count(*) from events").await?;
    let acked = sent.acked().count() as u64;
    report.exactly("events_stored", stored, acked);
    let tried_again = sent.sent.iter().map(|sent| sent.tries).max().context("nothing was sent")?;
    report.note("most_tries", tried_again);
    settle_accounts(&stage, &fleet, fleet.promised(&sent.sent), Vec::new(), &mut report).await?;
    stage.strike().await?;
    Ok(report)
}
