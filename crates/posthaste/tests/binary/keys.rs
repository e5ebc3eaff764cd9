//! The keys that encrypt are changed from the command line.

use crate::node::{Database, Node, Place, deliver_to, output, text};
use client::Client;
use serde_json::Value;
use std::process::Output;

struct Keys {
    place: Place,
    api_key: String,
    operator_key: String,
}

impl Keys {
    async fn on(database: Database) -> Self {
        let place = Place::on(database);
        let api_key = place.line(&["keys", "generate"]).await;
        let operator_key = place.line(&["keys", "generate", "--kind", "operator"]).await;
        Self { place, api_key, operator_key }
    }

    /// With these master keys.
    fn command(&self, arguments: &[&str], master: &str) -> tokio::process::Command {
        let mut command = self.place.command(arguments);
        command
            .env("POSTHASTE_MASTER_KEYS", master)
            .env("POSTHASTE_BOOTSTRAP_API_KEY", &self.api_key)
            .env("POSTHASTE_BOOTSTRAP_OPERATOR_KEY", &self.operator_key);
        command
    }

    async fn run(&self, arguments: &[&str], master: &str) -> Output {
        output(self.command(arguments, master)).await
    }

    async fn serve(&self, master: &str) -> Node {
        Node::start(self.command(&["serve", "--listen", "127.0.0.1:0"], master)).await
    }
}

async fn a_master_key_is_changed_and_left_out(database: Database) {
    let keys = Keys::on(database).await;
    let old = keys.place.line(&["keys", "master"]).await;
    let new = keys.place.line(&["keys", "master", "--name", "k2"]).await;
    let both = format!("{new},{old}");

    let mut node = keys.serve(&old).await;
    let client = Client::new(&node.url, &keys.api_key).unwrap();
    let destination = deliver_to(&client, "https://example.com/hooks").await.id;
    let secret = client.destination_secret(destination).await.unwrap().secret;
    if database == Database::Postgres {
        let early = keys.run(&["serve", "--listen", "127.0.0.1:0", "--data-dir", "other"], &new).await;
        assert_eq!(early.status.code(), Some(2), "{early:?}");
        assert!(text(&early.stderr).contains("sealed by the master key `k1`"), "{early:?}");
        let refused = keys.run(&["keys", "rotate"], &both).await;
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        assert!(text(&refused.stderr).contains("does not know the master key `k2`"), "{refused:?}");
    }
    assert!(node.signal("TERM").await.success());

    let rotated = keys.run(&["keys", "rotate"], &both).await;
    assert!(rotated.status.success(), "{rotated:?}");
    let said = text(&rotated.stdout);
    assert!(said.contains("Everything is sealed by `k2`") && said.contains("(2 sealed anew)"), "{said}");
    let looked = keys.run(&["doctor"], &both).await;
    assert!(text(&looked.stdout).contains("`k1` may be left out of master_keys"), "{looked:?}");

    let refused = keys.run(&["serve", "--listen", "127.0.0.1:0"], &old).await;
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let said = text(&refused.stderr);
    assert!(said.contains("`k2`, which is not configured") && said.contains("keys rotate"), "{said}");
    assert!(!said.contains(old.split_once(':').unwrap().1), "{said}");

    let mut node = keys.serve(&new).await;
    let client = Client::new(&node.url, &keys.api_key).unwrap();
    assert_eq!(client.destination_secret(destination).await.unwrap().secret, secret);
    if database == Database::Sqlite {
        let in_use = keys.run(&["keys", "rotate"], &new).await;
        assert_eq!(in_use.status.code(), Some(5), "{in_use:?}");
        assert!(text(&in_use.stderr).contains("--server URL"), "{in_use:?}");
    }
    let by_server =
        ["keys", "rotate", "--json", "--server", &node.url, "--key", &keys.operator_key].map(str::to_owned);
    let by_server: Vec<&str> = by_server.iter().map(String::as_str).collect();
    let asked = keys.run(&by_server, &new).await;
    assert!(asked.status.success(), "{asked:?}");
    let said: Value = serde_json::from_slice(&asked.stdout).unwrap();
    assert_eq!((&said["master_key"], &said["resealed_count"]), (&"k2".into(), &0.into()));
    assert!(node.signal("TERM").await.success());
}

#[tokio::test]
async fn a_master_key_is_changed_and_left_out_of_an_embedded_store() {
    a_master_key_is_changed_and_left_out(Database::Sqlite).await;
}

#[tokio::test]
async fn a_master_key_is_changed_and_left_out_on_postgres() {
    a_master_key_is_changed_and_left_out(Database::Postgres).await;
}

#[tokio::test]
async fn a_server_that_is_asked_needs_an_operators_key() {
    let place = Place::new();
    let refused = place.run(&["keys", "rotate", "--server", "http://127.0.0.1:1"]).await;
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let key = place.line(&["keys", "generate", "--kind", "operator"]).await;
    let away = place.run(&["keys", "rotate", "--server", "http://127.0.0.1:1", "--key", &key]).await;
    assert_eq!(away.status.code(), Some(6), "{away:?}");
}
