//! Hazard: what one hostile destination cannot do, two hundred of every kind can together.
//!
//! Twenty destinations of each of ten kinds of hostility (`harness/hostile/kinds.rs`) get a hundred events a second between
//! them, beside twenty healthy ones that get as many (`--rate`), and one of another account that gets ten. For a minute
//! (`--seconds`), after a quarter of it without the hostile ones.
//!
//! Holds if nothing of the healthy ones is refused, late or lost: everything arrives, with a p99 of at most twice that
//! alone; if the other account notices as little; if the node never has more than 512 MiB of memory; if every attempt at the
//! hostile ones ended within its deadline, as what it was; and if afterwards sockets and tasks are as many as before.

use crate::harness::bystanders::{Bystanders, end_to_end_of};
use crate::harness::hostile::certificates::Certificates;
use crate::harness::hostile::destinations::HostileDestinations;
use crate::harness::hostile::kinds::{Case, KINDS, Surroundings};
use crate::harness::node_watch::{Holdings, NodeWatch};
use crate::harness::other_account::OtherAccount;
use crate::harness::prelude::*;
use crate::harness::testbed::add_destination;

/// Those of the table before this one.
const KINDS_AT_ONCE: usize = 10;
const OF_EACH: usize = 20;
const HEALTHY: usize = 20;
const OTHER: &str = "other";
const OTHER_PER_SECOND: f64 = 10.0;
/// As many as a destination has unless it is said.
const SLOTS: u32 = 5;
const TOLERANCE: f64 = 2.0;
/// Below this it is the machine's own scheduler that is measured.
const P99_FLOOR_MS: f64 = if cfg!(debug_assertions) { 100.0 } else { 25.0 };
const MEMORY_MIB: f64 = 512.0;
const ENDED_WITHIN: Duration = Duration::from_secs(60);

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let certificates = Certificates::make()?;
    let plan = TestbedPlan::new(options)?.env("SSL_CERT_FILE", certificates.file()?);
    let mut testbed = plan.start().await?;
    let healthy = Bystanders::of_number(&testbed, HEALTHY).await?;
    let other = OtherAccount::make(&testbed).await?;
    add_destination(&other.client, &testbed.destination(OTHER), &[]).await?;
    let canary = lab::Receiver::local(Script::ok());
    let canaries = [canary.url("/canary")];
    let cases = cases(&Surroundings { certificates: &certificates, canaries: &canaries })?;
    let hostile = HostileDestinations::make(&testbed, "hostile", cases, SLOTS, &[1]).await?;
    report.note("hostile_destinations", hostile.len());

    let span = options.seconds(60);
    let rate = options.rate(100.0);
    let (alone, ()) = round(&testbed, &healthy, &other, rate, span / 4, report, async || Ok(())).await?;
    let before = Holdings::of(&testbed).await?;
    let watch = NodeWatch::begin(&testbed)?;
    let hostility = testbed.publisher(Until::Stopped).open(rate);
    let hostility = Pump::start(PumpConfig { event_types: hostile.event_types(), ..hostility })?;
    let beside = round(&testbed, &healthy, &other, rate, span, report, async || {
        let sent = hostility.finish().await;
        ensure!(sent.accepted == sent.offered, "events for the hostile ones were refused: {sent}");
        Ok(sent.accepted)
    });
    let (beside, published) = beside.await?;
    hostile.wait_until_ended(&testbed, published, ENDED_WITHIN, report).await?;
    let peak = watch.finish().await?;

    for (name, alone, beside) in
        [("healthy", alone.healthy_ms, beside.healthy_ms), ("other_account", alone.other_ms, beside.other_ms)]
    {
        report.note(&format!("{name}_p99_ms_alone"), rounded(alone));
        let limit = (alone * TOLERANCE).max(P99_FLOOR_MS);
        report.must_be_at_most(&format!("{name}_p99_ms_beside"), beside, limit);
    }
    report.must_be_at_most("most_memory_mib", mib(peak.memory_bytes), MEMORY_MIB);
    report.note("most_descriptors", peak.descriptors);
    report.note("hostile_connections", hostile.connections());
    // What is kept for the next request goes when its receiver does.
    hostile.close();
    before.must_be_back(&testbed, report).await?;
    hostile.judge(&testbed, report).await?;
    report.must_be("requests_at_canaries", canary.total(), 0);
    report.must(!testbed.log().contains("panicked"), "something panicked: see the log");
    TableAudit::of(&testbed.database).await?.must_hold(report);
    testbed.must_be_running(report);
    testbed.tear_down().await
}

/// Of each kind as many, its cases in turn or as many of them as there is room for.
fn cases(around: &Surroundings<'_>) -> Result<Vec<Case>> {
    let mut all = Vec::new();
    for kind in &KINDS[..KINDS_AT_ONCE] {
        let cases = (kind.cases)(around)?;
        for at in 0..OF_EACH {
            let step = if cases.len() > OF_EACH { at * cases.len() / OF_EACH } else { at % cases.len() };
            let case = cases[step].clone();
            let name = format!("{}: {}", kind.name, case.name);
            all.push(Case { name, expects: case.expects.at_leisure(), ..case });
        }
    }
    Ok(all)
}

struct RoundFigures {
    healthy_ms: f64,
    other_ms: f64,
}

/// The healthy ones and the other account for so long; then whatever else went on is ended.
async fn round<T>(
    testbed: &Testbed,
    healthy: &Bystanders,
    other: &OtherAccount,
    rate: f64,
    span: Duration,
    report: &mut Report,
    end: impl AsyncFnOnce() -> Result<T>,
) -> Result<(RoundFigures, T)> {
    let already = healthy.arrived(&testbed.receiver);
    let already_other = testbed.receiver.succeeded_at(OTHER);
    let pump = healthy.load(rate).await?;
    let from_us = testbed.receiver.now_us();
    let others = lab::pump::run(other.pump(testbed, OTHER_PER_SECOND, span)).await?;
    let arrived = healthy.arrived_since(&testbed.receiver, from_us);
    let ended = end().await?;
    healthy.finish_after(already, pump, &testbed.receiver, report).await;
    let wanted = already_other + others.accepted;
    testbed.receiver.wait_for_succeeded_at(OTHER, wanted, Duration::from_secs(10)).await;
    report.must(others.accepted == others.offered, format!("the other account was refused: {others}"));
    report.must_be("arrived_at_the_other_account", testbed.receiver.succeeded_at(OTHER), wanted);
    let of_other = end_to_end_of(&testbed.receiver, &[OTHER.into()], |it| it.start_us >= from_us);
    let figures = RoundFigures {
        healthy_ms: arrived.end_to_end.percentile_ms(99.0),
        other_ms: of_other.percentile_ms(99.0),
    };
    Ok((figures, ended))
}
