//! Secrets are shown again to those who may, unless the operator has switched that off.

use crate::{
    on_every_store,
    world::{Reply, World, text},
};
use api::{ApiConfig, ApiService, ListenAddress};
use axum::body::Body;
use http::{Method, Request, header};
use serde_json::{Value, json};

/// Asks a node at which secrets are shown by the answer that makes them alone.
async fn ask(world: &World, method: Method, path: &str, body: Value) -> Reply {
    let config = ApiConfig { reveal: false, ..ApiConfig::new("https://hooks.example.com", "0.0.0-test") };
    let service = ApiService::new(ListenAddress::Only, world.node_with(config).await, None);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::AUTHORIZATION, format!("Bearer {}", world.key))
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(body.to_string()));
    World::reply(service.clone().answer(request.expect("a well-formed request")).await).await
}

on_every_store! {
    async fn where_it_is_switched_off_a_secret_is_shown_by_the_answer_that_makes_it_alone(world) {
        let body = json!({ "name": "Orders", "url": "https://example.com/hooks" });
        let made = ask(&world, Method::POST, "/v1/destinations", body).await.expect(201);
        let secret = text(&made["signing"]["secret"]);
        assert!(secret.starts_with("whsec_"));
        let destination = format!("/v1/destinations/{}", text(&made["id"]));
        let made = ask(&world, Method::POST, "/v1/sources", json!({ "name": "Shop" })).await.expect(201);
        assert!(text(&made["ingest_url"]).starts_with("https://"));
        let source = format!("/v1/sources/{}", text(&made["id"]));

        let entries = async || world.store.audit_records(Some(world.account), 0, 100).await.unwrap().len();
        let before = entries().await;
        for path in [format!("{destination}/secret"), format!("{source}/ingest-url")] {
            let refused = ask(&world, Method::GET, &path, json!({})).await;
            let told = String::from_utf8_lossy(&refused.bytes).into_owned();
            assert!(!told.contains("whsec_") && !told.contains("/ingest/"), "{told}");
            let problem = refused.expect(403);
            assert_eq!(problem["code"], "reveal_disabled");
            assert!(text(&problem["detail"]).contains("makes a new one"), "{problem}");
        }
        assert_eq!(entries().await, before, "nothing was shown, and nothing is written down");

        let rotated = ask(&world, Method::POST, &format!("{destination}/rotate-secret"), json!({})).await.expect(200);
        assert_ne!(text(&rotated["signing"]["secret"]), secret);
        let rotated = ask(&world, Method::POST, &format!("{source}/rotate-token"), json!({})).await.expect(200);
        assert!(text(&rotated["ingest_url"]).starts_with("https://"));
        world.get(&format!("{destination}/secret")).await.expect(200);
    }
}
