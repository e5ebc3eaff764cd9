//! The other commands, each with its exit code.

use crate::node::{LONG, Node, Place, deliver_to, ended, output, text};
use serde_json::Value;
use std::{fs, process::Stdio};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    time::timeout,
};

#[tokio::test]
async fn flags_win_over_the_environment_the_file_and_the_defaults() {
    let place = Place::new();
    fs::write(place.path().join("posthaste.toml"), "rescan = '11s'\n[node]\nlease = '12s'\nname = 'file'\n")
        .unwrap();
    let mut command = place.command(&["config", "show", "--json", "--node-name", "flag"]);
    command.env("POSTHASTE_NODE_LEASE", "13s").env("POSTHASTE_NODE_NAME", "variable");
    let shown = output(command).await;
    let shown: Vec<Value> = serde_json::from_slice(&shown.stdout).unwrap();
    let of = |key: &str| {
        let line = shown.iter().find(|line| line["key"] == key).unwrap();
        (line["value"].as_str().unwrap().to_owned(), line["source"].as_str().unwrap().to_owned())
    };
    assert_eq!(of("listen"), ("127.0.0.1:8080".into(), "default".into()));
    assert_eq!(of("rescan"), ("11s".into(), "posthaste.toml".into()));
    assert_eq!(of("node.lease"), ("13s".into(), "POSTHASTE_NODE_LEASE".into()));
    assert_eq!(of("node.name"), ("flag".into(), "--node-name".into()));
}

#[tokio::test]
async fn a_mistake_in_the_settings_ends_with_code_2_before_anything_starts() {
    let place = Place::new();
    fs::write(place.path().join("posthaste.toml"), "listten = '127.0.0.1:1'").unwrap();
    for command in ["serve", "migrate"] {
        let refused = place.run(&[command]).await;
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains("the nearest is \"listen\""), "{refused:?}");
    }
    assert!(!place.data_dir().exists());
}

#[tokio::test]
async fn the_template_is_a_settings_file() {
    let place = Place::new();
    let template = place.run(&["config", "template"]).await;
    fs::write(place.path().join("posthaste.toml"), &template.stdout).unwrap();
    assert!(place.run(&["config", "check"]).await.status.success());
}

#[tokio::test]
async fn keys_are_made_listed_and_revoked_beside_the_store() {
    let place = Place::new();
    let mut node = place.dev().await;
    let busy = place.run(&["keys", "create", "--operator"]).await;
    assert_eq!(busy.status.code(), Some(5), "the embedded store has one user: {busy:?}");
    assert!(node.signal("TERM").await.success());

    let account_key = place.line(&["keys", "create", "--name", "ci"]).await;
    let operator_key = place.line(&["keys", "create", "--operator"]).await;
    let listed = place.line(&["keys", "list", "--operator", "--json"]).await;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["kind"], "operator");

    let mut node = place.dev().await;
    let client = node.client();
    assert!(client.with_key(&account_key).unwrap().own_account().await.is_ok());
    assert_eq!(client.with_key(&operator_key).unwrap().accounts(None).await.unwrap().data.len(), 1);
    assert!(node.signal("TERM").await.success());

    let id = listed["id"].as_str().unwrap();
    assert!(place.run(&["keys", "revoke", "--operator", id]).await.status.success());
    let node = place.dev().await;
    let refused = node.client().with_key(&operator_key).unwrap().accounts(None).await.unwrap_err();
    assert_eq!(refused.problem().unwrap().status, 401);
}

#[tokio::test]
async fn a_key_made_beside_the_store_has_the_bounds_it_was_given() {
    let place = Place::new();
    let mut node = place.dev().await;
    let source = node.client().create_source(&client::NewSource::new("Shop")).await.unwrap();
    assert!(node.signal("TERM").await.success());

    let bounded =
        ["keys", "create", "--name", "ci", "--scopes", "events:read,deliveries:read", "--expires", "90d"];
    let here = place.line(&[&bounded[..], &["--allow-address", "127.0.0.0/8"]].concat()).await;
    let elsewhere = place.line(&[&bounded[..], &["--allow-address", "192.0.2.7"]].concat()).await;
    let source_id = source.id.to_string();
    let of_source =
        place.line(&["keys", "create", "--source", &source_id, "--rate-limit", "7", "--name", "shop"]).await;
    assert!(of_source.starts_with("phi_"), "{of_source}");
    let listed = place.run(&["keys", "list", "--json"]).await;
    let listed: Vec<Value> =
        text(&listed.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let named = |name: &str| listed.iter().find(|key| key["name"] == name).unwrap();
    let shop = named("shop");
    assert_eq!(
        (&shop["kind"], &shop["source_id"], &shop["rate_limit"]),
        (&"ingest".into(), &source_id.as_str().into(), &7.into())
    );
    assert_eq!(named("ci")["allowed_addresses"][0], "192.0.2.7/32");
    assert!(named("ci")["expires_at"].is_string());

    for (wrong, says) in [
        (&["--expires", "2020-01-01T00:00:00Z"][..], "past"),
        (&["--expires", "soon"], "90d"),
        (&["--scopes", "accounts:read"], "platforms"),
        (&["--scopes", "world:rule"], "world:rule"),
        (&["--allow-address", "office"], "192.0.2.0/24"),
        (&["--rate-limit", "0"], "0"),
        (&["--operator", "--source", &source_id], "cannot be used"),
    ] {
        let refused = place.run(&[&["keys", "create"], wrong].concat()).await;
        assert_eq!(refused.status.code(), Some(2), "{wrong:?}: {refused:?}");
        assert!(text(&refused.stderr).contains(says), "{wrong:?}: {refused:?}");
    }

    let node = place.dev().await;
    let ask = async |key: &str| node.client().with_key(key).unwrap().events(&Default::default(), None).await;
    ask(&here).await.expect("it comes from there, and may read events");
    assert_eq!(ask(&elsewhere).await.unwrap_err().problem().unwrap().status, 401);
    assert_eq!(ask(&of_source).await.unwrap_err().problem().unwrap().status, 403);
}

#[tokio::test]
async fn migrate_makes_a_database_that_serve_can_use() {
    let place = Place::new();
    assert!(place.run(&["migrate"]).await.status.success());
    assert!(place.data_dir().join("posthaste.db").exists());
    place.dev().await.client().own_account().await.unwrap();
}

#[tokio::test]
async fn an_event_is_sent_to_a_listener_that_checks_its_signature() {
    let place = Place::new();
    let node = place.dev().await;
    let client = node.client();
    let destination = deliver_to(&client, "http://127.0.0.1:9/hook").await;
    let secret = destination.signing.secret.unwrap();
    let mut listener = place.command(&["listen", "--port", "0", "--json", "--body", "--secret", &secret]);
    let mut listener = listener.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(listener.stdout.take().unwrap()).lines();
    let mut next = async || -> Value {
        let line = timeout(LONG, lines.next_line()).await.expect("a line in time").unwrap();
        serde_json::from_str(&line.expect("it goes on")).unwrap()
    };
    let url = next().await["listening"].as_str().unwrap().to_owned();
    client
        .update_destination(destination.id, &serde_json::json!({ "url": format!("{url}hook") }))
        .await
        .unwrap();

    fs::write(place.path().join("data.json"), r#"{"total": 12.50}"#).unwrap();
    let send = ["send", "--type", "order.paid", "--data", "@data.json", "--url", &node.url];
    let event_id = place.line(&send).await;
    let seen = next().await;
    assert_eq!(seen["event_id"], event_id);
    assert_eq!(seen["event_type"], "order.paid");
    assert_eq!(seen["signature"], "valid");
    assert_eq!(seen["body"], r#"{"total": 12.50}"#);
    assert_eq!(seen["answer"], "200");
    ended(&client, event_id.parse().unwrap()).await;
}

#[tokio::test]
async fn a_listener_that_counts_says_429_until_its_window_ends() {
    let place = Place::new();
    let node = place.dev().await;
    let client = node.client();
    let mut listener = place.command(&["listen", "--port", "0", "--json", "--limit", "2", "--window", "3s"]);
    let mut listener = listener.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(listener.stdout.take().unwrap()).lines();
    let mut next = async || -> Value {
        let line = timeout(LONG, lines.next_line()).await.expect("a line in time").unwrap();
        serde_json::from_str(&line.expect("it goes on")).unwrap()
    };
    let url = next().await["listening"].as_str().unwrap().to_owned();
    let destination = deliver_to(&client, &format!("{url}hook")).await;
    client.update_destination(destination.id, &serde_json::json!({ "max_concurrency": 1 })).await.unwrap();
    let mut events = Vec::new();
    for _ in 0..3 {
        events.push(place.line(&["send", "--type", "a.b", "--url", &node.url]).await);
    }
    assert_eq!([next().await["answer"].clone(), next().await["answer"].clone()], ["200", "200"]);
    let refused = next().await;
    let answer = refused["answer"].as_str().unwrap();
    assert!(answer.starts_with("429, again in "), "{answer}");
    let again = next().await;
    assert_eq!((&again["answer"], &again["event_id"]), (&"200".into(), &refused["event_id"]));
    ended(&client, events[2].parse().unwrap()).await;

    let wrong = place.run(&["listen", "--limit", "2", "--window", "10ms"]).await;
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    let wrong = place.run(&["listen", "--limit", "2", "--retry-after", "1"]).await;
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
}

#[tokio::test]
async fn a_command_says_whether_the_server_was_not_reached_or_refused() {
    let place = Place::new();
    let node = place.dev().await;
    let key = place.line(&["keys", "generate"]).await;
    let refused = place.run(&["send", "--type", "a.b", "--url", &node.url, "--key", &key]).await;
    assert_eq!(refused.status.code(), Some(7), "{refused:?}");
    assert!(text(&refused.stderr).contains("unauthorized"));
    let malformed = place.run(&["send", "--type", "a.b", "--data", "{", "--url", &node.url]).await;
    assert_eq!(malformed.status.code(), Some(2), "{malformed:?}");

    assert_eq!(health(&place, &node).await, Some(0));
    let url = node.url.clone();
    node.kill().await;
    let gone = place.run(&["health", "--url", &url, "--json"]).await;
    assert_eq!(gone.status.code(), Some(6), "{gone:?}");
    let error: Value = serde_json::from_slice(&gone.stderr).unwrap();
    assert_eq!(error["exit_code"], 6);
}

async fn health(place: &Place, node: &Node) -> Option<i32> {
    place.run(&["health", "--url", &node.url]).await.status.code()
}

#[tokio::test]
async fn a_server_that_waits_for_its_database_is_alive_and_not_ready() {
    let place = Place::new();
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let mut command = place.command(&["serve", "--dev", "--listen", &listen]);
    command.env("POSTHASTE_DATABASE", format!("postgres://nobody@127.0.0.1:{}/none", free_port()));
    let mut waiting = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(waiting.stderr.take().unwrap()).lines();
    let told =
        timeout(LONG, lines.next_line()).await.expect("it tells in time").unwrap().expect("it goes on");
    assert!(told.contains("waiting for it"), "{told}");

    let url = format!("http://{listen}");
    let not_ready = place.run(&["health", "--url", &url]).await;
    assert_eq!(not_ready.status.code(), Some(1), "{not_ready:?}");
    assert!(client::Client::without_key(&url).unwrap().raw("/healthz").await.is_ok());
    assert!(waiting.try_wait().unwrap().is_none(), "it does not end for that");
}

/// Free a moment ago; nobody else asks for exactly this one.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
