//! Places that only a chore comes by: making the deliveries of a replay, forgetting, summing up.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use client::{DeliveryQuery, NewDestination, Publish, ReplayInput};
use domain::{delivery::Status, replay::ReplayStatus};
use lab::Reply;
use serde_json::json;
use tokio::time::sleep;

use crate::Ask;
use crate::check::long_history::summed_up;
use crate::harness::fleet::sole_destination;
use crate::harness::history::History;
use crate::harness::{Audit, Plan, Report, Stage, StoreKind, leftovers, sums};

const COUNT: u64 = 60;
const PATIENCE: Duration = Duration::from_secs(60);

/// None: the place belongs to no chore. Says whether it was reached so often.
pub(super) async fn died_at(
    ask: &Ask,
    store: StoreKind,
    place: &str,
    at_hit: u64,
) -> Option<Result<(bool, Report)>> {
    let (chore, _) = place.split_once('.')?;
    Some(match chore {
        "replay" => replaying(ask, store, place, at_hit).await,
        "prune" => forgetting(ask, store, place, at_hit).await,
        "rollup" => summing_up(ask, store, place, at_hit).await,
        _ => return None,
    })
}

/// The node dies at this place, and is started again without it.
async fn dies(stage: &mut Stage, place: &str, part: &mut Report) -> Result<bool> {
    let died = stage.wait_for_end(Duration::from_secs(30)).await;
    part.must(!died || stage.log().contains(&format!("failpoint {place}")), "it died of something else");
    stage.set_env("POSTHASTE_FAIL", None);
    if !died {
        stage.stop().await?;
    }
    stage.start().await?;
    Ok(died)
}

async fn dead_letters(stage: &Stage, name: &str, count: u64) -> Result<()> {
    stage.receiver.default_script(Reply::status(404));
    let plan = NewDestination { max_concurrency: 20, ..stage.destination(name) };
    sole_destination(&stage.client, &plan).await?;
    let events: Result<Vec<Publish>, _> = (0..count).map(|n| Publish::json("dead", n.to_string())).collect();
    stage.client.publish_batch(&events?).await?;
    ensure!(stage.quiesce(PATIENCE).await? == 0, "the dead letters did not die");
    Ok(())
}

async fn replay_all(stage: &Stage, rate: u32) -> Result<client::ReplayView> {
    let filter = Some(DeliveryQuery { status: vec![Status::DeadLetter], ..DeliveryQuery::default() });
    Ok(stage
        .client
        .create_replay(&ReplayInput { filter, rate: Some(rate), ..ReplayInput::default() }, None)
        .await?)
}

async fn replaying(ask: &Ask, store: StoreKind, place: &str, at_hit: u64) -> Result<(bool, Report)> {
    let mut part = Report::default();
    let mut stage = Plan::with_failpoints(ask, store)?.start().await?;
    dead_letters(&stage, "d", COUNT).await?;
    stage.receiver.default_script(Reply::ok());
    stage.stop().await?;
    stage.set_env("POSTHASTE_FAIL", Some(&format!("{place}:abort:{at_hit}")));
    stage.start().await?;
    let replay = replay_all(&stage, COUNT as u32 / 2).await?;
    let died = dies(&mut stage, place, &mut part).await?;
    let until = Instant::now() + PATIENCE;
    let told = loop {
        let told = stage.client.replay(replay.id).await?;
        if told.status == ReplayStatus::Completed || Instant::now() > until {
            break told;
        }
        sleep(Duration::from_millis(50)).await;
    };
    part.exactly("made", told.created, COUNT);
    part.exactly("skipped", told.skipped, 0u64);
    part.exactly("left_in_queue", stage.quiesce(PATIENCE).await?, 0u64);
    let of_it = "from attempts where replay_id is not null and ending = 'delivered'";
    part.exactly("delivered", stage.database.number(&format!("select count(*) {of_it}")).await?, COUNT);
    let origins = format!("select count(distinct origin) {of_it}");
    part.exactly("origins", stage.database.number(&origins).await?, COUNT);
    part.exactly("counted", stage.client.replay(replay.id).await?.delivered, COUNT);
    Audit::of(&stage.database).await?.rules(&mut part);
    stage.strike().await?;
    Ok((died, part))
}

/// Half of it has ended and has had its time, half waits.
async fn forgetting(ask: &Ask, store: StoreKind, place: &str, at_hit: u64) -> Result<(bool, Report)> {
    let mut part = Report::default();
    let mut stage = Plan::with_failpoints(ask, store)?.start().await?;
    dead_letters(&stage, "d", COUNT).await?;
    stage.receiver.default_script(Reply::ok());
    replay_all(&stage, 1_000).await?;
    let delivered = "select count(*) from attempts where replay_id is not null and ending = 'delivered'";
    until(&stage, delivered, COUNT).await?;
    stage.receiver.default_script(Reply::status(503));
    let events: Result<Vec<Publish>, _> = (0..COUNT).map(|n| Publish::json("waits", n.to_string())).collect();
    stage.client.publish_batch(&events?).await?;
    stage.client.update_own_account(&json!({ "retention_days": 1 })).await?;
    stage.stop().await?;
    for (name, value) in [("", "1"), ("_RETENTION_DAY_SECONDS", "2"), ("_PRUNE_EVERY_SECONDS", "1")] {
        stage.set_env(&format!("POSTHASTE_TEST{name}"), Some(value));
    }
    stage.set_env("POSTHASTE_FAIL", Some(&format!("{place}:abort:{at_hit}")));
    // It may come by before it is ready.
    let _ = stage.start().await;
    let died = dies(&mut stage, place, &mut part).await?;
    let left = "select (select count(*) from events where type = 'dead') + (select count(*) from replays)";
    until(&stage, left, 0).await?;
    let kept = "select count(*) from queue q join events e on e.id = q.event_id where e.type = 'waits'";
    part.exactly("what_waits", stage.database.number(kept).await?, COUNT);
    part.exactly("orphans", leftovers::count(&stage.database).await?, 0u64);
    stage.receiver.clear();
    stage.receiver.default_script(Reply::ok());
    part.exactly("left_in_queue", stage.quiesce(PATIENCE).await?, 0u64);
    part.at_least("arrived", stage.receiver.succeeded() as f64, COUNT as f64);
    part.exactly("orphans_afterwards", leftovers::count(&stage.database).await?, 0u64);
    stage.strike().await?;
    Ok((died, part))
}

async fn summing_up(ask: &Ask, store: StoreKind, place: &str, at_hit: u64) -> Result<(bool, Report)> {
    let mut part = Report::default();
    let mut stage = Plan::with_failpoints(ask, store)?.start().await?;
    let history = History::prepare(&stage, 1, 2_000).await?;
    stage.stop().await?;
    history.load(&stage.database).await?;
    stage.set_env("POSTHASTE_TEST", Some("1"));
    stage.set_env("POSTHASTE_TEST_ROLLUP_EVERY_SECONDS", Some("1"));
    stage.set_env("POSTHASTE_FAIL", Some(&format!("{place}:abort:{at_hit}")));
    let _ = stage.start().await;
    let died = dies(&mut stage, place, &mut part).await?;
    summed_up(&stage, Duration::from_secs(300)).await?;
    sums::are_what_happened(&stage.database, &mut part).await?;
    stage.strike().await?;
    Ok((died, part))
}

async fn until(stage: &Stage, sql: &str, wanted: u64) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    while stage.database.number(sql).await? != wanted {
        ensure!(Instant::now() < until, "after {PATIENCE:?} not {wanted}: {sql}");
        sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}
