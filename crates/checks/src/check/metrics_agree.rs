//! Hazard: metrics that lie.
//!
//! Load on nine destinations: well, slow with one slot, failing once, throttling, rejecting, always failing, hanging up,
//! gone, and in order. Everything may drain; one node is stopped and started; load and drain once more. What a node had
//! counted before its stop counts.
//!
//! Holds if the metrics of all nodes together agree exactly with the tables and with the receiver's own count: events,
//! attempts by outcome, retries, deliveries delivered, dead letters by reason; if nothing is in flight, waiting or overdue at
//! the end; if deliveries that had to wait for a slot were counted, once each; and if a scrape takes at most 50 ms.

use domain::destination::Ordering;
use domain::outcome::{DeadReason, Outcome};

use crate::harness::prelude::*;
use crate::harness::scrape::Scrape;

const DESTINATIONS: usize = 9;
const SLOTS: u32 = 8;
/// d01.
const SLOW: usize = 1;
/// Told again for so long.
const TOLD: Duration = Duration::from_millis(1_100);

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::of_several(options)?.start_balanced().await?;
    let source = RoutedSource::make_with(&testbed, DESTINATIONS, SLOTS, plan).await?;
    for (at, script) in scripts().into_iter().enumerate() {
        testbed.receiver.script(&source.names[at], script);
    }
    load(options, &testbed, &source, report).await?;
    let mut counted = Scrape::of(&testbed.nodes[0]).await?;
    testbed.stop().await?;
    testbed.start().await?;
    // A lane that changes hands has its waiting counted by both.
    testbed.wait_until_balanced(Duration::from_secs(30)).await?;
    load(options, &testbed, &source, report).await?;
    let mut now = Scrape::default();
    for node in &testbed.nodes {
        now.add(&Scrape::of(node).await?);
    }
    counted.add(&now);
    compare(&testbed, &counted, report).await?;
    for gauge in [
        "posthaste_delivery_inflight_per_destination",
        "posthaste_queue_depth",
        "posthaste_queue_oldest_seconds",
    ] {
        report.must(now.has(gauge), format!("{gauge} is missing"));
        report.must_be(gauge, now.sum(gauge) as u64, 0);
    }
    let denied = |name: &str| {
        counted.with("posthaste_delivery_concurrency_slot_denied_total", "destination_name", name) as u64
    };
    let slow = &source.names[SLOW];
    report.note("denied_at_the_slow_one", denied(slow));
    let arrived = testbed.receiver.arrivals(slow);
    report.must(
        (1..=arrived).contains(&denied(slow)),
        "not every delivery that waited for a slot was counted, once",
    );
    counted.must_be_quick(report);
    testbed.tear_down().await
}

fn plan(at: usize, plan: NewDestination) -> NewDestination {
    let mut plan = plan;
    match at {
        SLOW => plan.max_concurrency = Some(1),
        // Two attempts, a second apart.
        5 | 6 => plan.retry_policy = retry_policy(&[1]),
        8 => plan.ordering = Ordering::Strict,
        _ => {}
    }
    plan
}

fn scripts() -> [Script; DESTINATIONS] {
    let at_first = |first: Reply| {
        Script::custom(move |request| if request.attempt <= 1 { first.clone() } else { Reply::ok() })
    };
    [
        Script::ok(),
        Reply::ok().after(Duration::from_millis(30)).into(),
        at_first(Reply::status(500)),
        Script::custom(|request| if request.arrival % 20 == 7 { Reply::throttled(1) } else { Reply::ok() }),
        Reply::status(400).into(),
        Reply::status(503).into(),
        Reply::Close.into(),
        Reply::status(410).into(),
        Script::ok(),
    ]
}

async fn load(
    options: &Options,
    testbed: &Testbed,
    source: &RoutedSource,
    report: &mut Report,
) -> Result<()> {
    let pump = Pump::start(source.pump(Until::Elapsed(options.seconds(4))).open(options.rate(200.0)))?;
    let sent = pump.report().await;
    report.must_all_be_accepted(&sent);
    testbed.must_drain(Duration::from_secs(60), report).await?;
    sleep(TOLD).await;
    Ok(())
}

async fn compare(testbed: &Testbed, counted: &Scrape, report: &mut Report) -> Result<()> {
    let database = &testbed.database;
    let mut agree = |name: String, counted: f64, table: u64| {
        report.note(&name, table);
        report.must(counted as u64 == table, format!("{name}: {counted} counted, {table} in the tables"));
    };
    let events = database.count("events").await?;
    agree("events".into(), counted.sum("posthaste_events_ingested_total"), events);
    let mut attempts = 0;
    for outcome in Outcome::ALL {
        let of = format!("from attempts where number is not null and outcome = '{outcome}'");
        let rows = database.number(&format!("select count(*) {of}")).await?;
        let metric = counted.with("posthaste_delivery_attempts_total", "outcome", outcome.as_str());
        agree(format!("attempts_{outcome}"), metric, rows);
        attempts += rows;
    }
    agree("attempts".into(), counted.sum("posthaste_attempt_duration_seconds_count"), attempts);
    agree("requests".into(), attempts as f64, testbed.receiver.total());
    let retried = "select count(*) from attempts where number is not null and ending is null";
    let late = match database.kind() {
        StoreKind::Sqlite => "late = 1",
        StoreKind::Postgres => "late",
    };
    let late = database.number(&format!("{retried} and {late}")).await?;
    agree("late".into(), 0.0, late);
    agree("retries".into(), counted.sum("posthaste_delivery_retries_total"), database.number(retried).await?);
    let delivered = database.number("select count(*) from attempts where ending = 'delivered'").await?;
    agree("delivered".into(), counted.sum("posthaste_delivery_latency_seconds_count"), delivered);
    agree("answered_2xx".into(), delivered as f64, testbed.receiver.succeeded());
    for reason in DeadReason::ALL {
        let of = format!("from attempts where ending = 'dead_letter' and reason = '{reason}'");
        let rows = database.number(&format!("select count(*) {of}")).await?;
        let metric = counted.with("posthaste_dead_letters_total", "reason", reason.as_str());
        agree(format!("dead_letters_{reason}"), metric, rows);
    }
    for met in
        ["attempts_server_error", "attempts_throttled", "attempts_network_error", "dead_letters_exhausted"]
    {
        report.must(report.noted_count(met) > 0, format!("there were no {met}: nothing was tried"));
    }
    Ok(())
}
