//! A panic in each loop of the API: it is survived, and nothing is lost.

use crate::{stream::Served, world::World};
use serde_json::json;
use std::collections::BTreeSet;
use supervisor::{Crate, Loop, Rule, TABLE, testing::PlantedPanic};
use tokio::task::JoinSet;

#[tokio::test]
async fn a_panic_in_any_loop_is_survived() {
    let mut trials = JoinSet::new();
    for entry in TABLE.iter().filter(|entry| entry.home == Crate::Api) {
        assert_eq!(entry.rule, Rule::Restart, "{}", entry.name);
        trials.spawn(async {
            let plant = PlantedPanic::in_loop(entry.id);
            match entry.id {
                Loop::Committer => every_event_is_answered(&plant).await,
                Loop::KeyUse | Loop::BacklogWatch | Loop::Refusals | Loop::Teller | Loop::KeyWatch => {
                    it_goes_on(&plant).await;
                }
                Loop::StreamReader => a_follower_misses_nothing(&plant).await,
                other => panic!("{other} has no trial"),
            }
        });
    }
    while let Some(trial) = trials.join_next().await {
        trial.expect("the panic above says which loop");
    }
}

async fn every_event_is_answered(plant: &PlantedPanic) {
    let world = World::supervised(plant.supervisor.clone()).await;
    let mut events = BTreeSet::new();
    for n in 0..10 {
        if n == 3 {
            plant.arm();
        }
        // What waited when it died is committed by the next one: no client has to ask again.
        events.insert(world.publish("order.paid", json!({ "n": n })).await);
    }
    plant.survived().await;
    assert_eq!(events.len(), 10);
    for event in events {
        world.get(&format!("/v1/events/{event}")).await.expect(200);
    }
}

/// What keeps nothing has nothing to lose: it comes round again.
async fn it_goes_on(plant: &PlantedPanic) {
    plant.arm();
    let world = World::supervised(plant.supervisor.clone()).await;
    plant.survived().await;
    world.publish("order.paid", json!({})).await;
}

async fn a_follower_misses_nothing(plant: &PlantedPanic) {
    let world = World::supervised(plant.supervisor.clone()).await;
    let served = Served::new(&world).await;
    let mut client = served.follow(&world.key, "?kind=event.received", None).await;
    let mut events = Vec::new();
    for n in 0..10 {
        if n == 3 {
            plant.arm();
        }
        events.push(world.publish("order.paid", json!({ "n": n })).await);
        if n == 3 {
            plant.survived().await;
        }
    }
    let mut told = BTreeSet::new();
    while told.len() < events.len() {
        let id = client.next().await.data["id"].as_str().expect("an id").to_owned();
        assert!(told.insert(id), "each once");
    }
    assert_eq!(told, events.into_iter().collect());
    // A client that comes after it hears what happens, too.
    let mut later = served.follow(&world.key, "?kind=event.received", None).await;
    let event = world.publish("order.paid", json!({})).await;
    assert_eq!(later.next().await.data["id"], json!(event));
}
