use crate::{on_every_store, world::text};
use domain::account::Scope;
use http::Method;
use serde_json::json;

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
        assert_eq!(listed["data"][0].as_object().unwrap().len(), 11);
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
