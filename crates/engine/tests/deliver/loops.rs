//! A panic in each loop of the engine: it is survived, or ends the node, as the table says; nothing is lost.

use crate::bench::{Bench, Peer, bench_of, bench_with};
use domain::{
    delivery::Status,
    id::{ApiKeyId, ReplayId},
    outcome::Outcome,
    testing::audit_entry,
};
use engine::EngineSettings;
use lab::Reply;
use std::time::Duration;
use store::{
    Catalog, DeliveryFilter, DeliveryRecord, DeliveryState, NewReplay, ReplayStatus, Replays, Selection,
};
use supervisor::{Crate, Loop, Rule, TABLE, testing::PlantedPanic};
use tokio::{task::JoinSet, time::timeout};

const PATIENCE: Duration = Duration::from_secs(10);
/// The net under every wake-up would hide what a loop has lost.
const NEVER: Duration = Duration::from_secs(3_600);

async fn bench(plant: &PlantedPanic, settings: EngineSettings) -> Bench {
    bench_of(settings, None, plant.supervisor.clone()).await
}

/// Two nodes that own half of the shards each; the panic is in the second.
async fn two_nodes(plant: &PlantedPanic) -> (Bench, Peer) {
    let settings = EngineSettings { rescan: NEVER, ..EngineSettings::default() };
    let bench = bench_with(settings.clone(), None).await;
    let peer = bench.peer_with(|parts| {
        parts.settings = EngineSettings { lease: Duration::from_secs(6), ..settings };
        parts.supervisor = plant.supervisor.clone();
    });
    let peer = peer.await;
    bench.settled(&[bench.id, peer.id]).await;
    (bench, peer)
}

#[tokio::test]
async fn a_panic_in_any_loop_is_survived_or_ends_the_node_as_the_table_says() {
    let mut trials = JoinSet::new();
    for entry in TABLE.iter().filter(|entry| entry.home == Crate::Engine) {
        trials.spawn(async {
            let plant = PlantedPanic::in_loop(entry.id);
            match entry.rule {
                Rule::EndNode => ends_the_node(&plant).await,
                Rule::Restart => is_survived(&plant).await,
            }
            entry.name
        });
    }
    while let Some(trial) = trials.join_next().await {
        println!("{} passed", trial.expect("the panic above says which loop"));
    }
}

async fn is_survived(plant: &PlantedPanic) {
    match plant.id {
        Loop::Expander => an_expansion_is_made_to_its_end(plant).await,
        Loop::Replayer => a_replay_is_made_to_its_end(plant).await,
        Loop::Rescan => what_was_not_announced_is_found(plant).await,
        Loop::Prune
        | Loop::Retention
        | Loop::Eraser
        | Loop::OpenRollup
        | Loop::MinuteRollup
        | Loop::HourRollup
        | Loop::LanePublisher
        | Loop::LaneSampler => it_goes_on(plant).await,
        Loop::WakeListener => what_another_node_told_of_is_sent(plant).await,
        Loop::Outbox => what_is_another_nodes_is_told(plant).await,
        Loop::ConfigWatch => a_change_is_found(plant).await,
        Loop::TestTaker => a_test_of_another_node_is_made(plant).await,
        Loop::LateHandOver => what_is_committed_after_the_stop_is_passed_on(plant).await,
        other => panic!("{other} has no trial"),
    }
}

/// The process ends, and the next one on the same folder goes on with what was begun.
async fn ends_the_node(plant: &PlantedPanic) {
    let (bench, peer) = two_nodes(plant).await;
    let destination = bench.destination_of(peer.id, "a").await;
    plant.arm();
    bench.send_through(&peer.handle, &[destination], b"{}").await;
    let reason = timeout(PATIENCE, peer.engine.failed()).await.expect("the node ends");
    assert_eq!(reason, format!("{} panicked", plant.id));
    // Others may end with it: without a dispatcher nothing reaches the settler.
    assert!(plant.supervisor.down().contains(&plant.id.entry().name), "{}", plant.id);
    peer.engine.stop(Duration::ZERO).await;
    let proof = peer.id.to_string();
    let _next = bench.peer_with(|parts| parts.node.proof = proof).await;
    assert_eq!(bench.ended(destination).await, (Status::Delivered, None), "{}", plant.id);
}

async fn an_expansion_is_made_to_its_end(plant: &PlantedPanic) {
    let bench = bench(plant, EngineSettings { rescan: NEVER, ..EngineSettings::default() }).await;
    for n in 0..3 {
        bench.destination(&format!("d{n}"), |_| {}).await;
    }
    plant.arm();
    let event = bench.send_to_all(true).await;
    bench.reached(event, 3).await;
    plant.survived().await;
    assert_eq!(bench.receiver.total(), 3, "each once");
}

async fn a_replay_is_made_to_its_end(plant: &PlantedPanic) {
    let bench = bench(plant, EngineSettings { rescan: NEVER, ..EngineSettings::default() }).await;
    let destination = bench.destination("a", |_| {}).await;
    bench.receiver.script("a", Reply::status(400));
    for _ in 0..4 {
        bench.send(&[destination], b"{}").await;
    }
    let ended = |status: Status, count: usize| {
        let bench = &bench;
        bench.until(move || async move {
            let rows = bench.deliveries(destination).await;
            let ended = |row: &&DeliveryRecord| matches!(&row.state, DeliveryState::Ended { ending, .. } if ending.status() == status);
            (rows.iter().filter(ended).count() == count).then_some(())
        })
    };
    ended(Status::DeadLetter, 4).await;
    bench.receiver.script("a", Reply::ok());
    let (now, statuses) = (bench.now(), vec![Status::DeadLetter]);
    let replay = NewReplay {
        id: ReplayId::at(now, 1),
        account_id: bench.account,
        selection: Selection::Filter(DeliveryFilter { statuses, ..DeliveryFilter::default() }),
        // One at a time, four a second.
        rate: 4,
        matched: 4,
        matched_exact: true,
        created_by: ApiKeyId::at(now, 1).into(),
        created_at: now,
        key: None,
        at_once: None,
    };
    bench.store.create_replay(&replay, &audit_entry()).await.unwrap();
    ended(Status::Delivered, 1).await;
    plant.arm();
    ended(Status::Delivered, 4).await;
    plant.survived().await;
    let replay = bench
        .until(|| async {
            let replay = bench.store.replay(bench.account, replay.id).await.unwrap();
            (replay.status == ReplayStatus::Completed).then_some(replay)
        })
        .await;
    assert_eq!((replay.created, replay.skipped), (4, 0));
    assert_eq!(bench.receiver.total(), 8, "each once again");
}

async fn what_was_not_announced_is_found(plant: &PlantedPanic) {
    let rescan = Duration::from_millis(300);
    let bench = bench(plant, EngineSettings { rescan, ..EngineSettings::default() }).await;
    let destination = bench.destination("a", |_| {}).await;
    plant.arm();
    bench.send_silently(destination).await;
    assert_eq!(bench.ended(destination).await, (Status::Delivered, None));
    plant.survived().await;
}

/// What keeps nothing has nothing to lose: it comes round again.
async fn it_goes_on(plant: &PlantedPanic) {
    let often = Duration::from_millis(50);
    // One of them comes round every ten minutes: it dies as it begins.
    plant.arm();
    let settings = EngineSettings { prune_every: often, rollup_every: often, ..EngineSettings::default() };
    let bench = bench(plant, settings).await;
    plant.survived().await;
    let destination = bench.destination("a", |_| {}).await;
    bench.send(&[destination], b"{}").await;
    assert_eq!(bench.ended(destination).await, (Status::Delivered, None));
}

async fn what_another_node_told_of_is_sent(plant: &PlantedPanic) {
    let (bench, peer) = two_nodes(plant).await;
    let destination = bench.destination_of(peer.id, "a").await;
    plant.arm();
    bench.send(&[destination], b"{}").await;
    assert_eq!(bench.ended(destination).await, (Status::Delivered, None));
    plant.survived().await;
}

async fn what_is_another_nodes_is_told(plant: &PlantedPanic) {
    let (bench, peer) = two_nodes(plant).await;
    let destination = bench.destination_of(bench.id, "a").await;
    plant.arm();
    bench.send_through(&peer.handle, &[destination], b"{}").await;
    assert_eq!(bench.ended(destination).await, (Status::Delivered, None));
    plant.survived().await;
}

async fn a_change_is_found(plant: &PlantedPanic) {
    let (bench, peer) = two_nodes(plant).await;
    let destination = bench.destination_of(peer.id, "old").await;
    bench.send(&[destination], b"{}").await;
    assert!(bench.receiver.wait_for_arrivals("old", 1, PATIENCE).await);
    plant.arm();
    plant.fired().await;
    let mut row = bench.store.destination(bench.account, destination).await.unwrap();
    row.url = bench.receiver.url("/d/new");
    // In the store alone: only by its version can the other node find it.
    bench.store.update_destination(&row, &audit_entry()).await.unwrap();
    plant.survived().await;
    bench
        .until(|| async {
            bench.send(&[destination], b"{}").await;
            (bench.receiver.arrivals("new") > 0).then_some(())
        })
        .await;
}

async fn a_test_of_another_node_is_made(plant: &PlantedPanic) {
    let (bench, peer) = two_nodes(plant).await;
    let destination = bench.destination_of(peer.id, "a").await;
    plant.arm();
    plant.fired().await;
    let attempt = bench.handle.test_send(bench.test_of(destination)).await.expect("it is sent");
    assert_eq!((attempt.outcome, attempt.node), (Outcome::Success, peer.id));
    plant.survived().await;
}

async fn what_is_committed_after_the_stop_is_passed_on(plant: &PlantedPanic) {
    let (bench, peer) = two_nodes(plant).await;
    let destination = bench.destination_of(peer.id, "a").await;
    let Peer { engine, handle, .. } = peer;
    engine.stop(PATIENCE).await;
    bench.settled(&[bench.id]).await;
    plant.arm();
    bench.send_through(&handle, &[destination], b"{}").await;
    assert_eq!(bench.ended(destination).await, (Status::Delivered, None));
    plant.survived().await;
}
