//! An ordered destination, through a crash: what is scheduled takes its turn when its time comes, and a dead letter
//! pauses what comes behind it until somebody says otherwise.

use crate::node::{Database, LONG, Place, ended};
use client::{Client, DestinationStatus, NewDestination, NewRoute, Publish};
use domain::{
    delivery::Status,
    destination::{OnDeadLetter, Ordering},
    id::EventId,
    time::Timestamp,
};
use lab::{Receiver, Recording, Reply, Script};
use std::time::{Duration, SystemTime};

/// How long the scheduled event waits: longer than a node takes to die and to come back.
const LATER: Duration = Duration::from_secs(4);

#[tokio::test]
async fn order_outlives_its_node_on_sqlite() {
    order_outlives_its_node(Database::Sqlite).await;
}

#[tokio::test]
async fn order_outlives_its_node_on_postgres() {
    order_outlives_its_node(Database::Postgres).await;
}

async fn order_outlives_its_node(database: Database) {
    let place = Place::on(database);
    let node = place.dev().await;
    let receiver = Receiver::local(Reply::ok());
    receiver.recording(Recording::FullWithBodies);
    let refuse_bad = |seen: &lab::ScriptedRequest<'_>| match seen.body.as_ref() {
        b"\"bad\"" => Reply::status(400),
        _ => Reply::ok(),
    };
    receiver.script("/hook", Script::custom(refuse_bad));
    let client = node.client();
    let ordered = NewDestination {
        ordering: Ordering::Strict,
        on_dead_letter: OnDeadLetter::Pause,
        ..NewDestination::new("ordered", &receiver.url("/hook"))
    };
    let destination = client.create_destination(&ordered).await.unwrap().id;
    client.create_route(&NewRoute::to(destination)).await.unwrap();

    publish(&client, "later", Some(LATER)).await;
    publish(&client, "1", None).await;
    ended(&client, publish(&client, "2", None).await).await;
    node.kill().await;

    let node = place.dev().await;
    let client = node.client();
    publish(&client, "3", None).await;
    assert!(receiver.wait_for_succeeded(4, LONG).await, "what was scheduled comes after the crash as well");
    let bad = publish(&client, "bad", None).await;
    let behind = publish(&client, "behind", None).await;
    assert_eq!(ended(&client, bad).await[0].status, Status::DeadLetter);
    assert_eq!(client.destination(destination).await.unwrap().status, DestinationStatus::Paused);
    let waiting = client.event(behind).await.unwrap().deliveries;
    assert_eq!(waiting[0].status, Status::Queued);
    assert_eq!(arrived(&receiver), ["1", "2", "3", "later", "bad"]);

    client.resume(destination).await.unwrap();
    let delivered = ended(&client, behind).await;
    assert_eq!((delivered[0].status, delivered[0].sequence), (Status::Delivered, Some(6)));
    assert_eq!(arrived(&receiver), ["1", "2", "3", "later", "bad", "behind"]);
    assert_eq!(receiver.max_open("/hook"), 1);
}

async fn publish(client: &Client, data: &str, later: Option<Duration>) -> EventId {
    let mut event = Publish::json("order.test", format!("\"{data}\"")).unwrap();
    event.deliver_at = later.map(|later| {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        Timestamp::from_micros(since.as_micros() as i64).plus(later)
    });
    client.publish(&event).await.unwrap().id
}

/// The bodies, in the order they came, each once: what was open when the node died comes again.
fn arrived(receiver: &Receiver) -> Vec<String> {
    let mut records = receiver.snapshot();
    records.sort_by_key(|record| record.start_us);
    let body =
        |record: &lab::Record| String::from_utf8_lossy(&record.kept.as_ref().unwrap().body).into_owned();
    let mut bodies: Vec<String> = records.iter().map(|it| body(it).trim_matches('"').to_owned()).collect();
    bodies.dedup();
    bodies
}
