//! What is accepted, by which way in, and as what.

use crate::world::{TOKEN, World};
use axum::body::Body;
use bytes::Bytes;
use domain::{account::KeyKind, limits};
use futures_util::{StreamExt, stream};
use serde_json::json;
use supervisor::{Life, Loop};
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn an_event_comes_in_by_a_source_as_it_is() {
    let world = World::new().await;
    let body = "{\"type\":\"order.paid\", \"n\":1e400,\"s\":\"\\ud800\"}\r\n";
    let headers = ["content-type: application/json; charset=utf-8", "authorization: secret", "x-a: 1"];
    let answer = world.ingest(TOKEN, &headers, body).await;
    let id = answer.accepted("queued", 1);
    assert_eq!(world.recording.taken(), ["expected 1".to_owned(), format!("arrived {body}")]);
    let event = world.events().await.remove(0);
    assert_eq!(event.id.to_string(), id);
    assert_eq!((&*event.payload, event.event_type.as_str()), (body.as_bytes(), "order.paid"));
    assert_eq!((event.account_id, event.source_id), (world.account, Some(world.source.id)));
    assert_eq!(event.content_type, "application/json; charset=utf-8");
    assert!(event.headers.iter().any(|(name, value)| name == "x-a" && value == "1"));
    assert!(event.headers.iter().all(|(name, _)| name != "authorization"));
}

#[tokio::test]
async fn bytes_that_are_no_text_come_in_too() {
    let world = World::new().await;
    let body: Vec<u8> = (0..=255).collect();
    world.ingest(TOKEN, &["x-event-type: raw.bytes"], body.clone()).await.accepted("queued", 1);
    let event = world.events().await.remove(0);
    assert_eq!((event.payload.to_vec(), event.content_type.as_str()), (body, "application/octet-stream"));
}

#[tokio::test]
async fn a_repeat_answers_with_the_first_event_and_makes_nothing() {
    let world = World::new().await;
    let first = world.ingest(TOKEN, &["idempotency-key: k"], "a").await.accepted("queued", 1);
    let quoted = world.ingest(TOKEN, &["idempotency-key: \"k\""], "a").await.accepted("duplicate", 1);
    assert_eq!(first, quoted);
    world.ingest(TOKEN, &["idempotency-key: k"], "b").await.is(409, "idempotency_conflict");
    // A published event with the same key came in another way.
    let published = json!({"type": "a", "data": 1, "idempotency_key": "k"}).to_string();
    world.publish("/v1/events", &world.key, published.clone()).await.accepted("queued", 1);
    world.publish("/v1/events", &world.key, published).await.accepted("duplicate", 1);
    assert_eq!(world.events().await.len(), 2);
}

#[tokio::test]
async fn the_bytes_of_data_as_written_are_the_payload() {
    let world = World::new().await;
    let body =
        r#"{"type":"invoice.paid","data": { "b":1.50,  "a":"\u00e9", "a":2 } ,"metadata":{"team":"x"}}"#;
    world.publish("/v1/events", &world.key, body).await.accepted("queued", 1);
    let event = world.events().await.remove(0);
    assert_eq!(event.payload, r#"{ "b":1.50,  "a":"\u00e9", "a":2 }"#);
    assert_eq!((event.content_type.as_str(), event.source_id), ("application/json", None));
    assert_eq!(event.metadata["team"], "x");
}

#[tokio::test]
async fn null_is_a_payload_and_so_are_bytes_in_base64() {
    let world = World::new().await;
    world.publish("/v1/events", &world.key, r#"{"type":"a","data":null}"#).await.accepted("queued", 1);
    let base64 = r#"{"type":"b","data_base64":"/wA=","content_type":"application/x-bytes"}"#;
    world.publish("/v1/events", &world.key, base64).await.accepted("queued", 1);
    let payloads: Vec<_> = world.events().await.into_iter().map(|event| event.payload.to_vec()).collect();
    assert!(payloads.contains(&b"null".to_vec()) && payloads.contains(&vec![0xff, 0]));
}

#[tokio::test]
async fn a_batch_answers_for_each_event_in_order() {
    let world = World::new().await;
    let batch = json!({"events": [
        {"type": "a", "data": {"n": 1}, "idempotency_key": "k"},
        {"type": "not valid!", "data": {}},
        {"type": "a", "data": {"n": 1}, "idempotency_key": "k"},
        {"type": "a", "data": {"n": 2}, "colour": "red"},
        {"type": "a", "data": {"n": 3}},
    ]});
    let answer = world.publish("/v1/events/batch", &world.key, batch.to_string()).await;
    assert_eq!(answer.status, 202);
    let results = answer.body["results"].as_array().unwrap();
    let statuses: Vec<_> = results.iter().map(|result| result["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["queued", "refused", "duplicate", "refused", "queued"]);
    assert_eq!(results[0]["id"], results[2]["id"]);
    assert_eq!(results[1]["error"]["errors"][0]["pointer"], "/type");
    assert_eq!(results[3]["error"]["errors"][0]["pointer"], "/colour");
    assert_eq!(results[3]["error"]["request_id"], answer.headers["x-request-id"].to_str().unwrap());
    let payloads: Vec<_> = world.events().await.into_iter().map(|event| event.payload).collect();
    assert_eq!(payloads, [r#"{"n":1}"#, r#"{"n":3}"#]);
}

#[tokio::test]
async fn a_key_bound_to_a_source_publishes_as_that_source_and_does_nothing_else() {
    let world = World::new().await;
    let (key, _) = world.new_key(KeyKind::Ingest, Some(world.source.id)).await;
    world.publish("/v1/events", &key, r#"{"type":"a","data":1}"#).await.accepted("queued", 1);
    assert_eq!(world.events().await[0].source_id, Some(world.source.id));
    world.get("/v1/events", &key).await.is(403, "scope_missing");
}

#[tokio::test]
async fn an_event_without_a_route_is_stored_all_the_same() {
    let world = World::new().await;
    let (account, key) = world.neighbour().await;
    assert_ne!(account, world.account);
    world.publish("/v1/events", &key, r#"{"type":"a","data":1}"#).await.accepted("unmatched", 0);
    assert!(world.recording.taken().is_empty());
}

#[tokio::test]
async fn no_producer_is_answered_before_the_commit() {
    let world = World::stopped(|config| config.ingest_queue = 1).await;
    let mut first = Box::pin(world.ingest(TOKEN, &[], "first"));
    assert!(futures_util::poll!(&mut first).is_pending());
    assert!(world.events().await.is_empty());
    // The queue is full now.
    let second = world.ingest(TOKEN, &[], "second").await;
    second.is(503, "overloaded");
    assert_eq!(second.headers["retry-after"], "1");
    assert!(futures_util::poll!(&mut first).is_pending());
}

#[tokio::test]
async fn bodies_on_their_way_are_bounded_together() {
    let world = World::with(|config| config.body_limit = limits::INGEST_QUEUE_BYTES).await;
    let most = Bytes::from(vec![b' '; limits::INGEST_QUEUE_BYTES * 3 / 4]);
    let half_sent = stream::iter([Ok::<_, std::io::Error>(most)]).chain(stream::pending());
    let mut slow = Box::pin(world.ingest(TOKEN, &[], Body::from_stream(half_sent)));
    assert!(futures_util::poll!(&mut slow).is_pending());
    let half = vec![b' '; limits::INGEST_QUEUE_BYTES / 2];
    world.ingest(TOKEN, &[], half.clone()).await.is(503, "overloaded");
    let published = json!({"type": "a", "data": "x".repeat(half.len())}).to_string();
    world.publish("/v1/events", &world.key, published).await.is(503, "overloaded");
    let (_, neighbour) = world.neighbour().await;
    world.publish("/v1/events", &neighbour, r#"{"type":"a","data":1}"#).await.accepted("unmatched", 0);
    drop(slow);
    world.ingest(TOKEN, &[], half).await.accepted("queued", 1);
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_is_down_is_named_until_it_runs_again() {
    let world = World::new().await;
    let stop = CancellationToken::new();
    world.supervisor.start(Loop::Expander, &stop, |life| async move {
        assert_eq!(life, Life::Again, "the first one dies");
        std::future::pending().await
    });
    while world.supervisor.deaths(Loop::Expander) == 0 {
        tokio::task::yield_now().await;
    }
    let ready = world.get("/readyz", "").await;
    assert_eq!((ready.status.as_u16(), &ready.body["loops_down"]), (503, &["expander"].into()));
    tokio::time::sleep(limits::LOOP_RESTART_PAUSE * 2).await;
    let ready = world.get("/readyz", "").await;
    assert_eq!((ready.status.as_u16(), &ready.body["loops_down"]), (200, &json!([])));
    stop.cancel();
}

#[tokio::test]
async fn probes_say_how_the_node_is() {
    let world = World::new().await;
    let ready = world.get("/readyz", "").await;
    assert_eq!((ready.status.as_u16(), &ready.body["store"]), (200, &"ok".into()));
    assert_eq!(world.get("/readyz?for=ingest&from=a-balancer", "").await.status, 200);
    world.get("/readyz?for=tea", "").await.is(400, "invalid_parameter");
    world.app.retire();
    let ready = world.get("/readyz", "").await;
    assert_eq!((ready.status.as_u16(), &ready.body["draining"]), (503, &true.into()));
    assert_eq!(world.get("/readyz?for=ingest", "").await.status, 503);
    world.ingest(TOKEN, &[], "still taken").await.accepted("queued", 1);
    world.app.drain();
    assert_eq!(world.get("/healthz", "").await.status, 200);
    let ready = world.get("/readyz", "").await;
    assert_eq!((ready.status.as_u16(), &ready.body["draining"]), (503, &true.into()));
    world.ingest(TOKEN, &[], "late").await.is(503, "draining");
}
