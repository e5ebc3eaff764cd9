//! The live stream, across processes: what another node does is told here, and a crash leaves no hole.

use crate::node::{Database, LONG, Node, Place, deliver_to, ended};
use client::{ChangeStream, Client, Publish, StreamFilters};
use domain::id::EventId;
use lab::{Receiver, Script};
use std::collections::BTreeSet;
use tokio::time::timeout;

/// Hears of these events, each at least once.
async fn hears(live: &mut ChangeStream, mut events: BTreeSet<EventId>) {
    let hearing = async {
        while !events.is_empty() {
            let change = live.next().await.expect("it can be read").expect("it goes on");
            events.remove(&change.data["event_id"].as_str().expect("an event").parse().expect("an id"));
        }
    };
    timeout(LONG, hearing).await.expect("everything is told");
}

fn deliveries() -> StreamFilters {
    StreamFilters(vec![("kind", "delivery.changed".into())])
}

async fn publish(client: &Client, count: usize) -> BTreeSet<EventId> {
    let mut events = BTreeSet::new();
    for _ in 0..count {
        events.insert(client.publish(&Publish::json("a", "1").unwrap()).await.unwrap().id);
    }
    events
}

#[tokio::test]
async fn two_nodes_both_tell_everything() {
    let place = Place::on(Database::Postgres);
    let (master, key) = (place.line(&["keys", "master"]).await, place.line(&["keys", "generate"]).await);
    let start = async |name: &str| {
        let mut command = place.command(&["serve", "--listen", "127.0.0.1:0", "--node-name", name]);
        command
            .args(["--data-dir", &format!("./{name}"), "--egress-allow", "127.0.0.0/8"])
            .args(["--egress-allow-http", "true"])
            .env("POSTHASTE_MASTER_KEYS", &master)
            .env("POSTHASTE_BOOTSTRAP_API_KEY", &key);
        Node::start(command).await
    };
    let (mut one, mut two) = (start("one").await, start("two").await);
    let clients = [&one, &two].map(|node| Client::new(&node.url, &key).unwrap());
    let receiver = Receiver::local(Script::ok());
    // Many destinations: each node owns some of them.
    for _ in 0..8 {
        deliver_to(&clients[0], &receiver.url("/hook")).await;
    }
    let all = deliveries();
    let mut lives =
        [clients[0].follow(&all, None).await.unwrap(), clients[1].follow(&all, None).await.unwrap()];
    let mut events = publish(&clients[0], 10).await;
    events.extend(publish(&clients[1], 10).await);
    let mut made = BTreeSet::new();
    for event in &events {
        made.extend(ended(&clients[0], *event).await.into_iter().map(|delivery| delivery.id));
    }
    assert_eq!(made.len(), 160);
    for live in &mut lives {
        let mut missing = made.clone();
        let hearing = async {
            while !missing.is_empty() {
                let change = live.next().await.expect("it can be read").expect("it goes on");
                missing.remove(&change.data["id"].as_str().expect("a delivery").parse().expect("an id"));
            }
        };
        timeout(LONG, hearing).await.expect("both tell everything");
    }
    // Whoever was cut off goes on at the other node.
    let last = lives[0].last_id().expect("something was heard").to_owned();
    let missed = publish(&clients[1], 3).await;
    for event in &missed {
        ended(&clients[1], *event).await;
    }
    let mut resumed = clients[1].follow(&all, Some(&last)).await.unwrap();
    hears(&mut resumed, missed).await;
    // Open streams do not keep a node from stopping.
    assert!(one.signal("TERM").await.success());
    assert!(two.signal("TERM").await.success());
}

#[tokio::test]
async fn a_stream_goes_on_after_a_crash() {
    let place = Place::new();
    let node = place.dev().await;
    let client = node.client();
    let receiver = Receiver::local(Script::ok());
    deliver_to(&client, &receiver.url("/hook")).await;
    let mut live = client.follow(&deliveries(), None).await.unwrap();
    hears(&mut live, publish(&client, 2).await).await;
    let last = live.last_id().expect("something was heard").to_owned();
    let missed = publish(&client, 3).await;
    for event in &missed {
        ended(&client, *event).await;
    }
    node.kill().await;
    let node = place.dev().await;
    let mut live = node.client().follow(&deliveries(), Some(&last)).await.unwrap();
    hears(&mut live, missed).await;
    // The same as a command.
    let tail = ["tail", "--json", "--count", "3", "--url", &node.url, "--last-event-id", &last];
    let printed = crate::node::output(place.command(&tail)).await;
    assert!(printed.status.success(), "{printed:?}");
    assert_eq!(crate::node::text(&printed.stdout).lines().count(), 3, "{printed:?}");
}
