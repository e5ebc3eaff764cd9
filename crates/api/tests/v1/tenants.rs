//! A platform and its customers: one key for many accounts, accounts that come with their first event, limits of each, and uids
//! wherever there are ids.

use crate::{
    on_every_store,
    world::{Reply, World, text},
};
use domain::account::Scope;
use http::Method;
use serde_json::{Value, json};

fn event() -> Option<Value> {
    Some(json!({ "type": "order.paid", "data": {} }))
}

async fn as_operator(world: &World, method: Method, path: &str, body: Value) -> Reply {
    world.ask_as(&world.operator_key, method, path, Some(body)).await
}

fn ids(list: &Value) -> Vec<String> {
    list["data"].as_array().expect("a list").iter().map(|row| text(&row["id"])).collect()
}

on_every_store! {
    async fn a_platforms_key_is_made_listed_and_revoked_by_an_operator(world) {
        let body = json!({ "name": "shop", "kind": "platform", "scopes": ["accounts:read", "events:read"] });
        world.post("/v1/api-keys", body.clone()).await.expect_invalid("/kind", "not_allowed");
        let own = world.account.to_string();
        world.act_for(&own, Method::POST, "/v1/api-keys", Some(body.clone())).await.expect_invalid("/kind", "not_allowed");
        let made = as_operator(&world, Method::POST, "/v1/api-keys", body).await.expect(201);
        let key = text(&made["key"]);
        assert!(key.starts_with("php_") && text(&made["prefix"]).starts_with("php_"), "{made}");
        assert_eq!(made["scopes"], json!(["events:read", "accounts:read"]));
        world.ask_as(&key, Method::GET, "/v1/accounts", None).await.expect(200);
        world.act_as(&key, Some(&own), Method::GET, "/v1/events", None).await.expect(200);
        world.act_as(&key, Some(&own), Method::GET, "/v1/destinations", None).await.expect_problem(403, "scope_missing");
        world.ask_as(&key, Method::POST, "/v1/accounts", Some(json!({ "name": "New" }))).await.expect_problem(403, "scope_missing");
        let listed = world.ask_as(&world.operator_key, Method::GET, "/v1/api-keys", None).await.expect(200);
        assert_eq!((&listed["data"][0]["id"], &listed["data"][0]["kind"]), (&made["id"], &json!("platform")));
        let path = format!("/v1/api-keys/{}", text(&made["id"]));
        assert_eq!(world.ask_as(&world.operator_key, Method::DELETE, &path, None).await.status, 204);
        world.ask_as(&key, Method::GET, "/v1/accounts", None).await.expect_problem(401, "unauthorized");

        for body in [
            json!({ "name": "a", "kind": "platform", "account_id": world.account }),
            json!({ "name": "a", "kind": "platform", "scopes": [] }),
            json!({ "name": "a", "account_id": world.account, "scopes": ["accounts:write"] }),
        ] {
            as_operator(&world, Method::POST, "/v1/api-keys", body).await.expect_problem(422, "validation_failed");
        }
    }

    async fn what_a_platform_does_is_the_accounts_and_says_so(world) {
        let own = world.account.to_string();
        let body = json!({ "name": "Orders", "url": "https://example.com/hooks" });
        let made = world.act_for(&own, Method::POST, "/v1/destinations", Some(body)).await.expect(201);
        let id = text(&made["id"]);
        world.get(&format!("/v1/destinations/{id}")).await.expect(200);
        let found = world.get(&format!("/v1/audit?object_id={id}&actor=platform")).await.expect(200);
        assert_eq!(found["data"][0]["action"], "create_destination");
        assert_eq!(found["data"][0]["actor"]["type"], "platform");
        let none = world.get(&format!("/v1/audit?object_id={id}&actor=operator")).await.expect(200);
        assert_eq!(none["data"], json!([]));
        world.act_for(&own, Method::GET, "/v1/nodes", None).await.expect_problem(403, "scope_missing");
        world.ask_as(&world.platform_key, Method::GET, "/v1/nodes", None).await.expect_problem(403, "scope_missing");
        let keys = world.act_for(&own, Method::GET, "/v1/api-keys", None).await.expect(200);
        assert!(keys["data"].as_array().unwrap().iter().all(|key| key["kind"] == "account"));
    }

    async fn a_new_customer_comes_with_its_first_event(world) {
        let path = "/v1/events?create_account=true";
        world.act_for("customer-7", Method::POST, "/v1/events", event()).await.expect_problem(404, "not_found");
        let bad = Some(json!({ "type": "order paid", "data": {} }));
        world.act_for("customer-7", Method::POST, path, bad).await.expect_problem(422, "validation_failed");
        world.act_for("customer-7", Method::POST, "/v1/events", event()).await.expect_problem(404, "not_found");
        let made = text(&world.act_for("customer-7", Method::POST, path, event()).await.expect(202)["id"]);
        let again = text(&world.act_for("customer-7", Method::POST, path, event()).await.expect(202)["id"]);
        assert_ne!(made, again);
        let found = world.ask_as(&world.platform_key, Method::GET, "/v1/accounts/customer-7", None).await.expect(200);
        assert_eq!((&found["uid"], &found["name"]), (&json!("customer-7"), &json!("customer-7")));
        let events = world.act_for("customer-7", Method::GET, "/v1/events", None).await.expect(200);
        assert_eq!(ids(&events), [again, made]);
        let entries = world.act_for("customer-7", Method::GET, "/v1/audit", None).await.expect(200);
        let actions: Vec<_> = entries["data"].as_array().unwrap().iter().map(|entry| text(&entry["action"])).collect();
        assert_eq!(actions, ["create_account"]);
        assert_eq!(entries["data"][0]["object_id"], found["id"]);
        assert_eq!(entries["data"][0]["actor"]["type"], "platform");

        let batch = |kind: &str| Some(json!({ "events": [{ "type": kind, "data": {} }, { "type": "a b", "data": {} }] }));
        let path = "/v1/events/batch?create_account=true";
        let results = world.act_for("customer-8", Method::POST, path, batch("a b")).await.expect(202);
        assert_eq!(results["results"][0]["status"], "refused");
        world.act_for("customer-8", Method::GET, "/v1/events", None).await.expect_problem(404, "not_found");
        let results = world.act_for("customer-8", Method::POST, path, batch("a.b")).await.expect(202);
        assert_eq!(results["results"][0]["status"], "unmatched");
        assert_eq!(ids(&world.act_for("customer-8", Method::GET, "/v1/events", None).await.expect(200)).len(), 1);
    }

    async fn many_who_bring_the_first_event_at_once_make_one_account(world) {
        let path = "/v1/events?create_account=true";
        let all = (0..6).map(|_| world.act_for("customer-9", Method::POST, path, event()));
        for reply in futures_util::future::join_all(all).await {
            reply.expect(202);
        }
        let events = world.act_for("customer-9", Method::GET, "/v1/events", None).await.expect(200);
        assert_eq!(ids(&events).len(), 6);
        let found = world.ask_as(&world.platform_key, Method::GET, "/v1/accounts?uid=customer-9", None).await.expect(200);
        assert_eq!(ids(&found).len(), 1);
    }

    async fn an_account_is_made_by_those_who_may_and_by_a_uid_that_is_none_of_ours(world) {
        let path = "/v1/events?create_account=true";
        let narrow = world.platform_with(&[Scope::IngestWrite]).await;
        let refused = world.act_as(&narrow, Some("new"), Method::POST, path, event()).await;
        refused.expect_problem(403, "scope_missing");
        world.ask_as(&world.key, Method::POST, path, event()).await.expect_problem(403, "scope_missing");
        world.ask_as(&world.platform_key, Method::POST, path, event()).await.expect_problem(400, "invalid_header");
        world.act_for("a b", Method::POST, path, event()).await.expect_problem(400, "invalid_header");
        let id = "acc_01h455vb4pex5vsknk084sn02q";
        world.act_for(id, Method::POST, path, event()).await.expect_problem(404, "not_found");
        let id = "dst_01h455vb4pex5vsknk084sn02q";
        world.act_for(id, Method::POST, path, event()).await.expect_problem(404, "not_found");
        let odd = world.act_for("new", Method::POST, "/v1/events?create_account=maybe", event()).await;
        odd.expect_invalid("/create_account", "invalid_value");
        world.act_for("new", Method::POST, "/v1/events?create_account=false", event()).await.expect_problem(404, "not_found");
        let as_operator = world.act_as(&world.operator_key, Some("new"), Method::POST, path, event()).await;
        as_operator.expect(202);
    }

    async fn an_account_has_limits_and_quotas_of_its_own(world) {
        let path = format!("/v1/accounts/{}", world.account);
        let own = world.get("/v1/account").await.expect(200);
        let none = json!({ "destinations": null, "routes": null, "backlog_rows": null, "backlog_bytes": null });
        assert_eq!((&own["rate_limit"], &own["quotas"]), (&Value::Null, &none));
        let patch = json!({ "rate_limit": 2, "quotas": { "destinations": 1, "backlog_rows": 5 } });
        world.patch("/v1/account", patch.clone()).await.expect_problem(422, "validation_failed");
        world.ask_as(&world.platform_key, Method::PATCH, &path, Some(patch)).await.expect(200);
        let own = world.get("/v1/account").await.expect(200);
        assert_eq!((&own["rate_limit"], &own["quotas"]["destinations"]), (&json!(2), &json!(1)));
        assert_eq!((&own["quotas"]["routes"], &own["quotas"]["backlog_rows"]), (&Value::Null, &json!(5)));

        world.destination().await;
        let body = json!({ "name": "Second", "url": "https://example.com/hooks" });
        world.post("/v1/destinations", body.clone()).await.expect_problem(409, "quota_exceeded");
        for _ in 0..2 {
            world.post("/v1/events", event().unwrap()).await.expect(202);
        }
        let own = world.account.to_string();
        let refused = world.act_for(&own, Method::POST, "/v1/events", event()).await;
        assert!(refused.headers.contains_key("retry-after"));
        assert_eq!(refused.headers["ratelimit-policy"], "\"account\";q=2;w=1");
        refused.expect_problem(429, "rate_limited");
        let foreign = world.ask_as(&world.foreign_key, Method::POST, "/v1/events", event()).await;
        foreign.expect(202);

        let patch = json!({ "rate_limit": null, "quotas": null });
        world.ask_as(&world.platform_key, Method::PATCH, &path, Some(patch)).await.expect(200);
        world.post("/v1/destinations", body).await.expect(201);
        world.post("/v1/events", event().unwrap()).await.expect(202);
        for (member, value) in [("rate_limit", json!(0)), ("quotas", json!({ "routes": 200_001 })), ("quotas", json!({ "backlog_rows": 0 }))] {
            let patch = json!({ member: value });
            as_operator(&world, Method::PATCH, &path, patch).await.expect_problem(422, "validation_failed");
        }
        let entries = world.get(&format!("/v1/audit?object_id={own}&action=update_account")).await.expect(200);
        assert_eq!(entries["data"][1]["difference"]["rate_limit"], json!({ "to": 2 }));
    }

    async fn a_uid_works_wherever_an_id_does(world) {
        let named = |name: &str| json!({ "name": name, "uid": name, "url": "https://example.com/hooks" });
        let to = text(&world.post("/v1/destinations", named("orders")).await.expect(201)["id"]);
        let from = text(&world.post("/v1/sources", json!({ "name": "shop", "uid": "shop" })).await.expect(201)["id"]);
        let body = json!({ "uid": "way", "source_id": "shop", "destination_id": "orders" });
        let route = world.post("/v1/routes", body).await.expect(201);
        assert_eq!((&route["source_id"], &route["destination_id"]), (&json!(from), &json!(to)));
        for (path, id) in [("destinations/orders", &to), ("sources/shop", &from), ("routes/way", &text(&route["id"]))] {
            assert_eq!(text(&world.get(&format!("/v1/{path}")).await.expect(200)["id"]), *id);
            let foreign = world.ask_as(&world.foreign_key, Method::GET, &format!("/v1/{path}"), None).await;
            foreign.expect_problem(404, "not_found");
        }
        world.tell("/v1/destinations/orders/pause").await.expect(200);
        world.tell("/v1/destinations/orders/resume").await.expect(200);
        world.get("/v1/destinations/orders/stats").await.expect(200);
        let patched = world.patch("/v1/routes/way", json!({ "source_id": null, "destination_id": "orders" })).await.expect(200);
        assert_eq!(patched["source_id"], Value::Null);
        let event = world.publish("a.b", json!(1)).await;
        let delivery = world.delivery_of(&event).await;
        for filter in ["destination_id=orders", "route_id=way", "destination_id=orders&destination_id=nobody"] {
            let found = world.get(&format!("/v1/deliveries?{filter}")).await.expect(200);
            assert_eq!(ids(&found), [delivery.as_str()], "{filter}");
        }
        assert_eq!(ids(&world.get("/v1/deliveries?destination_id=nobody").await.expect(200)).len(), 0);
        assert_eq!(ids(&world.get("/v1/events?source_id=shop").await.expect(200)).len(), 0);
        world.deliver_all(&to).await;
        let body = json!({ "filter": { "destination_id": ["orders"], "status": ["delivered"] } });
        assert_eq!(world.post("/v1/replays", body).await.expect(202)["filter"]["destination_id"], json!([to]));
        let body = json!({ "destination_ids": ["orders"] });
        world.post(&format!("/v1/events/{event}/replay"), body).await.expect(202);
        let body = json!({ "source_id": "shop", "type": "a.b" });
        world.post("/v1/routes/preview", body).await.expect(200);
        let key = json!({ "name": "door", "kind": "ingest", "source_id": "shop" });
        assert_eq!(world.post("/v1/api-keys", key).await.expect(201)["source_id"], json!(from));

        // What is not there is said with its place, and a uid of another account is not there.
        for body in [json!({ "destination_id": "nobody" }), json!({ "destination_id": "orders", "source_id": "orders" })] {
            let refused = world.post("/v1/routes", body.clone()).await;
            let place = if body["destination_id"] == "nobody" { "/destination_id" } else { "/source_id" };
            refused.expect_invalid(place, "not_found");
        }
        let body = json!({ "destination_id": "orders" });
        let foreign = world.ask_as(&world.foreign_key, Method::POST, "/v1/routes", Some(body)).await;
        foreign.expect_invalid("/destination_id", "not_found");
        let body = json!({ "filter": { "destination_id": ["orders", "nobody"] } });
        world.post("/v1/replays", body).await.expect_invalid("/filter/destination_id/1", "not_found");

        // Who may not read destinations does not learn which there are.
        let narrow = world.key_with(&[Scope::EventsRead]).await;
        for uid in ["orders", "nobody"] {
            let path = format!("/v1/destinations/{uid}");
            world.ask_as(&narrow, Method::GET, &path, None).await.expect_problem(403, "scope_missing");
        }
        assert_eq!(world.delete("/v1/destinations/orders").await.status, 204);
        world.get("/v1/destinations/orders").await.expect_problem(404, "not_found");
    }

    async fn an_account_is_named_by_its_uid_as_long_as_it_has_it(world) {
        let (first, second) = (world.account.to_string(), world.foreign_account.to_string());
        let give = async |account: &str, uid: Value| {
            let path = format!("/v1/accounts/{account}");
            as_operator(&world, Method::PATCH, &path, json!({ "uid": uid })).await.expect(200)
        };
        give(&first, json!("customer-7")).await;
        let own = async |uid: &str| world.act_for(uid, Method::GET, "/v1/account", None).await;
        assert_eq!(own("customer-7").await.expect(200)["id"], json!(first));
        give(&first, Value::Null).await;
        own("customer-7").await.expect_problem(404, "not_found");
        give(&second, json!("customer-7")).await;
        assert_eq!(own("customer-7").await.expect(200)["id"], json!(second));
        let path = "/v1/accounts/customer-7/api-keys";
        assert_eq!(ids(&world.ask_as(&world.platform_key, Method::GET, path, None).await.expect(200)).len(), 1);
        let found = world.ask_as(&world.operator_key, Method::GET, "/v1/audit?account_id=customer-7", None).await.expect(200);
        assert!(found["data"].as_array().unwrap().iter().all(|entry| entry["account_id"] == json!(second)));
        let body = json!({ "name": "ci", "account_id": "customer-7" });
        as_operator(&world, Method::POST, "/v1/api-keys", body).await.expect(201);
        let body = json!({ "name": "ci", "account_id": "customer-8" });
        as_operator(&world, Method::POST, "/v1/api-keys", body).await.expect_invalid("/account_id", "not_found");
    }

    async fn lists_are_searched_by_name_uid_and_url(world) {
        let make = async |name: &str, uid: Value, url: &str| {
            let body = json!({ "name": name, "uid": uid, "url": url });
            text(&world.post("/v1/destinations", body).await.expect(201)["id"])
        };
        let first = make("Orders of Größe", json!("orders"), "https://eu.example.com/hooks").await;
        let second = make("Refunds", Value::Null, "https://us.example.com/orders").await;
        let find = async |query: &str| ids(&world.get(&format!("/v1/destinations?{query}")).await.expect(200));
        assert_eq!(find("").await, [second.clone(), first.clone()]);
        assert_eq!(find("name=ORDERS").await, [first.as_str()]);
        assert_eq!(find("name=gr%C3%B6%C3%9Fe").await, [first.as_str()]);
        assert_eq!(find("url=example.COM").await, [second.clone(), first.clone()]);
        assert_eq!(find("url=us.").await, [second.as_str()]);
        assert_eq!(find("url=us.&name=orders").await, Vec::<String>::new());
        assert_eq!(find("uid=orders").await, [first.as_str()]);
        assert_eq!(find("uid=orders&name=refunds").await, Vec::<String>::new());
        assert_eq!(find("uid=nobody").await, Vec::<String>::new());
        let page = world.get("/v1/destinations?url=example&limit=1").await.expect(200);
        assert_eq!(ids(&page), [second.as_str()]);
        assert!(page["searched_until"].is_string());
        let cursor = text(&page["next_cursor"]);
        let rest = world.get(&format!("/v1/destinations?url=example&limit=1&cursor={cursor}")).await.expect(200);
        assert_eq!((ids(&rest), &rest["next_cursor"]), (vec![first.clone()], &Value::Null));
        assert!(rest.get("searched_until").is_none());
        assert_eq!(find("held=true").await, Vec::<String>::new());
        world.post(&format!("/v1/destinations/{first}/pause"), json!({})).await.expect(200);
        assert_eq!(find("held=true").await, [first.as_str()]);
        assert_eq!(find("held=true&name=refunds").await, Vec::<String>::new());
        assert_eq!(find("held=false").await, [second.clone(), first.clone()]);
        world.post(&format!("/v1/destinations/{second}/disable"), json!({})).await.expect(200);
        let page = world.get("/v1/destinations?held=true&limit=1").await.expect(200);
        assert_eq!(ids(&page), [second.as_str()]);
        let cursor = text(&page["next_cursor"]);
        let rest = world.get(&format!("/v1/destinations?held=true&limit=1&cursor={cursor}")).await.expect(200);
        assert_eq!((ids(&rest), &rest["next_cursor"]), (vec![first.clone()], &Value::Null));
        world.get("/v1/destinations?name=").await.expect_invalid("/name", "invalid_length");
        let long = "x".repeat(201);
        world.get(&format!("/v1/destinations?url={long}")).await.expect_invalid("/url", "invalid_length");
        let foreign = world.ask_as(&world.foreign_key, Method::GET, "/v1/destinations?uid=orders", None).await;
        assert_eq!(foreign.expect(200)["data"], json!([]));

        world.post("/v1/sources", json!({ "name": "Shop", "uid": "shop" })).await.expect(201);
        let body = json!({ "destination_id": first, "name": "All of it", "uid": "all" });
        world.post("/v1/routes", body).await.expect(201);
        world.post("/v1/routes", json!({ "destination_id": first })).await.expect(201);
        for (path, count) in [
            ("sources?name=SHOP", 1), ("sources?uid=shop", 1), ("sources?name=bank", 0),
            ("routes?name=all", 1), ("routes?uid=all", 1), ("routes", 2),
        ] {
            assert_eq!(ids(&world.get(&format!("/v1/{path}")).await.expect(200)).len(), count, "{path}");
        }
        world.get("/v1/sources?url=shop").await.expect_invalid("/url", "unknown_parameter");
        let accounts = world.ask_as(&world.platform_key, Method::GET, "/v1/accounts?name=umbr", None).await.expect(200);
        assert_eq!(ids(&accounts), [world.foreign_account.to_string()]);
    }
}
