//! Places that only a chore comes by: making the deliveries of a replay, forgetting, summing up.

use client::{BackfillEvents, BackfillMatch, DeliveryQuery, ReplayInput};
use domain::{delivery::Status, replay::ReplayStatus};

use crate::check::long_history::summed_up;
use crate::harness::history::LongHistory;
use crate::harness::prelude::*;
use crate::harness::{orphans, rollup_sums};

const COUNT: u64 = 60;
const PATIENCE: Duration = Duration::from_secs(60);

/// Says whether the place was reached so often.
pub(super) async fn died_at(options: &Options, place: &str, at_hit: u64) -> Result<(bool, Report)> {
    let mut part = Report::default();
    let mut testbed = TestbedPlan::with_failpoints(options)?.start().await?;
    let died = match place.split_once('.') {
        Some(("replay", _)) => replaying(&mut testbed, place, at_hit, &mut part).await?,
        Some(("backfill", _)) => backfilling(&mut testbed, place, at_hit, &mut part).await?,
        Some(("prune", _)) => forgetting(&mut testbed, place, at_hit, &mut part).await?,
        Some(("rollup", _)) => summing_up(&mut testbed, place, at_hit, &mut part).await?,
        _ => anyhow::bail!("{place} belongs to no chore"),
    };
    testbed.tear_down().await?;
    Ok((died, part))
}

/// The node dies at this place, and is started again without it.
async fn dies(testbed: &mut Testbed, place: &str, part: &mut Report) -> Result<bool> {
    Ok(testbed.restart_after_abort(place, Duration::from_secs(30), part).await?.0)
}

async fn dead_letters(testbed: &Testbed, name: &str, count: u64) -> Result<()> {
    testbed.receiver.default_script(Reply::status(404));
    testbed.add_destination(&testbed.destination_with_slots(name, 20), &[]).await?;
    publish_numbered(testbed, "dead", count).await?;
    ensure!(testbed.quiesce(PATIENCE).await? == 0, "the dead letters did not die");
    Ok(())
}

async fn publish_numbered(testbed: &Testbed, event_type: &str, count: u64) -> Result<()> {
    let events: Result<Vec<Publish>, _> =
        (0..count).map(|n| Publish::json(event_type, n.to_string())).collect();
    testbed.publish_all(&events?).await
}

async fn replay_all(testbed: &Testbed, rate: u32) -> Result<client::ReplayView> {
    let filter = Some(DeliveryQuery { status: vec![Status::DeadLetter], ..DeliveryQuery::default() });
    let asked = ReplayInput { filter, rate: Some(rate), ..ReplayInput::default() };
    Ok(testbed.client.create_replay(&asked, None).await?)
}

async fn replaying(testbed: &mut Testbed, place: &str, at_hit: u64, part: &mut Report) -> Result<bool> {
    dead_letters(testbed, "d", COUNT).await?;
    testbed.receiver.default_script(Reply::ok());
    testbed.stop().await?;
    testbed.abort_at(place, at_hit);
    testbed.start().await?;
    let replay = replay_all(testbed, COUNT as u32 / 2).await?;
    let died = dies(testbed, place, part).await?;
    let completed = async || Ok(testbed.client.replay(replay.id).await?.status == ReplayStatus::Completed);
    wait_until("the replay is not completed", PATIENCE, 50, completed).await?;
    let replay = testbed.client.replay(replay.id).await?;
    part.must_be("made", replay.created, COUNT);
    part.must_be("skipped", replay.skipped, 0);
    testbed.must_drain(PATIENCE, part).await?;
    let of_it = "from attempts where replay_id is not null and ending = 'delivered'";
    part.must_be("delivered", testbed.database.number(&format!("select count(*) {of_it}")).await?, COUNT);
    let origins = format!("select count(distinct origin) {of_it}");
    part.must_be("origins", testbed.database.number(&origins).await?, COUNT);
    part.must_be("counted", testbed.client.replay(replay.id).await?.delivered, COUNT);
    TableAudit::of(&testbed.database).await?.must_hold(part);
    Ok(died)
}

/// Events that went nowhere, and a destination that comes later.
async fn backfilling(testbed: &mut Testbed, place: &str, at_hit: u64, part: &mut Report) -> Result<bool> {
    testbed.receiver.default_script(Reply::ok());
    publish_numbered(testbed, "missed", COUNT).await?;
    testbed.add_destination(&testbed.destination_with_slots("late", 20), &[]).await?;
    testbed.stop().await?;
    testbed.abort_at(place, at_hit);
    testbed.start().await?;
    let asked = ReplayInput {
        events: Some(BackfillEvents::default()),
        matching: Some(BackfillMatch::Now),
        rate: Some(COUNT as u32 / 2),
        ..ReplayInput::default()
    };
    let replay = testbed.client.create_replay(&asked, None).await?;
    let died = dies(testbed, place, part).await?;
    let completed = async || Ok(testbed.client.replay(replay.id).await?.status == ReplayStatus::Completed);
    wait_until("the backfill is not completed", PATIENCE, 50, completed).await?;
    let replay = testbed.client.replay(replay.id).await?;
    part.must_be("made", replay.created, COUNT);
    part.must_be("skipped", replay.skipped, 0);
    testbed.must_drain(PATIENCE, part).await?;
    let of_it = "from attempts where ending = 'delivered'";
    part.must_be("delivered", testbed.database.number(&format!("select count(*) {of_it}")).await?, COUNT);
    let events = format!("select count(distinct event_id) {of_it}");
    part.must_be("events", testbed.database.number(&events).await?, COUNT);
    part.must_be("counted", testbed.client.replay(replay.id).await?.delivered, COUNT);
    TableAudit::of(&testbed.database).await?.must_hold(part);
    Ok(died)
}

/// Half of it has ended and has had its time, half waits.
async fn forgetting(testbed: &mut Testbed, place: &str, at_hit: u64, part: &mut Report) -> Result<bool> {
    dead_letters(testbed, "d", COUNT).await?;
    testbed.receiver.default_script(Reply::ok());
    replay_all(testbed, 1_000).await?;
    let delivered = "select count(*) from attempts where replay_id is not null and ending = 'delivered'";
    wait_for_number(testbed, delivered, COUNT).await?;
    testbed.receiver.default_script(Reply::status(503));
    publish_numbered(testbed, "waits", COUNT).await?;
    testbed.client.update_own_account(&json!({ "retention_days": 1 })).await?;
    testbed.stop().await?;
    for (name, value) in [("", "1"), ("_RETENTION_DAY_SECONDS", "2"), ("_PRUNE_EVERY_SECONDS", "1")] {
        testbed.set_env(&format!("POSTHASTE_TEST{name}"), Some(value));
    }
    testbed.abort_at(place, at_hit);
    // It may come by before it is ready.
    let _ = testbed.start().await;
    let died = dies(testbed, place, part).await?;
    let left = "select (select count(*) from events where type = 'dead') + (select count(*) from replays)";
    wait_for_number(testbed, left, 0).await?;
    let kept = "select count(*) from queue q join events e on e.id = q.event_id where e.type = 'waits'";
    part.must_be("what_waits", testbed.database.number(kept).await?, COUNT);
    part.must_be("orphans", orphans::count(&testbed.database).await?, 0);
    testbed.receiver.clear();
    testbed.receiver.default_script(Reply::ok());
    testbed.must_drain(PATIENCE, part).await?;
    part.must_be_at_least("arrived", testbed.receiver.succeeded(), COUNT);
    part.must_be("orphans_afterwards", orphans::count(&testbed.database).await?, 0);
    Ok(died)
}

async fn summing_up(testbed: &mut Testbed, place: &str, at_hit: u64, part: &mut Report) -> Result<bool> {
    let history = LongHistory::prepare(testbed, 1, 2_000).await?;
    testbed.stop().await?;
    history.load(&testbed.database).await?;
    testbed.set_env("POSTHASTE_TEST", Some("1"));
    testbed.set_env("POSTHASTE_TEST_ROLLUP_EVERY_SECONDS", Some("1"));
    testbed.abort_at(place, at_hit);
    let _ = testbed.start().await;
    let died = dies(testbed, place, part).await?;
    summed_up(testbed, Duration::from_secs(300)).await?;
    rollup_sums::must_match_facts(&testbed.database, part).await?;
    Ok(died)
}

async fn wait_for_number(testbed: &Testbed, sql: &str, wanted: u64) -> Result<()> {
    let is_so = async || Ok(testbed.database.number(sql).await? == wanted);
    wait_until(&format!("not {wanted}: {sql}"), PATIENCE, 100, is_so).await
}
