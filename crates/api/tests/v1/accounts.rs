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
