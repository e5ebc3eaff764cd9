//! An account has as many destinations and routes as it may, and no more.

use super::{Fixture, NOW};
use crate::{Catalog as _, StoreError};
use domain::{
    account::Account,
    destination::Destination,
    id::{DestinationId, RouteId},
    limits,
    route::Route,
    testing::audit_entry,
};
use rusqlite::params;

/// As if so many had been created.
fn fill(fixture: &Fixture, account: &Account, count: usize, insert: &str) {
    let numbers = "with recursive n (i) as (select 1 union all select i + 1 from n where i < ?2)";
    let connection = fixture.outsider();
    let params = params![account.id.bytes(), count as i64];
    connection.execute(&format!("{numbers} {insert} from n"), params).expect("many");
    connection
        .execute("update accounts set version = version + ?2 where id = ?1", params)
        .expect("as many changes");
}

#[tokio::test]
async fn an_account_has_no_more_destinations_than_it_may() {
    let fixture = Fixture::new().await;
    let (account, other) = (fixture.account().await, fixture.account().await);
    let insert = "insert into destinations (id, account_id, version, created_at, shard, doc)
                  select cast(printf('%016d', i) as blob), ?1, 1, 0, 0, '{}'";
    fill(&fixture, &account, limits::DESTINATIONS_PER_ACCOUNT - 1, insert);
    let last = fixture.destination(&account).await;
    let id = DestinationId::at(NOW, rand::random());
    let one_more = Destination::new(id, account.id, "More", "https://more.example", NOW);
    let full = fixture.store.create_destination(&one_more, &audit_entry()).await;
    assert!(matches!(full, Err(StoreError::Full { what: "destinations" })), "{full:?}");
    assert_eq!(fixture.store.account(account.id).await.expect("it").version, last.version);
    fixture.destination(&other).await;
    fixture.store.delete_destination(account.id, last.id, NOW, &audit_entry()).await.expect("deleted");
    fixture.store.create_destination(&one_more, &audit_entry()).await.expect("there is room again");
}

#[tokio::test]
async fn an_account_has_no_more_routes_than_it_may() {
    let fixture = Fixture::new().await;
    let account = fixture.account().await;
    let destination = fixture.destination(&account).await;
    let insert = "insert into routes (id, account_id, version, created_at, destination_id, doc)
                  select cast(printf('%016d', i) as blob), ?1, 1, 0, x'', '{}'";
    fill(&fixture, &account, limits::ROUTES_PER_ACCOUNT - 1, insert);
    let route = || Route::new(RouteId::at(NOW, rand::random()), account.id, destination.id, NOW);
    let last = fixture.store.create_route(&route(), &audit_entry()).await.expect("the last");
    let one_more = route();
    let full = fixture.store.create_route(&one_more, &audit_entry()).await;
    assert!(matches!(full, Err(StoreError::Full { what: "routes" })), "{full:?}");
    fixture.store.delete_route(account.id, last.id, NOW, &audit_entry()).await.expect("deleted");
    fixture.store.create_route(&one_more, &audit_entry()).await.expect("there is room again");
}
