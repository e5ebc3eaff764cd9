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
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use lab::{Pump, PumpConfig, Reply, Until};
use serde_json::json;
use tokio::time::sleep;

use crate::Ask;
use crate::harness::audit::settle_accounts;
use crate::harness::outsider::Outsider;
use crate::harness::report::rounded;
use crate::harness::{Fleet, Plan, Report, Stage, StoreKind, wire};

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

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let mut stage = Plan::new(ask, store)?.set().await?;
    confine(&mut stage);
    stage.start().await?;
    pin_ourselves()?;
    let fleet = Fleet::assemble(&stage, DESTINATIONS, SLOTS).await?;
    let load = |until| PumpConfig { body_bytes: BODY_BYTES, ..single(&fleet, until) };
    let warm = lab::pump::run(load(Until::Elapsed(MEASURED)).connections(128)).await?;
    let capacity = ask.rate.unwrap_or(warm.rate);
    report.note("capacity_per_second", rounded(capacity));
    stage.quiesce(Duration::from_secs(60)).await?;

    // A tenth of the capacity: about a second for each request, well within its deadline, and few slots.
    let slots = (capacity / 10.0 / DESTINATIONS as f64).round().max(1.0);
    let slow = Duration::from_secs_f64((slots * DESTINATIONS as f64 / (capacity / 10.0)).min(1.5));
    set_slots(&stage, &fleet, slots as u32).await?;
    stage.receiver.default_script(Reply::ok().after(slow));
    let outsider = Outsider::start(&stage, &fleet, Duration::from_millis(200));
    let health = Health::watch(stage.addr);
    let mut config = load(Until::Elapsed(ask.seconds(60))).open(capacity * TIMES).connections(1_024);
    config.retry_for = Duration::ZERO;
    config.key_prefix = "overload".into();
    let pump = Pump::start(config)?;
    let (began, mut most) = (Instant::now(), 0);
    while began.elapsed() < ask.seconds(60) {
        sleep(Duration::from_millis(100)).await;
        most = most.max(stage.node()?.rss_bytes()?);
    }
    let sent = pump.report().await;
    stage.receiver.default_script(Reply::ok());
    set_slots(&stage, &fleet, SLOTS).await?;
    let seen = outsider.finish().await?;
    let normal = back_to_normal(&stage, &fleet).await?;
    let slowest_health = health.finish()?;

    report.note("pump", &sent);
    report.at_least(
        "accepted_of_capacity",
        sent.accepted as f64 / sent.elapsed_us as f64 * 1e6 / capacity,
        ACCEPTED,
    );
    report.at_most("accepted_p99_seconds", sent.latency.percentile_us(99.0) as f64 / 1e6, 1.0);
    let wrong = sent.refused.keys().filter(|status| !matches!(**status, 429 | 503)).count() as u64;
    report.exactly("other_answers", wrong + sent.unanswered, 0u64);
    let proper = |retry: Option<u64>| retry.is_some_and(|seconds| (1..=60).contains(&seconds));
    let refused = seen.iter().filter(|seen| matches!(seen.status, Some(429 | 503)));
    let improper = refused.filter(|seen| !proper(seen.retry_after)).count() as u64;
    report.exactly("refusals_without_a_good_retry_after", improper, 0u64);
    report.at_most("most_memory_mib", most as f64 / f64::from(1 << 20), MEMORY_MIB);
    report.at_most("slowest_health_ms", slowest_health.as_secs_f64() * 1e3, HEALTH_MS);
    report.at_most("normal_after_seconds", normal, 5.0);
    report.must(stage.is_running(), "the node exited");
    let left = stage.quiesce(Duration::from_secs(180)).await?;
    report.exactly("left_in_queue", left, 0u64);
    let mut promised = fleet.promised_singly(&warm.sent);
    promised.extend(fleet.promised_singly(&sent.sent));
    settle_accounts(&stage, &fleet, promised, Vec::new(), &mut report).await?;
    stage.strike().await?;
    Ok(report)
}

async fn set_slots(stage: &Stage, fleet: &Fleet, slots: u32) -> Result<()> {
    for id in &fleet.ids {
        // A node that is too busy for events may be too busy for this.
        let patch = json!({ "max_concurrency": slots });
        let mut tries = 0;
        while let Err(error) = stage.client.update_destination(*id, &patch).await {
            tries += 1;
            ensure!(tries < 50, "the slots cannot be set: {error}");
            sleep(Duration::from_millis(100)).await;
        }
    }
    Ok(())
}

/// One delivery an event.
fn single(fleet: &Fleet, until: Until) -> PumpConfig {
    let mut config = fleet.pump(until);
    config.event_types.pop();
    config
}

/// The node gets the first core and so much memory for its data.
fn confine(stage: &mut Stage) {
    let bytes = LIMIT_MIB << 20;
    let through = ["taskset", "-c", "0", "prlimit", &format!("--data={bytes}")];
    stage.members[0].launch.through = through.map(String::from).to_vec();
}

/// All threads of this process on the second core; those to come inherit it.
fn pin_ourselves() -> Result<()> {
    let own = std::process::id().to_string();
    let pinned = Command::new("taskset").args(["-a", "-p", "-c", "1", &own]).output()?;
    ensure!(pinned.status.success(), "taskset: {}", String::from_utf8_lossy(&pinned.stderr));
    Ok(())
}

/// Until ten events in a row are accepted within a tenth of a second each.
async fn back_to_normal(stage: &Stage, fleet: &Fleet) -> Result<f64> {
    let began = Instant::now();
    let mut in_a_row = 0;
    while in_a_row < 10 {
        ensure!(began.elapsed() < Duration::from_secs(60), "still not as before after a minute");
        let seen = Outsider::once(stage, fleet).await?;
        let normal = seen.accepted() && seen.took.as_secs_f64() * 1e3 <= NORMAL_MS;
        in_a_row = if normal { in_a_row + 1 } else { 0 };
        sleep(Duration::from_millis(20)).await;
    }
    Ok(began.elapsed().as_secs_f64())
}

/// Asks for the node's health five times a second, by a thread that does nothing else.
struct Health {
    stop: Arc<AtomicBool>,
    slowest: JoinHandle<Duration>,
}

impl Health {
    fn watch(addr: SocketAddr) -> Health {
        const PATIENCE: Duration = Duration::from_secs(5);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let slowest = thread::spawn(move || {
            let request = wire::request("GET", "/healthz", &[], b"");
            let mut slowest = Duration::ZERO;
            while !stopped.load(Relaxed) {
                let answer = wire::exchange_by_a_thread(addr, &request, PATIENCE);
                let took =
                    answer.map_or(PATIENCE, |it| if it.status == Some(200) { it.took } else { PATIENCE });
                slowest = slowest.max(took);
                thread::sleep(Duration::from_millis(200));
            }
            slowest
        });
        Health { stop, slowest }
    }

    fn finish(self) -> Result<Duration> {
        self.stop.store(true, Relaxed);
        self.slowest.join().map_err(|_| anyhow!("the watch over the node's health panicked"))
    }
}
