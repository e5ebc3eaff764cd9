//! Hazard: a node dies while the deliveries of a large event are being made, and some are missing, or there twice.
//!
//! 5,000 destinations, every tenth with three routes. One event for all of them at a time; at a random moment while its deliveries are made the node
//! is killed (SIGKILL) and started again. Repeated until twenty kills (`--count`) have met an expansion under way.
//!
//! Holds if every event that was acknowledged has one delivery for each destination, none missing and none twice, and
//! all of them arrive.

use domain::id::EventId;

use crate::harness::large_fanout;
use crate::harness::prelude::*;

const DESTINATIONS: usize = 5_000;
/// A kill that comes too late meets nothing: so many more events are tried.
const TRIES_A_KILL: u64 = 5;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = stopped_testbed(TestbedPlan::new(options)?).await?;
    testbed.start().await?;

    let kills = options.count(20);
    let (mut events, mut met) = (Vec::new(), 0);
    // Without a kill first: how long it takes.
    let began = Instant::now();
    events.push(large_fanout::publish(&testbed).await?);
    wait_until_expanded(&testbed).await?;
    let usual = began.elapsed();
    report.note("usual_seconds", rounded(usual.as_secs_f64()));
    while met < kills && (events.len() as u64) < kills * TRIES_A_KILL {
        quiet(&testbed).await?;
        events.push(large_fanout::publish(&testbed).await?);
        sleep(usual.mul_f64(rand::random::<f64>())).await;
        testbed.kill().await?;
        met += u64::from(large_fanout::expansions(&testbed.database).await? > 0);
        testbed.start().await?;
        wait_until_expanded(&testbed).await?;
    }
    report.note("events", events.len());
    report.must_be("kills_that_met_an_expansion", met, kills);
    judge(&testbed, &events, report).await?;
    testbed.tear_down().await
}

/// The same with a death at a named place in the code; says whether it was reached so often.
pub(crate) async fn died_at(options: &Options, place: &str, at_hit: u64) -> Result<(bool, Report)> {
    let mut report = Report::default();
    let mut testbed = stopped_testbed(TestbedPlan::with_failpoints(options)?).await?;
    testbed.abort_at(place, at_hit);
    testbed.start().await?;
    let event = large_fanout::publish(&testbed).await?;
    let (died, _) = testbed.restart_after_abort(place, Duration::from_secs(20), &mut report).await?;
    wait_until_expanded(&testbed).await?;
    judge(&testbed, &[event], &mut report).await?;
    testbed.tear_down().await?;
    Ok((died, report))
}

/// With all destinations in its tables; it runs no more.
async fn stopped_testbed(plan: TestbedPlan) -> Result<Testbed> {
    let mut testbed = plan.start().await?;
    testbed.receiver.recording(Recording::Counts);
    testbed.stop().await?;
    large_fanout::add_destinations(&testbed, DESTINATIONS).await?;
    Ok(testbed)
}

async fn judge(testbed: &Testbed, events: &[EventId], report: &mut Report) -> Result<()> {
    let (mut missing, mut twice) = (0, 0);
    for event in events {
        let (deliveries, destinations) = large_fanout::deliveries_made(&testbed.database, *event).await?;
        missing += DESTINATIONS as u64 - destinations;
        twice += deliveries - destinations;
    }
    report.must_be("missing", missing, 0);
    report.must_be("twice", twice, 0);
    testbed.must_drain(Duration::from_secs(120), report).await?;
    let audit = TableAudit::of(&testbed.database).await?;
    audit.must_hold(report);
    report.must_be("delivered", audit.delivered, (DESTINATIONS * events.len()) as u64);
    Ok(())
}

async fn wait_until_expanded(testbed: &Testbed) -> Result<()> {
    let all = async || Ok(large_fanout::expansions(&testbed.database).await? == 0);
    wait_until("an expansion is not done", Duration::from_secs(30), 2, all).await
}

/// A backlog would slow the next expansion down, and the kill would come too early.
async fn quiet(testbed: &Testbed) -> Result<()> {
    let left = testbed.quiesce(Duration::from_secs(60)).await?;
    ensure!(left == 0, "{left} deliveries wait after a minute");
    Ok(())
}
