use crate::{on_every_store, world::text};
use domain::account::Scope;
use http::Method;
use serde_json::json;

on_every_store! {
    async fn an_operator_makes_reads_and_changes_accounts(world) {
        let operator = &world.operator_key;
        let body = json!({ "name": "Initech", "uid": "initech" });
        let made = world.ask_as(operator, Method::POST, "/v1/accounts", Some(body)).await.expect(201);
        assert_eq!((&made["name"], &made["uid"], &made["retention_days"]), (&json!("Initech"), &json!("initech"), &json!(90)));
        assert_eq!(made.as_object().unwrap().len(), 6, "{made}");

        let path = format!("/v1/accounts/{}", text(&made["id"]));
        let read = world.ask_as(operator, Method::GET, &path, None).await.expect(200);
        assert_eq!(read, made);

        let patch = json!({ "retention_days": 7, "uid": null });
        let changed = world.ask_as(operator, Method::PATCH, &path, Some(patch)).await.expect(200);
        assert_eq!((&changed["name"], &changed["uid"], &changed["retention_days"]), (&json!("Initech"), &json!(null), &json!(7)));
        let patch = json!({ "retention_days": null });
        let restored = world.ask_as(operator, Method::PATCH, &path, Some(patch)).await.expect(200);
        assert_eq!(restored["retention_days"], 90);

        let listed = world.ask_as(operator, Method::GET, "/v1/accounts", None).await.expect(200);
        assert_eq!(listed["data"].as_array().unwrap().len(), 3);
        assert_eq!(listed["data"][0]["name"], "Initech");
    }

    async fn a_uid_is_taken_once(world) {
        let body = || Some(json!({ "name": "One", "uid": "same" }));
        world.ask_as(&world.operator_key, Method::POST, "/v1/accounts", body()).await.expect(201);
        let again = world.ask_as(&world.operator_key, Method::POST, "/v1/accounts", body()).await;
        again.expect_problem(409, "uid_taken");
    }

    async fn a_new_account_works_with_a_key_the_operator_makes_for_it(world) {
        let operator = &world.operator_key;
        let account = world.ask_as(operator, Method::POST, "/v1/accounts", Some(json!({ "name": "Initech" }))).await;
        let account = text(&account.expect(201)["id"]);
        let body = json!({ "name": "first", "account_id": account });
        let key = text(&world.ask_as(operator, Method::POST, "/v1/api-keys", Some(body)).await.expect(201)["key"]);
        let own = world.ask_as(&key, Method::GET, "/v1/account", None).await.expect(200);
        assert_eq!(own["id"], account);
        // Its secrets can be sealed: the account has a data key.
        world.ask_as(&key, Method::POST, "/v1/sources", Some(json!({ "name": "Stripe" }))).await.expect(201);
    }

    async fn an_operator_lists_and_revokes_the_keys_of_an_account(world) {
        let operator = &world.operator_key;
        let made = world.post("/v1/api-keys", json!({ "name": "lost" })).await.expect(201);
        let lost = text(&made["key"]);
        let path = format!("/v1/accounts/{}/api-keys", world.account);

        let page = world.ask_as(operator, Method::GET, &format!("{path}?limit=1"), None).await;
        assert!(!String::from_utf8_lossy(&page.bytes).contains(&lost[20..]), "a secret is shown once");
        let page = page.expect(200);
        assert_eq!((&page["data"][0]["id"], page["data"].as_array().unwrap().len()), (&made["id"], 1));
        assert!(page["data"][0].get("key").is_none());
        let cursor = text(&page["next_cursor"]);
        let rest = world.ask_as(operator, Method::GET, &format!("{path}?limit=1&cursor={cursor}"), None).await.expect(200);
        assert_eq!((rest["data"].as_array().unwrap().len(), &rest["next_cursor"]), (1, &json!(null)), "{rest}");
        world.ask_as(operator, Method::GET, &format!("/v1/api-keys?cursor={cursor}"), None).await.expect_problem(400, "invalid_cursor");

        let revoke = format!("{path}/{}", text(&made["id"]));
        world.ask_as(&lost, Method::GET, "/v1/account", None).await.expect(200);
        assert_eq!(world.ask_as(operator, Method::DELETE, &revoke, None).await.status, 204);
        world.ask_as(&lost, Method::GET, "/v1/account", None).await.expect_problem(401, "unauthorized");
        assert_eq!(world.ask_as(operator, Method::DELETE, &revoke, None).await.status, 204, "revoking again is fine");
        let listed = world.ask_as(operator, Method::GET, &path, None).await.expect(200);
        assert!(listed["data"][0]["revoked_at"].is_string(), "{listed}");
    }

    async fn a_key_is_revoked_by_its_own_account_only(world) {
        let operator = &world.operator_key;
        let made = world.post("/v1/api-keys", json!({ "name": "mine" })).await.expect(201);
        let (id, key) = (text(&made["id"]), text(&made["key"]));
        let foreign = world.ask_as(&world.foreign_key, Method::GET, "/v1/account", None).await.expect(200);
        let foreign = text(&foreign["id"]);
        for (account, id) in [(foreign.as_str(), id.as_str()), ("nonsense", &id), (&foreign, "nonsense")] {
            let path = format!("/v1/accounts/{account}/api-keys/{id}");
            world.ask_as(operator, Method::DELETE, &path, None).await.expect_problem(404, "not_found");
        }
        let own = format!("/v1/accounts/{}/api-keys", world.account);
        for key in [&world.key, &world.foreign_key] {
            world.ask_as(key, Method::GET, &own, None).await.expect_problem(403, "scope_missing");
            world.ask_as(key, Method::DELETE, &format!("{own}/{id}"), None).await.expect_problem(403, "scope_missing");
        }
        world.ask_as(operator, Method::GET, "/v1/accounts/acc_01h455vb4pex5vsknk084sn02q/api-keys", None).await.expect_problem(404, "not_found");
        world.ask_as(&key, Method::GET, "/v1/account", None).await.expect(200);
    }

    async fn accounts_are_the_operators_business(world) {
        world.get("/v1/accounts").await.expect_problem(403, "scope_missing");
        world.post("/v1/accounts", json!({ "name": "Mine" })).await.expect_problem(403, "scope_missing");
        world.get(&format!("/v1/accounts/{}", world.account)).await.expect_problem(403, "scope_missing");
        let own = world.ask_as(&world.operator_key, Method::GET, "/v1/account", None).await;
        own.expect_problem(403, "scope_missing");
    }

    async fn an_account_sees_and_changes_itself(world) {
        let own = world.get("/v1/account").await.expect(200);
        assert_eq!((&own["id"], &own["name"]), (&json!(world.account.to_string()), &json!("Acme")));
        let changed = world.patch("/v1/account", json!({ "name": "Acme Corp", "retention_days": 30 })).await.expect(200);
        assert_eq!((&changed["name"], &changed["retention_days"]), (&json!("Acme Corp"), &json!(30)));
        world.patch("/v1/account", json!({ "uid": "acme" })).await.expect_invalid("/uid", "unknown_field");
        world.patch("/v1/account", json!({ "retention_days": 0 })).await.expect_invalid("/retention_days", "out_of_range");
        world.patch("/v1/account", json!({ "name": null })).await.expect_invalid("/name", "missing_field");

        let reader = world.key_with(&[Scope::EventsRead]).await;
        let refused = world.ask_as(&reader, Method::PATCH, "/v1/account", Some(json!({ "name": "X" }))).await;
        refused.expect_problem(403, "scope_missing");
    }
}
