//! `bench`: it measures what it says, on both stores, and leaves nothing behind.

use crate::node::{Place, text};
use serde_json::Value;
use std::fs;
use store::postgres::SCRATCH;

/// The value of a figure in the only scenario.
fn median(report: &Value, name: &str) -> f64 {
    let figures = report["scenarios"][0]["figures"].as_array().unwrap();
    let figure = figures.iter().find(|figure| figure["name"] == name);
    figure.unwrap_or_else(|| panic!("no {name} in {figures:?}"))["median"].as_f64().unwrap()
}

async fn measured(place: &Place, scenario: &str, more: &[&str]) -> Value {
    let mut arguments = vec!["bench", scenario, "--json", "--rounds", "1", "--time", "1s"];
    arguments.extend(more);
    let ran = place.run(&arguments).await;
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    assert!(!place.path().join("posthaste-bench").exists(), "the folder is removed");
    serde_json::from_slice(&ran.stdout).unwrap()
}

#[tokio::test]
async fn throughput_is_told_beside_the_relay_and_nothing_is_lost() {
    let place = Place::new();
    let report = measured(&place, "one", &[]).await;
    for figure in ["events", "relay", "of the relay's events/s", "CPU of the node a delivery", "arrived p99"]
    {
        assert!(median(&report, figure) > 0.0, "{figure}: {report}");
    }
    assert_eq!((median(&report, "lost"), median(&report, "twice")), (0.0, 0.0));

    let kept = place.path().join("one.json");
    fs::write(&kept, report.to_string()).unwrap();
    let kept = kept.display().to_string();
    let compared: Value =
        serde_json::from_str(&place.line(&["bench", "--json", "--compare", &kept, &kept]).await).unwrap();
    assert!(compared.as_array().unwrap().iter().all(|one| one["verdict"] == "same"), "{compared}");
}

#[tokio::test]
async fn a_crash_loses_nothing_that_was_answered() {
    let report = measured(&Place::new(), "crash", &[]).await;
    assert!(median(&report, "events answered with 2xx") > 0.0);
    assert_eq!(median(&report, "lost"), 0.0);
}

#[tokio::test]
async fn on_postgres_it_has_a_schema_of_its_own_and_takes_it_away() {
    let url = std::env::var("POSTHASTE_TEST_POSTGRES").expect("a PostgreSQL: scripts/postgres with …");
    let report = measured(&Place::new(), "idle", &["--database", &url, "--nodes", "2"]).await;
    assert!(median(&report, "arrived p50") > 0.0);
    assert!(median(&report, "CPU of the database an event") > 0.0, "it is on this machine");
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    // Another test may have one at this moment; ours is not among those that stay.
    let sql = "select count(*) from pg_namespace where nspname like $1 || '%'";
    let left: i64 = client.query_one(sql, &[&SCRATCH]).await.unwrap().get(0);
    assert_eq!(left, 0);
}

#[tokio::test]
async fn a_running_server_is_measured_and_left_as_it_was() {
    let place = Place::new();
    let node = place.dev().await;
    let (url, key) = (node.url.clone(), node.key());
    let before = node.client().destinations(None).await.unwrap().data.len();
    let report = measured(&Place::new(), "fanout", &["--url", &url, "--key", &key]).await;
    assert_eq!(median(&report, "lost"), 0.0);
    assert!(median(&report, "CPU of the node a delivery") > 0.0);
    assert_eq!(node.client().destinations(None).await.unwrap().data.len(), before);
    let refused = place.run(&["bench", "crash", "--url", &url, "--key", &key]).await;
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
}
