//! Requests that bring one event in go past the router. Whoever sends them must not notice.

use crate::world::{TOKEN, World, request};
use api::{ApiService, ListenAddress};
use axum::body::Body;
use domain::account::KeyKind;
use http::{HeaderMap, Request, header};
use http_body_util::BodyExt;
use store::{Catalog as _, Page};
use tower::ServiceExt;

/// Two worlds are alike to the last bit: one is asked by its router, the other as a connection asks.
async fn assert_alike(ask: impl Fn(&World) -> Vec<Request<Body>>) {
    let (by_router, straight) = (World::new().await, World::new().await);
    let router = api::router(by_router.app.clone());
    for (routed, straightened) in ask(&by_router).into_iter().zip(ask(&straight)) {
        let asked = format!("{} {} {:?}", routed.method(), routed.uri(), routed.headers());
        let expected = whole(router.clone().oneshot(routed).await.unwrap()).await;
        let answered = whole(straight.service.clone().answer(straightened).await).await;
        assert_eq!(answered, expected, "{asked}");
    }
    assert_eq!(straight.events().await, by_router.events().await);
    assert_eq!(straight.recording.taken(), by_router.recording.taken());
}

/// But for the length, which the router writes itself and a connection does otherwise.
async fn whole(response: http::Response<Body>) -> (u16, HeaderMap, String) {
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    let body = body.collect().await.unwrap().to_bytes();
    (parts.status.as_u16(), parts.headers, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn an_event_by_a_sources_url_is_answered_as_the_router_would_have_it() {
    assert_alike(|_| {
        let post = |uri: &str, headers: &[&str], body: &'static str| request("POST", uri, headers, body);
        let url = format!("/ingest/{TOKEN}");
        vec![
            post(&url, &[], "{\"type\":\"order.paid\"}"),
            post(&url, &["idempotency-key: one", "x-event-type: a.b"], "first"),
            post(&url, &["idempotency-key: one", "x-event-type: a.b"], "first"),
            post(&url, &["idempotency-key: one", "x-event-type: a.b"], "second"),
            post(&url, &["x-event-type: no type"], "x"),
            post(&url, &["content-encoding: gzip"], "x"),
            post(&url, &["accept: text/html"], "x"),
            post(&format!("{url}?query=1"), &["content-type: text/plain"], "x"),
            post(&format!("{url}/"), &[], "x"),
            post("/ingest/nobody", &[], "x"),
            post("/ingest/", &[], "x"),
            post(&format!("/ingest/%{:x}{}", TOKEN.as_bytes()[0], &TOKEN[1..]), &[], "by another spelling"),
            request("GET", &url, &[], ""),
            request("OPTIONS", &url, &[], ""),
        ]
    })
    .await;
}

#[tokio::test]
async fn a_published_event_is_answered_as_the_router_would_have_it() {
    assert_alike(|world| {
        let key = format!("authorization: Bearer {}", world.key);
        let json = "content-type: application/json";
        let post = |uri: &str, headers: &[&str], body: &'static str| request("POST", uri, headers, body);
        let event = "{\"type\":\"order.paid\",\"data\":{\"n\":1}}";
        vec![
            post("/v1/events", &[json, &key], event),
            post("/v1/events", &[json, &key, "idempotency-key: one"], event),
            post("/v1/events", &[json, &key, "idempotency-key: one"], event),
            post("/v1/events?x=1", &[json, &key], event),
            post("/v1/events/", &[json, &key], event),
            post("/v1/events", &[json], event),
            post("/v1/events", &[json, "authorization: Bearer phk_wrong"], event),
            post("/v1/events", &[&key], event),
            post("/v1/events", &[json, &key], "{"),
            post("/v1/events", &[json, &key], "{\"type\":\"order.paid\"}"),
            post("/v1/events", &[json, &key, "accept: text/html"], event),
            post(&format!("/v1/events?key={}", world.key), &[json, &key], event),
            request("PUT", "/v1/events", &[json, &key], event),
        ]
    })
    .await;
}

#[tokio::test]
async fn operators_bring_events_in_for_an_account_that_they_name_and_for_no_other() {
    let world = World::new().await;
    let (operator, _) = world.new_key(KeyKind::Operator, None).await;
    world.publish("/v1/events", &operator, "{}").await.is(400, "invalid_header");
    world.assert_nothing_stored().await;
    let (account, key) = world.neighbour().await;
    let (named, operator) =
        (format!("posthaste-account: {account}"), format!("authorization: Bearer {operator}"));
    let publish = |key: &str| {
        let event = "{\"type\":\"order.paid\",\"data\":{}}";
        request("POST", "/v1/events", &["content-type: application/json", &named, key], event)
    };
    world.ask(publish(&format!("authorization: Bearer {key}"))).await.is(403, "scope_missing");
    world.ask(publish(&operator)).await.accepted("unmatched", 0);
}

#[tokio::test]
async fn a_platforms_key_is_taken_where_an_operators_is_not() {
    let world = World::new().await;
    let public = ApiService::new(ListenAddress::Public, world.app.clone(), None);
    let ask = async |kind: KeyKind, path: &str| {
        let (key, _) = world.new_key(kind, None).await;
        let headers =
            [&format!("posthaste-account: {}", world.account), &format!("authorization: Bearer {key}")];
        let headers = [headers[0].as_str(), headers[1].as_str(), "content-type: application/json"];
        let event = "{\"type\":\"order.paid\",\"data\":{}}";
        public.clone().answer(request("POST", path, &headers, event)).await.status().as_u16()
    };
    for path in ["/v1/events", "/v1/events?query=1"] {
        assert_eq!(ask(KeyKind::Platform, path).await, 202);
        assert_eq!(ask(KeyKind::Operator, path).await, 401);
    }
}

#[tokio::test]
async fn a_bound_on_accounts_is_kept() {
    let world = World::with(|config| config.accounts = 2).await;
    let (platform, _) = world.new_key(KeyKind::Platform, None).await;
    let key = format!("authorization: Bearer {platform}");
    let publish = async |uid: &str| {
        let named = format!("posthaste-account: {uid}");
        let headers = ["content-type: application/json", &named, &key];
        let event = "{\"type\":\"order.paid\",\"data\":{}}";
        world.ask(request("POST", "/v1/events?create_account=true", &headers, event)).await
    };
    publish("one").await.accepted("unmatched", 0);
    publish("two").await.is(409, "quota_exceeded");
    publish("one").await.accepted("unmatched", 0);
    let made =
        request("POST", "/v1/accounts", &["content-type: application/json", &key], "{\"name\":\"Two\"}");
    world.ask(made).await.is(409, "quota_exceeded");
    assert_eq!(world.store.accounts(Page { before: None, limit: 9 }).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_node_that_stops_takes_no_event_in_by_either_way() {
    let world = World::new().await;
    world.app.drain();
    world.ingest(TOKEN, &[], "x").await.is(503, "draining");
    world.publish("/v1/events", &world.key, "{}").await.is(503, "draining");
    world.assert_nothing_stored().await;
}
