//! Sources that verify their callers: what each provider signs comes in once, and nothing else does.

use crate::world::{Answer, NOW, World, request};
use api::ApiConfig;
use aws_lc_rs::hmac;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use domain::{account::KeyKind, limits};
use serde_json::{Value, json};

/// Requests that other libraries have signed: `scripts/vectors`.
const VECTORS: &str = include_str!("../../../domain/src/verification/vectors.json");

/// The ingest token of a new source.
async fn source(world: &World, verification: Value) -> String {
    let body = json!({ "name": "Provider", "verification": verification }).to_string();
    let made = world.publish("/v1/sources", &world.key, body).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let url = made.body["ingest_url"].as_str().unwrap();
    url.rsplit('/').next().unwrap().to_owned()
}

async fn github(world: &World) -> String {
    source(world, json!({ "type": "github", "secrets": ["old secret", "new secret"] })).await
}

fn mac(secret: &str, text: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), text.as_bytes())
}

fn hex(tag: &hmac::Tag) -> String {
    tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn signed_for_github(secret: &str, body: &str) -> String {
    format!("x-hub-signature-256: sha256={}", hex(&mac(secret, body)))
}

/// The vectors of this moment whose URL is not signed: a source has a token of its own.
fn vectors() -> Vec<Value> {
    let all: Vec<Value> = serde_json::from_str(VECTORS).unwrap();
    let by_url = |kind: &Value| ["twilio", "square", "hubspot"].iter().any(|other| kind == other);
    all.into_iter().filter(|it| it["at"] == NOW.seconds() && !by_url(&it["type"])).collect()
}

fn verification(vector: &Value) -> Value {
    let mut verification = json!({ "type": vector["type"], "secrets": [vector["secret"]] });
    for (name, value) in vector["hmac"].as_object().into_iter().flatten() {
        verification[name] = value.clone();
    }
    verification
}

async fn send(world: &World, token: &str, vector: &Value, body: &str) -> Answer {
    let pair = |pair: &Value| format!("{}: {}", pair[0].as_str().unwrap(), pair[1].as_str().unwrap());
    let headers: Vec<String> = vector["headers"].as_array().unwrap().iter().map(pair).collect();
    world.ingest(token, &headers.iter().map(String::as_str).collect::<Vec<_>>(), body.to_owned()).await
}

#[tokio::test]
async fn what_a_provider_signs_comes_in_once_and_an_altered_byte_does_not() {
    let vectors = vectors();
    assert!(vectors.len() > 20);
    for vector in vectors.iter().filter(|vector| vector.get("handshake").is_none_or(Value::is_null)) {
        let world = World::new().await;
        let token = source(&world, verification(vector)).await;
        let body = vector["body"].as_str().unwrap();
        if vector["signed"].is_null() {
            let altered = format!("{body} ");
            send(&world, &token, vector, &altered).await.is(401, "signature_invalid");
            world.assert_nothing_stored().await;
        }
        let first = send(&world, &token, vector, body).await.accepted("unmatched", 0);
        let event = world.events().await.remove(0);
        assert_eq!(&*event.payload, body.as_bytes(), "{vector}");
        if let Some(named) = vector["event_type"].as_str() {
            assert_eq!(event.event_type.as_str(), named, "{vector}");
        }
        match vector["id"].as_str() {
            Some("*") => assert!(event.idempotency_key.unwrap().starts_with("sha256:"), "{vector}"),
            id => assert_eq!(event.idempotency_key.as_deref(), id, "{vector}"),
        }
        if !vector["id"].is_null() {
            let again = send(&world, &token, vector, body).await.accepted("duplicate", 0);
            assert_eq!(first, again);
            assert_eq!(world.events().await.len(), 1);
        }
    }
}

#[tokio::test]
async fn a_handshake_is_answered_as_asked_and_is_no_event() {
    let vectors = vectors();
    let asked: Vec<&Value> = vectors.iter().filter(|vector| vector["handshake"].is_string()).collect();
    assert_eq!(asked.len(), 3);
    for vector in asked {
        let world = World::new().await;
        let token = source(&world, verification(vector)).await;
        let (body, expected) = (vector["body"].as_str().unwrap(), vector["handshake"].as_str().unwrap());
        let wrong = format!("{body} ");
        send(&world, &token, vector, &wrong).await.is(401, "signature_invalid");
        let answer = send(&world, &token, vector, body).await;
        assert_eq!(answer.status.as_u16(), if expected.is_empty() { 204 } else { 200 }, "{vector}");
        if !expected.is_empty() {
            assert_eq!(answer.headers["content-type"], "text/plain; charset=utf-8");
            let pairs = vector["headers"].as_array().unwrap().iter();
            let headers: Vec<String> = pairs
                .map(|pair| format!("{}: {}", pair[0].as_str().unwrap(), pair[1].as_str().unwrap()))
                .collect();
            let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
            let text =
                world.text(request("POST", &format!("/ingest/{token}"), &headers, body.to_owned())).await;
            assert_eq!(text, expected);
        }
        world.assert_nothing_stored().await;
    }
}

#[tokio::test]
async fn who_is_not_believed_is_not_told_why_and_is_counted_with_the_reason() {
    let world = World::new().await;
    let token = github(&world).await;
    let right = signed_for_github("old secret", "a");
    let missing = world.ingest(&token, &[], "a").await;
    let wrong = world.ingest(&token, &[&right], "b").await;
    let told = |answer: &Answer| {
        let mut body = answer.is(401, "signature_invalid").body.clone();
        body.as_object_mut().unwrap().remove("request_id");
        body
    };
    assert_eq!(told(&missing), told(&wrong));
    world.ingest(&token, &[&right, &right], "a").await.is(400, "invalid_header");
    world.assert_nothing_stored().await;
    let operator = world.new_key(KeyKind::Operator, None).await.0;
    let authorization = format!("authorization: Bearer {operator}");
    let metrics = world.text(request("GET", "/metrics", &[&authorization], "")).await;
    for reason in ["missing_signature", "wrong_signature", "repeated_header"] {
        let line = metrics.lines().find(|line| line.contains(&format!("reason=\"{reason}\""))).unwrap();
        assert!(
            line.starts_with("posthaste_ingest_unverified_total{source_id=\"src_") && line.ends_with(" 1"),
            "{line}"
        );
    }
    world.ingest(&token, &[&right], "a").await.accepted("unmatched", 0);
}

#[tokio::test]
async fn who_is_wrong_too_often_is_told_to_wait_and_who_is_right_is_not() {
    let world = World::new().await;
    let token = github(&world).await;
    for _ in 0..limits::WRONG_CREDENTIALS {
        world.ingest(&token, &[], "a").await.is(401, "signature_invalid");
    }
    world.ingest(&token, &[], "a").await.is(429, "rate_limited");
    let right = signed_for_github("old secret", "a");
    world.ingest(&token, &[&right], "a").await.accepted("unmatched", 0);
}

#[tokio::test]
async fn both_secrets_are_good_while_one_takes_the_place_of_the_other() {
    let world = World::new().await;
    let token = github(&world).await;
    for (secret, body) in [("old secret", "1"), ("new secret", "2")] {
        world.ingest(&token, &[&signed_for_github(secret, body)], body).await.accepted("unmatched", 0);
    }
    world.ingest(&token, &[&signed_for_github("third", "3")], "3").await.is(401, "signature_invalid");
}

#[tokio::test]
async fn a_providers_id_counts_whatever_else_a_repeat_says() {
    let world = World::new().await;
    let token = source(&world, json!({ "type": "stripe", "secrets": ["whsec_x"] })).await;
    let send = async |body: &str, header: &str| {
        let tag = hex(&mac("whsec_x", &format!("{}.{body}", NOW.seconds())));
        let signature = format!("stripe-signature: t={},v1={tag}", NOW.seconds());
        world.ingest(&token, &[&signature, header], body.to_owned()).await
    };
    let first = r#"{"id":"evt_1","type":"a.b","pending_webhooks":1}"#;
    let again = r#"{"id":"evt_1","type":"a.b","pending_webhooks":2}"#;
    let id = send(first, "idempotency-key: one").await.accepted("unmatched", 0);
    assert_eq!(send(again, "idempotency-key: two").await.accepted("duplicate", 0), id);
    let event = world.events().await.remove(0);
    assert_eq!((&*event.payload, event.idempotency_key.as_deref()), (first.as_bytes(), Some("evt_1")));
    send(r#"{"id":"evt_2","type":"a.b"}"#, "idempotency-key: one").await.accepted("unmatched", 0);
}

#[tokio::test]
async fn a_signed_url_is_the_one_that_the_world_knows() {
    let public = |config: &mut ApiConfig| config.public_url = "https://hooks.example.com/in".into();
    let world = World::with(public).await;
    let token = source(&world, json!({ "type": "square", "secrets": ["key"] })).await;
    let body = r#"{"event_id":"1","type":"a.b"}"#;
    let send = async |url: &str| {
        let tag = STANDARD.encode(mac("key", &format!("{url}{body}")));
        world.ingest(&token, &[&format!("x-square-hmacsha256-signature: {tag}")], body).await
    };
    send(&format!("http://localhost/ingest/{token}")).await.is(401, "signature_invalid");
    send(&format!("https://hooks.example.com/in/ingest/{token}")).await.accepted("unmatched", 0);
}

#[tokio::test]
async fn who_comes_from_elsewhere_is_refused_however_well_signed() {
    let world = World::new().await;
    for (networks, status) in [(json!(["192.0.2.0/24"]), 401), (json!(["0.0.0.0", "192.0.2.0/24"]), 202)] {
        let kind = json!({ "type": "github", "secrets": ["old secret"], "allowed_addresses": networks });
        let token = source(&world, kind).await;
        let answer = world.ingest(&token, &[&signed_for_github("old secret", "a")], "a").await;
        assert_eq!(answer.status.as_u16(), status, "{}", answer.body);
    }
}

#[tokio::test]
async fn who_publishes_with_a_key_that_is_bound_to_the_source_has_shown_who_it_is() {
    let world = World::new().await;
    github(&world).await;
    let sources = world.get("/v1/sources", &world.key).await.body;
    let id = sources["data"][0]["id"].as_str().unwrap().parse().unwrap();
    let (key, _) = world.new_key(KeyKind::Ingest, Some(id)).await;
    let event = json!({ "type": "a.b", "data": 1 }).to_string();
    world.publish("/v1/events", &key, event).await.accepted("unmatched", 0);
}

/// What the source has kept, once that is as much as is waited for: it is written down beside the requests.
async fn kept(world: &World, id: &str, count: usize) -> Vec<Value> {
    loop {
        let listed = world.get(&format!("/v1/sources/{id}/refused"), &world.key).await;
        let kept = listed.body["data"].as_array().expect("a list").clone();
        if kept.len() >= count {
            return kept;
        }
        tokio::task::yield_now().await;
    }
}

/// A source that keeps what it does not believe: its token and its id.
async fn keeping(world: &World) -> (String, String) {
    let verification = json!({ "type": "github", "secrets": ["a secret"] });
    let body = json!({ "name": "Shop", "verification": verification, "keep_refused": true }).to_string();
    let made = world.publish("/v1/sources", &world.key, body).await;
    assert_eq!(made.body["keep_refused"], true, "{}", made.body);
    let token = made.body["ingest_url"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    (token, made.body["id"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_source_that_is_told_to_keeps_what_it_did_not_believe_and_why() {
    let world = World::new().await;
    let (token, id) = keeping(&world).await;
    let forged = signed_for_github("another secret", "a");
    let headers = [&*forged, "authorization: Bearer abcdefghijklmnop", "x-github-event: push"];
    world.ingest(&token, &headers, "{\"a\":1}").await.is(401, "signature_invalid");
    // Another within the second is counted and not kept.
    world.ingest(&token, &[], "b").await.is(401, "signature_invalid");
    let found = kept(&world, &id, 1).await;
    assert_eq!(found.len(), 1);
    let one = &found[0];
    assert_eq!((&one["reason"], &one["body"]), (&json!("wrong_signature"), &json!("{\"a\":1}")));
    assert_eq!((&one["size_bytes"], &one["truncated"]), (&json!(7), &json!(false)));
    assert!(one["detail"].as_str().unwrap().contains("none of the source's secrets"), "{one}");
    assert_eq!(one["headers"]["x-github-event"], "push");
    assert_eq!(one["headers"]["authorization"], "Bearer abcd… (23 characters)");
    let signature = forged.rsplit('=').next().unwrap();
    let told = one.to_string();
    assert!(!told.contains(signature) && !told.contains("efghijklmnop"), "{told}");
    let authorization = format!("authorization: Bearer {}", world.key);
    let headers = ["content-type: application/json", &*authorization];
    let patch = request("PATCH", &format!("/v1/sources/{id}"), &headers, r#"{"keep_refused":false}"#);
    assert_eq!(world.ask(patch).await.body["keep_refused"], false);
    assert_eq!(kept(&world, &id, 0).await, [] as [Value; 0]);
}

#[tokio::test]
async fn of_a_large_body_a_refused_request_keeps_the_beginning_and_of_what_is_no_text_its_bytes() {
    let world = World::new().await;
    let (token, id) = keeping(&world).await;
    world.ingest(&token, &[], vec![0xffu8; 10_000]).await.is(401, "signature_invalid");
    let one = kept(&world, &id, 1).await.remove(0);
    assert_eq!((&one["reason"], &one["body"]), (&json!("missing_signature"), &Value::Null));
    assert_eq!((&one["size_bytes"], &one["truncated"]), (&json!(10_000), &json!(true)));
    let bytes = STANDARD.decode(one["body_base64"].as_str().unwrap()).unwrap();
    assert_eq!(bytes, [0xff; limits::REFUSED_BODY_BYTES]);
}

#[tokio::test]
async fn a_source_that_is_not_told_to_keeps_nothing() {
    let world = World::new().await;
    let token = github(&world).await;
    let sources = world.get("/v1/sources", &world.key).await.body;
    let id = sources["data"][0]["id"].as_str().unwrap().to_owned();
    world.ingest(&token, &[], "a").await.is(401, "signature_invalid");
    let (keeping_token, keeping_id) = keeping(&world).await;
    world.ingest(&keeping_token, &[], "a").await.is(401, "signature_invalid");
    assert_eq!(kept(&world, &keeping_id, 1).await.len(), 1, "notes are written in their order");
    assert_eq!(kept(&world, &id, 0).await, [] as [Value; 0]);
}

#[tokio::test]
async fn a_provider_that_asks_whether_the_url_is_there_is_told_and_nothing_comes_in() {
    let world = World::new().await;
    let token = github(&world).await;
    let head =
        async |token: &str| world.ask(request("HEAD", &format!("/ingest/{token}"), &[], "")).await.status;
    assert_eq!(head(&token).await, 200);
    assert_eq!(head("nothing-is-there-nothing-is-there").await, 404);
    world.assert_nothing_stored().await;
}
