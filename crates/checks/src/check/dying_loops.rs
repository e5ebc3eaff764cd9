//! Hazard: one loop of a node dies of a fault in our own code, and the node goes on as if all were well, without what
//! that loop did; or what it had in hand is lost.
//!
//! For every loop in the table of docs/operations.md (`--only`): load for three seconds, in which it panics once, then a
//! drain. Where the node is to end it is started again first.
//!
//! Holds if a loop that is to be restarted was, in the same process, by its own count in `/metrics`; if with every other
//! one the process ended with code 1 and said why; if the log has the panic with the loop's name; and if nothing was
//! lost. Needs the debug build.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use client::Client;
use lab::process::get_status;
use lab::{Fault, FaultKind, Until};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::Ask;
use crate::harness::audit::{Circumstances, settle_accounts_on};
use crate::harness::server::root;
use crate::harness::stage::{API_KEY, free_addr};
use crate::harness::{Audit, Fleet, Plan, Report, Stage, StoreKind, wire};

const DESTINATIONS: usize = 5;
const SLOTS: u32 = 4;
/// Loops that nothing in here reaches: tried in the tests of `engine` and `store`.
const ELSEWHERE: [&str; 2] = ["late_hand_over", "sqlite_copier"];

/// A line of the table.
struct LoopRow {
    name: String,
    is_restarted: bool,
}

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let mut tried = Vec::new();
    for row in table()? {
        let of_sqlite = row.name.starts_with("sqlite_");
        let asked_for = ask.only.as_ref().is_none_or(|only| row.name.starts_with(only.as_str()));
        if ELSEWHERE.contains(&row.name.as_str()) || !asked_for || (of_sqlite && store == StoreKind::Postgres)
        {
            continue;
        }
        let part = one_loop(ask, store, &row).await.with_context(|| row.name.clone())?;
        report.must(part.holds(), format!("{}: {part}", row.name));
        tried.push(row.name);
    }
    ensure!(!tried.is_empty(), "no loop was tried");
    report.note("loops", json!(tried));
    Ok(report)
}

fn table() -> Result<Vec<LoopRow>> {
    let text = std::fs::read_to_string(root().join("docs/operations.md"))?;
    let head = "| loop | when it dies | why |\n|---|---|---|\n";
    let (_, table) = text.split_once(head).context("docs/operations.md has no table of loops")?;
    let row = |line: &str| {
        let mut cells = line.trim_matches('|').split(" | ");
        let name = cells.next()?.trim().trim_matches('`').to_owned();
        Some(LoopRow { name, is_restarted: cells.next()? == "is restarted" })
    };
    table.lines().take_while(|line| line.starts_with('|')).map(|line| row(line).context("a row")).collect()
}

/// Where it dies, and the how manieth time it comes there.
fn failpoint(name: &str) -> String {
    match name {
        "dispatcher" => format!("{name}:panic:100"),
        "settler" | "committer" | "server" => format!("{name}:panic:20"),
        "owner" => format!("{name}:panic:2"),
        "sqlite_writer" => "store.commit.before:panic:50".into(),
        _ => format!("{name}:panic:1"),
    }
}

async fn one_loop(ask: &Ask, store: StoreKind, row: &LoopRow) -> Result<Report> {
    let mut part = Report::default();
    let admin = free_addr()?;
    let plan = Plan::with_failpoints(ask, store)?
        .forgetting(None, 1)
        .env("POSTHASTE_TEST_ROLLUP_EVERY_SECONDS", "1")
        .env("POSTHASTE_ADMIN_LISTEN", &admin.to_string())
        // Nobody is there: spans are dropped, and the exporter has something to do.
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
        .env("POSTHASTE_SHUTDOWN_GRACE", "2s");
    let mut stage = plan.start().await?;
    let fleet = Fleet::assemble(&stage, DESTINATIONS, SLOTS).await?;
    stage.stop().await?;
    stage.set_env("POSTHASTE_FAIL", Some(&failpoint(&row.name)));
    // It may die on the way to being ready.
    let began = stage.start().await;
    ensure!(began.is_ok() || !row.is_restarted, "it did not begin: {began:?}");
    let pid = stage.node()?.pid();

    let _callers = callers(&stage, admin);
    let mut config = fleet.pump(Until::Elapsed(ask.seconds(3))).open(ask.rate(100.0));
    config.retry_for = Duration::from_secs(60);
    let pump = lab::Pump::start(config)?;
    let mut on = Circumstances::default();
    if row.is_restarted {
        sleep(ask.seconds(3)).await;
        part.must(stage.is_running() && stage.node()?.pid() == pid, "the process ended");
        let metrics = Client::without_key(&format!("http://{admin}"))?.raw("/metrics").await?;
        let metrics = String::from_utf8_lossy(&metrics);
        let line = format!("posthaste_loop_deaths_total{{loop=\"{}\"}} 1\n", row.name);
        part.must(metrics.contains(&line), "it was not counted once in /metrics");
        let ready = get_status(stage.addr, "/readyz", Duration::from_secs(3)).await?;
        part.exactly("readyz", u64::from(ready), 200u64);
    } else {
        let ended = stage.wait_for_end(ask.seconds(3) + Duration::from_secs(15)).await;
        part.must(ended, "the process did not end");
        on.faults = vec![Fault::of_all(FaultKind::Kill, stage.receiver.now_us())];
        // What was answered and could not be written any more is asked for again: the price of it, and no more than that.
        let written = Audit::of(&stage.database).await?.delivered;
        on.unknown_settlements = stage.receiver.succeeded().saturating_sub(written);
        let status = stage.node_mut()?.wait(Duration::from_secs(1)).await?;
        part.must(status.and_then(|it| it.code()) == Some(1), format!("it ended with {status:?}"));
        part.must(stage.log().contains("this node must end"), "the log does not say why");
        stage.set_env("POSTHASTE_FAIL", None);
        stage.start().await?;
    }
    let name = format!("\"loop\":\"{}\"", row.name);
    // A thread of the store is no loop of the supervisor's: the line has the thread's name.
    let thread = format!("\"thread\":\"{}\"", row.name.replace('_', "-"));
    let log = stage.log();
    part.must(log.contains(&name) || log.contains(&thread), "the log does not name it");
    let sent = pump.report().await;
    part.exactly("left_in_queue", stage.quiesce(Duration::from_secs(60)).await?, 0u64);
    settle_accounts_on(&stage, &fleet, fleet.promised(&sent.sent), on, &mut part).await?;
    stage.strike().await?;
    Ok(part)
}

/// Somebody who follows the stream, and somebody at the admin address.
fn callers(stage: &Stage, admin: SocketAddr) -> JoinSet<()> {
    let mut callers = JoinSet::new();
    let (addr, key) = (stage.addr, format!("Bearer {API_KEY}"));
    callers.spawn(async move {
        let follow = wire::request("GET", "/v1/stream", &[("authorization", &key)], b"");
        loop {
            let _ = wire::exchange(addr, &follow, Duration::from_secs(60)).await;
            sleep(Duration::from_millis(50)).await;
        }
    });
    callers.spawn(async move {
        loop {
            let _ = get_status(admin, "/healthz", Duration::from_secs(1)).await;
            sleep(Duration::from_millis(50)).await;
        }
    });
    callers
}
