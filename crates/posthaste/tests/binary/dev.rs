//! `serve --dev`: from nothing to a delivered event.

use crate::node::{Database, LONG, Node, Place, deliver_to, ended, text};
use client::{Accepted, AcceptedStatus, Client, Publish, TestEvent};
use domain::{
    delivery::Status,
    signature::{self, SigningSecret},
};
use lab::{Receiver, Recording, Script};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt,
};
use tokio::process::Command;

#[tokio::test]
async fn the_last_line_is_a_curl_line_that_works_end_to_end_on_sqlite() {
    the_curl_line_works(Database::Sqlite).await;
}

#[tokio::test]
async fn the_last_line_is_a_curl_line_that_works_end_to_end_on_postgres() {
    the_curl_line_works(Database::Postgres).await;
}

#[tokio::test]
async fn on_a_terminal_the_greeting_comes_after_what_the_log_says_of_the_start() {
    let place = Place::new();
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = place.command(&["serve", "--dev", "--listen", "127.0.0.1:0"]);
    command.env("POSTHASTE_LOG", "info");
    // Both streams in one, as a terminal has them.
    command.stderr(writer.try_clone().unwrap()).stdout(writer);
    let node = command.spawn().unwrap();
    drop(command);
    let read = tokio::task::spawn_blocking(move || {
        let lines = BufReader::new(reader).lines().map_while(Result::ok);
        let mut before = Vec::new();
        for line in lines {
            if line.starts_with("curl ") {
                break;
            }
            before.push(line);
        }
        before
    });
    let before = tokio::time::timeout(LONG, read).await.expect("it greets in time").unwrap();
    assert!(before.iter().any(|line| line.contains("serving")), "{before:?}");
    drop(node);
}

async fn the_curl_line_works(database: Database) {
    let place = Place::on(database);
    let node = place.dev().await;
    let client = node.client();
    let accepted = run_curl_line(&node).await;
    assert_eq!((accepted.status, accepted.deliveries), (AcceptedStatus::Queued, Some(1)));
    let deliveries = ended(&client, accepted.id).await;
    assert_eq!(deliveries[0].status, Status::Delivered);
    let attempts = client.delivery(deliveries[0].id).await.unwrap().attempts;
    assert_eq!((attempts.len(), attempts[0].http_status), (1, Some(200)));
    let destination = client.destination(deliveries[0].destination_id).await.unwrap();
    assert_eq!(destination.uid.as_deref(), Some("dev-receiver"));
    assert!(destination.url.starts_with("http://127.0.0.1:"), "{}", destination.url);

    let other = Publish::json("hello.others", "1").unwrap();
    assert_eq!(client.publish(&other).await.unwrap().status, AcceptedStatus::Unmatched, "it is for one type");
}

async fn run_curl_line(node: &Node) -> Accepted {
    let line = node.greeting.last().unwrap();
    let curl = Command::new("sh").args(["-c", line]).output().await.unwrap();
    assert!(curl.status.success(), "curl is needed for this test: {curl:?}");
    serde_json::from_slice(&curl.stdout).unwrap_or_else(|_| panic!("{curl:?}"))
}

#[tokio::test]
async fn a_destination_of_ones_own_gets_the_curl_lines_event_too() {
    let place = Place::new();
    let node = place.dev().await;
    let receiver =
        Receiver::start_with(([127, 0, 0, 1], 0).into(), Script::ok(), Recording::FullWithBodies).unwrap();
    let client = node.client();
    let destination = deliver_to(&client, &receiver.url("/hook")).await;
    let accepted = run_curl_line(&node).await;
    assert_eq!(accepted.deliveries, Some(2), "the built-in receiver's and ours");

    assert!(receiver.wait_for_succeeded(1, LONG).await);
    let kept = receiver.snapshot().remove(0).kept.unwrap();
    assert_eq!(kept.body.as_ref(), br#"{"greeting":"hello"}"#);
    let header = |name: &str| kept.headers[name].to_str().unwrap();
    assert_eq!(header("webhook-id"), accepted.id.to_string());
    let secret: SigningSecret = destination.signing.secret.unwrap().parse().unwrap();
    let timestamp = header("webhook-timestamp");
    let signed = signature::verify(
        [&secret],
        header("webhook-id"),
        timestamp,
        header("webhook-signature"),
        &kept.body,
        timestamp.parse().unwrap(),
        0,
    );
    assert_eq!(signed, Ok(()));
    let deliveries = ended(&client, accepted.id).await;
    assert!(deliveries.iter().all(|delivery| delivery.status == Status::Delivered), "{deliveries:?}");
}

#[tokio::test]
async fn the_built_in_receiver_is_there_after_a_restart_and_not_made_again_once_removed() {
    let place = Place::new();
    let mut node = place.dev().await;
    let first = run_curl_line(&node).await;
    let destination = ended(&node.client(), first.id).await.remove(0).destination_id;
    assert!(node.signal("TERM").await.success());

    let mut node = place.dev().await;
    let again = run_curl_line(&node).await;
    let deliveries = ended(&node.client(), again.id).await;
    assert_eq!(deliveries.len(), 1);
    assert_eq!((deliveries[0].destination_id, deliveries[0].status), (destination, Status::Delivered));
    node.client().delete_destination(destination).await.unwrap();
    assert!(node.signal("TERM").await.success());

    let node = place.dev().await;
    assert_eq!(run_curl_line(&node).await.status, AcceptedStatus::Unmatched);
    assert!(node.client().destinations(None).await.unwrap().data.is_empty());
}

#[tokio::test]
async fn a_built_in_receiver_whose_port_is_taken_moves_with_its_destination() {
    let place = Place::new();
    let mut node = place.dev().await;
    let made = node.client().destinations(None).await.unwrap().data.remove(0);
    assert!(node.signal("TERM").await.success());
    let port = made.url.trim_end_matches('/').rsplit(':').next().unwrap().parse().unwrap();
    let taken = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();

    let node = place.dev().await;
    let accepted = run_curl_line(&node).await;
    assert_eq!(ended(&node.client(), accepted.id).await[0].status, Status::Delivered);
    let moved = node.client().destinations(None).await.unwrap().data.remove(0);
    assert_eq!(moved.id, made.id);
    assert_ne!(moved.url, made.url);
    drop(taken);
}

#[tokio::test]
async fn every_start_has_the_same_key_even_on_a_new_database() {
    let place = Place::new();
    let mut node = place.dev().await;
    let key = node.key();
    let mode = fs::metadata(place.data_dir().join("dev.toml")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(node.signal("TERM").await.success());

    for entry in fs::read_dir(place.data_dir()).unwrap().map(Result::unwrap) {
        if entry.file_name().to_str().unwrap().starts_with("posthaste.db") {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    let node = place.dev().await;
    assert_eq!(node.key(), key);
    assert_eq!(node.client().own_account().await.unwrap().name, "Default");
}

#[tokio::test]
async fn dev_refuses_to_listen_to_the_world() {
    let refused = Place::new().run(&["serve", "--dev", "--listen", "0.0.0.0:0"]).await;
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("loopback only"));
}

#[tokio::test]
async fn a_script_reads_the_address_and_the_key_as_json() {
    let place = Place::new();
    let node = Node::start(place.command(&["serve", "--json", "--dev", "--listen", "127.0.0.1:0"])).await;
    let greeting: Value = serde_json::from_str(&node.greeting[0]).unwrap();
    let client =
        Client::new(greeting["url"].as_str().unwrap(), greeting["api_key"].as_str().unwrap()).unwrap();
    assert!(client.own_account().await.is_ok());
}

#[tokio::test]
async fn a_destination_can_be_tested_without_an_event() {
    let place = Place::new();
    let node = place.dev().await;
    let receiver = Receiver::local(Script::ok());
    let client = node.client();
    let destination = deliver_to(&client, &receiver.url("/hook")).await;
    let attempt = client.test(destination.id, &TestEvent::default()).await.unwrap();
    assert_eq!((attempt.http_status, attempt.destination_id), (Some(200), destination.id));
    assert_eq!(receiver.total(), 1);
    assert!(client.events(&client::EventQuery::default(), None).await.unwrap().data.is_empty());
}
