//! An account has as many destinations and routes as it may, and no more.

use super::World;
use crate::{Catalog as _, StoreError, postgres::statement::params};
use domain::{
    destination::Destination,
    id::{DestinationId, RouteId},
    limits,
    route::Route,
    testing::audit_entry,
};

/// Whatever is created takes a version.
const CHANGES: &str = "update accounts set version = version + :most where id = :account";

#[tokio::test]
async fn an_account_has_no_more_destinations_than_it_may() {
    let world = World::new().await;
    let ground = world.ground().await;
    let account = ground.account_id;
    let fill = "insert into destinations (id, account_id, shard, version, created_at, doc) \
                select gen_random_uuid(), :account, 0, 1, 0, '{}' from generate_series(2, :most)";
    let most = limits::DESTINATIONS_PER_ACCOUNT as i64;
    let params = params![account: account.uuid() => UUID, most: most => INT8];
    world.run(fill, params.clone()).await;
    world.run(CHANGES, params).await;
    let id = DestinationId::at(world.now, rand::random());
    let one_more = Destination::new(id, account, "More", "https://more.example", world.now);
    let full = world.store.create_destination(&one_more, &audit_entry()).await;
    assert!(matches!(full, Err(StoreError::Full { what: "destinations" })), "{full:?}");
    assert_eq!(world.store.account(account).await.expect("it").version, ground.version + most);
    world.ground().await;
    world
        .store
        .delete_destination(account, ground.destination.id, world.now, &audit_entry())
        .await
        .expect("deleted");
    world.store.create_destination(&one_more, &audit_entry()).await.expect("there is room again");
    world.clean_up().await;
}

#[tokio::test]
async fn an_account_has_no_more_routes_than_it_may() {
    let world = World::new().await;
    let ground = world.ground().await;
    let account = ground.account_id;
    let fill = "insert into routes (id, account_id, destination_id, overrides, version, created_at, doc) \
                select gen_random_uuid(), :account, :destination, false, 1, 0, '{}' \
                from generate_series(2, :most)";
    let (to, most) = (ground.destination.id.uuid(), limits::ROUTES_PER_ACCOUNT as i64);
    let params = params![account: account.uuid() => UUID, destination: to => UUID, most: most => INT8];
    world.run(fill, params).await;
    world.run(CHANGES, params![account: account.uuid() => UUID, most: most => INT8]).await;
    let one_more = Route { id: RouteId::at(world.now, rand::random()), ..ground.route.clone() };
    let full = world.store.create_route(&one_more, &audit_entry()).await;
    assert!(matches!(full, Err(StoreError::Full { what: "routes" })), "{full:?}");
    world.store.delete_route(account, ground.route.id, world.now, &audit_entry()).await.expect("deleted");
    world.store.create_route(&one_more, &audit_entry()).await.expect("there is room again");
    world.clean_up().await;
}
