//! Too much at once: limits of keys and sources, a backlog that is full, and that the others do not notice.

use crate::world::{Answer, NOW, TOKEN, World};
use axum::body::Body;
use domain::{
    account::{Account, KeyKind, Quotas},
    id::AttemptId,
    limits,
    source::Source,
    testing::audit_entry,
};
use futures_util::stream;
use serde_json::json;
use std::time::Duration;
use store::BacklogCap;
use store::{Catalog as _, DeliveryFilter, History as _, Page, Queue as _};
use tokio::time::{advance, sleep};

const EVENT: &str = r#"{"type":"a","data":1}"#;

/// A key of the account that may bring in so many events a second.
async fn limited_key(world: &World, per_second: u32) -> String {
    let body = json!({ "name": "limited", "rate_limit": per_second }).to_string();
    let made = world.publish("/v1/api-keys", &world.key, body).await;
    assert_eq!((made.status.as_u16(), &made.body["rate_limit"]), (201, &json!(per_second)), "{}", made.body);
    made.body["key"].as_str().unwrap().to_owned()
}

/// As another node would: seen here when what is remembered of the source is old.
async fn limit_source(world: &World, per_second: Option<u32>) {
    let source = world.store.source(world.account, world.source.id).await.unwrap();
    world.store.update_source(&Source { rate_limit: per_second, ..source }, &audit_entry()).await.unwrap();
    advance(limits::CREDENTIAL_FRESH).await;
}

async fn look_again() {
    sleep(limits::BACKLOG_LOOK + Duration::from_millis(1)).await;
}

#[track_caller]
fn is_limited(answer: &Answer, retry_after: &str) {
    answer.is(429, "rate_limited");
    assert_eq!(answer.headers["retry-after"], retry_after);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_too_fast_is_told_to_wait_and_no_other_is() {
    let world = World::new().await;
    let (fast, other) = (limited_key(&world, 2).await, limited_key(&world, 2).await);
    let first = world.publish("/v1/events", &fast, EVENT).await;
    first.accepted("queued", 1);
    assert_eq!(first.headers["ratelimit-policy"], "\"key\";q=2;w=1");
    assert_eq!(first.headers["ratelimit"], "\"key\";r=1;t=1");
    world.publish("/v1/events", &fast, EVENT).await.accepted("queued", 1);

    let refused = world.publish("/v1/events", &fast, EVENT).await;
    is_limited(&refused, "1");
    assert_eq!(refused.headers["ratelimit"], "\"key\";r=0;t=1");
    world.publish("/v1/events", &other, EVENT).await.accepted("queued", 1);
    let unlimited = world.publish("/v1/events", &world.key, EVENT).await;
    unlimited.accepted("queued", 1);
    assert!(!unlimited.headers.contains_key("ratelimit"));

    advance(Duration::from_millis(500)).await;
    world.publish("/v1/events", &fast, EVENT).await.accepted("queued", 1);
    assert_eq!(world.events().await.len(), 5, "what was refused is not stored");
}

#[tokio::test(start_paused = true)]
async fn a_source_has_a_limit_of_its_own() {
    let world = World::new().await;
    limit_source(&world, Some(1)).await;
    world.ingest(TOKEN, &[], "first").await.accepted("queued", 1);
    is_limited(&world.ingest(TOKEN, &[], "second").await, "1");
    // By either way in.
    let (key, _) = world.new_key(KeyKind::Ingest, Some(world.source.id)).await;
    is_limited(&world.publish("/v1/events", &key, EVENT).await, "1");
    world.publish("/v1/events", &world.key, EVENT).await.accepted("queued", 1);
    limit_source(&world, None).await;
    world.ingest(TOKEN, &[], "second").await.accepted("queued", 1);
}

#[tokio::test(start_paused = true)]
async fn a_batch_counts_as_many_as_it_has() {
    let world = World::new().await;
    let key = limited_key(&world, 10).await;
    let batch = json!({ "events": vec![json!({ "type": "a", "data": 1 }); 50] }).to_string();
    let taken = world.publish("/v1/events/batch", &key, batch.clone()).await;
    assert_eq!((taken.status.as_u16(), taken.body["results"].as_array().map(Vec::len)), (202, Some(50)));
    assert_eq!(taken.headers["ratelimit"], "\"key\";r=0;t=5");
    is_limited(&world.publish("/v1/events/batch", &key, batch).await, "5");
    advance(Duration::from_millis(4_100)).await;
    world.publish("/v1/events", &key, EVENT).await.accepted("queued", 1);
}

#[tokio::test(start_paused = true)]
async fn who_is_too_fast_is_refused_before_the_body_is_read() {
    let world = World::new().await;
    limit_source(&world, Some(1)).await;
    world.ingest(TOKEN, &[], "first").await.accepted("queued", 1);
    let never = Body::from_stream(stream::pending::<Result<&str, std::io::Error>>());
    is_limited(&world.ingest(TOKEN, &[], never).await, "1");
}

#[tokio::test]
async fn a_limit_is_a_number_that_makes_sense() {
    let world = World::new().await;
    for wrong in [0, limits::RATE_LIMIT_MAX + 1] {
        let body = json!({ "name": "limited", "rate_limit": wrong }).to_string();
        for path in ["/v1/api-keys", "/v1/sources"] {
            let refused = world.publish(path, &world.key, body.clone()).await;
            refused.is(422, "validation_failed").points_at("/rate_limit", "out_of_range");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_account_whose_backlog_is_full_waits_until_some_of_it_is_gone() {
    let world = World::with(|config| config.backlog = BacklogCap { rows: 3, bytes: u64::MAX }).await;
    let (_, neighbour) = world.neighbour().await;
    for _ in 0..3 {
        world.ingest(TOKEN, &[], "x").await.accepted("queued", 1);
    }
    look_again().await;
    for refused in [world.ingest(TOKEN, &[], "x").await, world.publish("/v1/events", &world.key, EVENT).await]
    {
        refused.is(429, "backlog_full");
        assert_eq!(refused.headers["retry-after"], "10");
    }
    world.publish("/v1/events", &neighbour, EVENT).await.accepted("unmatched", 0);
    assert_eq!(world.events().await.len(), 3);

    let page = Page { before: None, limit: 1 };
    let waiting = world.store.deliveries(world.account, &DeliveryFilter::default(), page).await.unwrap();
    let fact = AttemptId::at(NOW, 1);
    world.store.cancel(world.account, waiting.rows[0].id, fact, NOW, &audit_entry()).await.unwrap();
    look_again().await;
    world.ingest(TOKEN, &[], "x").await.accepted("queued", 1);
}

#[tokio::test(start_paused = true)]
async fn while_a_backlog_is_full_a_replay_waits_and_says_so() {
    let world = World::with(|config| config.backlog = BacklogCap { rows: 3, bytes: u64::MAX }).await;
    for _ in 0..4 {
        world.ingest(TOKEN, &[], "x").await.accepted("queued", 1);
    }
    let page = Page { before: None, limit: 1 };
    let waiting = world.store.deliveries(world.account, &DeliveryFilter::default(), page).await.unwrap();
    let ended = waiting.rows[0].id;
    world.store.cancel(world.account, ended, AttemptId::at(NOW, 1), NOW, &audit_entry()).await.unwrap();
    look_again().await;

    let one = format!("/v1/deliveries/{ended}/replay");
    world.publish(&one, &world.key, Body::empty()).await.is(429, "backlog_full");
    let asked = r#"{"filter":{"status":["cancelled"]}}"#;
    let begun = world.publish("/v1/replays", &world.key, asked).await;
    assert_eq!((begun.status.as_u16(), &begun.body["matched"]), (202, &json!(1)));
    assert_eq!(
        (&begun.body["status"], &begun.body["waiting_for"]["kind"]),
        (&json!("running"), &json!("backlog"))
    );
    assert_eq!(begun.body["estimated_seconds"], json!(null));

    let page = Page { before: Some(ended), limit: 1 };
    let waiting = world.store.deliveries(world.account, &DeliveryFilter::default(), page).await.unwrap();
    world
        .store
        .cancel(world.account, waiting.rows[0].id, AttemptId::at(NOW, 2), NOW, &audit_entry())
        .await
        .unwrap();
    look_again().await;
    let path = format!("/v1/replays/{}", begun.body["id"].as_str().unwrap());
    let told = world.get(&path, &world.key).await;
    assert_eq!((&told.body["waiting_for"], &told.body["estimated_seconds"]), (&json!(null), &json!(1)));
}

#[tokio::test(start_paused = true)]
async fn a_quota_of_the_account_counts_before_that_of_the_installation() {
    let world = World::with(|config| config.backlog = BacklogCap { rows: 4, bytes: u64::MAX }).await;
    let allow = async |rows| {
        let account = world.store.account(world.account).await.unwrap();
        let quotas = Quotas { backlog_rows: rows, ..Quotas::default() };
        world.store.update_account(&Account { quotas, ..account }, &audit_entry()).await.unwrap();
    };
    allow(Some(2)).await;
    for _ in 0..2 {
        world.ingest(TOKEN, &[], "x").await.accepted("queued", 1);
    }
    look_again().await;
    world.ingest(TOKEN, &[], "x").await.is(429, "backlog_full");
    look_again().await;
    world.publish("/v1/events", &world.key, EVENT).await.is(429, "backlog_full");
    allow(Some(9)).await;
    // Whoever is refused is read again, or it would never be heard of where nothing is admitted.
    world.ingest(TOKEN, &[], "x").await.is(429, "backlog_full");
    look_again().await;
    world.ingest(TOKEN, &[], "x").await.is(429, "backlog_full");
    look_again().await;
    for _ in 0..3 {
        world.ingest(TOKEN, &[], "x").await.accepted("queued", 1);
        look_again().await;
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_fill_a_backlog_too() {
    let world = World::with(|config| config.backlog = BacklogCap { rows: u64::MAX, bytes: 1_000 }).await;
    world.ingest(TOKEN, &[], vec![b'x'; 1_000]).await.accepted("queued", 1);
    look_again().await;
    world.ingest(TOKEN, &[], "x").await.is(429, "backlog_full");
}
