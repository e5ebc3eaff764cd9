//! Dead letters are had again: one, an event's, and all of them, with the node killed in between.

use crate::node::{Database, LONG, Place, deliver_to};
use client::{Client, DeliveryQuery, Publish, ReplayInput, ReplayView};
use domain::{
    delivery::Status,
    id::{DestinationId, ReplayId},
    outcome::DeadReason,
    replay::ReplayStatus,
};
use lab::{Receiver, Reply};
use std::{collections::HashSet, time::Duration};
use tokio::time::{sleep, timeout};

const EVENTS: usize = 60;

#[tokio::test]
async fn dead_letters_are_replayed_on_sqlite() {
    dead_letters_are_replayed(Database::Sqlite).await;
}

#[tokio::test]
async fn dead_letters_are_replayed_on_postgres() {
    dead_letters_are_replayed(Database::Postgres).await;
}

async fn dead_letters_are_replayed(database: Database) {
    let place = Place::on(database);
    let node = place.dev().await;
    let receiver = Receiver::local(Reply::status(404));
    let client = node.client();
    let destination = deliver_to(&client, &receiver.url("/hook")).await.id;
    let events: Vec<Publish> =
        (0..EVENTS).map(|n| Publish::json("replay.test", n.to_string()).unwrap()).collect();
    client.publish_batch(&events).await.unwrap();
    until(async || groups(&client).await == [(destination, DeadReason::Rejected, Some(404), EVENTS as u64)])
        .await;
    receiver.default_script(Reply::ok());

    let dead = DeliveryQuery { status: vec![Status::DeadLetter], ..DeliveryQuery::default() };
    let dead = client.deliveries(&dead, None).await.unwrap().data;
    let one = client.replay_delivery(dead[0].id).await.unwrap().delivery;
    assert_eq!((one.replay_of, one.event_id), (Some(dead[0].id), dead[0].event_id));
    until(async || client.delivery(one.id).await.unwrap().delivery.status == Status::Delivered).await;
    let of_one = one.replay_id.expect("it is of a replay");
    assert_eq!(client.replay(of_one).await.unwrap().delivered, 1);
    let of_event = client.replay_event(dead[1].event_id).await.unwrap();
    delivered(&client, of_event.id, 1).await;

    // All that is left, slowly enough to be killed in the middle: those two are settled.
    let left = EVENTS - 2;
    until(async || groups(&client).await.iter().map(|group| group.3).sum::<u64>() == left as u64).await;
    let asked = ReplayInput {
        filter: Some(DeliveryQuery { destination_id: vec![destination], ..DeliveryQuery::default() }),
        rate: Some(20),
        ..ReplayInput::default()
    };
    let estimate = client.estimate_replay(&asked).await.unwrap();
    assert_eq!((estimate.matched, estimate.estimated_seconds), (left as u64, (left as u64).div_ceil(20)));
    let all = client.create_replay(&asked, Some("all")).await.unwrap();
    until(async || client.replay(all.id).await.unwrap().created > 0).await;
    node.kill().await;
    let node = place.dev().await;
    let client = node.client();
    assert_eq!(
        client.create_replay(&asked, Some("all")).await.unwrap().id,
        all.id,
        "it was asked for already"
    );
    let told = delivered(&client, all.id, left as u64).await;
    assert_eq!((told.created, told.skipped, told.matched), (left as u64, 0, left as u64));
    assert_eq!((told.status, told.dead_letter), (ReplayStatus::Completed, 0));

    let made = DeliveryQuery { replay_id: vec![all.id], ..DeliveryQuery::default() };
    let made = client.deliveries(&made, None).await.unwrap().data;
    let origins: HashSet<_> = made.iter().map(|made| made.replay_of).collect();
    assert_eq!((made.len(), origins.len()), (left, left), "each once");
    let id: Option<&str> = Some(&all.id.to_string());
    let sent = receiver.snapshot();
    let events: HashSet<_> =
        sent.iter().filter(|it| it.replay.as_deref() == id).map(|it| &it.event_id).collect();
    assert_eq!(events.len(), left, "`webhook-id` is the event's id, `posthaste-replay` the replay's");
    assert_eq!(groups(&client).await, [], "all are settled");
    assert_eq!(client.estimate_replay(&asked).await.unwrap().matched, 0, "the same again sends nothing");
    let dead = DeliveryQuery { status: vec![Status::DeadLetter], ..DeliveryQuery::default() };
    let dead = client.deliveries(&dead, None).await.unwrap().data;
    assert_eq!(dead.len(), EVENTS, "dead letters stay what they are");
    assert!(dead.iter().all(|dead| dead.resolved_at.is_some() && dead.resolved_by.is_some()));
    drop(node);
}

async fn groups(client: &Client) -> Vec<(DestinationId, DeadReason, Option<u16>, u64)> {
    let groups = client.dead_letter_groups(None).await.unwrap().data;
    groups.into_iter().map(|it| (it.destination_id, it.reason, it.http_status, it.count)).collect()
}

async fn delivered(client: &Client, replay: ReplayId, count: u64) -> ReplayView {
    until(async || client.replay(replay).await.unwrap().delivered == count).await;
    client.replay(replay).await.unwrap()
}

async fn until(holds: impl AsyncFn() -> bool) {
    let asking = async {
        while !holds().await {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LONG, asking).await.expect("it comes to pass");
}
