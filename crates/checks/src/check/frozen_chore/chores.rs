//! The chores that one node does at a time: it sleeps in the middle of summing up, then of forgetting.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use lab::Recording;
use serde_json::json;
use tokio::time::sleep;

use super::{LEASE_SECONDS, STILL};
use crate::Ask;
use crate::check::long_history::summed_up;
use crate::harness::history::History;
use crate::harness::{Plan, Report, Stage, StoreKind, leftovers, sums};

const DAYS: u64 = 2;
const EVENTS: u64 = 10_000;
/// Minutes are counted one by one, with pauses in between.
const PATIENCE: Duration = Duration::from_secs(400);

pub(super) async fn fall_asleep(ask: &Ask, store: StoreKind, report: &mut Report) -> Result<()> {
    let plan = Plan::new(ask, store)?.nodes(ask.nodes(store, 3)).forgetting(None, 1);
    let mut stage = plan.env("POSTHASTE_TEST_ROLLUP_EVERY_SECONDS", "1").start().await?;
    stage.receiver.recording(Recording::Counts);
    let history = History::prepare(&stage, DAYS, EVENTS).await?;
    for at in 0..stage.members.len() {
        stage.members[at].stop().await?;
    }
    history.load(&stage.database).await?;
    stage.start_all().await?;

    let went_on = sleeps(ask, &stage, "roll_up", "select count(*) from rollups").await?;
    report.at_most("summed_up_by_another_after_seconds", went_on, 2.0 * LEASE_SECONDS);
    summed_up(&stage, PATIENCE).await?;
    sums::are_what_happened(&stage.database, report).await?;

    let before = stage.database.number("select count(*) from events").await?;
    stage.client.update_own_account(&json!({ "retention_days": 1 })).await?;
    let gone = format!("select case when count(*) < {before} then 1 else 0 end from events");
    let went_on = sleeps(ask, &stage, "prune", &gone).await?;
    report.at_most("forgotten_by_another_after_seconds", went_on, 2.0 * LEASE_SECONDS);
    let end = stage.database.literal(history.end_of_first_day().bytes());
    let old = format!("select count(*) from events where id < {end}");
    let until = Instant::now() + PATIENCE;
    while stage.database.number(&old).await? > 0 {
        ensure!(Instant::now() < until, "the first day is still there");
        sleep(Duration::from_millis(200)).await;
    }
    report.at_least(
        "events_that_stay",
        stage.database.number("select count(*) from events").await? as f64,
        (EVENTS / DAYS) as f64 / 2.0,
    );
    report.exactly("orphans", leftovers::count(&stage.database).await?, 0u64);
    report.must(stage.all_running(), "a node exited");
    stage.strike().await
}

/// Stops whoever has the chore once it has begun (`begun` gives more than nothing), for as long as a sleep is; says how
/// long it took until another had it.
async fn sleeps(ask: &Ask, stage: &Stage, chore: &str, begun: &str) -> Result<f64> {
    let holder = format!(
        "select n.label, c.term from chores c join nodes n on n.id = c.node_id where c.name = '{chore}'"
    );
    let read = async || -> Result<Option<(usize, i64)>> {
        let rows = stage.database.rows(&holder).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let at = row[0].text().and_then(|label| label.strip_prefix("node-")?.parse().ok());
        Ok(at.zip(row[1].number()))
    };
    let until = Instant::now() + PATIENCE;
    while stage.database.number(begun).await? == 0 {
        ensure!(Instant::now() < until, "{chore} does not begin");
        sleep(Duration::from_millis(20)).await;
    }
    let (at, term) = read().await?.context("nobody has the chore")?;
    let mut freeze = stage.freeze_one(at).await?;
    let (frozen, mut went_on) = (Instant::now(), f64::INFINITY);
    while frozen.elapsed() < ask.seconds(STILL) || went_on.is_infinite() && frozen.elapsed().as_secs() < 40 {
        if went_on.is_infinite() && read().await?.is_some_and(|(other, now)| other != at && now > term) {
            went_on = frozen.elapsed().as_secs_f64();
        }
        sleep(Duration::from_millis(100)).await;
    }
    stage.thaw_one(at, &mut freeze).await?;
    Ok(went_on)
}
