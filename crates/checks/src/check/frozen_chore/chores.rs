//! The chores that one node does at a time: it sleeps in the middle of summing up, then of forgetting.

use super::STILL;
use crate::check::long_history::summed_up;
use crate::harness::history::LongHistory;
use crate::harness::multi_node::LEASE;
use crate::harness::prelude::*;
use crate::harness::{orphans, rollup_sums};

const DAYS: u64 = 2;
const EVENTS: u64 = 10_000;
/// Minutes are counted one by one, with pauses in between.
const PATIENCE: Duration = Duration::from_secs(400);

pub(super) async fn fall_asleep(options: &Options, report: &mut Report) -> Result<()> {
    let plan = TestbedPlan::of_several(options)?.short_retention(None, 1);
    let mut testbed = plan.env("POSTHASTE_TEST_ROLLUP_EVERY_SECONDS", "1").start().await?;
    testbed.receiver.recording(Recording::Counts);
    let history = LongHistory::prepare(&testbed, DAYS, EVENTS).await?;
    for at in 0..testbed.nodes.len() {
        testbed.nodes[at].stop().await?;
    }
    history.load(&testbed.database).await?;
    testbed.start_all().await?;

    let went_on = sleeps(options, &testbed, "roll_up", "select count(*) from rollups").await?;
    report.must_be_at_most("summed_up_by_another_after_seconds", went_on, 2 * LEASE);
    summed_up(&testbed, PATIENCE).await?;
    rollup_sums::must_match_facts(&testbed.database, report).await?;

    let before = testbed.database.count("events").await?;
    testbed.client.update_own_account(&json!({ "retention_days": 1 })).await?;
    let gone = format!("select case when count(*) < {before} then 1 else 0 end from events");
    let went_on = sleeps(options, &testbed, "prune", &gone).await?;
    report.must_be_at_most("forgotten_by_another_after_seconds", went_on, 2 * LEASE);
    let end = testbed.database.literal(history.end_of_first_day().bytes());
    let old = format!("select count(*) from events where id < {end}");
    let gone = async || Ok(testbed.database.number(&old).await? == 0);
    wait_until("the first day is still there", PATIENCE, 200, gone).await?;
    report.must_be_at_least(
        "events_that_stay",
        testbed.database.count("events").await? as f64,
        (EVENTS / DAYS) as f64 / 2.0,
    );
    report.must_be("orphans", orphans::count(&testbed.database).await?, 0);
    testbed.must_be_running(report);
    testbed.tear_down().await
}

/// Stops the node that has the chore once it has begun (`begun` gives more than nothing), for as long as a sleep is; says how
/// long it took until another had it.
async fn sleeps(options: &Options, testbed: &Testbed, chore: &str, begun: &str) -> Result<f64> {
    let holder = format!(
        "select n.label, c.term from chores c join nodes n on n.id = c.node_id where c.name = '{chore}'"
    );
    let read = async || -> Result<Option<(usize, i64)>> {
        let rows = testbed.database.rows(&holder).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let at = row[0].text().and_then(|label| label.strip_prefix("node-")?.parse().ok());
        Ok(at.zip(row[1].number()))
    };
    let has_begun = async || Ok(testbed.database.number(begun).await? > 0);
    wait_until(&format!("{chore} does not begin"), PATIENCE, 20, has_begun).await?;
    let (at, term) = read().await?.context("no node has the chore")?;
    let mut freeze = testbed.freeze_node(at).await?;
    let (frozen, mut went_on) = (Instant::now(), f64::INFINITY);
    while frozen.elapsed() < options.seconds(STILL)
        || went_on.is_infinite() && frozen.elapsed().as_secs() < 40
    {
        if went_on.is_infinite() && read().await?.is_some_and(|(other, now)| other != at && now > term) {
            went_on = frozen.elapsed().as_secs_f64();
        }
        sleep(Duration::from_millis(100)).await;
    }
    testbed.thaw_node(at, &mut freeze).await?;
    Ok(went_on)
}
