//! Hazard: a replay that is asked for twice, or whose node dies, delivers some twice and others not at all.
//!
//! A thousand dead letters (`--count`). Eight clients ask for the same bulk replay with one key at the same time, on
//! three nodes where there can be several, while a node is killed every two seconds and started again; then all of it
//! once more with a new key.
//!
//! Holds if every answer to a key names one replay, each replay makes exactly as many deliveries as there were dead
//! letters, each of one origin and with one ending, the replay counts them right, and the dead letters are afterwards
//! what they were before.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use client::{DeliveryQuery, NewDestination, NewRoute, Publish, ReplayInput, ReplayView};
use domain::{delivery::Status, replay::ReplayStatus};
use lab::Reply;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::Ask;
use crate::harness::{Audit, Plan, Report, Stage, StoreKind};

const CLIENTS: usize = 8;
const KILL_EVERY: Duration = Duration::from_secs(2);
/// A few seconds' work, so that nodes die in the middle of it.
const SECONDS: u64 = 8;
const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let count = ask.count(1_000);
    let mut stage = Plan::new(ask, store)?.nodes(ask.nodes(store, 3)).start().await?;
    stage.balanced(Duration::from_secs(30)).await?;
    dead_letters(&stage, count).await?;
    let before = originals(&stage).await?;
    report.exactly("dead_letters", before.len() as u64, count);
    stage.receiver.default_script(Reply::ok());

    for (round, key) in ["first", "second"].into_iter().enumerate() {
        let replay = replayed_under_fire(&mut stage, key, count, &mut report).await?;
        let id = uuid::Uuid::from_bytes(*replay.id.bytes());
        let of_it = of_replay(store, id);
        report.exactly(&format!("{key}_created"), replay.created, count);
        report.exactly(&format!("{key}_skipped"), replay.skipped, 0u64);
        report.exactly(&format!("{key}_matched"), replay.matched, count);
        let left = stage.quiesce(PATIENCE).await?;
        report.exactly(&format!("{key}_left_in_queue"), left, 0u64);
        let number = async |sql: String| stage.database.number(&sql).await;
        let endings =
            number(format!("select count(*) from attempts where ending is not null and {of_it}")).await?;
        report.exactly(&format!("{key}_endings"), endings, count);
        let origins = number(format!(
            "select count(distinct origin) from attempts where ending is not null and {of_it}"
        ))
        .await?;
        report.exactly(&format!("{key}_origins"), origins, count);
        let told = stage.client.replay(replay.id).await?;
        report.exactly(&format!("{key}_delivered"), told.delivered, count);
        report.exactly(&format!("{key}_dead_again"), told.dead_letter, 0u64);
        let all = number("select count(*) from attempts where ending is not null".into()).await?;
        report.exactly(&format!("{key}_endings_in_all"), all, count * (round as u64 + 2));
    }
    let after = originals(&stage).await?;
    report.must(before == after, "a dead letter is not what it was before");
    Audit::of(&stage.database).await?.rules(&mut report);
    stage.strike().await?;
    Ok(report)
}

/// So many events, each rejected by its destination.
async fn dead_letters(stage: &Stage, count: u64) -> Result<()> {
    stage.receiver.default_script(Reply::status(404));
    for n in 0..4 {
        let plan = NewDestination { max_concurrency: 20, ..stage.destination(&format!("d{n}")) };
        let id = stage.client.create_destination(&plan).await?.id;
        let only = vec![format!("kind.n{n}")];
        stage.client.create_route(&NewRoute { event_types: only, ..NewRoute::to(id) }).await?;
    }
    let mut sent = 0;
    while sent < count {
        let some = (count - sent).min(200);
        let events: Result<Vec<Publish>, _> =
            (sent..sent + some).map(|n| Publish::json(&format!("kind.n{}", n % 4), n.to_string())).collect();
        stage.client.publish_batch(&events?).await?;
        sent += some;
    }
    ensure!(stage.quiesce(Duration::from_secs(60)).await? == 0, "the dead letters did not die");
    Ok(())
}

/// The facts about everything that was not replayed.
async fn originals(stage: &Stage) -> Result<Vec<Vec<crate::harness::Cell>>> {
    let detail = match stage.database.kind() {
        StoreKind::Sqlite => "detail",
        StoreKind::Postgres => "detail, detail_packed",
    };
    let sql = format!(
        "select delivery_id, attempt_id, event_id, destination_id, number, spent, started_at, duration_us, outcome,
             http_status, {detail}, ending, reason, ended_at
         from attempts where replay_id is null order by delivery_id, attempt_id"
    );
    stage.database.rows(&sql).await
}

fn of_replay(store: StoreKind, id: uuid::Uuid) -> String {
    match store {
        StoreKind::Sqlite => format!("replay_id = x'{}'", id.simple()),
        StoreKind::Postgres => format!("replay_id = '{id}'"),
    }
}

/// Eight ask, nodes die; the replay when it is completed.
async fn replayed_under_fire(
    stage: &mut Stage,
    key: &str,
    count: u64,
    report: &mut Report,
) -> Result<ReplayView> {
    let rate = u32::try_from(count.div_ceil(SECONDS).max(1))?;
    let mut clients = JoinSet::new();
    for n in 0..CLIENTS {
        let client = stage.members[n % stage.members.len()].client.clone();
        let asked = ReplayInput {
            filter: Some(DeliveryQuery { status: vec![Status::DeadLetter], ..DeliveryQuery::default() }),
            rate: Some(rate),
            ..ReplayInput::default()
        };
        let key = key.to_owned();
        clients.spawn(async move {
            let until = Instant::now() + PATIENCE;
            loop {
                // Whoever gets no answer, or asks a node that is down, asks again.
                match client.create_replay(&asked, Some(&key)).await {
                    Ok(replay) => return Ok(replay.id),
                    Err(error) if Instant::now() >= until => return Err(error),
                    Err(_) => sleep(Duration::from_millis(50)).await,
                }
            }
        });
    }
    let (mut ids, mut kills, mut next) = (HashSet::new(), 0u64, Instant::now() + KILL_EVERY);
    let until = Instant::now() + PATIENCE;
    loop {
        while let Some(answer) = clients.try_join_next() {
            ids.insert(answer??);
        }
        if Instant::now() >= next {
            let at = kills as usize % stage.members.len();
            stage.kill_one(at).await?;
            stage.start_one(at).await?;
            kills += 1;
            next = Instant::now() + KILL_EVERY;
        }
        let told = match ids.iter().next() {
            Some(id) if clients.is_empty() => stage.client.replay(*id).await.ok(),
            _ => None,
        };
        if let Some(replay) = told.filter(|replay| replay.status == ReplayStatus::Completed) {
            report.exactly(&format!("{key}_replays"), ids.len() as u64, 1u64);
            report.at_least(&format!("{key}_kills"), kills as f64, 1.0);
            return Ok(replay);
        }
        ensure!(Instant::now() < until, "the replay did not end");
        sleep(Duration::from_millis(100)).await;
    }
}
