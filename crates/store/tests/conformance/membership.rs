//! Who is there: one node at a time, and a lease that only a removed row ends.

use crate::fixtures::*;
use domain::{id::NodeId, limits};
use std::time::Duration;
use store::{Joined, NodeRecord, StoreError};

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

pub(crate) async fn a_second_node_finds_the_place_taken(world: World) {
    let Joined::Occupied { by, for_another } = join(&world, &node("second")).await else {
        panic!("it was let in")
    };
    assert_eq!(by, world.node.label);
    assert!(for_another > Duration::ZERO && for_another <= limits::LEASE, "{for_another:?}");
    renews(&world, world.node.id).await;
}

pub(crate) async fn a_predecessor_with_the_same_proof_is_replaced(world: World) {
    let successor = NodeRecord { proof: world.node.proof.clone(), ..node("second") };
    let before = world.store.now().await.unwrap();
    let Joined::Yes { now } = join(&world, &successor).await else { panic!("it was not let in") };
    assert!(now >= before);
    is_lost(&world, world.node.id).await;
    renews(&world, successor.id).await;
}

pub(crate) async fn an_expired_node_is_replaced(world: World) {
    world.store.renew(world.node.id, Duration::ZERO).await.unwrap();
    let successor = node("second");
    assert!(matches!(join(&world, &successor).await, Joined::Yes { .. }));
    is_lost(&world, world.node.id).await;
}

pub(crate) async fn an_expired_node_that_nobody_replaced_goes_on(world: World) {
    world.store.renew(world.node.id, Duration::ZERO).await.unwrap();
    renews(&world, world.node.id).await;
    assert!(matches!(join(&world, &node("second")).await, Joined::Occupied { .. }));
}

pub(crate) async fn a_node_that_left_makes_room(world: World) {
    world.store.leave(world.node.id).await.unwrap();
    is_lost(&world, world.node.id).await;
    assert!(matches!(join(&world, &node("second")).await, Joined::Yes { .. }));
    world.store.leave(world.node.id).await.expect("leaving twice is fine");
    assert!(matches!(join(&world, &node("third")).await, Joined::Occupied { .. }), "and removes nobody else");
}

pub(crate) async fn a_stranger_has_no_lease(world: World) {
    is_lost(&world, NodeId::at(at(0), chance())).await;
}

pub(crate) async fn a_renewal_gives_the_stores_time(world: World) {
    let before = world.store.now().await.unwrap();
    let told = world.store.renew(world.node.id, limits::LEASE).await.unwrap();
    assert!(before <= told && told <= world.store.now().await.unwrap());
}

fn node(name: &str) -> NodeRecord {
    let id = NodeId::at(at(0), chance());
    NodeRecord { id, label: name.into(), proof: name.into(), version: "1.0.0".into() }
}

async fn join(world: &World, node: &NodeRecord) -> Joined {
    world.store.join(node, limits::LEASE).await.expect("an answer")
}

async fn renews(world: &World, node: NodeId) {
    world.store.renew(node, limits::LEASE).await.expect("its row is there");
}

async fn is_lost(world: &World, node: NodeId) {
    let renewed = world.store.renew(node, limits::LEASE).await;
    assert!(matches!(renewed, Err(StoreError::NodeLost)), "{renewed:?}");
}
