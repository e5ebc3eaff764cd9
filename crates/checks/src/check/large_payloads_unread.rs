//! Hazard: an account whose destination does not read large payloads keeps the memory for them, and every other account
//! waits for it.
//!
//! Account A has four destinations at a receiver that reads nothing of a body, and forty deliveries (`--count`) of 4.9 MB
//! wait for them: more than what a node has memory for. Account B sends 17 KB and 4.9 MB to a healthy receiver, alone and
//! then beside A, once with a receiver that answers 200 at once and once with one that says nothing until the deadline;
//! `--seconds` each.
//!
//! Holds if what B sends arrives in time each time, small events within half a second and large ones within two (99th
//! percentile); if every delivery of A that was answered is delivered and every other ends at its deadline; if the node has
//! at most 512 MiB; and if the memory, the sockets and the descriptors are given back.

use lab::Histogram;

use crate::harness::hostile::conduct::{Conduct, Step};
use crate::harness::hostile::destinations::{HostileDestinations, HostileLoad};
use crate::harness::hostile::expectation::{DEADLINE, Expectation};
use crate::harness::hostile::kinds::Case;
use crate::harness::node_watch::{Holdings, NodeWatch};
use crate::harness::other_account::OtherAccount;
use crate::harness::prelude::*;
use crate::harness::scrape::Scrape;
use crate::harness::testbed::add_destination;

const LARGE: usize = 4_900_000;
/// Above what travels with its delivery.
const SMALL: usize = 17_000;
const UNREADING: u64 = 4;
const SLOTS: u32 = 10;
const SMALL_MS: f64 = 500.0;
const LARGE_MS: f64 = 2_000.0;
const MEMORY_MIB: f64 = 512.0;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::new(options)?.start().await?;
    testbed.receiver.recording(Recording::Full);
    let other = OtherAccount::make(&testbed).await?;
    for name in ["small", "large"] {
        add_destination(&other.client, &testbed.destination_with_slots(name, 10), &[&lab_type(name)]).await?;
    }
    let ok = Step::Say("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".into());
    let answers = Case::new(
        "answers",
        Conduct::plain([Step::ReadHead, ok, Step::Ignore]),
        Expectation::delivered(200).at_leisure(),
    );
    let silent = Case::new(
        "says nothing",
        Conduct::plain([Step::ReadHead, Step::Ignore]),
        Expectation::timed_out(DEADLINE).takes(DEADLINE - 0.5..=DEADLINE + 1.0),
    );
    send(&testbed, &other, options, "alone", report).await?;
    let before = Holdings::of(&testbed).await?;
    let watch = NodeWatch::begin(&testbed)?;
    for (name, case) in [("answered", answers), ("silent", silent)] {
        let cases = vec![case; UNREADING as usize];
        let hostile = HostileDestinations::make(&testbed, name, cases, SLOTS, &[1]).await?;
        let deliveries = options.count(40) / UNREADING;
        let load = HostileLoad { deliveries, over: Duration::ZERO, payload_bytes: &[LARGE] };
        let (published, ()) = tokio::try_join!(
            hostile.publish(&testbed, &load),
            send(&testbed, &other, options, name, report)
        )?;
        let mut part = Report::default();
        hostile.wait_until_ended(&testbed, published, Duration::from_secs(60), &mut part).await?;
        hostile.judge(&testbed, &mut part).await?;
        let is_left = async || Ok(hostile.sockets(&testbed)? == 0);
        part.must(becomes(Duration::from_secs(2), 20, is_left).await?, "sockets are left open");
        report.must_hold(name, &part);
    }
    let peak = watch.finish().await?;
    report.must_be_at_most("most_memory_mib", mib(peak.memory_bytes), MEMORY_MIB);
    let large = Scrape::of(&testbed.nodes[0]).await?.sum("posthaste_large_payloads_bytes");
    report.must_be("bytes_of_large_payloads_after", large as u64, 0);
    before.must_be_back(&testbed, report).await?;
    testbed.must_be_running(report);
    testbed.tear_down().await
}

fn lab_type(name: &str) -> String {
    format!("lab.{name}")
}

/// What account B sends, and how long it took to arrive.
async fn send(
    testbed: &Testbed,
    other: &OtherAccount,
    options: &Options,
    when: &str,
    report: &mut Report,
) -> Result<()> {
    let span = options.seconds(10);
    let pump = |name: &str, bytes, per_second| PumpConfig {
        event_types: vec![lab_type(name)],
        body_bytes: bytes,
        ..other.pump(testbed, per_second, span)
    };
    testbed.receiver.clear();
    let (small, large) = tokio::try_join!(
        lab::pump::run(pump("small", SMALL, 20.0)),
        lab::pump::run(pump("large", LARGE, 1.0))
    )?;
    for (name, sent, limit) in [("small", small, SMALL_MS), ("large", large, LARGE_MS)] {
        testbed.receiver.wait_for_succeeded_at(name, sent.accepted, Duration::from_secs(30)).await;
        report.must(sent.accepted == sent.offered, format!("{name} events of B were refused: {sent}"));
        report.must_be(&format!("{when}_{name}_arrived"), testbed.receiver.succeeded_at(name), sent.accepted);
        let arrived: Histogram = testbed.receiver.end_to_end_of(name);
        report.note(&format!("{when}_{name}_p50_ms"), rounded(arrived.percentile_ms(50.0)));
        report.must_be_at_most(&format!("{when}_{name}_p99_ms"), arrived.percentile_ms(99.0), limit);
    }
    Ok(())
}
