//! An account has as many destinations and routes as it may, and no more.

use super::World;
use crate::{Catalog as _, StoreError, postgres::pool::params};
use domain::{
    destination::Destination,
    id::{DestinationId, RouteId},
    limits,
    route::Route,
};

/// Whatever is created takes a version.
const CHANGES: &str = "update accounts set version = version + $2 where id = $1";

#[tokio::test]
async fn an_account_has_no_more_destinations_than_it_may() {
    let world = World::new().await;
    let ground = world.ground().await;
    let account = ground.account_id;
    let fill = "insert into destinations (id, account_id, shard, version, created_at, doc) \
                select gen_random_uuid(), $1, 0, 1, 0, '{}' from generate_series(2, $2)";
    let most = limits::DESTINATIONS_PER_ACCOUNT as i64;
    let params = params![account.uuid() => UUID, most => INT8];
    world.client.query_typed(fill, params).await.expect("many");
    world.client.query_typed(CHANGES, params).await.expect("as many changes");
    let id = DestinationId::at(world.now, rand::random());
    let one_more = Destination::new(id, account, "More", "https://more.example", world.now);
    let full = world.store.create_destination(&one_more).await;
    assert!(matches!(full, Err(StoreError::Full { what: "destinations" })), "{full:?}");
    assert_eq!(world.store.account(account).await.expect("it").version, ground.version + most);
    world.ground().await;
    world.store.delete_destination(account, ground.destination.id, world.now).await.expect("deleted");
    world.store.create_destination(&one_more).await.expect("there is room again");
    world.clean_up().await;
}

#[tokio::test]
async fn an_account_has_no_more_routes_than_it_may() {
    let world = World::new().await;
    let ground = world.ground().await;
    let account = ground.account_id;
    let fill = "insert into routes (id, account_id, destination_id, overrides, version, created_at, doc) \
                select gen_random_uuid(), $1, $2, false, 1, 0, '{}' from generate_series(2, $3)";
    let (to, most) = (ground.destination.id.uuid(), limits::ROUTES_PER_ACCOUNT as i64);
    let params = params![account.uuid() => UUID, to => UUID, most => INT8];
    world.client.query_typed(fill, params).await.expect("many");
    let params = params![account.uuid() => UUID, most => INT8];
    world.client.query_typed(CHANGES, params).await.expect("as many changes");
    let one_more = Route { id: RouteId::at(world.now, rand::random()), ..ground.route.clone() };
    let full = world.store.create_route(&one_more).await;
    assert!(matches!(full, Err(StoreError::Full { what: "routes" })), "{full:?}");
    world.store.delete_route(account, ground.route.id, world.now).await.expect("deleted");
    world.store.create_route(&one_more).await.expect("there is room again");
    world.clean_up().await;
}
