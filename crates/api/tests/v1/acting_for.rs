//! An operator acts for an account that it names: every operation of the document, with and without the name.

use crate::{
    on_every_store,
    openapi::operations,
    world::{Reply, World, text},
};
use axum::body::Body;
use http::{Method, Request, header};
use serde_json::{Value, json};

/// What is about the installation, so that there is nobody to act for.
const OF_THE_INSTALLATION: &[&str] = &[
    "create_account",
    "list_accounts",
    "get_account",
    "update_account",
    "delete_account",
    "list_account_api_keys",
    "revoke_account_api_key",
    "create_portal_link",
    "list_portal_links",
    "revoke_portal_link",
    "create_user",
    "list_users",
    "delete_user",
    "examine",
    "list_master_keys",
    "rotate_master_key",
    "rotate_data_keys",
];

/// What is the operator's own, or everybody's, and needs no account.
const NEEDS_NO_ACCOUNT: &[&str] = &[
    "create_account",
    "list_accounts",
    "get_account",
    "update_account",
    "delete_account",
    "list_account_api_keys",
    "revoke_account_api_key",
    "create_portal_link",
    "list_portal_links",
    "revoke_portal_link",
    "create_user",
    "list_users",
    "delete_user",
    "create_api_key",
    "list_api_keys",
    "revoke_api_key",
    "examine",
    "list_master_keys",
    "rotate_master_key",
    "rotate_data_keys",
    "list_nodes",
    "list_audit_entries",
];

async fn ask(world: &World, key: Option<&str>, account: Option<&str>, method: Method, path: &str) -> Reply {
    let mut request = Request::builder().uri(path).header(header::CONTENT_TYPE, "application/json");
    if let Some(key) = key {
        request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
    }
    if let Some(account) = account {
        request = request.header("posthaste-account", account);
    }
    let body = if method == Method::GET { String::new() } else { "{}".to_owned() };
    world.ask(request.method(method).body(Body::from(body)).expect("a request")).await
}

async fn act(world: &World, account: &str, method: Method, path: &str, body: Value) -> Reply {
    let request = Request::builder()
        .uri(path)
        .method(method)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::AUTHORIZATION, format!("Bearer {}", world.operator_key))
        .header("posthaste-account", account)
        .body(Body::from(body.to_string()));
    world.ask(request.expect("a request")).await
}

on_every_store! {
    async fn every_operation_wants_to_know_who_asks_and_for_whom(world) {
        let absent = "acc_01h455vb4pex5vsknk084sn02q";
        let mut tried = 0;
        for (path, method, operation) in operations() {
            let name = operation["operationId"].as_str().expect("a name").to_owned();
            if !path.starts_with("/v1/") {
                continue;
            }
            let method: Method = method.to_uppercase().parse().expect("a method");
            let path = path.replace("{id}", "nonsense").replace("{key_id}", "nonsense").replace("{link_id}", "nonsense");
            let tell = async |key, account| ask(&world, key, account, method.clone(), &path).await;
            tell(None, None).await.expect_problem(401, "unauthorized");
            tell(None, Some(absent)).await.expect_problem(401, "unauthorized");
            let own = world.account.to_string();
            for account in [own.as_str(), absent] {
                // Nobody gets into another account by naming it.
                tell(Some(&world.foreign_key), Some(account)).await.expect_problem(403, "scope_missing");
            }
            if OF_THE_INSTALLATION.contains(&name.as_str()) {
                for account in [own.as_str(), absent] {
                    let refused = tell(Some(&world.operator_key), Some(account)).await;
                    refused.expect_problem(400, "invalid_header");
                }
            }
            if NEEDS_NO_ACCOUNT.contains(&name.as_str()) {
                continue;
            }
            tell(Some(&world.operator_key), None).await.expect_problem(400, "invalid_header");
            tell(Some(&world.operator_key), Some(absent)).await.expect_problem(404, "not_found");
            tell(Some(&world.operator_key), Some("nobody")).await.expect_problem(404, "not_found");
            tried += 1;
        }
        assert!(tried > 40, "{tried} operations were tried");
    }

    async fn an_operator_does_in_an_account_what_its_key_may(world) {
        let body = json!({ "uid": "customer-7" });
        let path = format!("/v1/accounts/{}", world.account);
        world.ask_as(&world.operator_key, Method::PATCH, &path, Some(body)).await.expect(200);
        let own = world.account.to_string();
        for name in [own.as_str(), "customer-7"] {
            let body = json!({ "name": "Orders", "url": "https://example.com/hooks" });
            let made = act(&world, name, Method::POST, "/v1/destinations", body).await.expect(201);
            let id = text(&made["id"]);
            world.get(&format!("/v1/destinations/{id}")).await.expect(200);
            let path = format!("/v1/destinations/{id}/secret");
            act(&world, name, Method::GET, &path, Value::Null).await.expect(200);
            let foreign = world.ask_as(&world.foreign_key, Method::GET, &path, None).await;
            foreign.expect_problem(404, "not_found");
            // The account sees who it was.
            let found = world.get(&format!("/v1/audit?object_id={id}&actor=operator")).await.expect(200);
            let actions: Vec<String> = found["data"].as_array().unwrap().iter().map(|it| text(&it["action"])).collect();
            assert_eq!(actions, ["get_destination_secret", "create_destination"]);
        }
        let event = json!({ "type": "order.paid", "data": {} });
        let event = text(&act(&world, "customer-7", Method::POST, "/v1/events", event).await.expect(202)["id"]);
        world.get(&format!("/v1/events/{event}")).await.expect(200);
        let keys = act(&world, "customer-7", Method::GET, "/v1/api-keys", Value::Null).await.expect(200);
        assert!(keys["data"].as_array().unwrap().iter().all(|key| key["kind"] == "account"));
    }

    async fn an_id_and_an_idempotency_key_are_those_of_the_account_acted_for(world) {
        let publish = async |account: Option<&str>| {
            let mut request = Request::post("/v1/events")
                .header(header::CONTENT_TYPE, "application/json")
                .header("idempotency-key", "once");
            request = match account {
                Some(account) => request
                    .header(header::AUTHORIZATION, format!("Bearer {}", world.operator_key))
                    .header("posthaste-account", account),
                None => request.header(header::AUTHORIZATION, format!("Bearer {}", world.key)),
            };
            let body = json!({ "type": "order.paid", "data": {} }).to_string();
            world.ask(request.body(Body::from(body)).expect("a request")).await
        };
        let own = world.account.to_string();
        let first = text(&publish(None).await.body["id"]);
        assert_eq!(text(&publish(Some(&own)).await.body["id"]), first, "the same key of the same account");
    }

    async fn two_accounts_are_not_named_at_once_and_a_uid_is_no_id(world) {
        let request = Request::get("/v1/destinations")
            .header(header::AUTHORIZATION, format!("Bearer {}", world.operator_key))
            .header("posthaste-account", "one")
            .header("posthaste-account", "two");
        let refused = world.ask(request.body(Body::empty()).expect("a request")).await;
        refused.expect_problem(400, "invalid_header");
        let body = json!({ "name": "Initech", "uid": world.account });
        let refused = world.ask_as(&world.operator_key, Method::POST, "/v1/accounts", Some(body)).await;
        refused.expect_invalid("/uid", "invalid_uid");
    }
}
