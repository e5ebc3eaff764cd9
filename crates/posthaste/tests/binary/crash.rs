//! Killed in the middle of delivering, started again: everything that was accepted arrives.

use crate::node::{Database, LONG, Place, deliver_to};
use client::{BatchResult, DestinationStatus, Publish};
use lab::{Receiver, Reply};
use std::{collections::HashSet, time::Duration};
use tokio::time::{sleep, timeout};

const EVENTS: usize = 200;
/// Seen by the receiver before the node is killed.
const BEFORE: u64 = 20;

#[tokio::test]
async fn nothing_accepted_is_lost_when_the_node_is_killed_on_sqlite() {
    nothing_is_lost(Database::Sqlite).await;
}

#[tokio::test]
async fn nothing_accepted_is_lost_when_the_node_is_killed_on_postgres() {
    nothing_is_lost(Database::Postgres).await;
}

async fn nothing_is_lost(database: Database) {
    let place = Place::on(database);
    let node = place.dev().await;
    let receiver = Receiver::local(Reply::ok().after(Duration::from_millis(10)));
    let client = node.client();
    let destination = deliver_to(&client, &receiver.url("/hook")).await;
    let events: Vec<Publish> =
        (0..EVENTS).map(|n| Publish::json("crash.test", format!("{{\"n\":{n}}}")).unwrap()).collect();
    let accepted: HashSet<String> =
        client.publish_batch(&events).await.unwrap().into_iter().map(id).collect();
    assert_eq!(accepted.len(), EVENTS);

    assert!(receiver.wait_for(BEFORE, LONG).await);
    node.kill().await;

    let _node = place.dev().await;
    timeout(LONG, async {
        loop {
            // Counted before looking: what arrives in between is not waited for in vain.
            let more = receiver.succeeded() + 1;
            if delivered(&receiver) == accepted {
                break;
            }
            assert!(
                receiver.wait_for_succeeded(more, LONG).await,
                "{} of {EVENTS} arrived",
                delivered(&receiver).len()
            );
        }
    })
    .await
    .expect("everything arrives");

    assert!(receiver.max_open("/hook") <= destination.max_concurrency, "never more at once than it wanted");
    // Sent twice is only what had no durable ending when the node died: open, or answered and not yet written. A lane
    // has no more of both together than twice its slots.
    let twice = receiver.total() as usize - EVENTS;
    assert!(twice <= 2 * destination.max_concurrency as usize, "{twice} were sent twice");
}

#[tokio::test]
async fn a_throttled_destination_is_left_alone_after_a_crash_on_sqlite() {
    a_hold_outlives_its_node(Database::Sqlite).await;
}

#[tokio::test]
async fn a_throttled_destination_is_left_alone_after_a_crash_on_postgres() {
    a_hold_outlives_its_node(Database::Postgres).await;
}

async fn a_hold_outlives_its_node(database: Database) {
    let place = Place::on(database);
    let node = place.dev().await;
    let receiver = Receiver::local(Reply::throttled(3_600));
    let client = node.client();
    let destination = deliver_to(&client, &receiver.url("/hook")).await.id;
    let event = Publish::json("crash.test", "{}".to_owned()).unwrap();
    client.publish(&event).await.unwrap();
    // The hold is written before the attempt that led to it.
    until(async || client.destination_attempts(destination, None).await.unwrap().data.len() == 1).await;
    node.kill().await;

    let node = place.dev().await;
    let client = node.client();
    client.publish(&event).await.unwrap();
    until(async || client.destination(destination).await.unwrap().status == DestinationStatus::Throttled)
        .await;
    assert_eq!(receiver.total(), 1, "nothing was sent into the hold");
}

async fn until(so: impl AsyncFn() -> bool) {
    timeout(LONG, async {
        while !so().await {
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("it comes to that");
}

fn delivered(receiver: &Receiver) -> HashSet<String> {
    let records = receiver.snapshot();
    records.iter().filter(|record| record.succeeded()).map(|record| record.event_id.to_string()).collect()
}

fn id(result: BatchResult) -> String {
    match result {
        BatchResult::Accepted(accepted) => accepted.id.to_string(),
        BatchResult::Refused(refused) => panic!("refused: {}", refused.error),
    }
}
