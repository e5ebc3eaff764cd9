//! `demo`: what there is to see is there within seconds, and nothing of the user's is touched.

use crate::node::{LONG, Node, Place, text};
use client::{Client, DeliveryQuery};
use domain::{delivery::Status, time::Timestamp};
use serde_json::Value;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::{Instant, sleep, timeout};

/// How soon everything is to be seen.
const SOON: Duration = Duration::from_secs(10);

fn demo(place: &Place, more: &[&str]) -> tokio::process::Command {
    let mut arguments = vec!["demo", "--json", "--listen", "127.0.0.1:0"];
    arguments.extend(more);
    let mut command = place.command(&arguments);
    // What is set for an installation is not the demo's.
    command.env("POSTHASTE_DATABASE", "postgres://nobody@127.0.0.1:9/none");
    command
}

fn client(node: &Node) -> Client {
    let greeting: Value = serde_json::from_str(&node.greeting[0]).unwrap();
    Client::new(greeting["url"].as_str().unwrap(), greeting["api_key"].as_str().unwrap()).unwrap()
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp::from_micros(since.as_micros() as i64)
}

/// What is still not to be seen.
async fn unseen(client: &Client) -> Vec<&'static str> {
    let of = async |status| {
        let query = DeliveryQuery { status: vec![status], ..DeliveryQuery::default() };
        client.deliveries(&query, None).await.unwrap().data
    };
    let (delivered, dead) = (of(Status::Delivered).await, of(Status::DeadLetter).await);
    let destinations = client.destinations(None).await.unwrap().data;
    let held = destinations.iter().any(|destination| {
        destination.hold.as_ref().and_then(|hold| hold.until).is_some_and(|until| until > now())
    });
    let sights = [
        ("deliveries", !delivered.is_empty()),
        ("a retry that succeeded", delivered.iter().any(|delivery| delivery.retry_count > 0)),
        ("a hold that counts down", held),
        ("a dead letter", !dead.is_empty()),
    ];
    sights.into_iter().filter(|(_, seen)| !seen).map(|(what, _)| what).collect()
}

#[tokio::test]
async fn everything_is_to_be_seen_within_ten_seconds_and_the_users_own_folder_is_not_touched() {
    let place = Place::new();
    let began = Instant::now();
    let mut node = Node::start(demo(&place, &[])).await;
    let client = client(&node);
    assert_eq!(client.destinations(None).await.unwrap().data.len(), 4);
    // Each may come and go: a hold ends.
    let mut missing = unseen(&client).await;
    while !missing.is_empty() {
        assert!(began.elapsed() < SOON, "not seen after {:?}: {missing:?}", began.elapsed());
        sleep(Duration::from_millis(100)).await;
        let still = unseen(&client).await;
        missing.retain(|what| still.contains(what));
    }
    assert!(node.signal("INT").await.success(), "it stops when it is asked to");
    assert!(!place.data_dir().exists());

    // It goes on in the same folder; then that is removed, and nothing else.
    let mut again = Node::start(demo(&place, &[])).await;
    assert_eq!(super::demo::client(&again).destinations(None).await.unwrap().data.len(), 4);
    let busy = place.run(&["demo", "--clean"]).await;
    assert_eq!(busy.status.code(), Some(5), "{busy:?}");
    assert!(again.signal("TERM").await.success());
    let cleaned = place.run(&["demo", "--clean"]).await;
    assert!(cleaned.status.success(), "{cleaned:?}");
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    assert!(place.run(&["demo", "--clean"]).await.status.success(), "there is none");
}

#[tokio::test]
async fn what_a_person_reads_has_the_address_the_key_and_a_line_that_works() {
    let place = Place::new();
    let mut command = place.command(&["demo", "--listen", "127.0.0.1:0"]);
    command.env("POSTHASTE_LISTEN", "127.0.0.1:1");
    let mut node = Node::start_until(command, "curl ").await;
    let printed = node.greeting.join("\n");
    for said in ["healthy", "slow", "flaky", "limited", "/v1/stats/series", "--clean", &node.key()] {
        assert!(printed.contains(said), "{said} in {printed}");
    }
    let line = node.greeting.last().unwrap();
    let curl = tokio::process::Command::new("sh").args(["-c", line]).output().await.unwrap();
    let accepted: Value = serde_json::from_slice(&curl.stdout).unwrap_or_else(|_| panic!("{curl:?}"));
    assert_eq!(accepted["status"], "queued", "{accepted}");
    assert!(node.signal("TERM").await.success());
}

#[tokio::test]
async fn an_outage_leaves_dead_letters_that_can_be_replayed() {
    let place = Place::new();
    let mut node = Node::start(demo(&place, &["--scenario", "outage"])).await;
    let client = client(&node);
    let greeting: Value = serde_json::from_str(&node.greeting[0]).unwrap();
    let healthy = greeting["destinations"]["healthy"].as_str().unwrap().parse().unwrap();
    let dead = async || {
        let query = DeliveryQuery {
            status: vec![Status::DeadLetter],
            destination_id: vec![healthy],
            ..DeliveryQuery::default()
        };
        client.deliveries(&query, None).await.unwrap().data.len()
    };
    let told = timeout(LONG, async {
        while dead().await == 0 {
            sleep(Duration::from_millis(200)).await;
        }
    });
    told.await.expect("dead letters of the one that is down");
    assert!(node.signal("TERM").await.success());
}

#[tokio::test]
async fn a_folder_of_somebody_else_is_refused() {
    let place = Place::new();
    std::fs::create_dir(place.data_dir()).unwrap();
    std::fs::write(place.data_dir().join("posthaste.db"), "mine").unwrap();
    for more in [&["--data-dir", "posthaste-data"][..], &["--data-dir", "posthaste-data", "--clean"]] {
        let refused = place.run(&[&["demo"][..], more].concat()).await;
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(text(&refused.stderr).contains("left alone"), "{refused:?}");
    }
    assert_eq!(std::fs::read_to_string(place.data_dir().join("posthaste.db")).unwrap(), "mine");
}
