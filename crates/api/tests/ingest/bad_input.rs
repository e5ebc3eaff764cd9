//! Bad input, each with its status, and without any effect.

use crate::world::{TOKEN, World, request};
use domain::account::KeyKind;
use domain::testing::audit_entry;
use serde_json::json;
use store::Catalog as _;

#[tokio::test]
async fn malformed_json_is_a_400_with_its_place() {
    let world = World::new().await;
    for body in ["{", r#"{"type":"a","data":{]}"#, "", r#"{"type":"a"} {}"#] {
        let answer = world.publish("/v1/events", &world.key, body).await;
        assert!(answer.is(400, "invalid_json").body["detail"].as_str().unwrap().contains("line 1 column"));
    }
    let deep = format!(r#"{{"type":"a","data":{}{}}}"#, "[".repeat(64), "]".repeat(64));
    world.publish("/v1/events", &world.key, deep).await.is(400, "invalid_json");
    world.assert_nothing_stored().await;
}

#[tokio::test]
async fn fields_that_do_not_fit_are_422s_with_their_place() {
    let world = World::new().await;
    let table = [
        (json!({"type": "a", "data": 1, "colour": 1}), "/colour", "unknown_field"),
        (json!({"type": 7, "data": 1}), "/type", "invalid_type"),
        (json!({"data": 1}), "/type", "missing_field"),
        (json!({"type": "a"}), "/data", "missing_field"),
        (json!({"type": "posthaste.a", "data": 1}), "/type", "invalid_event_type"),
        (json!({"type": "a", "data": 1, "data_base64": ""}), "/data_base64", "conflict"),
        (json!({"type": "a", "data_base64": "/wA="}), "/content_type", "missing_field"),
        (json!({"type": "a", "data_base64": "?", "content_type": "a/b"}), "/data_base64", "invalid_value"),
        (
            json!({"type": "a", "data_base64": "/wA=", "content_type": "csv"}),
            "/content_type",
            "invalid_value",
        ),
        (json!({"type": "a", "data": 1, "deliver_at": "soon"}), "/deliver_at", "invalid_value"),
        (
            json!({"type": "a", "data": 1, "deliver_at": "9999-01-01T00:00:00Z"}),
            "/deliver_at",
            "out_of_range",
        ),
        (json!({"type": "a", "data": 1, "metadata": [1]}), "/metadata", "invalid_type"),
        (json!({"type": "a", "data": 1, "metadata": {"x": "x".repeat(17_000)}}), "/metadata", "too_long"),
        (json!({"type": "a", "data": 1, "idempotency_key": "é"}), "/idempotency_key", "invalid_value"),
        (json!({"type": "a", "data": 1, "ordering_key": ""}), "/ordering_key", "invalid_value"),
    ];
    for (body, pointer, code) in table {
        let answer = world.publish("/v1/events", &world.key, body.to_string()).await;
        answer.is(422, "validation_failed").points_at(pointer, code);
    }
    world.assert_nothing_stored().await;
}

#[tokio::test]
async fn a_batch_is_of_1_to_1000() {
    let world = World::new().await;
    let many = json!({"events": vec![json!({"type": "a", "data": 1}); 1_001]}).to_string();
    for body in [many.as_str(), r#"{"events":[]}"#, r#"{"events":7}"#] {
        world.publish("/v1/events/batch", &world.key, body.to_owned()).await.is(422, "validation_failed");
    }
    world.assert_nothing_stored().await;
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_a_413() {
    let world = World::new().await;
    let large = vec![b' '; 6 * 1024 * 1024];
    world.ingest(TOKEN, &[], large.clone()).await.is(413, "payload_too_large");
    world.publish("/v1/events", &world.key, large.clone()).await.is(413, "payload_too_large");
    // The same without a length: counted while it comes.
    let chunks =
        large.chunks(64 * 1024).map(|chunk| Ok::<_, std::io::Error>(chunk.to_vec())).collect::<Vec<_>>();
    let streamed = axum::body::Body::from_stream(futures_util::stream::iter(chunks));
    world.ingest(TOKEN, &[], streamed).await.is(413, "payload_too_large");
    world.assert_nothing_stored().await;
}

#[tokio::test]
async fn a_source_must_be_there_and_enabled() {
    let world = World::new().await;
    world.ingest("nosuchtoken", &[], "x").await.is(404, "not_found");
    let mut source = world.source.clone();
    source.enabled = false;
    world.store.update_source(&source, &audit_entry()).await.unwrap();
    world.ingest(TOKEN, &[], "x").await.is(403, "source_disabled");
    let (key, _) = world.new_key(KeyKind::Ingest, Some(source.id)).await;
    world.publish("/v1/events", &key, r#"{"type":"a","data":1}"#).await.is(403, "source_disabled");
    world.assert_nothing_stored().await;
}

#[tokio::test]
async fn headers_that_lie_are_refused() {
    let world = World::new().await;
    let long = format!("idempotency-key: {}", "k".repeat(256));
    for header in [long.as_str(), "idempotency-key: \"k", "webhook-id: é"] {
        world.ingest(TOKEN, &[header], "x").await.is(400, "invalid_header");
    }
    world.ingest(TOKEN, &["x-event-type: not valid"], "x").await.is(422, "validation_failed");
    world.ingest(TOKEN, &["content-encoding: gzip"], "x").await.is(415, "unsupported_media_type");
    let authorization = format!("authorization: Bearer {}", world.key);
    let text = request("POST", "/v1/events", &[&authorization, "content-type: text/plain"], "{}");
    world.ask(text).await.is(415, "unsupported_media_type");
    let html = request("GET", "/v1/events", &[&authorization, "accept: text/html"], "");
    world.ask(html).await.is(406, "not_acceptable");
    world.assert_nothing_stored().await;
}

#[tokio::test]
async fn a_credential_that_is_none_is_a_401() {
    let world = World::new().await;
    let (forged, _) = world.new_key(KeyKind::Account, None).await;
    // The lookup of one key with the secret of another has a wrong checksum; a right one must still not do.
    let typo = world.key.replace("phk_", "pho_");
    for key in ["", "phk_short", typo.as_str(), &forged[..54]] {
        let answer = world.publish("/v1/events", key, "{}").await;
        answer.is(401, "unauthorized");
        assert_eq!(answer.headers["www-authenticate"], "Bearer");
    }
    let unknown = api::keys::KeyText::generate(KeyKind::Account, &*world.dice);
    world.publish("/v1/events", unknown.expose(), "{}").await.is(401, "unauthorized");
    let basic = request("POST", "/v1/events", &["authorization: Basic eDp5"], "{}");
    world.ask(basic).await.is(401, "unauthorized");
    world.assert_nothing_stored().await;
}

#[tokio::test]
async fn a_revoked_key_stops_working() {
    let world = World::new().await;
    world.publish("/v1/events", &world.key, "{").await.is(400, "invalid_json");
    world
        .store
        .revoke_api_key(Some(world.account), world.key_id, crate::world::NOW, &audit_entry())
        .await
        .unwrap();
    world.app.key_revoked(world.key_id);
    world.publish("/v1/events", &world.key, "{").await.is(401, "unauthorized");
}

#[tokio::test(start_paused = true)]
async fn a_key_revoked_elsewhere_stops_working_within_a_second() {
    let world = World::new().await;
    world.publish("/v1/events", &world.key, "{").await.is(400, "invalid_json");
    world
        .store
        .revoke_api_key(Some(world.account), world.key_id, crate::world::NOW, &audit_entry())
        .await
        .unwrap();
    tokio::time::advance(domain::limits::CREDENTIAL_FRESH).await;
    world.publish("/v1/events", &world.key, "{").await.is(401, "unauthorized");
}

#[tokio::test]
async fn a_key_in_the_url_is_refused_wherever_it_is() {
    let world = World::new().await;
    let encoded: String = world.key.bytes().map(|byte| format!("%{byte:02x}")).collect();
    for path in [
        "/v1/events?api_key=",
        "/v1/events?x=1&",
        "/ingest/sourcetoken?key=",
        "/v1/destinations/",
        "/ingest/",
        "/",
    ] {
        for key in [&world.key, &encoded, &encoded.replace('%', "%25"), &world.key.replace('_', "%5F")] {
            world.get(&format!("{path}{key}"), &world.key).await.is(400, "credential_in_url");
        }
    }
    world.assert_nothing_stored().await;
}

#[tokio::test]
async fn the_key_of_another_account_sees_nothing_here() {
    let world = World::new().await;
    let id = world.ingest(TOKEN, &[], "x").await.accepted("queued", 1);
    let (_, foreign) = world.neighbour().await;
    assert_eq!(world.get(&format!("/v1/events/{id}"), &world.key).await.status, 200);
    let seen = world.get(&format!("/v1/events/{id}"), &foreign).await;
    let random = world.get("/v1/events/evt_01h455vb4pex5vsknk084sn02q", &foreign).await;
    assert_eq!(seen.is(404, "not_found").body["detail"], random.is(404, "not_found").body["detail"]);
    assert_eq!(world.get("/v1/events", &foreign).await.body["data"], json!([]));
}

#[tokio::test]
async fn a_cursor_fits_only_the_list_it_came_from() {
    let world = World::new().await;
    for body in ["1", "2", "3"] {
        world.ingest(TOKEN, &[], body).await.accepted("queued", 1);
    }
    let first = world.get("/v1/events?limit=2", &world.key).await;
    let cursor = first.body["next_cursor"].as_str().unwrap();
    let rest = world.get(&format!("/v1/events?limit=2&cursor={cursor}"), &world.key).await;
    assert_eq!(rest.body["data"].as_array().unwrap().len(), 1);
    let (_, foreign) = world.neighbour().await;
    let longer = format!("{cursor}A");
    for (path, key) in [
        (format!("/v1/deliveries?cursor={cursor}"), &world.key),
        (format!("/v1/events?type=a&cursor={cursor}"), &world.key),
        (format!("/v1/events?cursor={cursor}"), &foreign),
        (format!("/v1/events?cursor={longer}"), &world.key),
        ("/v1/events?cursor=AAAA".to_owned(), &world.key),
        ("/v1/events?cursor=%00".to_owned(), &world.key),
    ] {
        world.get(&path, key).await.is(400, "invalid_cursor");
    }
}

#[tokio::test]
async fn what_is_not_there_is_told_in_the_same_form() {
    let world = World::new().await;
    world.get("/nowhere", "").await.is(404, "not_found");
    let answer = world.get("/ingest/sourcetoken", "").await;
    answer.is(405, "method_not_allowed");
    assert_eq!(answer.headers["allow"], "POST,HEAD");
    let head = world.ask(request("HEAD", "/healthz", &[], "")).await;
    assert_eq!((head.status.as_u16(), head.body), (200, serde_json::Value::Null));
}

#[tokio::test]
async fn a_panic_in_a_handler_is_a_500_and_nothing_of_it_is_told() {
    let world = World::new().await;
    let path = format!("/v1/destinations/{}/test", world.destination);
    let answer = world.publish(&path, &world.key, "{}").await;
    answer.is(500, "internal");
    assert!(!answer.body.to_string().contains("bug"), "{}", answer.body);
}
