//! Hazard: a fault in our own code, in the middle of a delivery, takes the worker, its slot or its neighbours
//! along.
//!
//! Every fiftieth delivery panics, at one of three places in turn: before it is sent, after it was answered, and while
//! its result is written. Load for twenty seconds each, then a drain.
//!
//! Holds if nothing is lost, every slot is free again (each destination has its full number of requests open
//! afterwards), the process is the same and has as many threads as before, as many events go through as without
//! faults (within a tenth), and the log tells of the panics without their message and without a payload. Needs the
//! debug build.

use lab::Latency;
use serde_json::Value;

use crate::harness::prelude::*;

const PLACES: [&str; 3] = ["send.before", "send.answered", "settle.before"];
const DESTINATIONS: usize = 10;
const SLOTS: u32 = 8;
const THROUGHPUT: f64 = 0.9;
/// A few for blocking work are always there once there was any.
const SPARE_THREADS: usize = 6;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let alone = one_run(options, None, report).await?;
    let mut runs = vec![alone.shown("none")];
    for place in PLACES {
        let run = one_run(options, Some(place), report).await.with_context(|| place.to_owned())?;
        runs.push(run.shown(place));
        let slow =
            format!("{place}: {:.0} deliveries/s, {:.0} without faults", run.per_second, alone.per_second);
        report.must(run.per_second >= alone.per_second * THROUGHPUT, slow);
    }
    report.note("runs", runs);
    Ok(())
}

struct PanicRun {
    /// While the load lasted.
    per_second: f64,
    /// When all was done.
    threads: usize,
}

impl PanicRun {
    fn shown(&self, place: &str) -> Value {
        json!({ "place": place, "deliveries_per_second": rounded(self.per_second), "threads": self.threads })
    }
}

async fn one_run(options: &Options, place: Option<&str>, report: &mut Report) -> Result<PanicRun> {
    let mut part = Report::default();
    let mut testbed = TestbedPlan::with_failpoints(options)?.start().await?;
    let source = RoutedSource::make(&testbed, DESTINATIONS, SLOTS).await?;
    let latency = Latency::Uniform { from: Duration::from_millis(2), to: Duration::from_millis(20) };
    testbed.receiver.default_script(Reply::ok().after(latency));
    // Setting up has reached places too.
    testbed.stop().await?;
    let failpoint = place.map(|place| format!("{place}:panic:2%"));
    testbed.set_env("POSTHASTE_FAIL", failpoint.as_deref());
    testbed.start().await?;
    let pid = testbed.process()?.pid();
    let threads_before = threads(pid);

    let began = Instant::now();
    let mut config = source.pump(Until::Elapsed(options.seconds(20))).open(options.rate(500.0));
    config.retry_for = Duration::from_secs(5);
    let sent = lab::pump::run(config).await?;
    let per_second = testbed.receiver.succeeded() as f64 / began.elapsed().as_secs_f64();
    testbed.must_drain(Duration::from_secs(60), &mut part).await?;
    let alive = testbed.is_running() && testbed.process()?.pid() == pid;
    part.must(alive, "the process ended");
    // An answer that was lost in a panic is asked for again: the price of it, and no more than that.
    let answered = testbed.receiver.snapshot().len() as u64;
    let mut evidence = source.evidence(&sent, Vec::new());
    if place == Some("send.answered") {
        evidence.unknown_settlements = answered / 50 + 1;
    }
    settle_accounts(&testbed, &source, evidence, &mut part).await?;
    if alive {
        all_slots_are_free(&testbed, &source, &mut part).await?;
        let enough = threads_before + SPARE_THREADS;
        let after = threads_when_idle(pid, enough).await;
        part.must(after <= enough, format!("{after} threads, {threads_before} at the start"));
    }
    let run = PanicRun { per_second, threads: threads(pid) };
    if let Some(place) = place {
        let log = testbed.log();
        part.must(log.contains("panicked"), "the log does not tell of a panic");
        part.must(!log.contains(&format!("failpoint {place}")), "the log has the panic's message");
        part.must(!log.contains("\"pad\""), "the log has a payload");
    }
    report.must_hold(place.unwrap_or("no faults"), &part);
    testbed.tear_down().await?;
    Ok(run)
}

/// Slow receivers and more than enough events: each destination must come to have all its slots in use.
async fn all_slots_are_free(testbed: &Testbed, source: &RoutedSource, part: &mut Report) -> Result<()> {
    testbed.receiver.clear();
    testbed.receiver.default_script(Reply::ok().after(Duration::from_millis(300)));
    let mut config = source.pump(Until::Count(u64::from(SLOTS) * 3));
    config.event_types = vec!["lab.all".into()];
    lab::pump::run(config).await?;
    let left = testbed.quiesce(Duration::from_secs(30)).await?;
    part.must_be("left_after_the_slots_were_counted", left, 0);
    let most = source.names.iter().map(|name| testbed.receiver.max_open(name));
    let wrong = most.filter(|most| *most != SLOTS).count();
    part.must_be("destinations_without_all_their_slots", wrong, 0);
    Ok(())
}

/// Threads for blocking work leave when they have been idle for a while.
async fn threads_when_idle(pid: u32, enough: usize) -> usize {
    let _ = becomes(Duration::from_secs(15), 100, async || Ok(threads(pid) <= enough)).await;
    threads(pid)
}

fn threads(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}
