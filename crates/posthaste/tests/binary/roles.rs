//! Roles: who listens, who delivers, and that they find each other.

use crate::node::{Database, LONG, Node, Place, deliver_to, ended, output, text};
use client::{Client, NewDestination, NewRoute, NodeStatus, Publish, TestEvent};
use domain::{delivery::Status, lane::WaitKind, member::Role, outcome::Outcome};
use lab::{Receiver, Reply, Script};
use serde_json::Value;
use std::time::Duration;
use tokio::time::timeout;

#[tokio::test]
async fn an_embedded_store_is_not_shared() {
    for role in ["api", "worker"] {
        let refused = Place::new().run(&["serve", "--role", role, "--listen", "127.0.0.1:0"]).await;
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(text(&refused.stderr).contains("needs a PostgreSQL database"), "{refused:?}");
    }
}

/// Two processes on one database, with the same keys and a folder each.
struct Pair {
    place: Place,
    master: String,
    api_key: String,
    operator_key: String,
}

impl Pair {
    async fn new() -> Self {
        let place = Place::on(Database::Postgres);
        let master = place.line(&["keys", "master"]).await;
        let api_key = place.line(&["keys", "generate"]).await;
        let operator_key = place.line(&["keys", "generate", "--kind", "operator"]).await;
        Self { place, master, api_key, operator_key }
    }

    async fn start(&self, role: &str) -> Node {
        let mut command = self.place.command(&["serve", "--listen", "127.0.0.1:0", "--role", role]);
        command
            .args(["--node-name", role, "--data-dir", &format!("./{role}")])
            .args(["--egress-allow", "127.0.0.0/8", "--egress-allow-http", "true"])
            .env("POSTHASTE_MASTER_KEYS", &self.master)
            .env("POSTHASTE_BOOTSTRAP_API_KEY", &self.api_key)
            .env("POSTHASTE_BOOTSTRAP_OPERATOR_KEY", &self.operator_key);
        Node::start(command).await
    }
}

#[tokio::test]
async fn what_is_due_while_no_node_delivers_is_a_problem_to_the_audit() {
    let pair = Pair::new().await;
    let api = pair.start("api").await;
    let client = Client::new(&api.url, &pair.api_key).unwrap();
    let audit = async || {
        let mut command = pair.place.command(&["doctor", "--audit", "--json"]);
        // Overdue after two of them.
        command.env("POSTHASTE_RESCAN", "100ms").env("POSTHASTE_MASTER_KEYS", &pair.master);
        let run = output(command).await;
        let told: Value = serde_json::from_slice(&run.stdout).unwrap_or_else(|_| panic!("no JSON: {run:?}"));
        let findings = told["findings"].as_array().expect("a list").iter();
        let shards =
            findings.filter(|finding| finding["check"] == "audit.shards").cloned().collect::<Vec<_>>();
        (run.status.code(), shards)
    };
    let (code, shards) = audit().await;
    assert_eq!((code, &shards[0]["level"]), (Some(0), &Value::from("warning")), "{shards:?}");

    deliver_to(&client, "http://127.0.0.1:9/nobody").await;
    client.publish(&Publish::json("a", "1").unwrap()).await.unwrap();
    let judged = async {
        loop {
            let (code, shards) = audit().await;
            if shards[0]["level"] == "problem" {
                return (code, shards);
            }
        }
    };
    let (code, shards) = timeout(LONG, judged).await.expect("it is overdue in the end");
    assert_eq!(code, Some(1), "{shards:?}");
    assert!(shards[0]["detail"].to_string().contains("no node is there that delivers"), "{shards:?}");
    assert!(shards[0]["fix"].to_string().contains("posthaste serve"), "{shards:?}");
    assert_eq!(shards[0]["examples"].as_array().map(Vec::len), Some(1), "{shards:?}");
}

#[tokio::test]
async fn a_test_takes_a_slot_on_the_node_that_delivers() {
    let pair = Pair::new().await;
    let (api, worker) = (pair.start("api").await, pair.start("worker").await);
    let client = Client::new(&api.url, &pair.api_key).unwrap();
    let receiver = Receiver::local(Reply::ok().after(Duration::from_millis(200)));
    let destination =
        NewDestination { max_concurrency: Some(1), ..NewDestination::new("test", &receiver.url("/hook")) };
    let destination = client.create_destination(&destination).await.unwrap().id;
    client.create_route(&NewRoute::to(destination)).await.unwrap();
    for _ in 0..5 {
        client.publish(&Publish::json("a", "1").unwrap()).await.unwrap();
    }
    assert!(receiver.wait_for(1, LONG).await);
    let (quick, forced) = (TestEvent::default(), TestEvent { force: true, ..TestEvent::default() });
    let (first, second) = tokio::join!(client.test(destination, &quick), client.test(destination, &forced));
    assert_eq!((first.unwrap().outcome, second.unwrap().outcome), (Outcome::Success, Outcome::Success));
    assert!(receiver.wait_for_succeeded(7, LONG).await);
    assert_eq!(receiver.max_open("/hook"), 1, "of deliveries and tests together");

    client.disable(destination).await.unwrap();
    let waits_for = async |test: &TestEvent| {
        let refused = client.test(destination, test).await.expect_err("it is not sent");
        let problem = refused.problem().expect("a problem").clone();
        assert_eq!(problem.code, "test_not_sent", "{problem}");
        problem.waiting_for.expect("what it waits for").kind
    };
    assert_eq!(waits_for(&quick).await, WaitKind::Capacity);
    drop(worker);
    assert_eq!(waits_for(&forced).await, WaitKind::NoWorker);
}

#[tokio::test]
async fn one_listens_and_the_other_delivers() {
    let pair = Pair::new().await;
    let (mut api, mut worker) = (pair.start("api").await, pair.start("worker").await);
    let client = Client::new(&api.url, &pair.api_key).unwrap();
    let receiver = Receiver::local(Script::ok());
    deliver_to(&client, &receiver.url("/hook")).await;
    let event = client.publish(&Publish::json("a", "1").unwrap()).await.unwrap().id;
    let deliveries = ended(&client, event).await;
    assert_eq!(deliveries[0].status, Status::Delivered);

    let operator = client.with_key(&pair.operator_key).unwrap();
    let owned = async {
        loop {
            let nodes = operator.nodes().await.unwrap().data;
            if nodes.iter().map(|node| node.shards).sum::<u32>() == 1_024 {
                return nodes;
            }
            // The API has no signal for this: ask again.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let nodes = timeout(LONG, owned).await.expect("every shard is owned in the end");
    let shares: Vec<_> =
        nodes.iter().map(|node| (node.name.as_str(), node.role, node.status, node.shards)).collect();
    assert_eq!(
        shares,
        [("api", Role::Api, NodeStatus::Active, 0), ("worker", Role::Worker, NodeStatus::Active, 1_024)]
    );
    assert!(nodes.iter().all(|node| node.address.as_deref().is_some_and(|at| at.starts_with("127.0.0.1:"))));

    // A worker says how it is, and whom it is not: a balancer that asks it by mistake tries the next.
    let at_worker = Client::new(&worker.url, &pair.api_key).unwrap();
    assert!(at_worker.readiness().await.unwrap().ready);
    for path in ["/v1/events", "/openapi.json", "/v1/nodes", "/nothing"] {
        let refused = at_worker.raw(path).await.unwrap_err().to_string();
        assert!(refused.contains("this node only delivers") && refused.contains("503"), "{path}: {refused}");
    }
    let refused = at_worker.publish(&Publish::json("a", "1").unwrap()).await.unwrap_err().to_string();
    assert!(refused.contains("this node only delivers") && refused.contains("503"), "{refused}");
    let refused = at_worker.raw("/readyz?for=ingest").await.unwrap_err().to_string();
    assert!(refused.contains("503"), "{refused}");
    client.raw("/readyz?for=ingest").await.expect("who takes events says so");
    for node in [&at_worker, &client] {
        let refused = node.raw("/readyz?for=tea").await.unwrap_err().to_string();
        assert!(refused.contains("400") && refused.contains("ingest"), "{refused}");
    }
    assert!(worker.signal("TERM").await.success());
    assert!(api.signal("TERM").await.success());
}
