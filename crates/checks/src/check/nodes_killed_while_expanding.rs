//! Hazard: nodes die while one event is expanded to a hundred thousand destinations, and another node goes on: some
//! deliveries are missing, or there twice.
//!
//! Three nodes and 100,000 destinations, every tenth with three routes. One event for all of them; every half a second
//! one of the nodes, drawn by a seed, is killed (SIGKILL) and started again, until twenty kills (`--count`) are done. A new
//! event is published whenever the last one is expanded, as long as there are kills to come.
//!
//! Holds if every event has one delivery for each destination, none missing and none twice, all of them arrive, and
//! kills met an expansion under way.

use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::harness::large_fanout;
use crate::harness::prelude::*;

const DESTINATIONS: usize = 100_000;
const EVERY: Duration = Duration::from_millis(500);
/// Each is a hundred thousand requests.
const EVENTS_AT_MOST: usize = 3;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::of_several(options)?.start().await?;
    testbed.receiver.recording(Recording::Counts);
    for at in 0..testbed.nodes.len() {
        testbed.kill_node(at).await?;
    }
    large_fanout::add_destinations(&testbed, DESTINATIONS).await?;
    testbed.start_all().await?;
    testbed.wait_until_balanced(Duration::from_secs(30)).await?;

    let (kills, seed) = (options.count(20), options.seed());
    report.note("seed", seed);
    let mut random = StdRng::seed_from_u64(seed);
    let mut events = vec![large_fanout::publish(&testbed).await?];
    let mut met = 0;
    for _ in 0..kills {
        sleep(EVERY).await;
        let at = random.random_range(0..testbed.nodes.len());
        testbed.kill_node(at).await?;
        let expanding = large_fanout::expansions(&testbed.database).await? > 0;
        met += u64::from(expanding);
        testbed.start_node(at).await?;
        if !expanding && events.len() < EVENTS_AT_MOST {
            events.push(large_fanout::publish(&testbed).await?);
        }
    }
    report.note("events", events.len());
    report.note("kills", kills);
    report.must_be_at_least("kills_that_met_an_expansion", met as f64, 1.0);
    let all = async || Ok(large_fanout::expansions(&testbed.database).await? == 0);
    wait_until("an expansion is not done", Duration::from_secs(60), 10, all).await?;

    let (mut missing, mut twice) = (0, 0);
    for event in &events {
        let (deliveries, destinations) = large_fanout::deliveries_made(&testbed.database, *event).await?;
        missing += DESTINATIONS as u64 - destinations;
        twice += deliveries - destinations;
    }
    report.must_be("missing", missing, 0);
    report.must_be("twice", twice, 0);
    testbed.must_drain(Duration::from_secs(240), report).await?;
    let audit = TableAudit::of(&testbed.database).await?;
    audit.must_hold(report);
    report.must_be("delivered", audit.delivered, (DESTINATIONS * events.len()) as u64);
    testbed.tear_down().await
}
