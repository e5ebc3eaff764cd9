use crate::{on_every_store, world::text};
use domain::account::Scope;
use http::Method;
use serde_json::json;
use store::Change;

on_every_store! {
    async fn an_operator_makes_reads_and_changes_accounts(world) {
        let operator = &world.operator_key;
        let body = json!({ "name": "Initech", "uid": "initech" });
        let made = world.ask_as(operator, Method::POST, "/v1/accounts", Some(body)).await.expect(201);
        assert_eq!((&made["name"], &made["uid"], &made["retention_days"]), (&json!("Initech"), &json!("initech"), &json!(90)));
        assert_eq!(made.as_object().unwrap().len(), 11, "{made}");
        assert_eq!(made["erasure"], json!(null));
        assert_eq!(made["defaults"], json!({ "max_concurrency": null, "timeout_seconds": null, "retry_policy": null }));

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

    async fn an_account_has_defaults_that_hold_for_destinations_which_say_nothing(world) {
        let made = async |more: serde_json::Value| {
            let mut body = json!({ "name": "Orders", "url": "https://example.com/hooks" });
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            world.post("/v1/destinations", body).await.expect(201)
        };
        let silent = format!("/v1/destinations/{}", text(&made(json!({})).await["id"]));
        let own = json!({ "max_concurrency": 5, "retry_policy": { "schedule_seconds": [1] } });
        let own = format!("/v1/destinations/{}", text(&made(own).await["id"]));

        let defaults = json!({
            "max_concurrency": 2, "timeout_seconds": 7, "retry_policy": { "schedule_seconds": [3], "retry_statuses": ["4xx", 302] },
        });
        let account = world.patch("/v1/account", json!({ "defaults": defaults })).await.expect(200);
        let shown = json!({
            "max_concurrency": 2, "timeout_seconds": 7,
            "retry_policy": { "schedule_seconds": [3], "jitter": null, "expire_after_seconds": null, "retry_statuses": ["4xx", 302] },
        });
        assert_eq!(account["defaults"], shown);
        assert_eq!(world.get("/v1/account").await.expect(200)["defaults"], shown);
        assert_eq!(world.announced.changes.lock().unwrap().last(), Some(&Change::Defaults(world.account)));

        let seen = world.get(&silent).await.expect(200);
        assert_eq!((&seen["max_concurrency"], &seen["timeout_seconds"]), (&json!(2), &json!(7)));
        let policy = json!({
            "schedule_seconds": [3], "jitter": 0.2, "expire_after_seconds": 259200, "retry_statuses": ["4xx", 302],
        });
        assert_eq!(seen["retry_policy"], policy);
        assert_eq!(seen["settings_from"], json!({
            "max_concurrency": "account", "timeout_seconds": "account",
            "retry_policy": {
                "schedule_seconds": "account", "jitter": "built_in", "expire_after_seconds": "built_in",
                "retry_statuses": "account",
            },
        }));
        let seen = world.get(&own).await.expect(200);
        assert_eq!((&seen["max_concurrency"], &seen["retry_policy"]["schedule_seconds"]), (&json!(5), &json!([1])));
        assert_eq!(seen["settings_from"]["max_concurrency"], "destination", "said, though it is what the product says");
        assert_eq!(seen["settings_from"]["retry_policy"]["schedule_seconds"], "destination");
        assert_eq!(seen["settings_from"]["retry_policy"]["retry_statuses"], "account");
        let listed = world.get("/v1/destinations").await.expect(200);
        assert_eq!(listed["data"], json!([seen, world.get(&silent).await.expect(200)]));
        assert_eq!(made(json!({})).await["max_concurrency"], 2, "of one that is made later too");

        let restored = world.patch(&own, json!({ "max_concurrency": null })).await.expect(200);
        assert_eq!((&restored["max_concurrency"], &restored["settings_from"]["max_concurrency"]), (&json!(2), &json!("account")));

        let patch = json!({ "defaults": { "max_concurrency": null, "retry_policy": { "schedule_seconds": null } } });
        let account = world.patch("/v1/account", patch).await.expect(200);
        assert_eq!((&account["defaults"]["max_concurrency"], &account["defaults"]["timeout_seconds"]), (&json!(null), &json!(7)));
        assert_eq!(account["defaults"]["retry_policy"]["retry_statuses"], json!(["4xx", 302]));
        let seen = world.get(&silent).await.expect(200);
        assert_eq!((&seen["max_concurrency"], &seen["settings_from"]["max_concurrency"]), (&json!(5), &json!("built_in")));
        let account = world.patch("/v1/account", json!({ "defaults": null })).await.expect(200);
        assert_eq!(account["defaults"], json!({ "max_concurrency": null, "timeout_seconds": null, "retry_policy": null }));
        assert_eq!(world.get(&silent).await.expect(200)["timeout_seconds"], 10);
    }

    async fn an_operator_sets_the_defaults_of_an_account(world) {
        let operator = &world.operator_key;
        let body = json!({ "name": "Initech", "defaults": { "timeout_seconds": 3 } });
        let made = world.ask_as(operator, Method::POST, "/v1/accounts", Some(body)).await.expect(201);
        assert_eq!(made["defaults"]["timeout_seconds"], 3);
        let path = format!("/v1/accounts/{}", text(&made["id"]));
        let patch = json!({ "defaults": { "max_concurrency": 1 } });
        let changed = world.ask_as(operator, Method::PATCH, &path, Some(patch)).await.expect(200);
        assert_eq!((&changed["defaults"]["timeout_seconds"], &changed["defaults"]["max_concurrency"]), (&json!(3), &json!(1)));
        assert_eq!(world.ask_as(operator, Method::GET, &path, None).await.expect(200), changed);
    }

    async fn lanes_read_their_destinations_anew_only_when_defaults_change(world) {
        world.patch("/v1/account", json!({ "name": "Other", "defaults": {} })).await.expect(200);
        assert_eq!(*world.announced.changes.lock().unwrap(), []);
        world.patch("/v1/account", json!({ "defaults": { "timeout_seconds": 3 } })).await.expect(200);
        world.patch("/v1/account", json!({ "defaults": { "timeout_seconds": 3 } })).await.expect(200);
        assert_eq!(*world.announced.changes.lock().unwrap(), [Change::Defaults(world.account)]);
        world.patch("/v1/account", json!({ "defaults": { "timeout_seconds": 99 } })).await.expect(422);
        assert_eq!(world.announced.changes.lock().unwrap().len(), 1);
    }

    async fn defaults_are_held_to_the_rules_of_destinations(world) {
        for (defaults, pointer, code) in [
            (json!({ "max_concurrency": 0 }), "/defaults/max_concurrency", "out_of_range"),
            (json!({ "timeout_seconds": 31 }), "/defaults/timeout_seconds", "out_of_range"),
            (json!({ "timeout_seconds": "10s" }), "/defaults/timeout_seconds", "invalid_type"),
            (json!({ "retries": 3 }), "/defaults/retries", "unknown_field"),
            (json!({ "retries": null }), "/defaults/retries", "unknown_field"),
            (json!({ "retry_policy": { "jitter": 2 } }), "/defaults/retry_policy/jitter", "out_of_range"),
            (json!({ "retry_policy": { "retry_statuses": ["5xx"] } }), "/defaults/retry_policy/retry_statuses/0", "out_of_range"),
            (json!({ "retry_policy": { "retry_statuses": [410] } }), "/defaults/retry_policy/retry_statuses/0", "out_of_range"),
            (json!({ "retry_policy": { "schedule_seconds": vec![86_400; 20], "jitter": 1 } }), "", ""),
        ] {
            let answer = world.patch("/v1/account", json!({ "defaults": defaults })).await;
            if pointer.is_empty() { answer.expect(200); } else { answer.expect_invalid(pointer, code); }
        }
        let longer = json!({ "retention_days": 2, "defaults": { "retry_policy": { "schedule_seconds": [86400, 86400, 86400] } } });
        world.patch("/v1/account", longer).await.expect_invalid("/defaults/retry_policy/schedule_seconds", "out_of_range");
        let less = json!({ "retention_days": 2 });
        world.patch("/v1/account", less).await.expect(200);
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
        own.expect_problem(400, "invalid_header");
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
