//! Several nodes at once. Each test repeats a race until it must have been met, and counts what must hold.

use super::{World, delivered, open, record};
use crate::{
    Catalog as _, Chore, Chores as _, Committed, Ingest as _, Membership as _, Queue as _, Settlement,
    StoreError,
    postgres::{chores, trouble::Trouble},
};
use domain::{
    delivery::Delivery,
    destination::{Disabled, DisabledReason},
    id::{AttemptId, NodeId},
    limits,
    testing::audit_entry,
    time::Timestamp,
};
use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::task::JoinSet;

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

#[tokio::test]
async fn a_commit_that_meets_a_used_key_is_made_again_and_those_after_it_look_first() {
    let world = World::new().await;
    let ground = world.ground().await;
    let commit = async |keys: &[u8]| {
        let batch: Vec<_> = keys.iter().map(|key| ground.event(world.now, Some(*key))).collect();
        let answers = world.commit(&batch).await;
        let new = Vec::from_iter(answers.iter().map(|answer| *answer == Committed::New));
        (new, world.store.wary_commits.load(Ordering::Relaxed))
    };
    assert_eq!(commit(&[1, 2]).await, (vec![true, true], 0));
    assert_eq!(commit(&[3, 2, 4]).await, (vec![true, false, true], limits::WARY_COMMITS));
    assert_eq!(commit(&[4, 5, 5]).await, (vec![false, true, false], limits::WARY_COMMITS - 1));
    world.clean_up().await;
}

impl World {
    async fn settle_in_parts(&self, settlements: &[Settlement]) -> Vec<bool> {
        let mut moved = Vec::new();
        for part in settlements.chunks(20) {
            moved.extend(self.store.settle(self.node, part, self.now).await.expect("facts are written"));
        }
        moved
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_ends_once_when_a_cancel_meets_its_settlement() {
    let world = World::new().await;
    let ground = world.ground().await;
    world.commit(&ground.events(world.now, RACERS)).await;
    let lane = world.lane(&ground).await;
    let settlements: Vec<_> = lane.iter().map(|delivery| delivered(delivery, world.node)).collect();
    let settle = world.settle_in_parts(&settlements);
    let cancel = async {
        let mut cancelled = Vec::new();
        for delivery in lane.iter().rev() {
            let fact = AttemptId::at(world.now, rand::random());
            let answer =
                world.store.cancel(ground.account_id, delivery.id, fact, world.now, &audit_entry()).await;
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
    let settle = world.settle_in_parts(&settlements);
    // Each of these writes a new version of the row, at another place of the key.
    let hurry = async {
        for delivery in lane.iter().rev().chain(&lane) {
            world
                .store
                .retry_now(ground.account_id, delivery.id, world.now, &audit_entry())
                .await
                .expect("an answer");
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
        let entry = audit_entry();
        let (one, two) = tokio::join!(
            world.store.update_destination(&destination, &entry),
            other.update_destination(&destination, &entry)
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

#[tokio::test(flavor = "multi_thread")]
async fn no_shard_is_taken_twice_however_many_take_at_once() {
    let world = World::new().await;
    let mut takers = Vec::new();
    for n in 0..6 {
        let store = Arc::new(open(&world.schema, "").await.expect("a node opens"));
        let id = NodeId::at(world.now, rand::random());
        store.join(&record(id, &n.to_string()), limits::LEASE).await.expect("it joins");
        takers.push((store, id));
    }
    for round in 0..5 {
        let mut tasks = JoinSet::new();
        for (store, id) in takers.clone() {
            tasks.spawn(async move {
                let mut taken = Vec::new();
                loop {
                    let some = store.take_shards(id, limits::SHARDS_ASKED).await.expect("an answer");
                    if some.is_empty() && store.roster_stamp().await.expect("a stamp").free == 0 {
                        return (id, taken);
                    }
                    taken.extend(some);
                }
            });
        }
        let taken = tasks.join_all().await;
        let all: Vec<u16> = taken.iter().flat_map(|(_, shards)| shards).map(|owned| owned.shard).collect();
        assert_eq!((all.len(), BTreeSet::from_iter(&all).len()), (1024, 1024), "round {round}");
        let roster = world.store.roster().await.expect("the roster");
        for (id, shards) in taken {
            for owned in &shards {
                let row = roster.shards[usize::from(owned.shard)];
                assert_eq!((row.owner, row.epoch), (Some(id), owned.epoch), "round {round}: {row:?}");
            }
            // Each owner gives up all it has while the next round's takers are not yet there.
            let given = world.store.release_shards(id, &shards).await.expect("an answer");
            assert_eq!(given.len(), shards.len());
        }
    }
    world.clean_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_renewal_is_either_made_or_answered_with_the_loss() {
    let world = World::new().await;
    let (mut kept, mut lost) = (0, 0);
    for round in 0_u32..60 {
        let id = NodeId::at(world.now, rand::random());
        world.store.join(&record(id, &round.to_string()), Duration::ZERO).await.expect("it joins");
        let (renewed, reaped) =
            tokio::join!(world.store.renew(id, limits::LEASE), world.store.reap(world.node));
        match (renewed, reaped.expect("an answer").contains(&id)) {
            (Ok(_), false) => kept += 1,
            (Err(StoreError::NodeLost), true) => lost += 1,
            other => panic!("round {round}: {other:?}"),
        }
        world.store.leave(id).await.expect("it leaves");
    }
    assert_eq!(kept + lost, 60);
    world.clean_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_falls_asleep_in_a_transaction_keeps_its_chore_from_nobody() {
    let world = World::new().await;
    let (lease, now) = (Duration::from_secs(1), world.now);
    let asleep = world.store.take_chore(Chore::Prune, world.node, now, lease).await.unwrap();
    let asleep = asleep.expect("nobody has it");
    let connection = world.store.pools.general().await.unwrap();
    let transaction = connection.begin().await.unwrap();
    assert!(chores::stands(&transaction, asleep).await.unwrap(), "and it is locked");

    let (other, began) = (NodeId::at(now, rand::random()), tokio::time::Instant::now());
    let taken = loop {
        // A call that waits for the lock for as long as a statement may take is made again.
        match world.store.take_chore(Chore::Prune, other, now.plus(2 * lease), lease).await {
            Ok(Some(term)) => break term,
            Ok(None) | Err(_) => assert!(began.elapsed() < 4 * limits::STORE_TRANSACTION_IDLE),
        }
    };
    assert!(taken.number > asleep.number);
    let late: Result<(), Trouble> = transaction.end(Ok(())).await;
    assert!(late.is_err(), "what it wrote is gone");
    world.clean_up().await;
}
