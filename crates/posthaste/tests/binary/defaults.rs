//! Defaults of the installation: said in its file, obeyed from the next start on by whoever left the value out.

use crate::node::{Database, LONG, Place, deliver_to};
use client::Publish;
use domain::delivery_settings::SettingLevel;
use lab::{Receiver, Reply};
use std::time::Duration;

#[tokio::test]
async fn a_default_of_the_installation_holds_from_the_next_start_on_sqlite() {
    holds_from_the_next_start(Database::Sqlite).await;
}

#[tokio::test]
async fn a_default_of_the_installation_holds_from_the_next_start_on_postgres() {
    holds_from_the_next_start(Database::Postgres).await;
}

async fn holds_from_the_next_start(database: Database) {
    let place = Place::on(database);
    let receiver = Receiver::local(Reply::ok().after(Duration::from_millis(50)));
    let node = place.dev().await;
    let made = deliver_to(&node.client(), &receiver.url("/hook")).await;
    assert_eq!((made.max_concurrency, made.settings_from.max_concurrency), (5, SettingLevel::BuiltIn));
    node.kill().await;

    let file = "[defaults]\nmax_concurrency = 2\nretry_policy.retry_statuses = [\"4xx\"]\n";
    std::fs::write(place.path().join("posthaste.toml"), file).unwrap();
    let node = place.dev().await;
    let client = node.client();
    let seen = client.destination(made.id).await.unwrap();
    assert_eq!((seen.max_concurrency, seen.settings_from.max_concurrency), (2, SettingLevel::Installation));
    assert_eq!(seen.settings_from.retry_policy.retry_statuses, SettingLevel::Installation);
    assert_eq!(seen.settings_from.retry_policy.jitter, SettingLevel::BuiltIn);
    for _ in 0..20 {
        client.publish(&Publish::json("a", "1").unwrap()).await.unwrap();
    }
    assert!(receiver.wait_for_succeeded(20, LONG).await);
    assert_eq!(receiver.max_open("/hook"), 2);

    let patch = serde_json::json!({ "max_concurrency": 1 });
    let seen = client.update_destination(made.id, &patch).await.unwrap();
    assert_eq!((seen.max_concurrency, seen.settings_from.max_concurrency), (1, SettingLevel::Destination));
}
