//! Looking from outside: `doctor` and `backup`, beside a running server and without one.

use crate::node::{Database, Node, Place, deliver_to, output, text};
use client::Publish;
use serde_json::Value;
use std::{fs, os::unix::fs::PermissionsExt};

#[tokio::test]
async fn a_healthy_installation_is_in_order_beside_its_server() {
    for database in [Database::Sqlite, Database::Postgres] {
        let place = Place::on(database);
        let node = place.dev().await;
        let client = node.client();
        deliver_to(&client, "http://127.0.0.1:9/nobody").await;
        client.publish(&Publish::json("a.b", "{}").unwrap()).await.unwrap();
        let told = doctor(&place, &["--audit"]).await;
        assert_eq!((told.code, &told.findings["ok"]), (Some(0), &Value::Bool(true)), "{told:?}");
        for check in
            ["open_files", "master_key", "schema", "store_settings", "secrets", "clock", "audit.shards"]
        {
            assert_eq!(told.level(check), "ok", "{check}: {told:?}");
        }
        assert_eq!(
            told.findings["findings"].as_array().unwrap().iter().filter(|it| it["count"] == 0).count(),
            5
        );
        if database == Database::Sqlite {
            assert_eq!(told.level("integrity"), "ok");
            assert_eq!(told.level("free_pages"), "ok");
        }
        let words = place.run(&["doctor"]).await;
        assert!(words.status.success());
        assert!(text(&words.stdout).contains("ok       schema"), "{words:?}");
    }
}

#[tokio::test]
async fn a_running_server_tells_an_operator_what_the_doctor_would() {
    for database in [Database::Sqlite, Database::Postgres] {
        let place = Place::on(database);
        let mut node = place.dev().await;
        assert!(node.signal("TERM").await.success());
        let operator = place.line(&["keys", "create", "--operator"]).await;
        let node = place.dev().await;
        let told = node.client().with_key(&operator).unwrap().raw("/v1/doctor").await.unwrap();
        let told: Value = serde_json::from_slice(&told).unwrap();
        assert_eq!(told["ok"], true, "{told}");
        let level = |check: &str| {
            let found = told["findings"].as_array().unwrap().iter().find(|it| it["check"] == check);
            found.map(|it| it["level"].as_str().unwrap().to_owned())
        };
        for check in
            ["loops", "open_files", "data_folder", "schema", "store_settings", "secrets", "store_size"]
        {
            assert_eq!(level(check).as_deref(), Some("ok"), "{check}: {told}");
        }
        assert_eq!(level("rights").is_some(), database == Database::Postgres);
        let size =
            told["findings"].as_array().unwrap().iter().find(|it| it["check"] == "store_size").unwrap();
        let said = if database == Database::Sqlite { "in its log" } else { "partitions" };
        assert!(size["detail"].as_str().unwrap().contains(said), "{size}");
    }
}

#[tokio::test]
async fn a_look_before_the_first_start_makes_nothing() {
    let place = Place::new();
    let told = doctor(&place, &[]).await;
    // The master key is missing, and there is no store yet.
    assert_eq!((told.code, told.level("master_key"), told.level("schema")), (Some(1), "problem", "warning"));
    assert!(!place.data_dir().exists());
    let refused = place.run(&["backup", "copy.db"]).await;
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(text(&refused.stderr).contains("there is no store at"), "{refused:?}");
}

#[tokio::test]
async fn another_master_key_is_noticed() {
    let place = Place::new();
    let mut node = place.dev().await;
    let key = place.line(&["keys", "master"]).await;
    let mut command = place.command(&["doctor", "--json"]);
    command.env("POSTHASTE_MASTER_KEYS", key);
    let told = Told::of(&output(command).await);
    assert_eq!((told.code, told.level("secrets")), (Some(1), "problem"), "{told:?}");
    assert!(node.signal("TERM").await.success());
}

#[tokio::test]
async fn settings_that_may_forget_are_code_4() {
    let place = Place::new();
    assert!(place.run(&["migrate"]).await.status.success());
    let url = format!("sqlite:{}?synchronous=normal", place.data_dir().join("posthaste.db").display());
    let told = doctor(&place, &["--database", &url]).await;
    assert_eq!((told.code, told.level("store_settings")), (Some(4), "unsafe"), "{told:?}");
    let refused = place.run(&["serve", "--dev", "--listen", "127.0.0.1:0", "--database", &url]).await;
    assert_eq!(refused.status.code(), Some(4), "{refused:?}");
    let said = text(&refused.stderr);
    assert!(said.contains("synchronous = normal") && said.contains("--accept-data-loss"), "{said}");
    assert!(!place.data_dir().join("posthaste.db?synchronous=normal").exists());

    let serve = ["serve", "--dev", "--listen", "127.0.0.1:0", "--accept-data-loss", "--database", &url];
    let node = Node::start(place.command(&serve)).await;
    let ready = node.client().readiness().await.unwrap();
    assert!(ready.ready && ready.detail.to_string().contains("synchronous = normal"), "{ready:?}");
}

#[tokio::test]
async fn a_damaged_file_is_code_3_and_named() {
    let place = Place::new();
    let mut node = place.dev().await;
    assert!(node.signal("TERM").await.success());
    // A copy has no log beside it: everything is in the one file.
    assert!(place.run(&["backup", "damaged.db"]).await.status.success());
    let path = place.path().join("damaged.db");
    let mut bytes = fs::read(&path).unwrap();
    for at in (4096..bytes.len()).step_by(4096) {
        bytes[at + 4] ^= 0x7f;
    }
    fs::write(&path, bytes).unwrap();
    let url = format!("sqlite:{}", path.display());
    let told = doctor(&place, &["--database", &url]).await;
    assert_eq!(told.code, Some(3), "{told:?}");
    assert!(told.findings.to_string().contains("damaged"), "{told:?}");
    let refused = place.run(&["backup", "copy.db", "--database", &url]).await;
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    assert!(!place.path().join("copy.db").exists() && !place.path().join("copy.db.part").exists());
}

#[tokio::test]
async fn a_database_that_is_away_is_told_and_is_no_damage() {
    let place = Place::new();
    let url = "postgres://nobody@127.0.0.1:1/none";
    let told = doctor(&place, &["--database", url]).await;
    assert_eq!((told.code, told.level("schema")), (Some(1), "problem"), "{told:?}");
}

#[tokio::test]
async fn a_backup_is_restored_by_starting_on_it() {
    let place = Place::new();
    let node = place.dev().await;
    let client = node.client();
    let destination = deliver_to(&client, "http://127.0.0.1:9/nobody").await;
    client.pause(destination.id).await.unwrap();
    let event = client.publish(&Publish::json("a.b", r#"{"n":1}"#).unwrap()).await.unwrap();
    let line = place.line(&["backup", "copy.db", "--json"]).await;
    let line: Value = serde_json::from_str(&line).unwrap();
    let copy = place.path().join("copy.db");
    assert_eq!(line["bytes"], fs::metadata(&copy).unwrap().len());
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    let refused = place.run(&["backup", "copy.db"]).await;
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    client.publish(&Publish::json("a.b", r#"{"n":2}"#).unwrap()).await.unwrap();
    node.kill().await;

    // The keys lie beside the store, and stay.
    for ending in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(place.data_dir().join(format!("posthaste.db{ending}")));
    }
    fs::rename(copy, place.data_dir().join("posthaste.db")).unwrap();
    let mut node = place.dev().await;
    let client = node.client();
    assert_eq!(
        client.events(&client::EventQuery::default(), None).await.unwrap().data.len(),
        1,
        "as of the backup"
    );
    let waiting = client.event(event.id).await.unwrap().deliveries;
    assert_eq!(waiting.len(), 1, "and what waited then waits again");
    assert!(node.signal("TERM").await.success());
    // Nobody is there: the same from the file alone.
    assert!(place.run(&["backup", "cold.db"]).await.status.success());
}

#[tokio::test]
async fn postgres_is_backed_up_by_its_own_tools() {
    let place = Place::on(Database::Postgres);
    let refused = place.run(&["backup", "copy.db"]).await;
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(text(&refused.stderr).contains("pg_dump"), "{refused:?}");
}

#[derive(Debug)]
struct Told {
    code: Option<i32>,
    findings: Value,
}

impl Told {
    fn of(run: &std::process::Output) -> Self {
        let findings = serde_json::from_slice(&run.stdout).unwrap_or_else(|_| panic!("no JSON: {run:?}"));
        Self { code: run.status.code(), findings }
    }

    fn level(&self, check: &str) -> &str {
        let all = self.findings["findings"].as_array().expect("a list");
        let found = all.iter().find(|finding| finding["check"] == check);
        found.and_then(|finding| finding["level"].as_str()).unwrap_or("not there")
    }
}

async fn doctor(place: &Place, arguments: &[&str]) -> Told {
    let mut all = vec!["doctor", "--json"];
    all.extend(arguments);
    Told::of(&place.run(&all).await)
}
