//! Hazard: a destination that means no good takes memory, descriptors or time from all the others, or has an attempt
//! written down as what it was not.
//!
//! One check for each kind of hostility (`harness/hostile/kinds.rs`), by its name. Twenty healthy destinations get a hundred
//! events a second (`--rate`), for five seconds alone (`--seconds`) and then beside the kind: a destination for each of its
//! cases, so many deliveries each (`--count`); `--only` leaves out the cases whose name begins otherwise.
//!
//! Holds if every attempt has its outcome, its status or error code and its duration, and every delivery its ending; if a
//! request came at most once for each attempt, and exactly once for one that was answered, and no answer is another
//! attempt's; if no request reaches where a redirect leads; if everything of the healthy ones arrives, with a p99 of at most
//! twice that alone; if memory stays within the bound of the kind; and if afterwards no socket to the hostile
//! ones is left, and sockets and tasks are as many as before.
//!
//! On SQLite only: nothing of it goes near the store.

use crate::harness::bystanders::Bystanders;
use crate::harness::hostile::certificates::Certificates;
use crate::harness::hostile::destinations::{HostileDestinations, HostileLoad};
use crate::harness::hostile::kinds::{self, Surroundings};
use crate::harness::node_watch::{Holdings, NodeWatch};
use crate::harness::prelude::*;
use crate::harness::scrape::Scrape;

const HEALTHY: usize = 20;
const TOLERANCE: f64 = 2.0;
/// Below this it is the machine that is measured: two cores carry the node, its producers and all receivers, and what a
/// hostile one could take from the others is seconds.
const P99_FLOOR_MS: f64 = if cfg!(debug_assertions) { 100.0 } else { 50.0 };
const MEMORY_MIB: f64 = 512.0;
const ENDED_WITHIN: Duration = Duration::from_secs(60);
/// From the end of the last attempt.
const CLOSED_WITHIN: Duration = Duration::from_secs(1);
/// Of redirects.
const CANARY: &str = "canary";

pub(crate) async fn run(name: &'static str, options: &Options, report: &mut Report) -> Result<()> {
    let kind = kinds::named(name).context("a kind of this name")?;
    let certificates = Certificates::make()?;
    let plan = TestbedPlan::new(options)?.env("SSL_CERT_FILE", certificates.file()?);
    let mut testbed = plan.start().await?;
    let bystanders = Bystanders::of_number(&testbed, HEALTHY).await?;
    let canary = lab::Receiver::local(Script::ok());
    let canaries = [canary.url("/canary"), testbed.receiver.url(&format!("/d/{CANARY}"))];
    let mut cases = (kind.cases)(&Surroundings { certificates: &certificates, canaries: &canaries })?;
    cases.retain(|case| options.only.as_ref().is_none_or(|only| case.name.starts_with(only)));
    let hostile = HostileDestinations::make(&testbed, kind.name, cases, kind.slots, kind.pauses).await?;
    report.note("cases", hostile.len());

    let pump = bystanders.load(options.rate(100.0)).await?;
    let cpu = CpuTime::of(&testbed).await?;
    let began = Instant::now();
    let alone = bystanders.watch(&testbed.receiver, options.seconds(5)).await;
    let cpu_alone = CpuTime::spent(&testbed, &cpu).await?.nodes.div_f64(began.elapsed().as_secs_f64());
    bystanders.finish(pump, &testbed.receiver, report).await;
    let before = Holdings::of(&testbed).await?;

    let already = bystanders.arrived(&testbed.receiver);
    let pump = bystanders.load(options.rate(100.0)).await?;
    let watch = NodeWatch::begin(&testbed)?;
    let (cpu, began, from_us) = (CpuTime::of(&testbed).await?, Instant::now(), testbed.receiver.now_us());
    let deliveries = options.count(kind.deliveries);
    let load = HostileLoad { deliveries, over: kind.over, payload_bytes: kind.payload_bytes };
    let published = hostile.publish(&testbed, &load).await?;
    hostile.wait_until_ended(&testbed, published, ENDED_WITHIN, report).await?;
    let is_left = becomes(CLOSED_WITHIN, 20, async || Ok(hostile.sockets(&testbed)? == 0)).await?;
    // Some may be kept for the next request.
    report.note("sockets_to_the_hostile_after", if is_left { 0 } else { hostile.sockets(&testbed)? });
    let (beside, took) = (bystanders.arrived_since(&testbed.receiver, from_us), began.elapsed());
    let cpu =
        CpuTime::spent(&testbed, &cpu).await?.nodes.saturating_sub(cpu_alone.mul_f64(took.as_secs_f64()));
    let peak = watch.finish().await?;
    bystanders.finish_after(already, pump, &testbed.receiver, report).await;

    report.note("hostile_seconds", rounded(took.as_secs_f64()));
    report.note("hostile_connections", hostile.connections());
    let [alone_ms, beside_ms] = [&alone, &beside].map(|arrived| arrived.end_to_end.percentile_ms(99.0));
    report.note("p99_ms_alone", rounded(alone_ms));
    report.must_be_at_most("p99_ms_beside", beside_ms, (alone_ms * TOLERANCE).max(P99_FLOOR_MS));
    report.note("most_memory_mib", rounded(mib(peak.memory_bytes)));
    report.must(mib(peak.memory_bytes) <= MEMORY_MIB, format!("more than {MEMORY_MIB} MiB of memory"));
    let grew = peak.memory_bytes.saturating_sub(before.memory_bytes);
    report.must_be_at_most("memory_grew_mib", mib(grew), kind.grows_mib);
    report.note("most_descriptors", peak.descriptors);
    // What is kept for the next request goes when its receiver does.
    hostile.close();
    before.must_be_back(&testbed, report).await?;
    hostile.judge(&testbed, report).await?;
    let cpu_ms = cpu.as_secs_f64() * 1e3 / report.noted_count("hostile_attempts").max(1) as f64;
    report.note("cpu_ms_an_attempt", rounded(cpu_ms));
    let is_dear = kind.cpu_ms.is_some_and(|most| cpu_ms > most) && !cfg!(debug_assertions);
    report.must(!is_dear, "an attempt costs more CPU time than it may");
    report.must_be("requests_at_canaries", canary.total() + testbed.receiver.arrivals(CANARY), 0);
    let large = Scrape::of(&testbed.nodes[0]).await?.sum("posthaste_large_payloads_bytes");
    report.must_be("bytes_of_large_payloads_after", large as u64, 0);
    report.must(!testbed.log().contains("panicked"), "something panicked: see the log");
    TableAudit::of(&testbed.database).await?.must_hold(report);
    testbed.must_be_running(report);
    testbed.tear_down().await
}
