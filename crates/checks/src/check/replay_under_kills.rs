//! Hazard: a replay that is asked for twice, or whose node dies, delivers some twice and others not at all.
//!
//! A thousand dead letters (`--count`). Eight clients ask for the same bulk replay with one key at the same time, on
//! three nodes where there can be several, while a node is killed every two seconds and started again; then all of it
//! once more with a new key, settled or not; and at last without that, as one would ask again.
//!
//! Holds if every answer to a key names one replay, each replay makes exactly as many deliveries as there were dead
//! letters, each of one origin and with one ending, the replay counts them right, and the dead letters are afterwards
//! what they were before. Each of them is settled exactly once, by the first that was delivered of it; none is counted any
//! more, and the last replay, which takes what is not settled, makes nothing.

use std::collections::HashSet;

use client::{DeliveryQuery, ReplayInput, ReplayView, ResolvedFilter};
use domain::{delivery::Status, replay::ReplayStatus};
use tokio::task::JoinSet;

use crate::harness::prelude::*;

const CLIENTS: usize = 8;
const KILL_EVERY: Duration = Duration::from_secs(2);
/// A few seconds' work, so that nodes die in the middle of it.
const SECONDS: u64 = 8;
const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let count = options.count(1_000);
    let mut testbed = TestbedPlan::of_several(options)?.start_balanced().await?;
    dead_letters(&testbed, count).await?;
    let before = originals(&testbed).await?;
    report.must_be("dead_letters", before.len(), count);
    testbed.receiver.default_script(Reply::ok());

    for (round, key) in ["first", "second"].into_iter().enumerate() {
        let replay = replayed_under_fire(&mut testbed, key, count, report).await?;
        let of_it = format!("replay_id = {}", testbed.database.literal(replay.id.bytes()));
        report.must_be(&format!("{key}_created"), replay.created, count);
        report.must_be(&format!("{key}_skipped"), replay.skipped, 0);
        report.must_be(&format!("{key}_matched"), replay.matched, count);
        let left = testbed.quiesce(PATIENCE).await?;
        report.must_be(&format!("{key}_left_in_queue"), left, 0);
        let number = async |sql: String| testbed.database.number(&sql).await;
        let endings =
            number(format!("select count(*) from attempts where ending is not null and {of_it}")).await?;
        report.must_be(&format!("{key}_endings"), endings, count);
        let origins = number(format!(
            "select count(distinct origin) from attempts where ending is not null and {of_it}"
        ))
        .await?;
        report.must_be(&format!("{key}_origins"), origins, count);
        let told = testbed.client.replay(replay.id).await?;
        report.must_be(&format!("{key}_delivered"), told.delivered, count);
        report.must_be(&format!("{key}_dead_again"), told.dead_letter, 0);
        let all = number("select count(*) from attempts where ending is not null".into()).await?;
        report.must_be(&format!("{key}_endings_in_all"), all, count * (round as u64 + 2));
    }
    settled(&testbed, count, report).await?;
    let after = originals(&testbed).await?;
    report.must(before == after, "a dead letter is not what it was before");
    TableAudit::of(&testbed.database).await?.must_hold(report);
    testbed.tear_down().await
}

/// Every origin is settled once, by what was delivered of it, and the same replay asked for again makes nothing.
async fn settled(testbed: &Testbed, count: u64, report: &mut Report) -> Result<()> {
    let number = async |sql: &str| testbed.database.number(sql).await;
    let origin = match testbed.database.kind() {
        StoreKind::Sqlite => "iif(a.origin = x'', a.delivery_id, a.origin)",
        StoreKind::Postgres => "a.origin",
    };
    report.must_be("settled", number("select count(*) from settled_dead_letters").await?, count);
    let by_their_own = format!(
        "select count(*) from settled_dead_letters s
         join attempts a on a.delivery_id = s.delivered_by and a.ending = 'delivered' and a.ended_at = s.resolved_at
         where {origin} = s.delivery_id and a.replay_id is not null"
    );
    report.must_be("settled_by_a_delivery_of_their_chain", number(&by_their_own).await?, count);
    let counted = "select coalesce(sum(count), 0) from dead_letter_counts";
    report.must_be("dead_letters_still_counted", number(counted).await?, 0);
    let groups = testbed.client.dead_letter_groups(None).await?.data;
    report.must_be("groups_left", groups.len(), 0);
    let endings = number("select count(*) from attempts where ending is not null").await?;
    let again = ReplayInput { filter: Some(DeliveryQuery::default()), ..ReplayInput::default() };
    let estimate = testbed.client.estimate_replay(&again).await?;
    report.must_be("third_would_match", estimate.matched, 0);
    let mut replay = testbed.client.create_replay(&again, Some("third")).await?;
    let until = Instant::now() + PATIENCE;
    while replay.status != ReplayStatus::Completed {
        ensure!(Instant::now() < until, "the replay of nothing did not end");
        sleep(Duration::from_millis(100)).await;
        replay = testbed.client.replay(replay.id).await?;
    }
    report.must_be("third_created", replay.created, 0);
    report.must_be("third_left_in_queue", testbed.quiesce(PATIENCE).await?, 0);
    let after = number("select count(*) from attempts where ending is not null").await?;
    report.must_be("endings_after_the_third", after, endings);
    Ok(())
}

/// So many events, each rejected by its destination.
async fn dead_letters(testbed: &Testbed, count: u64) -> Result<()> {
    testbed.receiver.default_script(Reply::status(404));
    for n in 0..4 {
        let plan = testbed.destination_with_slots(&format!("d{n}"), 20);
        testbed.add_destination(&plan, &[&format!("kind.n{n}")]).await?;
    }
    let mut sent = 0;
    while sent < count {
        let some = (count - sent).min(200);
        let events: Result<Vec<Publish>, _> =
            (sent..sent + some).map(|n| Publish::json(&format!("kind.n{}", n % 4), n.to_string())).collect();
        testbed.client.publish_batch(&events?).await?;
        sent += some;
    }
    ensure!(testbed.quiesce(Duration::from_secs(60)).await? == 0, "the dead letters did not die");
    Ok(())
}

/// The facts about everything that was not replayed.
async fn originals(testbed: &Testbed) -> Result<Vec<Vec<SqlValue>>> {
    let detail = match testbed.database.kind() {
        StoreKind::Sqlite => "detail",
        StoreKind::Postgres => "detail, detail_packed",
    };
    let sql = format!(
        "select delivery_id, attempt_id, event_id, destination_id, number, spent, started_at, duration_us, outcome,
             http_status, {detail}, ending, reason, ended_at
         from attempts where replay_id is null order by delivery_id, attempt_id"
    );
    testbed.database.rows(&sql).await
}

/// Eight clients ask while nodes die; gives the replay when it is completed.
async fn replayed_under_fire(
    testbed: &mut Testbed,
    key: &str,
    count: u64,
    report: &mut Report,
) -> Result<ReplayView> {
    let rate = u32::try_from(count.div_ceil(SECONDS).max(1))?;
    let mut clients = JoinSet::new();
    for n in 0..CLIENTS {
        let client = testbed.nodes[n % testbed.nodes.len()].client.clone();
        let asked = ReplayInput {
            // Also when the first has settled them.
            filter: Some(DeliveryQuery {
                status: vec![Status::DeadLetter],
                resolved: Some(ResolvedFilter::Any),
                ..DeliveryQuery::default()
            }),
            rate: Some(rate),
            ..ReplayInput::default()
        };
        let key = key.to_owned();
        clients.spawn(async move {
            let until = Instant::now() + PATIENCE;
            loop {
                // A client that gets no answer, or asks a node that is down, asks again.
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
            let at = kills as usize % testbed.nodes.len();
            testbed.kill_node(at).await?;
            testbed.start_node(at).await?;
            kills += 1;
            next = Instant::now() + KILL_EVERY;
        }
        let told = match ids.iter().next() {
            Some(id) if clients.is_empty() => testbed.client.replay(*id).await.ok(),
            _ => None,
        };
        if let Some(replay) = told.filter(|replay| replay.status == ReplayStatus::Completed) {
            report.must_be(&format!("{key}_replays"), ids.len(), 1);
            report.must_be_at_least(&format!("{key}_kills"), kills, 1.0);
            return Ok(replay);
        }
        ensure!(Instant::now() < until, "the replay did not end");
        sleep(Duration::from_millis(100)).await;
    }
}
