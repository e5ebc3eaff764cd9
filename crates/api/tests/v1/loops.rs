//! A panic in each loop of the API: it is survived, and nothing is lost.

use crate::{stream::Served, world::World};
use serde_json::json;
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use supervisor::{Crate, Loop, Rule, Supervisor, TABLE};
use tokio::{task::JoinSet, time::timeout};

const PATIENCE: Duration = Duration::from_secs(10);

/// A fault in one loop.
struct Plant {
    id: Loop,
    supervisor: Supervisor,
    /// The next time the loop comes round it dies, once.
    armed: Arc<AtomicBool>,
    /// Times it came round after that.
    lived: Arc<AtomicU64>,
}

impl Plant {
    fn of(id: Loop) -> Self {
        let (armed, lived) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (fires, counts) = (armed.clone(), lived.clone());
        let supervisor = Supervisor::with_failpoint(move |reached| {
            if reached != id {
                return;
            }
            counts.fetch_add(1, Ordering::SeqCst);
            if fires.swap(false, Ordering::SeqCst) {
                counts.store(0, Ordering::SeqCst);
                panic!("planted in {id}");
            }
        });
        Self { id, supervisor, armed, lived }
    }

    fn arm(&self) {
        self.armed.store(true, Ordering::SeqCst);
    }

    /// It has died, was made again and has come round since.
    async fn survived(&self) {
        let lives = || self.supervisor.down().is_empty() && self.lived.load(Ordering::SeqCst) > 0;
        let survived = async {
            while self.supervisor.deaths(self.id) != 1 || !lives() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, survived).await.unwrap_or_else(|_| panic!("{} did not come back", self.id));
    }
}

#[tokio::test]
async fn a_panic_in_any_loop_is_survived() {
    let mut trials = JoinSet::new();
    for entry in TABLE.iter().filter(|entry| entry.home == Crate::Api) {
        assert_eq!(entry.rule, Rule::Restart, "{}", entry.name);
        trials.spawn(async {
            let plant = Plant::of(entry.id);
            match entry.id {
                Loop::Committer => every_event_is_answered(&plant).await,
                Loop::KeyUse | Loop::BacklogWatch => it_goes_on(&plant).await,
                Loop::StreamReader => a_follower_misses_nothing(&plant).await,
                other => panic!("{other} has no trial"),
            }
        });
    }
    while let Some(trial) = trials.join_next().await {
        trial.expect("the panic above says which loop");
    }
}

async fn every_event_is_answered(plant: &Plant) {
    let world = World::supervised(plant.supervisor.clone()).await;
    let mut events = BTreeSet::new();
    for n in 0..10 {
        if n == 3 {
            plant.arm();
        }
        // What waited when it died is committed by the next one: nobody has to come again.
        events.insert(world.publish("order.paid", json!({ "n": n })).await);
    }
    plant.survived().await;
    assert_eq!(events.len(), 10);
    for event in events {
        world.get(&format!("/v1/events/{event}")).await.expect(200);
    }
}

/// What keeps nothing has nothing to lose: it comes round again.
async fn it_goes_on(plant: &Plant) {
    plant.arm();
    let world = World::supervised(plant.supervisor.clone()).await;
    plant.survived().await;
    world.publish("order.paid", json!({})).await;
}

async fn a_follower_misses_nothing(plant: &Plant) {
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
    // Whoever comes after it hears what happens, too.
    let mut later = served.follow(&world.key, "?kind=event.received", None).await;
    let event = world.publish("order.paid", json!({})).await;
    assert_eq!(later.next().await.data["id"], json!(event));
}
