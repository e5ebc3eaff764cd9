//! Membership: any number of nodes, and a lease that only a removed row ends.

use crate::{backend::node as record, fixtures::*};
use domain::{id::NodeId, limits, member::Role, time::Timestamp};
use std::time::Duration;
use store::{NodeRecord, Roster, StoreError};

pub(crate) async fn the_store_tells_the_time(world: World) {
    let first = world.store.now().await.unwrap();
    let second = world.store.now().await.unwrap();
    assert!(first <= second);
    assert!(
        second.since(at(0)) < Duration::from_secs(3_600),
        "the server shares this machine's clock: {second}"
    );
}

pub(crate) async fn a_new_store_is_well(world: World) {
    world.store.health().await.expect("it was just opened");
}

pub(crate) async fn any_number_of_nodes_may_join(world: World) {
    let others = [world.join("second").await, world.join("third").await];
    renews(&world, others[1].id).await;
    if world.backend.has_many_nodes() {
        renews(&world, world.node.id).await;
        renews(&world, others[0].id).await;
    } else {
        // One process has the file, so whoever else was there is dead.
        is_lost(&world, world.node.id).await;
        is_lost(&world, others[0].id).await;
    }
}

pub(crate) async fn a_predecessor_with_the_same_proof_is_replaced(world: World) {
    world.store.take_shards(world.node.id, 10).await.unwrap();
    let successor = NodeRecord { proof: world.node.proof.clone(), ..started(LATER, "second") };
    let before = world.store.now().await.unwrap();
    let now = world.store.join(&successor, limits::LEASE).await.unwrap();
    assert!(now >= before);
    is_lost(&world, world.node.id).await;
    renews(&world, successor.id).await;
    assert_eq!(world.free().await, 1_024, "its shards are free");
}

pub(crate) async fn the_late_word_of_a_dead_process_replaces_nobody(world: World) {
    let dead = NodeRecord { proof: world.node.proof.clone(), ..started(LATER, "dead") };
    let alive = NodeRecord { proof: world.node.proof.clone(), ..started(LATER + 1, "alive") };
    world.store.join(&alive, limits::LEASE).await.unwrap();
    world.store.join(&dead, limits::LEASE).await.unwrap();
    // A process that is gone cannot speak to a file.
    if world.backend.has_many_nodes() {
        renews(&world, alive.id).await;
    }
}

pub(crate) async fn joining_twice_is_joining_once(world: World) {
    let taken = world.store.take_shards(world.node.id, 10).await.unwrap();
    let joined_at = world.store.roster().await.unwrap().members[0].joined_at;
    world.store.join(&world.node, limits::LEASE).await.expect("the first answer may have been lost");
    let roster = world.store.roster().await.unwrap();
    assert_eq!((roster.members.len(), roster.members[0].joined_at), (1, joined_at));
    let owned = roster.shards.iter().filter(|row| row.owner == Some(world.node.id));
    assert_eq!(owned.count(), taken.len(), "it owns what it owned");
}

pub(crate) async fn an_expired_node_that_nobody_reaped_goes_on(world: World) {
    world.expire(world.node.id).await;
    let taken = world.store.take_shards(world.node.id, 10).await.unwrap();
    assert_eq!(taken.len(), 10);
    renews(&world, world.node.id).await;
    assert_eq!(world.free().await, 1_014, "an outage costs nobody their lanes");
}

pub(crate) async fn reaping_removes_the_expired_and_nobody_else(world: World) {
    if !world.backend.has_many_nodes() {
        return;
    }
    let (dead, alive) = (world.join("dead").await, world.join("alive").await);
    assert_eq!(world.store.reap(world.node.id).await.unwrap(), []);
    world.expire(dead.id).await;
    assert_eq!(world.store.reap(world.node.id).await.unwrap(), [dead.id]);
    is_lost(&world, dead.id).await;
    renews(&world, alive.id).await;
    assert_eq!(world.store.reap(world.node.id).await.unwrap(), [], "once is enough");
}

pub(crate) async fn a_node_never_reaps_itself(world: World) {
    world.expire(world.node.id).await;
    assert_eq!(world.store.reap(world.node.id).await.unwrap(), []);
    renews(&world, world.node.id).await;
}

pub(crate) async fn a_node_that_left_is_gone(world: World) {
    world.store.take_shards(world.node.id, 10).await.unwrap();
    world.store.leave(world.node.id).await.unwrap();
    is_lost(&world, world.node.id).await;
    assert_eq!(world.free().await, 1_024, "its shards are free at once");
    let second = world.join("second").await;
    world.store.leave(world.node.id).await.expect("leaving twice is fine");
    renews(&world, second.id).await;
}

pub(crate) async fn a_stranger_has_no_lease(world: World) {
    is_lost(&world, NodeId::at(at(0), chance())).await;
}

pub(crate) async fn a_renewal_gives_the_stores_time_and_the_stamp(world: World) {
    world.store.take_shards(world.node.id, 24).await.unwrap();
    let before = world.store.now().await.unwrap();
    let renewed = world.store.renew(world.node.id, limits::LEASE).await.unwrap();
    let after = world.store.now().await.unwrap();
    assert!(before <= renewed.now && renewed.now <= after);
    assert_eq!(renewed.stamp, world.store.roster_stamp().await.unwrap());
    assert_eq!((renewed.stamp.members, renewed.stamp.expired, renewed.stamp.free), (1, 0, 1_000));
}

pub(crate) async fn the_roster_is_whole(world: World) {
    let before = world.store.now().await.unwrap();
    let listener = NodeRecord {
        role: Role::Api,
        address: Some("192.0.2.1:8080".into()),
        master_keys: "k2,k1".into(),
        proof: world.node.proof.clone(),
        ..started(LATER, "second")
    };
    world.store.join(&listener, Duration::from_secs(60)).await.unwrap();
    let Roster { now, members, shards } = world.store.roster().await.unwrap();
    assert!(now >= before);
    let [member] = &members[..] else { panic!("{members:?}") };
    assert_eq!(member.record, listener, "every field is kept");
    assert!(before <= member.joined_at && member.joined_at <= now);
    assert_eq!(whole_seconds(member.expires_at.since(member.joined_at)), 60);
    assert!(!member.expired);
    assert_eq!(shards.iter().map(|row| row.shard).collect::<Vec<_>>(), all_shards());
    assert!(shards.iter().all(|row| row.owner.is_none() && row.epoch == 0 && row.wanted_by.is_none()));

    world.expire(listener.id).await;
    let roster = world.store.roster().await.unwrap();
    assert!(roster.members[0].expired && roster.members[0].expires_at <= roster.now);
}

pub(crate) async fn the_stamp_differs_when_the_roster_has_moved(world: World) {
    let me = world.node.id;
    let mut stamps = vec![world.store.roster_stamp().await.unwrap()];
    assert_eq!(stamps[0], world.store.roster_stamp().await.unwrap(), "nothing has moved");
    let mut note = async |what: &str| {
        let stamp = world.store.roster_stamp().await.unwrap();
        assert_ne!(stamps.last(), Some(&stamp), "{what}");
        stamps.push(stamp);
    };
    let taken = world.store.take_shards(me, 2).await.unwrap();
    note("shards were taken").await;
    world.store.ask_shards(me, &[7]).await.unwrap();
    note("one is wanted").await;
    world.store.release_shards(me, &taken[..1]).await.unwrap();
    note("one was released").await;
    world.expire(me).await;
    note("somebody has expired").await;
    world.store.leave(me).await.unwrap();
    note("somebody has left").await;
}

impl World {
    pub(crate) async fn join(&self, name: &str) -> NodeRecord {
        let node = node(name);
        self.store.join(&node, limits::LEASE).await.expect("it is let in");
        node
    }

    /// Its lease has ended from now on.
    pub(crate) async fn expire(&self, node: NodeId) -> Timestamp {
        self.store.renew(node, Duration::ZERO).await.expect("its row is there").now
    }

    pub(crate) async fn free(&self) -> usize {
        let roster = self.store.roster().await.expect("the roster");
        roster.shards.iter().filter(|row| row.owner.is_none()).count()
    }
}

fn node(name: &str) -> NodeRecord {
    started(0, name)
}

/// Later than any node of a test that was begun at its real time, however long the whole run takes.
const LATER: u64 = 24 * 60 * 60;

/// Started so many seconds after the others.
fn started(seconds: u64, name: &str) -> NodeRecord {
    record(NodeId::at(at(seconds), chance()), name)
}

fn whole_seconds(duration: Duration) -> u64 {
    (duration + Duration::from_millis(500)).as_secs()
}

async fn renews(world: &World, node: NodeId) {
    world.store.renew(node, limits::LEASE).await.expect("its row is there");
}

async fn is_lost(world: &World, node: NodeId) {
    let renewed = world.store.renew(node, limits::LEASE).await;
    assert!(matches!(renewed, Err(StoreError::NodeLost)), "{renewed:?}");
}
