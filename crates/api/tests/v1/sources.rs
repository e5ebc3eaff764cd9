use crate::{on_every_store, world::text};
use domain::account::Scope;
use http::Method;
use serde_json::json;

on_every_store! {
    async fn a_source_is_made_read_changed_and_removed(world) {
        let made = world.post("/v1/sources", json!({ "name": "Stripe" })).await;
        assert!(made.headers.contains_key("etag"));
        let made = made.expect(201);
        assert_eq!(made.as_object().unwrap().len(), 11, "{made}");
        assert_eq!(made["tags"], json!([]));
        assert_eq!((&made["enabled"], &made["uid"], &made["rate_limit"]), (&json!(true), &json!(null), &json!(null)));
        let none = json!({ "type": "none", "secret_count": 0, "tolerance_seconds": null, "allowed_addresses": [] });
        assert_eq!(made["verification"], none);
        assert!(text(&made["ingest_url"]).starts_with("https://hooks.example.com/ingest/"));

        let path = format!("/v1/sources/{}", text(&made["id"]));
        let mut unrevealed = made.clone();
        unrevealed.as_object_mut().unwrap().remove("ingest_url");
        assert_eq!(world.get(&path).await.expect(200), unrevealed);
        let changed = world.patch(&path, json!({ "enabled": false, "uid": "stripe" })).await.expect(200);
        assert_eq!((&changed["enabled"], &changed["uid"], &changed["name"]), (&json!(false), &json!("stripe"), &json!("Stripe")));
        let restored = world.patch(&path, json!({ "enabled": null, "uid": null })).await.expect(200);
        assert_eq!((&restored["enabled"], &restored["uid"]), (&json!(true), &json!(null)));

        let listed = world.get("/v1/sources").await.expect(200);
        assert_eq!(listed["data"], json!([restored]));
        assert_eq!(listed["next_cursor"], json!(null));
        assert_eq!(world.delete(&path).await.status, 204);
        world.get(&path).await.expect_problem(404, "not_found");
        world.delete(&path).await.expect_problem(404, "not_found");
    }

    async fn an_ingest_url_is_shown_when_it_is_made_and_later_to_those_who_may_see_secrets(world) {
        let made = world.post("/v1/sources", json!({ "name": "Stripe" })).await.expect(201);
        let (path, url) = (format!("/v1/sources/{}", text(&made["id"])), text(&made["ingest_url"]));
        let token = url.rsplit('/').next().unwrap().to_owned();
        let others: Vec<Scope> = Scope::OF_ACCOUNT.into_iter().filter(|scope| *scope != Scope::SecretsReveal).collect();
        let other = world.key_with(&others).await;
        for key in [&world.key, &other] {
            for (method, path, body) in [
                (Method::GET, "/v1/sources", None),
                (Method::GET, &*path, None),
                (Method::PATCH, &*path, Some(json!({ "name": "Renamed" }))),
            ] {
                let answer = world.ask_as(key, method, path, body).await;
                assert_eq!(answer.status, 200, "{path}: {}", answer.body);
                assert!(!String::from_utf8_lossy(&answer.bytes).contains(&token), "{path}: {}", answer.body);
            }
        }
        let reveal = format!("{path}/ingest-url");
        world.ask_as(&other, Method::GET, &reveal, None).await.expect_problem(403, "scope_missing");
        let revealed = world.get(&reveal).await;
        assert_eq!(revealed.headers["cache-control"], "no-store");
        assert_eq!(revealed.expect(200), json!({ "ingest_url": url }));
        let rotated = world.ask_as(&other, Method::POST, &format!("{path}/rotate-token"), None).await.expect(200);
        assert_eq!(world.get(&reveal).await.expect(200)["ingest_url"], rotated["ingest_url"]);
    }

    async fn a_rotated_token_closes_the_old_door(world) {
        let made = world.post("/v1/sources", json!({ "name": "Stripe" })).await.expect(201);
        let path = format!("/v1/sources/{}/rotate-token", text(&made["id"]));
        let rotated = world.tell(&path).await.expect(200);
        assert_ne!(rotated["ingest_url"], made["ingest_url"]);
        let post = async |url: &str| {
            let path = url.strip_prefix("https://hooks.example.com").unwrap();
            world.post(path, json!({ "type": "a.b" })).await.status
        };
        assert_eq!(post(&text(&made["ingest_url"])).await, 404);
        assert_eq!(post(&text(&rotated["ingest_url"])).await, 202);
    }

    async fn secrets_of_a_verification_are_taken_and_counted_and_never_shown(world) {
        let secrets = json!(["It's a Secret to Everybody", "another secret"]);
        let body = json!({ "name": "GitHub", "verification": { "type": "github", "secrets": secrets } });
        let made = world.post("/v1/sources", body).await.expect(201);
        let shown = json!({ "type": "github", "secret_count": 2, "tolerance_seconds": null, "allowed_addresses": [] });
        assert_eq!(made["verification"], shown);
        let path = format!("/v1/sources/{}", text(&made["id"]));
        assert_eq!(world.get(&path).await.expect(200)["verification"], shown);
        let renamed = world.patch(&path, json!({ "name": "Hub", "verification": { "allowed_addresses": ["192.0.2.7/24", "::1"] } })).await.expect(200);
        assert_eq!(renamed["verification"]["secret_count"], 2, "left out they stay");
        assert_eq!(renamed["verification"]["allowed_addresses"], json!(["192.0.2.0/24", "::1/128"]));
        let one = json!({ "verification": { "secrets": ["It's a Secret to Everybody"], "allowed_addresses": null } });
        assert_eq!(world.patch(&path, one).await.expect(200)["verification"]["secret_count"], 1);

        let url = text(&made["ingest_url"]).strip_prefix("https://hooks.example.com").unwrap().to_owned();
        let send = async |body: &str| {
            let signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
            let request = http::Request::post(&url)
                .header("x-hub-signature-256", signature)
                .header("x-github-event", "push")
                .header("x-github-delivery", "72d3162e")
                .body(axum::body::Body::from(body.to_owned()))
                .unwrap();
            world.ask(request).await
        };
        send("Hello, World?").await.expect_problem(401, "signature_invalid");
        let first = send("Hello, World!").await.expect(202);
        assert_eq!(send("Hello, World!").await.expect(200)["id"], first["id"]);
        assert_eq!(world.get(&format!("/v1/events/{}", text(&first["id"]))).await.expect(200)["type"], "push");
        assert_eq!(world.get("/v1/events").await.expect(200)["data"].as_array().unwrap().len(), 1);

        let audit = world.get("/v1/audit").await.expect(200).to_string();
        assert!(audit.contains("verification_secrets") && !audit.contains("Everybody") && !audit.contains("another secret"));
    }

    async fn another_type_of_verification_keeps_nothing_of_the_old_one_but_its_addresses(world) {
        let hmac = json!({
            "type": "hmac", "secrets": ["of our own"], "header": "X-Signature", "timestamp_header": "X-Time",
            "algorithm": "sha512", "tolerance_seconds": 60, "allowed_addresses": ["192.0.2.0/24"],
        });
        let made = world.post("/v1/sources", json!({ "name": "Ours", "verification": hmac })).await.expect(201);
        let shown = json!({
            "type": "hmac", "secret_count": 1, "tolerance_seconds": 60, "allowed_addresses": ["192.0.2.0/24"],
            "header": "x-signature", "prefix": "", "encoding": "hex", "algorithm": "sha512", "timestamp_header": "x-time",
        });
        assert_eq!(made["verification"], shown);
        let path = format!("/v1/sources/{}", text(&made["id"]));
        let other = json!({ "verification": { "type": "stripe" } });
        world.patch(&path, other).await.expect_invalid("/verification/secrets", "missing_field");
        let other = json!({ "verification": { "type": "stripe", "secrets": ["whsec_x"] } });
        let changed = world.patch(&path, other).await.expect(200);
        let shown = json!({ "type": "stripe", "secret_count": 1, "tolerance_seconds": 300, "allowed_addresses": ["192.0.2.0/24"] });
        assert_eq!(changed["verification"], shown);
        let none = json!({ "verification": { "type": "none" } });
        world.patch(&path, none).await.expect_invalid("/verification/allowed_addresses", "not_allowed");
        let changed = world.patch(&path, json!({ "verification": null })).await.expect(200);
        assert_eq!(changed["verification"]["type"], "none");
    }

    async fn a_source_that_verifies_is_not_enabled_without_a_secret(world) {
        let body = json!({ "name": "Stripe", "verification": { "type": "stripe" } });
        world.post("/v1/sources", body).await.expect_invalid("/verification/secrets", "missing_field");
        let body = json!({ "name": "Stripe", "verification": { "type": "stripe", "secrets": [] } });
        world.post("/v1/sources", body).await.expect_invalid("/verification/secrets", "missing_field");
        assert_eq!(world.get("/v1/sources").await.expect(200)["data"], json!([]), "nothing was stored");
        let body = json!({ "name": "Stripe", "enabled": false, "verification": { "type": "stripe" } });
        let path = format!("/v1/sources/{}", text(&world.post("/v1/sources", body).await.expect(201)["id"]));
        world.patch(&path, json!({ "enabled": true })).await.expect_invalid("/verification/secrets", "missing_field");
        let body = json!({ "enabled": true, "verification": { "secrets": ["whsec_x"] } });
        assert_eq!(world.patch(&path, body).await.expect(200)["enabled"], true);
        let body = json!({ "verification": { "secrets": [] } });
        world.patch(&path, body).await.expect_invalid("/verification/secrets", "missing_field");
    }

    async fn a_verification_that_cannot_be_is_refused_with_its_place(world) {
        for (verification, pointer, code) in [
            (json!({ "type": "guess" }), "/verification/type", "unknown_value"),
            (json!({ "type": "none", "secrets": ["x"] }), "/verification/secrets/0", "not_allowed"),
            (json!({ "type": "none", "tolerance_seconds": 60 }), "/verification/tolerance_seconds", "not_allowed"),
            (json!({ "type": "none", "allowed_addresses": ["::1"] }), "/verification/allowed_addresses", "not_allowed"),
            (json!({ "type": "stripe", "secrets": ["a", "b", "c", "d", "e"] }), "/verification/secrets", "too_many"),
            (json!({ "type": "discord", "secrets": ["no key"] }), "/verification/secrets/0", "invalid_value"),
            (json!({ "type": "stripe", "secrets": ["a"], "tolerance_seconds": 0 }), "/verification/tolerance_seconds", "out_of_range"),
            (json!({ "type": "github", "secrets": ["a"], "tolerance_seconds": 60 }), "/verification/tolerance_seconds", "not_allowed"),
            (json!({ "type": "github", "secrets": ["a"], "allowed_addresses": ["here"] }), "/verification/allowed_addresses/0", "invalid_value"),
            (json!({ "type": "github", "secrets": ["a"], "header": "x" }), "/verification/header", "not_allowed"),
            (json!({ "type": "hmac", "secrets": ["a"], "header": "not a name" }), "/verification/header", "invalid_header_name"),
            (json!({ "type": "hmac", "secrets": ["a"], "header": "x", "signed_content": "{id}" }), "/verification/signed_content", "invalid_value"),
            (json!({ "type": "hmac", "secrets": ["a"], "header": "x", "algorithm": "md5" }), "/verification/algorithm", "unknown_value"),
        ] {
            let body = json!({ "name": "Provider", "verification": verification });
            world.post("/v1/sources", body).await.expect_invalid(pointer, code);
        }
        assert_eq!(world.get("/v1/sources").await.expect(200)["data"], json!([]), "nothing was stored");
    }

    async fn removing_a_source_removes_its_routes(world) {
        let source = text(&world.post("/v1/sources", json!({ "name": "Stripe" })).await.expect(201)["id"]);
        let destination = world.destination().await;
        let body = json!({ "source_id": source, "destination_id": destination });
        let route = text(&world.post("/v1/routes", body).await.expect(201)["id"]);
        assert_eq!(world.delete(&format!("/v1/sources/{source}")).await.status, 204);
        world.get(&format!("/v1/routes/{route}")).await.expect_problem(404, "not_found");
    }

    async fn a_uid_is_the_accounts_own(world) {
        let body = json!({ "name": "Stripe", "uid": "stripe" });
        world.post("/v1/sources", body.clone()).await.expect(201);
        world.post("/v1/sources", body.clone()).await.expect_problem(409, "uid_taken");
        world.ask_as(&world.foreign_key, Method::POST, "/v1/sources", Some(body)).await.expect(201);
        world.post("/v1/sources", json!({ "name": "x", "uid": "a b" })).await.expect_invalid("/uid", "invalid_uid");
    }
}
