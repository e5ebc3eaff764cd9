//! Hazard: more comes in than can be taken, for a minute: memory runs out, or everything becomes slow at once.
//!
//! The node has one core and 768 MiB, producer and receiver have the other. First the capacity is measured, in a closed
//! loop; then three times that comes in for a minute (`--seconds`), in bodies of 4 KiB, each event sent once, while the
//! receiver takes a tenth of the capacity; then the receiver is set free.
//!
//! Holds if events are only ever answered 202, 429 or 503, the latter two with a Retry-After between 1 and 60; if 99 % of
//! the accepted had their answer within a second, and at least 80 % of the capacity was accepted; if memory stays below
//! 512 MiB and `/healthz` answers within 100 ms throughout; if everything is as before five seconds later, and nothing
//! accepted is lost. Needs taskset and prlimit.

use std::net::SocketAddr;
use std::process::Command;
use std::thread;

use crate::harness::ingest_probe::IngestProbe;
use crate::harness::prelude::*;

const LIMIT_MIB: u64 = 768;
const MEMORY_MIB: f64 = 512.0;
const TIMES: f64 = 3.0;
const DESTINATIONS: usize = 10;
const SLOTS: u32 = 100;
const BODY_BYTES: usize = 4 * 1024;
const ACCEPTED: f64 = 0.8;
const HEALTH_MS: f64 = 100.0;
const NORMAL_MS: f64 = 100.0;
const MEASURED: Duration = Duration::from_secs(8);

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::new(options)?.build().await?;
    confine(&mut testbed);
    testbed.start().await?;
    pin_ourselves()?;
    let source = RoutedSource::make(&testbed, DESTINATIONS, SLOTS).await?;
    let load = |until| PumpConfig { body_bytes: BODY_BYTES, ..source.pump_singly(until) };
    let warm = lab::pump::run(load(Until::Elapsed(MEASURED)).connections(128)).await?;
    let capacity = options.rate.unwrap_or(warm.rate);
    report.note("capacity_per_second", rounded(capacity));
    testbed.quiesce(Duration::from_secs(60)).await?;

    // A tenth of the capacity: about a second for each request, well within its deadline, and few slots.
    let slots = (capacity / 10.0 / DESTINATIONS as f64).round().max(1.0);
    let slow = Duration::from_secs_f64((slots * DESTINATIONS as f64 / (capacity / 10.0)).min(1.5));
    set_slots(&testbed, &source, slots as u32).await?;
    testbed.receiver.default_script(Reply::ok().after(slow));
    let probe = IngestProbe::start(&testbed, &source, Duration::from_millis(200));
    let health = watch_health(testbed.addr);
    let mut config = load(Until::Elapsed(options.seconds(60))).open(capacity * TIMES).connections(1_024);
    config.retry_for = Duration::ZERO;
    config.key_prefix = "overload".into();
    let pump = Pump::start(config)?;
    let (began, mut most) = (Instant::now(), 0);
    while began.elapsed() < options.seconds(60) {
        sleep(Duration::from_millis(100)).await;
        most = most.max(testbed.process()?.rss_bytes()?);
    }
    let sent = pump.report().await;
    testbed.receiver.default_script(Reply::ok());
    set_slots(&testbed, &source, SLOTS).await?;
    let answers = probe.finish().await?;
    let normal = back_to_normal(&testbed, &source).await?;
    let slowest_health = health.finish().await?;

    report.note("pump", &sent);
    report.must_be_at_least(
        "accepted_of_capacity",
        sent.accepted as f64 / sent.elapsed_us as f64 * 1e6 / capacity,
        ACCEPTED,
    );
    report.must_be_at_most("accepted_p99_seconds", sent.latency.percentile(99.0), 1.0);
    let wrong = sent.refused.keys().filter(|status| !matches!(**status, 429 | 503)).count() as u64;
    report.must_be("other_answers", wrong + sent.unanswered, 0);
    let refused = answers.iter().filter(|answer| matches!(answer.status, Some(429 | 503)));
    let improper = refused.filter(|answer| !answer.has_good_retry_after()).count();
    report.must_be("refusals_without_a_good_retry_after", improper, 0);
    report.must_be_at_most("most_memory_mib", mib(most), MEMORY_MIB);
    report.must_be_at_most("slowest_health_ms", slowest_health.as_secs_f64() * 1e3, HEALTH_MS);
    report.must_be_at_most("normal_after_seconds", normal, 5.0);
    testbed.must_be_running(report);
    testbed.must_drain(Duration::from_secs(180), report).await?;
    let acked = [source.promised_singly(&warm.sent), source.promised_singly(&sent.sent)].concat();
    settle_accounts(&testbed, &source, Evidence { acked, ..Evidence::default() }, report).await?;
    testbed.tear_down().await
}

async fn set_slots(testbed: &Testbed, source: &RoutedSource, slots: u32) -> Result<()> {
    for id in &source.destinations {
        // A node that is too busy for events may be too busy for this.
        let patch = json!({ "max_concurrency": slots });
        let mut tries = 0;
        while let Err(error) = testbed.client.update_destination(*id, &patch).await {
            tries += 1;
            ensure!(tries < 50, "the slots cannot be set: {error}");
            sleep(Duration::from_millis(100)).await;
        }
    }
    Ok(())
}

/// The node gets the first core and so much memory for its data.
fn confine(testbed: &mut Testbed) {
    let bytes = LIMIT_MIB << 20;
    let through = ["taskset", "-c", "0", "prlimit", &format!("--data={bytes}")];
    testbed.nodes[0].launch.through = through.map(String::from).to_vec();
}

/// All threads of this process on the second core; those to come inherit it.
fn pin_ourselves() -> Result<()> {
    let own = std::process::id().to_string();
    let pinned = Command::new("taskset").args(["-a", "-p", "-c", "1", &own]).output()?;
    ensure!(pinned.status.success(), "taskset: {}", String::from_utf8_lossy(&pinned.stderr));
    Ok(())
}

/// Until ten events in a row are accepted within a tenth of a second each.
async fn back_to_normal(testbed: &Testbed, source: &RoutedSource) -> Result<f64> {
    let began = Instant::now();
    let mut in_a_row = 0;
    while in_a_row < 10 {
        ensure!(began.elapsed() < Duration::from_secs(60), "still not as before after a minute");
        let answer = IngestProbe::ask_once(testbed, source).await?;
        let normal = answer.accepted() && answer.took.as_secs_f64() * 1e3 <= NORMAL_MS;
        in_a_row = if normal { in_a_row + 1 } else { 0 };
        sleep(Duration::from_millis(20)).await;
    }
    Ok(began.elapsed().as_secs_f64())
}

/// Asks for the node's health five times a second, by a thread that does nothing else; the longest that it took.
fn watch_health(addr: SocketAddr) -> Background<Duration> {
    const PATIENCE: Duration = Duration::from_secs(5);
    Background::thread(move |stop| {
        let request = raw_http::request("GET", "/healthz", &[], b"");
        let mut slowest = Duration::ZERO;
        while !stop.is_set() {
            let answer = raw_http::exchange_blocking(addr, &request, PATIENCE).ok();
            let well = answer.filter(|answer| answer.status == Some(200));
            slowest = slowest.max(well.map_or(PATIENCE, |answer| answer.took));
            thread::sleep(Duration::from_millis(200));
        }
        Ok(slowest)
    })
}
