//! `audit verify`: the audit log from outside, as it was written and as somebody has changed it.

use crate::node::{Database, Place, deliver_to, text};
use serde_json::Value;
use std::fs;

#[tokio::test]
async fn a_log_that_nobody_has_changed_holds_beside_its_server() {
    for database in [Database::Sqlite, Database::Postgres] {
        let place = Place::on(database);
        let node = place.dev().await;
        deliver_to(&node.client(), "http://127.0.0.1:9/nobody").await;
        let told: Value = serde_json::from_str(&place.line(&["audit", "verify", "--json"]).await).unwrap();
        assert_eq!(told["ok"], true, "{told}");
        let chains = told["chains"].as_array().unwrap();
        let of_account = chains.iter().find(|chain| chain["account_id"].is_string()).expect("an account's");
        // The account, its key, a destination and a route.
        assert!(of_account["entries"].as_i64() >= Some(4), "{told}");
        let id = of_account["account_id"].as_str().unwrap();
        let line = place.line(&["audit", "verify", "--account", id]).await;
        assert!(line.contains(of_account["last_hash"].as_str().unwrap()), "{line}");
    }
}

#[tokio::test]
async fn an_entry_that_was_changed_by_hand_is_named() {
    let place = Place::new();
    let node = place.dev().await;
    deliver_to(&node.client(), "http://127.0.0.1:9/nobody").await;
    // All of it is in one file there, and nothing is left in a log.
    assert!(place.run(&["backup", "copy.db"]).await.status.success());
    let file = place.path().join("copy.db");
    let url = format!("sqlite:{}", file.display());
    assert!(place.run(&["audit", "verify", "--database", &url]).await.status.success());
    let mut bytes = fs::read(&file).unwrap();
    let (old, new) = (b"create_destination", b"delete_destination");
    let places: Vec<usize> =
        bytes.windows(old.len()).enumerate().filter(|(_, found)| found == old).map(|it| it.0).collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at..at + new.len()].copy_from_slice(new);
    }
    fs::write(&file, bytes).unwrap();
    let found = place.run(&["audit", "verify", "--database", &url]).await;
    assert_eq!(found.status.code(), Some(1), "{found:?}");
    assert!(text(&found.stdout).contains("is not what was written"), "{found:?}");
    assert!(text(&found.stderr).contains("1 of the chains do not hold"), "{found:?}");
}

#[tokio::test]
async fn where_there_is_no_store_there_is_nothing_to_check() {
    let place = Place::new();
    let refused = place.run(&["audit", "verify"]).await;
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}

#[tokio::test]
async fn an_account_that_is_not_there_has_no_log_that_holds() {
    for database in [Database::Sqlite, Database::Postgres] {
        let place = Place::on(database);
        let _node = place.dev().await;
        let asked = ["audit", "verify", "--account", "acc_01h455vb4pex5vsknk084sn02q"];
        let refused = place.run(&asked).await;
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(
            text(&refused.stderr).contains("nothing was ever written down of acc_01h455vb4p"),
            "{refused:?}"
        );
    }
}
