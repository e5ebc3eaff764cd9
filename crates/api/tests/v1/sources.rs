use crate::{on_every_store, world::text};
use domain::account::Scope;
use http::Method;
use serde_json::json;

on_every_store! {
    async fn a_source_is_made_read_changed_and_removed(world) {
        let made = world.post("/v1/sources", json!({ "name": "Stripe" })).await;
        assert!(made.headers.contains_key("etag"));
        let made = made.expect(201);
        assert_eq!(made.as_object().unwrap().len(), 10, "{made}");
        assert_eq!(made["tags"], json!([]));
        assert_eq!((&made["enabled"], &made["uid"], &made["rate_limit"]), (&json!(true), &json!(null), &json!(null)));
        assert_eq!(made["verification"], json!({ "type": "none" }));
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

    async fn verification_that_is_not_built_is_refused_kindly(world) {
        let body = json!({ "name": "Stripe", "verification": { "type": "stripe", "secrets": ["whsec_x"] } });
        world.post("/v1/sources", body).await.expect_invalid("/verification/type", "not_available");
        let body = json!({ "name": "Stripe", "verification": { "type": "guess" } });
        world.post("/v1/sources", body).await.expect_invalid("/verification/type", "unknown_value");
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
