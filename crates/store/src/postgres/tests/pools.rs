//! What has connections of its own does not wait for those of the rest.

use super::World;
use crate::{Catalog as _, Membership as _, Queue as _, Window};
use domain::{delivery::Position, limits};

#[tokio::test]
async fn a_crowd_of_reads_does_not_keep_the_engine_waiting() {
    let world = World::new().await;
    let ground = world.ground().await;
    world.commit(&ground.events(world.now, 1)).await;
    let _crowd =
        [world.store.pools.general().await.expect("one"), world.store.pools.general().await.expect("two")];
    let id = ground.destination.id;
    let window = Window {
        shard: id.shard(),
        destination_id: id,
        from: Position::START,
        last_track: i64::MAX,
        limit: 10,
    };
    let fetched = world.store.fetch(&[window]).await.expect("a lane").remove(0);
    assert_eq!(world.store.lanes(&[id.shard()], None, 10).await.expect("lanes").len(), 1);
    assert!(world.store.destination_records(&[id]).await.expect("a record")[0].is_some());
    assert!(world.store.payload(fetched[0].delivery.event_id).await.expect("an event").is_some());
    world.clean_up().await;
}

#[tokio::test]
async fn asking_how_the_store_is_does_not_stand_before_a_renewal() {
    let world = World::new().await;
    let renewal = world.store.pools.lease().await.expect("the connection");
    world.store.health().await.expect("well");
    world.store.now().await.expect("the time");
    world.store.roster().await.expect("the roster");
    world.store.take_shards(world.node, 1).await.expect("a shard");
    drop(renewal);
    world.store.renew(world.node, limits::LEASE).await.expect("renewed");
    world.clean_up().await;
}
