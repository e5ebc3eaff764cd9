//! How fast: `cargo test --release -p store pace -- --ignored --nocapture`.

use super::Fixture;
use crate::{Catalog as _, Committed, Ingest as _, NewDelivery, NewEvent, PreparedEvent};
use bytes::Bytes;
use domain::{
    account::Account,
    event::Event,
    id::{AccountId, DeliveryId, DestinationId, RouteId},
    seal::Sealed,
    testing,
    testing::audit_entry,
    time::Timestamp,
};
use std::time::Instant;

const GROUP: usize = 500;
const GROUPS: usize = 200;

#[tokio::test]
#[ignore = "measures"]
async fn pace_of_commits() {
    let fixture = Fixture::new().await;
    let start = Timestamp::from_seconds(1_790_000_000);
    let account = Account::new(AccountId::at(start, 1), "pace", Sealed::default(), start);
    let version = fixture.store.create_account(&account, &audit_entry()).await.expect("an account").version;
    let groups: Vec<Vec<NewEvent>> = (0..GROUPS)
        .map(|group| (0..GROUP).map(|n| new_event(account.id, version, (group * GROUP + n) as i64)).collect())
        .collect();
    let began = Instant::now();
    for group in &groups {
        let committed = fixture.store.commit(group, start).await.expect("committed");
        assert!(committed.iter().all(|result| *result == Committed::New));
    }
    let took = began.elapsed();
    let pace = (GROUP * GROUPS) as f64 / took.as_secs_f64();
    println!("{} events in groups of {GROUP}: {took:?}, {pace:.0} a second", GROUP * GROUPS);
}

fn new_event(account_id: AccountId, account_version: i64, n: i64) -> NewEvent {
    let at = Timestamp::from_micros(1_790_000_000_000_000 + n * 5);
    let chance = (n as u128).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    let destination_id = DestinationId::at(Timestamp::MIN, (n % 20) as u128);
    let id = DeliveryId::at(at, chance);
    let event = Event {
        event_type: "payment.succeeded".parse().expect("a type"),
        headers: vec![("user-agent".into(), "pace".into())],
        payload: Bytes::from_static(&[b'x'; 512]),
        ..testing::event(account_id, at, chance)
    };
    let delivery = NewDelivery::unordered(id, RouteId::MIN, destination_id, at);
    NewEvent {
        event: PreparedEvent::new(event),
        account_version,
        deliveries: vec![delivery],
        other_routes: Vec::new(),
        expands: false,
        key: None,
    }
}
