//! CloudEvents, by a source's URL and published, in each mode: as what they come in, what repeats one, and what is refused.

use crate::world::{Answer, NOW, TOKEN, World, request};
use aws_lc_rs::hmac;
use domain::limits;
use serde_json::{Value, json};

const BINARY: [&str; 5] = [
    "ce-specversion: 1.0",
    "ce-id: 7",
    "ce-source: /shop",
    "ce-type: com.example/paid",
    "content-type: application/json; charset=utf-8",
];
const STRUCTURED: &str = "content-type: application/cloudevents+json; charset=utf-8";
const BATCHED: &str = "content-type: application/cloudevents-batch+json";

fn document(id: &str, more: Value) -> Value {
    let mut document =
        json!({ "specversion": "1.0", "id": id, "source": "/shop", "type": "com.example.paid" });
    document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    document
}

async fn publish(world: &World, path: &str, headers: &[&str], body: String) -> Answer {
    let key = format!("authorization: Bearer {}", world.key);
    let headers = [&[key.as_str()], headers].concat();
    world.ask(request("POST", path, &headers, body)).await
}

#[tokio::test]
async fn binary_structured_and_batched_are_one_event_and_are_told_as_it() {
    let world = World::new().await;
    let data = r#"{ "n": 1.50 }"#;
    let binary =
        [&BINARY[..], &["ce-time: 2026-04-03T14:30:00Z", "ce-subject: Euro%20%E2%82%AC", "x-a: 1"]].concat();
    let id = world.ingest(TOKEN, &binary, data).await.accepted("queued", 1);
    let event = world.events().await.remove(0);
    assert_eq!((&*event.payload, event.event_type.as_str()), (data.as_bytes(), "com.example.paid"));
    assert_eq!(event.content_type, "application/json; charset=utf-8");
    assert_eq!(event.idempotency_key.as_deref(), Some("/shop 7"));
    let kept =
        |name: &str| event.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    assert_eq!((kept("ce-type"), kept("ce-subject")), (Some("com.example/paid"), Some("Euro%20%E2%82%AC")));
    assert_eq!((kept("ce-time"), kept("x-a")), (Some("2026-04-03T14:30:00Z"), Some("1")));

    let text = format!(
        r#"{{"specversion":"1.0","id":"7","source":"/shop","type":"com.example/paid","data":{data}}}"#
    );
    for (headers, body) in
        [([STRUCTURED, "ce-id: of another"], text.clone()), ([STRUCTURED, "x-b: 1"], text.clone())]
    {
        let answer = world.ingest(TOKEN, &headers, body).await;
        assert_eq!(answer.accepted("duplicate", 1), id);
    }
    let answer = world.ingest(TOKEN, &[BATCHED], format!("[{text}]")).await;
    assert_eq!((answer.status.as_u16(), &answer.body["results"][0]["status"]), (202, &json!("duplicate")));
    assert_eq!(answer.body["results"][0]["id"], json!(id));
    assert_eq!(world.events().await.len(), 1);
    // One with other data is another, and cannot be.
    world.ingest(TOKEN, &BINARY, "{}").await.is(409, "idempotency_conflict");
}

#[tokio::test]
async fn the_data_of_a_structured_event_is_the_payload() {
    let world = World::new().await;
    for (id, more, content_type, payload) in [
        ("1", json!({ "data": { "a": 1 } }), "application/json", r#"{"a":1}"#),
        ("2", json!({ "data": "<a/>", "datacontenttype": "application/xml" }), "application/xml", "<a/>"),
        ("3", json!({ "data_base64": "aGk=", "datacontenttype": "text/plain" }), "text/plain", "hi"),
        ("4", json!({}), "application/octet-stream", ""),
    ] {
        world.ingest(TOKEN, &[STRUCTURED], document(id, more).to_string()).await.accepted("queued", 1);
        let events = world.events().await;
        let event = events.iter().find(|event| event.idempotency_key == Some(format!("/shop {id}"))).unwrap();
        assert_eq!((event.content_type.as_str(), &*event.payload), (content_type, payload.as_bytes()));
        assert!(event.headers.iter().any(|(name, value)| name == "ce-id" && value == id));
        assert!(event.headers.iter().any(|(name, _)| name == "content-type"), "as the request came in");
    }
}

#[tokio::test]
async fn what_is_broken_is_refused_and_nothing_is_stored() {
    let world = World::new().await;
    for place in 0..4 {
        let mut headers = BINARY.to_vec();
        headers.remove(place);
        world.ingest(TOKEN, &headers, "{}").await.is(400, "invalid_header");
        publish(&world, "/v1/events", &headers, "{}".into()).await.is(400, "invalid_header");
    }
    for header in ["ce-time: yesterday", "ce-id: 8", "ce-subject: %ff", "ce-my-ext: 1", "ce-specversion: 0.3"]
    {
        world.ingest(TOKEN, &[&BINARY[..], &[header]].concat(), "{}").await.is(400, "invalid_header");
    }
    let long = "v".repeat(limits::EVENT_HEADERS_BYTES);
    for (more, pointer, code) in [
        (json!({ "id": null }), "/id", "missing_field"),
        (json!({ "id": 7 }), "/id", "invalid_type"),
        (json!({ "specversion": "2.0" }), "/specversion", "invalid_value"),
        (json!({ "time": "yesterday" }), "/time", "invalid_value"),
        (json!({ "data": 1, "data_base64": "MQ==" }), "/data_base64", "conflict"),
        (json!({ "datacontenttype": "nothing" }), "/datacontenttype", "invalid_value"),
        (json!({ "subject": long }), "", "too_long"),
        (json!({ "Ext": "1" }), "/Ext", "invalid_name"),
    ] {
        let one = document("7", more).to_string();
        world.ingest(TOKEN, &[STRUCTURED], one.clone()).await.points_at(pointer, code);
        publish(&world, "/v1/events", &[STRUCTURED], one.clone()).await.points_at(pointer, code);
        // A batch is refused with the one that is broken.
        let batch = format!("[{},{one}]", document("8", json!({ "data": 1 })));
        world.ingest(TOKEN, &[BATCHED], batch).await.points_at(&format!("/1{pointer}"), code);
    }
    for body in ["", "{", "[]", "7"] {
        world.ingest(TOKEN, &[STRUCTURED], body).await.is(400, "invalid_json");
    }
    for body in ["", "{}", "[7", "7"] {
        world.ingest(TOKEN, &[BATCHED], body).await.is(400, "invalid_json");
    }
    world.ingest(TOKEN, &[BATCHED], "[7]").await.points_at("/0", "invalid_type");
    let many = format!("[{}1]", "1,".repeat(limits::BATCH_EVENTS));
    world.ingest(TOKEN, &[BATCHED], many).await.is(400, "invalid_json");
    let unknown = ["content-type: application/cloudevents+avro"];
    world.ingest(TOKEN, &unknown, "x").await.is(415, "unsupported_media_type");
    let keyed = [STRUCTURED, "idempotency-key: k"];
    publish(&world, "/v1/events", &keyed, document("7", json!({})).to_string())
        .await
        .is(400, "invalid_header");
    world.assert_nothing_stored().await;
}

#[tokio::test]
async fn published_ones_are_the_accounts() {
    let world = World::new().await;
    publish(&world, "/v1/events", &BINARY, "plain".into()).await.accepted("queued", 1);
    let again = document(
        "7",
        json!({ "data": "plain", "datacontenttype": "text/plain", "type": "com.example/paid" }),
    );
    publish(&world, "/v1/events", &[STRUCTURED], again.to_string()).await.accepted("duplicate", 1);
    let batch = json!([document("8", json!({ "data": 8 })), document("9", json!({ "data": 9 }))]).to_string();
    let answer = publish(&world, "/v1/events", &[BATCHED], batch).await;
    assert_eq!(answer.status, 202, "{}", answer.body);
    let statuses: Vec<_> =
        answer.body["results"].as_array().unwrap().iter().map(|it| it["status"].clone()).collect();
    assert_eq!(statuses, ["queued", "queued"]);
    let events = world.events().await;
    assert_eq!(events.len(), 3);
    assert!(events.iter().all(|event| event.source_id.is_none() && event.account_id == world.account));
    assert!(events.iter().all(|event| event.received_at.seconds() == NOW.seconds()));
    let empty = publish(&world, "/v1/events", &[BATCHED], "[]".into()).await;
    assert_eq!((empty.status.as_u16(), &empty.body), (202, &json!({ "results": [] })));
}

#[tokio::test]
async fn an_event_of_a_batch_that_says_something_else_than_before_is_told_apart() {
    let world = World::new().await;
    let first = document("7", json!({ "data": 1 }));
    world.ingest(TOKEN, &[STRUCTURED], first.to_string()).await.accepted("queued", 1);
    let batch = json!([document("7", json!({ "data": 2 })), document("8", json!({ "data": 2 }))]).to_string();
    let answer = world.ingest(TOKEN, &[BATCHED], batch).await;
    assert_eq!(answer.status, 202);
    let results = &answer.body["results"];
    assert_eq!(
        (&results[0]["error"]["code"], &results[1]["status"]),
        (&json!("idempotency_conflict"), &json!("queued"))
    );
}

#[tokio::test]
async fn our_own_header_names_the_type_of_one_event() {
    let world = World::new().await;
    world
        .ingest(TOKEN, &[&BINARY[..], &["x-event-type: order.paid"]].concat(), "1")
        .await
        .accepted("queued", 1);
    world
        .ingest(TOKEN, &[BATCHED, "x-event-type: order.paid"], json!([document("8", json!({}))]).to_string())
        .await;
    let types: Vec<_> = world.events().await.iter().map(|event| event.event_type.to_string()).collect();
    assert!(types.contains(&"order.paid".into()) && types.contains(&"com.example.paid".into()), "{types:?}");
}

#[tokio::test]
async fn what_a_source_has_verified_counts_more_than_attributes_that_nobody_has_signed() {
    let world = World::new().await;
    let source =
        json!({ "name": "Provider", "verification": { "type": "github", "secrets": ["the secret"] } });
    let made = world.publish("/v1/sources", &world.key, source.to_string()).await;
    let token = made.body["ingest_url"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    let signed = |body: &str| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"the secret");
        let tag = hmac::sign(&key, body.as_bytes());
        let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("x-hub-signature-256: sha256={hex}")
    };
    let structured = document("7", json!({ "data": {} })).to_string();
    for (headers, body, key) in
        [(&BINARY[..], "{}", "d1"), (&[STRUCTURED][..], structured.as_str(), "/shop 7")]
    {
        world.ingest(&token, headers, body.to_owned()).await.is(401, "signature_invalid");
        let signature = signed(body);
        let headers =
            [headers, &[signature.as_str(), "x-github-delivery: d1", "x-github-event: push"]].concat();
        world.ingest(&token, &headers, body.to_owned()).await.accepted("unmatched", 0);
        let events = world.events().await;
        assert!(events.iter().any(|event| event.idempotency_key.as_deref() == Some(key)), "{key}");
    }
}
