//! Several nodes at once. Each test repeats a race until it must have been met, and counts what must hold.

use super::{World, delivered, open};
use crate::{Catalog as _, Committed, Ingest as _, Membership as _, Queue as _};
use domain::{
    delivery::Delivery,
    destination::{Disabled, DisabledReason},
    id::AttemptId,
    time::Timestamp,
};
use std::time::Duration;

const RACERS: usize = 200;

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_won_once_however_batches_overlap() {
    let world = World::new().await;
    let ground = world.ground().await;
    let other = open(&world.schema, "").await.expect("a second node opens");
    for _ in 0..20 {
        let mut forward: Vec<_> = (0..50).map(|key| ground.event(world.now, Some(key))).collect();
        let backward: Vec<_> = (0..50).rev().map(|key| ground.event(world.now, Some(key))).collect();
        forward.rotate_left(7);
        let (one, two) =
            tokio::join!(world.store.commit(&forward, world.now), other.commit(&backward, world.now));
        let answers = [one.expect("no deadlock"), two.expect("no deadlock")].concat();
        let won = answers.iter().filter(|answer| **answer == Committed::New).count();
        let lost = answers.iter().filter(|answer| matches!(answer, Committed::Duplicate { .. })).count();
        assert_eq!((won, lost), (50, 50));
        let forgotten =
            world.store.prune_idempotency(Timestamp::MAX, 1000).await.expect("keys are forgotten");
        assert_eq!(forgotten, 50);
    }
    world.clean_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_ends_once_when_a_cancel_meets_its_settlement() {
    let world = World::new().await;
    let ground = world.ground().await;
    world.commit(&ground.events(world.now, RACERS)).await;
    let lane = world.lane(&ground).await;
    let settlements: Vec<_> = lane.iter().map(|delivery| delivered(delivery, world.node)).collect();
    let settle = async {
        let mut moved = Vec::new();
        for part in settlements.chunks(20) {
            moved.extend(world.store.settle(world.node, part, world.now).await.expect("facts are written"));
        }
        moved
    };
    let cancel = async {
        let mut cancelled = Vec::new();
        for delivery in lane.iter().rev() {
            let fact = AttemptId::at(world.now, rand::random());
            let answer = world.store.cancel(ground.account_id, delivery.id, fact, world.now).await;
            cancelled.push(answer.expect("an answer").is_some());
        }
        cancelled.reverse();
        cancelled
    };
    let (moved, cancelled) = tokio::join!(settle, cancel);
    for (moved, cancelled) in moved.iter().zip(&cancelled) {
        assert!(moved ^ cancelled, "ended by both, or by nobody");
    }
    assert_eq!(moved.len(), RACERS);
    assert!(world.lane(&ground).await.is_empty());
    let endings = "select count(*), count(distinct delivery_id) from attempts where ending is not null";
    let row = world.client.query_one(endings, &[]).await.expect("a count");
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (RACERS as i64, RACERS as i64));
    world.clean_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settlement_holds_although_the_row_moves_under_it() {
    let world = World::new().await;
    let ground = world.ground().await;
    world.commit(&ground.events(world.now.plus(Duration::from_secs(60)), RACERS)).await;
    let lane: Vec<Delivery> = world.lane(&ground).await;
    let settlements: Vec<_> = lane.iter().map(|delivery| delivered(delivery, world.node)).collect();
    let settle = async {
        let mut moved = Vec::new();
        for part in settlements.chunks(20) {
            moved.extend(world.store.settle(world.node, part, world.now).await.expect("facts are written"));
        }
        moved
    };
    // Each of these writes a new version of the row, at another place of the key.
    let hurry = async {
        for delivery in lane.iter().rev().chain(&lane) {
            world.store.retry_now(ground.account_id, delivery.id, world.now).await.expect("an answer");
        }
    };
    let (moved, ()) = tokio::join!(settle, hurry);
    assert_eq!(moved, vec![true; RACERS]);
    assert!(world.lane(&ground).await.is_empty());
    world.clean_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_writers_with_the_same_version_one_is_told_to_read_again() {
    let world = World::new().await;
    let ground = world.ground().await;
    let other = open(&world.schema, "").await.expect("a second node opens");
    let mut destination = ground.destination;
    for _ in 0..20 {
        destination.switch.disabled = Some(Disabled { at: world.now, reason: DisabledReason::Requested });
        let (one, two) = tokio::join!(
            world.store.update_destination(&destination),
            other.update_destination(&destination)
        );
        destination = match (one, two) {
            (Ok(written), Err(crate::StoreError::Changed))
            | (Err(crate::StoreError::Changed), Ok(written)) => written,
            other => panic!("{other:?}"),
        };
    }
    world.clean_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_nodes_may_start_at_once_and_make_the_same_days() {
    let schema = format!("t_{:x}", rand::random::<u128>());
    let opened = tokio::join!(open(&schema, ""), open(&schema, ""), open(&schema, ""), open(&schema, ""));
    let stores: Vec<_> =
        [opened.0, opened.1, opened.2, opened.3].into_iter().map(|store| store.expect("it opens")).collect();
    let later = stores[0].now().await.expect("a time").plus(Duration::from_secs(30 * 24 * 3600));
    let made = tokio::join!(stores[0].ensure_partitions(later), stores[1].ensure_partitions(later));
    made.0.and(made.1).expect("both have their days");
    let client = super::connect(&schema).await;
    let count = "select count(*) from pg_inherits where inhparent = 'events'::regclass";
    let row = client.query_one(count, &[]).await.expect("a count");
    assert_eq!(row.get::<_, i64>(0), 11, "five days around now, five around then, and the default");
    super::drop_schema(&schema).await;
}
