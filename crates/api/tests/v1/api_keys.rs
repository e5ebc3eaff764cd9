use crate::{
    on_every_store,
    world::{World, text},
};
use api::keys::KeyText;
use domain::{
    account::{KeyKind, Scope},
    testing::CountingDice,
};
use http::Method;
use serde_json::json;
use store::StoreError;

on_every_store! {
    async fn a_key_is_shown_once_and_works(world) {
        let made = world.post("/v1/api-keys", json!({ "name": "ci", "scopes": ["events:read"] })).await.expect(201);
        let key = text(&made["key"]);
        assert!(key.starts_with("phk_") && key.starts_with(text(&made["prefix"]).trim_end_matches('…')), "{made}");
        assert_eq!((&made["kind"], &made["scopes"]), (&json!("account"), &json!(["events:read"])));
        world.ask_as(&key, Method::GET, "/v1/events", None).await.expect(200);
        world.ask_as(&key, Method::GET, "/v1/deliveries", None).await.expect_problem(403, "scope_missing");

        let listed = world.get("/v1/api-keys").await;
        assert!(!String::from_utf8_lossy(&listed.bytes).contains(&key[20..]), "a secret is shown once");
        let listed = listed.expect(200);
        assert_eq!(listed["data"][0]["id"], made["id"]);
        assert_eq!(listed["data"][0].as_object().unwrap().len(), 12);
        assert!(listed["data"][0].get("key").is_none());
    }

    async fn a_key_has_every_scope_unless_told_otherwise(world) {
        let made = world.post("/v1/api-keys", json!({ "name": "all" })).await.expect(201);
        assert_eq!(made["scopes"].as_array().unwrap().len(), Scope::OF_ACCOUNT.len());
        let body = json!({ "name": "more", "scopes": ["accounts:read"] });
        world.post("/v1/api-keys", body).await.expect_invalid("/scopes", "not_allowed");
        world.post("/v1/api-keys", json!({ "name": "none", "scopes": [] })).await.expect_invalid("/scopes", "too_few");
        world.post("/v1/api-keys", json!({ "name": "odd", "scopes": ["world:rule"] })).await.expect_invalid("/scopes/0", "unknown_value");
    }

    async fn a_revoked_key_is_refused(world) {
        let made = world.post("/v1/api-keys", json!({ "name": "ci" })).await.expect(201);
        let (key, path) = (text(&made["key"]), format!("/v1/api-keys/{}", text(&made["id"])));
        world.ask_as(&key, Method::GET, "/v1/account", None).await.expect(200);
        assert_eq!(world.delete(&path).await.status, 204);
        world.ask_as(&key, Method::GET, "/v1/account", None).await.expect_problem(401, "unauthorized");
        assert_eq!(world.delete(&path).await.status, 204, "revoking again is fine");
        let listed = world.get("/v1/api-keys").await.expect(200);
        assert!(listed["data"][0]["revoked_at"].is_string(), "{listed}");
    }

    async fn a_key_makes_no_other_that_may_do_more(world) {
        let manager = world.key_with(&[Scope::KeysManage, Scope::EventsRead]).await;
        let make = async |scopes| {
            let body = json!({ "name": "made", "scopes": scopes });
            world.ask_as(&manager, Method::POST, "/v1/api-keys", Some(body)).await
        };
        make(json!(["events:read"])).await.expect(201);
        make(json!(["events:read", "secrets:reveal"])).await.expect_problem(403, "scope_missing");
        make(json!(null)).await.expect_problem(403, "scope_missing");
        let reader = world.key_with(&[Scope::EventsRead]).await;
        world.ask_as(&reader, Method::GET, "/v1/api-keys", None).await.expect_problem(403, "scope_missing");
    }

    async fn an_ingest_key_is_bound_to_a_source_of_the_account(world) {
        let source = text(&world.post("/v1/sources", json!({ "name": "Stripe" })).await.expect(201)["id"]);
        let body = json!({ "name": "door", "kind": "ingest", "source_id": source });
        let made = world.post("/v1/api-keys", body.clone()).await.expect(201);
        assert!(text(&made["key"]).starts_with("phi_"));
        assert_eq!((&made["source_id"], &made["scopes"]), (&json!(source), &json!(["ingest:write"])));

        world.post("/v1/api-keys", json!({ "name": "door", "kind": "ingest" })).await.expect_invalid("/source_id", "missing_field");
        let foreign = world.ask_as(&world.foreign_key, Method::POST, "/v1/api-keys", Some(body)).await;
        foreign.expect_invalid("/source_id", "not_found");
        let body = json!({ "name": "door", "source_id": source });
        world.post("/v1/api-keys", body).await.expect_invalid("/source_id", "not_allowed");
        let body = json!({ "name": "door", "kind": "ingest", "source_id": source, "scopes": ["account:admin"] });
        world.post("/v1/api-keys", body).await.expect_invalid("/scopes", "not_allowed");
    }

    async fn operator_keys_are_made_by_operators(world) {
        let body = json!({ "name": "root", "kind": "operator" });
        world.post("/v1/api-keys", body.clone()).await.expect_invalid("/kind", "not_allowed");
        let made = world.ask_as(&world.operator_key, Method::POST, "/v1/api-keys", Some(body)).await.expect(201);
        assert!(text(&made["key"]).starts_with("pho_"));
        let listed = world.ask_as(&world.operator_key, Method::GET, "/v1/api-keys", None).await.expect(200);
        assert_eq!(listed["data"].as_array().unwrap().len(), 3, "with that of the platform: {listed}");
        let body = json!({ "name": "lost", "kind": "account" });
        let lost = world.ask_as(&world.operator_key, Method::POST, "/v1/api-keys", Some(body)).await;
        lost.expect_invalid("/account_id", "missing_field");
    }

    async fn a_key_that_has_expired_is_refused_and_one_that_would_be_expired_is_not_made(world) {
        let body = json!({ "name": "old", "expires_at": "2020-01-01T00:00:00Z" });
        world.post("/v1/api-keys", body).await.expect_invalid("/expires_at", "out_of_range");
        let body = json!({ "name": "odd", "expires_at": "soon" });
        world.post("/v1/api-keys", body).await.expect_invalid("/expires_at", "invalid_value");
        let body = json!({ "name": "fast", "rate_limit": 0 });
        world.post("/v1/api-keys", body).await.expect_invalid("/rate_limit", "out_of_range");
    }

    async fn a_key_is_taken_from_its_addresses_and_from_nowhere_else(world) {
        let make = async |networks: serde_json::Value| {
            let body = json!({ "name": "here", "allowed_addresses": networks });
            world.post("/v1/api-keys", body).await.expect(201)
        };
        // Who asks in this process comes from 0.0.0.0.
        let (here, elsewhere) = (make(json!(["192.0.2.7", "0.0.0.0/8"])).await, make(json!(["192.0.2.0/24"])).await);
        assert_eq!(here["allowed_addresses"], json!(["192.0.2.7/32", "0.0.0.0/8"]));
        world.ask_as(&text(&here["key"]), Method::GET, "/v1/events", None).await.expect(200);
        let refused = world.ask_as(&text(&elsewhere["key"]), Method::GET, "/v1/events", None).await;
        refused.expect_problem(401, "unauthorized");
        let event = json!({ "type": "a.b", "data": 1 });
        let refused = world.ask_as(&text(&elsewhere["key"]), Method::POST, "/v1/events", Some(event)).await;
        refused.expect_problem(401, "unauthorized");
        let body = json!({ "name": "odd", "allowed_addresses": ["office"] });
        world.post("/v1/api-keys", body).await.expect_invalid("/allowed_addresses/0", "invalid_value");
        let body = json!({ "name": "many", "allowed_addresses": vec!["192.0.2.7"; 65] });
        world.post("/v1/api-keys", body).await.expect_invalid("/allowed_addresses", "too_many");
    }

    async fn a_key_makes_none_that_outlasts_it_or_is_taken_from_elsewhere(world) {
        let bounds = json!({ "name": "manager", "expires_at": "2100-01-01T00:00:00Z", "allowed_addresses": ["0.0.0.0/8"] });
        let manager = text(&world.post("/v1/api-keys", bounds).await.expect(201)["key"]);
        let make = async |body: serde_json::Value| world.ask_as(&manager, Method::POST, "/v1/api-keys", Some(body)).await;
        let made = make(json!({ "name": "made" })).await.expect(201);
        assert_eq!(made["expires_at"], "2100-01-01T00:00:00.000000Z");
        assert_eq!(made["allowed_addresses"], json!(["0.0.0.0/8"]));
        let made = make(json!({ "name": "made", "expires_at": "2099-01-01T00:00:00Z", "allowed_addresses": ["0.1.0.0/16"] }));
        assert_eq!(made.await.expect(201)["allowed_addresses"], json!(["0.1.0.0/16"]));
        let later = json!({ "name": "made", "expires_at": "2100-01-01T00:00:01Z" });
        make(later).await.expect_invalid("/expires_at", "not_allowed");
        for wider in ["0.0.0.0/7", "192.0.2.7", "::/0"] {
            let body = json!({ "name": "made", "allowed_addresses": ["0.0.0.1", wider] });
            make(body).await.expect_invalid("/allowed_addresses", "not_allowed");
        }
        // An operator is bounded in what is the installation's, not in what is an account's.
        let bounds = json!({ "name": "root", "allowed_addresses": ["0.0.0.0/8"] });
        let root = world.ask_as(&world.operator_key, Method::POST, "/v1/api-keys", Some(bounds)).await.expect(201);
        let root = text(&root["key"]);
        let body = json!({ "name": "second", "kind": "operator" });
        let second = world.ask_as(&root, Method::POST, "/v1/api-keys", Some(body)).await.expect(201);
        assert_eq!(second["allowed_addresses"], json!(["0.0.0.0/8"]));
        let body = json!({ "name": "of theirs", "account_id": world.account });
        let theirs = world.ask_as(&root, Method::POST, "/v1/api-keys", Some(body)).await.expect(201);
        assert_eq!(theirs["allowed_addresses"], json!([]));
    }

    async fn without_a_good_key_there_is_nothing_to_see(world) {
        for key in ["", "phk_nonsense", &world.key[..54]] {
            let refused = world.ask_as(key, Method::GET, "/v1/destinations", None).await;
            assert!(refused.headers.contains_key("www-authenticate"));
            refused.expect_problem(401, "unauthorized");
        }
        let path = format!("/v1/destinations?key={}", world.key);
        world.get(&path).await.expect_problem(400, "credential_in_url");
    }
}

#[tokio::test]
async fn a_wrong_checksum_never_reaches_the_store() {
    let (world, store) = World::forgetful().await;
    store.interrupt(|call| match call {
        "api_key_by_lookup" => Err(StoreError::Unavailable("away".into())),
        _ => Ok(()),
    });
    let unknown = KeyText::generate(KeyKind::Account, &CountingDice::default());
    let asked = world.ask_as(unknown.expose(), Method::GET, "/v1/account", None).await;
    asked.expect_problem(503, "unavailable");
    let mut mistyped = unknown.expose().to_owned();
    let last = mistyped.pop().expect("a key is not empty");
    mistyped.push(if last == 'x' { 'y' } else { 'x' });
    let asked = world.ask_as(&mistyped, Method::GET, "/v1/account", None).await;
    asked.expect_problem(401, "unauthorized");
}
