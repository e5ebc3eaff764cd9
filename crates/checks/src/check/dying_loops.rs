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

use client::Client;
use lab::process::get_status;
use tokio::task::JoinSet;

use crate::harness::postgres_server::root;
use crate::harness::prelude::*;
use crate::harness::testbed::{API_KEY, free_addr};

const DESTINATIONS: usize = 5;
const SLOTS: u32 = 4;
/// Loops that nothing in here reaches: tried in the tests of `engine` and `store`.
const ELSEWHERE: [&str; 2] = ["late_hand_over", "sqlite_copier"];

/// A line of the table.
struct LoopRow {
    name: String,
    is_restarted: bool,
}

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut tried = Vec::new();
    for row in table()? {
        let of_sqlite = row.name.starts_with("sqlite_");
        let asked_for = options.only.as_ref().is_none_or(|only| row.name.starts_with(only.as_str()));
        if ELSEWHERE.contains(&row.name.as_str())
            || !asked_for
            || (of_sqlite && options.store() == StoreKind::Postgres)
        {
            continue;
        }
        let part = one_loop(options, &row).await.with_context(|| row.name.clone())?;
        report.must_hold(&row.name, &part);
        tried.push(row.name);
    }
    ensure!(!tried.is_empty(), "no loop was tried");
    report.note("loops", json!(tried));
    Ok(())
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

async fn one_loop(options: &Options, row: &LoopRow) -> Result<Report> {
    let mut part = Report::default();
    let admin = free_addr()?;
    let plan = TestbedPlan::with_failpoints(options)?
        .short_retention(None, 1)
        .env("POSTHASTE_TEST_ROLLUP_EVERY_SECONDS", "1")
        .env("POSTHASTE_ADMIN_LISTEN", &admin.to_string())
        // Nothing listens there: spans are dropped, and the exporter has something to do.
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
        .env("POSTHASTE_SHUTDOWN_GRACE", "2s");
    let mut testbed = plan.start().await?;
    let source = RoutedSource::make(&testbed, DESTINATIONS, SLOTS).await?;
    testbed.stop().await?;
    testbed.set_env("POSTHASTE_FAIL", Some(&failpoint(&row.name)));
    // It may die on the way to being ready.
    let began = testbed.start().await;
    ensure!(began.is_ok() || !row.is_restarted, "it did not begin: {began:?}");
    let pid = testbed.process()?.pid();

    let _callers = callers(&testbed, admin);
    let mut config = source.pump(Until::Elapsed(options.seconds(3))).open(options.rate(100.0));
    config.retry_for = Duration::from_secs(60);
    let pump = lab::Pump::start(config)?;
    let (mut faults, mut unknown_settlements) = (Vec::new(), 0);
    if row.is_restarted {
        sleep(options.seconds(3)).await;
        part.must(testbed.is_running() && testbed.process()?.pid() == pid, "the process ended");
        let metrics = Client::without_key(&format!("http://{admin}"))?.raw("/metrics").await?;
        let metrics = String::from_utf8_lossy(&metrics);
        let line = format!("posthaste_loop_deaths_total{{loop=\"{}\"}} 1\n", row.name);
        part.must(metrics.contains(&line), "it was not counted once in /metrics");
        let ready = get_status(testbed.addr, "/readyz", Duration::from_secs(3)).await?;
        part.must_be("readyz", ready, 200);
    } else {
        let ended = testbed.wait_for_exit(options.seconds(3) + Duration::from_secs(15)).await;
        part.must(ended, "the process did not end");
        faults = vec![Fault::of_all(FaultKind::Kill, testbed.receiver.now_us())];
        // What was answered and could not be written any more is asked for again: the price of it, and no more than that.
        let written = TableAudit::of(&testbed.database).await?.delivered;
        unknown_settlements = testbed.receiver.succeeded().saturating_sub(written);
        let status = testbed.process_mut()?.wait(Duration::from_secs(1)).await?;
        part.must(status.and_then(|it| it.code()) == Some(1), format!("it ended with {status:?}"));
        part.must(testbed.log().contains("this node must end"), "the log does not say why");
        testbed.set_env("POSTHASTE_FAIL", None);
        testbed.start().await?;
    }
    let name = format!("\"loop\":\"{}\"", row.name);
    // A thread of the store is no loop of the supervisor's: the line has the thread's name.
    let thread = format!("\"thread\":\"{}\"", row.name.replace('_', "-"));
    let log = testbed.log();
    part.must(log.contains(&name) || log.contains(&thread), "the log does not name it");
    let sent = pump.report().await;
    let evidence = Evidence { unknown_settlements, ..source.evidence(&sent, faults) };
    settle_accounts(&testbed, &source, evidence, &mut part).await?;
    testbed.tear_down().await?;
    Ok(part)
}

/// A client that follows the stream, and one at the admin address.
fn callers(testbed: &Testbed, admin: SocketAddr) -> JoinSet<()> {
    let mut callers = JoinSet::new();
    let (addr, key) = (testbed.addr, format!("Bearer {API_KEY}"));
    callers.spawn(async move {
        let follow = raw_http::request("GET", "/v1/stream", &[("authorization", &key)], b"");
        loop {
            let _ = raw_http::exchange(addr, &follow, Duration::from_secs(60)).await;
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
