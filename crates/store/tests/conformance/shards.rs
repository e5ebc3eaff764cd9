//! Who owns what: shards are taken, wanted, given and kept, and no shard has two owners. Where there can be one node
//! only, a second one is somebody who has no row.

use crate::fixtures::*;
use domain::{id::NodeId, limits};
use std::collections::BTreeSet;
use store::{OwnedShard, ShardRow};

pub(crate) async fn free_shards_are_taken_in_order(world: World) {
    let taken = world.take(world.node.id, 3).await;
    assert_eq!(taken, [0, 1, 2].map(|shard| OwnedShard { shard, epoch: 1 }));
    let taken = world.take(world.node.id, 2_000).await;
    assert_eq!(numbers(&taken), Vec::from_iter(3..1_024), "all the others, and none again");
    assert_eq!(world.take(world.node.id, 1).await, []);
    assert_eq!(world.shard(5).await.owner, Some(world.node.id));
}

pub(crate) async fn a_stranger_takes_nothing(world: World) {
    let stranger = NodeId::at(at(0), chance());
    assert_eq!(world.take(stranger, 10).await, []);
    world.store.ask_shards(stranger, &[1]).await.unwrap();
    assert_eq!(world.shard(1).await.wanted_by, None);
}

pub(crate) async fn a_living_nodes_shards_are_not_taken(world: World) {
    let Some(other) = world.other().await else { return };
    world.take(other, 1_000).await;
    world.expire(other).await;
    assert_eq!(numbers(&world.take(world.node.id, 1_024).await), Vec::from_iter(1_000..1_024));
    assert_eq!(world.take(other, 10).await, []);
}

pub(crate) async fn a_lost_nodes_shards_are_free(world: World) {
    let lost = world.node.id;
    let had = world.take(lost, 4).await;
    let heir = match world.other().await {
        Some(heir) => {
            world.expire(lost).await;
            world.store.reap(heir).await.unwrap();
            heir
        }
        None => world.join("second").await.id,
    };
    let row = world.shard(0).await;
    assert_eq!((row.owner, row.epoch), (None, 1), "it had an owner, and has none");
    let taken = world.take(heir, 4).await;
    assert_eq!(numbers(&taken), numbers(&had));
    assert!(taken.iter().all(|owned| owned.epoch == 2), "{taken:?}");
}

pub(crate) async fn what_one_wants_is_taken_first(world: World) {
    world.store.ask_shards(world.node.id, &[700, 300]).await.unwrap();
    assert_eq!(numbers(&world.take(world.node.id, 3).await), [0, 300, 700]);
    assert_eq!(world.shard(300).await.wanted_by, None, "it has what it wanted");
}

pub(crate) async fn of_many_takers_at_once_each_shard_has_one(world: World) {
    let mut takers = vec![world.node.id];
    for _ in 0..if world.backend.has_many_nodes() { 7 } else { 0 } {
        takers.push(world.join(&format!("taker {}", takers.len())).await.id);
    }
    for round in 1..=4 {
        let mut tasks = tokio::task::JoinSet::new();
        for taker in &takers {
            let (store, taker) = (world.store.clone(), *taker);
            tasks.spawn(async move {
                let mut taken = Vec::new();
                loop {
                    let some = store.take_shards(taker, 32).await.expect("an answer");
                    if some.is_empty() && store.roster_stamp().await.expect("a stamp").free == 0 {
                        return (taker, taken);
                    }
                    taken.extend(some);
                }
            });
        }
        let taken = tasks.join_all().await;
        let all: Vec<OwnedShard> = taken.iter().flat_map(|(_, shards)| shards.clone()).collect();
        assert_eq!(all.len(), 1_024, "round {round}: some were taken twice");
        assert_eq!(BTreeSet::from_iter(numbers(&all)).len(), 1_024);
        assert!(all.iter().all(|owned| owned.epoch == 2 * round - 1), "round {round}");
        for (taker, shards) in taken {
            let given = world.store.release_shards(taker, &shards).await.unwrap();
            assert_eq!(given.len(), shards.len(), "each has what it was told");
        }
    }
}

pub(crate) async fn a_released_shard_goes_to_whoever_wants_it(world: World) {
    let Some(other) = world.other().await else { return };
    let taken = world.take(world.node.id, 4).await;
    world.store.ask_shards(other, &[1, 2]).await.unwrap();
    assert_eq!(world.shard(1).await.wanted_by, Some(other));
    assert_eq!(world.shard(1).await.owner, Some(world.node.id), "a wish is no change");
    assert_eq!(world.release(world.node.id, &taken[1..3]).await, [1, 2]);
    assert_eq!(world.shard(1).await, ShardRow { shard: 1, owner: Some(other), epoch: 2, wanted_by: None });
    assert_eq!(world.shard(3).await.owner, Some(world.node.id));
}

pub(crate) async fn a_released_shard_that_nobody_wants_is_free(world: World) {
    let taken = world.take(world.node.id, 2).await;
    assert_eq!(world.release(world.node.id, &taken[..1]).await, [0]);
    assert_eq!(world.shard(0).await, ShardRow { shard: 0, owner: None, epoch: 2, wanted_by: None });
    assert_eq!(world.take(world.node.id, 1).await, [OwnedShard { shard: 0, epoch: 3 }]);
}

pub(crate) async fn a_shard_wanted_by_a_lost_node_goes_to_nobody(world: World) {
    let Some(other) = world.other().await else { return };
    let taken = world.take(world.node.id, 1).await;
    world.store.ask_shards(other, &[0]).await.unwrap();
    world.store.leave(other).await.unwrap();
    world.release(world.node.id, &taken).await;
    assert_eq!(world.shard(0).await, ShardRow { shard: 0, owner: None, epoch: 2, wanted_by: None });
}

pub(crate) async fn only_the_owner_at_its_epoch_releases(world: World) {
    let taken = world.take(world.node.id, 2).await;
    let wrong = OwnedShard { shard: 0, epoch: 2 };
    let unowned = OwnedShard { shard: 9, epoch: 0 };
    assert_eq!(world.release(world.node.id, &[wrong, unowned, taken[1]]).await, [1]);
    assert!(world.release(NodeId::at(at(0), chance()), &taken).await.is_empty());
    assert_eq!(world.shard(0).await.owner, Some(world.node.id));
}

pub(crate) async fn a_former_owner_releases_nothing(world: World) {
    let former = world.node.id;
    let had = world.take(former, 1).await;
    world.store.leave(former).await.unwrap();
    let heir = world.join("second").await.id;
    world.take(heir, 1).await;
    assert!(world.release(former, &had).await.is_empty());
    world.store.keep_shards(former, &[0]).await.unwrap();
    assert_eq!(world.shard(0).await, ShardRow { shard: 0, owner: Some(heir), epoch: 2, wanted_by: None });
}

pub(crate) async fn the_first_who_asks_is_the_one_who_wants(world: World) {
    let Some(other) = world.other().await else { return };
    let third = world.join("third").await.id;
    world.take(world.node.id, 8).await;
    world.store.ask_shards(other, &[3]).await.unwrap();
    world.store.ask_shards(third, &[3, 4]).await.unwrap();
    assert_eq!((world.shard(3).await.wanted_by, world.shard(4).await.wanted_by), (Some(other), Some(third)));
    world.store.leave(other).await.unwrap();
    world.store.ask_shards(third, &[3]).await.unwrap();
    assert_eq!(world.shard(3).await.wanted_by, Some(third), "who is lost wants nothing");
}

pub(crate) async fn nobody_wants_what_is_ones_own(world: World) {
    world.take(world.node.id, 2).await;
    world.store.ask_shards(world.node.id, &[0, 1, 2]).await.unwrap();
    assert_eq!(world.shard(0).await.wanted_by, None);
    assert_eq!(world.shard(2).await.wanted_by, Some(world.node.id), "a free one may be wanted");
}

pub(crate) async fn a_lost_node_wants_nothing(world: World) {
    world.store.ask_shards(world.node.id, &[5]).await.unwrap();
    world.store.leave(world.node.id).await.unwrap();
    assert_eq!(world.shard(5).await.wanted_by, None);
    assert_eq!(world.store.roster_stamp().await.unwrap().wanted, 0);
}

pub(crate) async fn keeping_a_shard_declines_the_wish(world: World) {
    let Some(other) = world.other().await else { return };
    let taken = world.take(world.node.id, 3).await;
    world.store.ask_shards(other, &[0, 1, 2]).await.unwrap();
    world.store.keep_shards(other, &[1]).await.unwrap();
    assert_eq!(world.shard(1).await.wanted_by, Some(other), "not one's own to keep");
    world.store.keep_shards(world.node.id, &[1, 2]).await.unwrap();
    assert_eq!(world.shard(0).await.wanted_by, Some(other));
    assert_eq!(
        world.shard(1).await,
        ShardRow { shard: 1, owner: Some(world.node.id), epoch: 1, wanted_by: None }
    );
    world.release(world.node.id, &taken[2..]).await;
    assert_eq!(world.shard(2).await.owner, None, "it was declined");
}

pub(crate) async fn of_many_who_ask_at_once_one_wants(world: World) {
    if !world.backend.has_many_nodes() {
        return;
    }
    world.take(world.node.id, limits::SHARDS_ASKED).await;
    let shards = Vec::from_iter(0..limits::SHARDS_ASKED as u16);
    let mut asking = Vec::new();
    for n in 0..6 {
        let (asker, store, shards) =
            (world.join(&format!("asker {n}")).await.id, world.store.clone(), shards.clone());
        asking.push(tokio::spawn(async move {
            store.ask_shards(asker, &shards).await.expect("an answer");
            store.roster().await.expect("a roster").shards
        }));
    }
    let mut seen: Vec<Option<NodeId>> = vec![None; shards.len()];
    for asked in asking {
        for row in asked.await.unwrap().into_iter().take(shards.len()) {
            let first = seen[usize::from(row.shard)]
                .get_or_insert_with(|| row.wanted_by.expect("all were asked for"));
            assert_eq!(Some(*first), row.wanted_by, "whoever came first stays");
        }
    }
}

pub(crate) async fn epochs_only_grow(world: World) {
    let mut last = 0;
    for _ in 0..5 {
        let taken = world.take(world.node.id, 1).await;
        assert!(taken[0].epoch > last, "{taken:?} after {last}");
        world.release(world.node.id, &taken).await;
        last = world.shard(0).await.epoch;
        assert!(last > taken[0].epoch);
    }
}

impl World {
    /// A second node, where there can be one.
    async fn other(&self) -> Option<NodeId> {
        if self.backend.has_many_nodes() { Some(self.join("other").await.id) } else { None }
    }

    async fn take(&self, node: NodeId, limit: usize) -> Vec<OwnedShard> {
        self.store.take_shards(node, limit).await.expect("an answer")
    }

    async fn release(&self, node: NodeId, shards: &[OwnedShard]) -> Vec<u16> {
        self.store.release_shards(node, shards).await.expect("an answer")
    }

    async fn shard(&self, shard: u16) -> ShardRow {
        self.store.roster().await.expect("the roster").shards[usize::from(shard)]
    }
}

fn numbers(shards: &[OwnedShard]) -> Vec<u16> {
    shards.iter().map(|owned| owned.shard).collect()
}
