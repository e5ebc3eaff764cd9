//! A panic in a loop of the binary or a thread of the store: the node ends, or goes on, as the table says. Those of engine
//! and API are tried where they are at home.

use crate::node::{LONG, Node, Place, deliver_to};
use client::{Client, Publish};
use lab::{Receiver, Script};
use serde_json::Value;
use std::{
    fs::{self, File},
    net::TcpListener,
    time::Duration,
};
use supervisor::{Crate, Loop, TABLE};
use tokio::time::{sleep, timeout};

#[tokio::test]
async fn a_panic_in_a_loop_of_the_binary_ends_the_node_or_not_as_the_table_says() {
    for entry in TABLE.iter().filter(|entry| matches!(entry.home, Crate::Posthaste | Crate::Store)) {
        match entry.id {
            Loop::Server => the_node_ends_with_its_server().await,
            Loop::AdminServer => the_node_ends_with_its_admin_server().await,
            Loop::TraceExporter => the_exporter_goes_on().await,
            Loop::SqliteWriter => the_node_ends_with_its_store().await,
            // Nothing asks for it before the log is long: tried in the store, beside the writer.
            Loop::SqliteCopier => {}
            other => panic!("{other} has no trial"),
        }
    }
}

/// `serve --dev` that panics at a place; its log is in the file `log`.
async fn start(place: &Place, fail: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Node {
    let mut command = place.command(&["serve", "--dev", "--listen", "127.0.0.1:0", "--shutdown-grace", "1s"]);
    command.args(arguments).envs(variables.iter().copied()).env("POSTHASTE_FAIL", fail);
    command.stderr(File::create(place.path().join("log")).expect("a file for the log"));
    Node::start(command).await
}

/// It has ended with an error, for this reason, and the log has the panic with the loop's name.
async fn ended_by(place: &Place, mut node: Node, in_loop: Option<&str>, reason: &str) {
    assert_eq!(node.ended().await.code(), Some(1));
    let log = fs::read_to_string(place.path().join("log")).expect("the log");
    assert!(log.lines().last().is_some_and(|last| last.contains(reason)), "{log}");
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let panic = lines.into_iter().find(|line| line["message"] == "a panic: this is a fault of the program");
    let panic = panic.unwrap_or_else(|| panic!("no panic in {log}"));
    assert_eq!(panic["loop"].as_str(), in_loop, "{panic}");
    assert!(panic["place"].as_str().is_some_and(|place| place.contains("failpoint.rs")), "{panic}");
    assert!(panic["backtrace"].as_str().is_some_and(|trace| trace.contains("failpoint::")), "{panic}");
}

async fn the_node_ends_with_its_server() {
    let place = Place::new();
    let node = start(&place, "server:panic:3", &[], &[]).await;
    for _ in 0..3 {
        // Each by a client of its own: on a connection of its own.
        let _ = node.client().own_account().await;
    }
    ended_by(&place, node, Some("server"), "server panicked").await;
}

async fn the_node_ends_with_its_admin_server() {
    let place = Place::new();
    let admin = {
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        free.local_addr().expect("its address").to_string()
    };
    let node = start(&place, "admin_server:panic:1", &["--admin-listen", &admin], &[]).await;
    let _ = Client::without_key(&format!("http://{admin}")).expect("a URL").raw("/metrics").await;
    ended_by(&place, node, Some("admin_server"), "admin_server panicked").await;
}

async fn the_exporter_goes_on() {
    let place = Place::new();
    let collector = Receiver::local(Script::ok());
    let endpoint = collector.url("");
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str())];
    let mut node = start(&place, "trace_exporter:panic:1", &[], &variables).await;
    let receiver = Receiver::local(Script::ok());
    let client = node.client();
    deliver_to(&client, &receiver.url("/hook")).await;
    timeout(LONG, async {
        while collector.total() == 0 {
            client.publish(&Publish::json("some.thing", "{}").expect("an event")).await.expect("accepted");
            sleep(Duration::from_millis(50)).await;
        }
    })
    .await
    .expect("spans are exported again");
    let metrics = client.raw("/metrics").await.expect("metrics");
    let metrics = String::from_utf8(metrics.to_vec()).expect("text");
    assert!(metrics.contains("posthaste_loop_deaths_total{loop=\"trace_exporter\"} 1\n"), "{metrics}");
    assert!(!metrics.contains("posthaste_trace_spans_dropped_total 0\n"), "what it had in hand is counted");
    assert!(node.signal("TERM").await.success());
}

async fn the_node_ends_with_its_store() {
    let place = Place::new();
    let node = start(&place, "store.commit.before:panic:40", &[], &[]).await;
    let receiver = Receiver::local(Script::ok());
    let client = node.client();
    deliver_to(&client, &receiver.url("/hook")).await;
    let mut accepted = 0;
    let event = Publish::json("some.thing", "{}").expect("an event");
    while client.publish(&event).await.is_ok() {
        accepted += 1;
    }
    // No answer after the last one says that all is well.
    assert!(client.publish(&event).await.is_err());
    ended_by(&place, node, None, "the writer").await;
    let _node = place.dev().await;
    assert!(receiver.wait_for_succeeded(accepted, LONG).await, "{} of {accepted}", receiver.succeeded());
}
