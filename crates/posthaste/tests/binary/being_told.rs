//! Killed while it tells of itself, started again: what is told is told, and once.

use crate::node::{Database, LONG, Node, Place, deliver_to};
use client::{NewDestination, NewRoute, Publish};
use lab::{Receiver, Reply, Script};
use serde_json::Value;
use std::{collections::HashSet, time::Duration};
use tokio::time::{sleep, timeout};

#[tokio::test]
async fn a_hold_is_told_once_however_the_node_dies_on_sqlite() {
    a_hold_is_told_once(Database::Sqlite, "operations.before").await;
    a_hold_is_told_once(Database::Sqlite, "operations.told").await;
}

#[tokio::test]
async fn a_hold_is_told_once_however_the_node_dies_on_postgres() {
    a_hold_is_told_once(Database::Postgres, "operations.before").await;
    a_hold_is_told_once(Database::Postgres, "operations.told").await;
}

async fn a_hold_is_told_once(database: Database, dies_at: &str) {
    let place = Place::on(database);
    let mut command = place.command(&["serve", "--dev", "--listen", "127.0.0.1:0"]);
    command.env("POSTHASTE_FAIL", format!("{dies_at}:abort:1"));
    let mut node = Node::start(command).await;
    let (ill, watcher) = (Receiver::local(Reply::throttled(3_600)), Receiver::local(Script::ok()));
    let client = node.client();
    let held = deliver_to(&client, &ill.url("/ill")).await;
    // It watches, and asks for everything beside: what is told of it goes elsewhere.
    let telling = NewDestination::new("watcher", &watcher.url("/watch"));
    let telling = client.create_destination(&telling).await.expect("a destination");
    for destination in [telling.id, held.id] {
        let route =
            NewRoute { event_types: vec!["posthaste.**".parse().unwrap()], ..NewRoute::to(destination) };
        client.create_route(&route).await.expect("a route");
    }
    client.publish(&Publish::json("crash.test", "{}".to_owned()).unwrap()).await.unwrap();
    assert!(!node.ended().await.success(), "it dies while it tells");

    let node = place.dev().await;
    let client = node.client();
    assert!(watcher.wait_for_succeeded(1, LONG).await);
    let told = async || {
        let found = client.raw("/v1/events?type=posthaste.**").await.expect("a list");
        let found: Value = serde_json::from_slice(&found).expect("JSON");
        found["data"].as_array().expect("a list").clone()
    };
    let event = told().await;
    assert_eq!(event.len(), 1, "{event:?}");
    assert_eq!(event[0]["type"], "posthaste.destination.throttled");
    // Something else is told after it: had it been told twice, it would be there by then.
    client.disable(held.id).await.expect("it is disabled");
    let all = timeout(LONG, async {
        loop {
            let all = told().await;
            if all.iter().any(|event| event["type"] == "posthaste.destination.disabled") {
                return all;
            }
            sleep(Duration::from_millis(20)).await;
        }
    });
    assert_eq!(all.await.expect("it is told").len(), 2);
    assert!(watcher.wait_for_succeeded(2, LONG).await);
    let ids: HashSet<String> = watcher.snapshot().iter().map(|record| record.event_id.to_string()).collect();
    assert_eq!(ids.len(), 2);
    assert_eq!(ill.total(), 1, "what is about it does not go there");
}
