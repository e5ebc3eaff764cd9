//! Whatever the OpenAPI document names, asked by everybody who may not: a new endpoint is tried here by being in the document.
//! What is asked for is really there, in the first account.

use crate::{
    on_every_store,
    openapi::operations,
    world::{Reply, World, text},
};
use axum::body::Body;
use bytes::Bytes;
use domain::outcome::Outcome;
use http::{Method, Request, header};
use http_body_util::BodyExt as _;
use serde_json::json;

/// Who asks, and for whom.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Case {
    NoKey,
    /// The key of another account.
    Foreign,
    /// A platform that does not say for whom.
    PlatformForNobody,
    /// A platform that acts for another account than the one that has it.
    PlatformForForeign,
    /// The key that an account had before it was deleted.
    Erased,
    /// A platform that acts for an account that was deleted.
    PlatformForErased,
}

const CASES: [Case; 6] = [
    Case::NoKey,
    Case::Foreign,
    Case::PlatformForNobody,
    Case::PlatformForForeign,
    Case::Erased,
    Case::PlatformForErased,
];

/// Whose operation it is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Owner {
    /// An account's. So is what the document adds, until it is said here whose it is.
    Account,
    /// Those who have to do with accounts as such.
    Tenants,
    /// The operator's, who is no platform.
    Operator,
}

fn owner(path: &str) -> Owner {
    match path {
        "/v1/doctor" | "/v1/nodes" | "/v1/users" | "/v1/users/{id}" => Owner::Operator,
        "/v1/master-keys" | "/v1/master-keys/rotate" | "/v1/data-keys/rotate" => Owner::Operator,
        path if path == "/v1/accounts" || path.starts_with("/v1/accounts/") => Owner::Tenants,
        _ => Owner::Account,
    }
}

/// One of everything in the first account.
struct Things {
    source: String,
    destination: String,
    route: String,
    event: String,
    delivery: String,
    replay: String,
    key: String,
    account: String,
    user: String,
    portal_link: String,
    /// Of an account that is being erased.
    erased: String,
    erased_key: String,
}

impl Things {
    async fn of(world: &World) -> Self {
        let (destination, route) = world.routed_destination().await;
        let source = text(&world.post("/v1/sources", json!({ "name": "Stripe" })).await.expect(201)["id"]);
        let key = text(&world.post("/v1/api-keys", json!({ "name": "ci" })).await.expect(201)["id"]);
        let event = world.publish("a.b", json!(1)).await;
        let delivery = world.delivery_of(&event).await;
        world.attempt(&destination, &delivery, Outcome::ServerError, 500).await;
        let replay = text(&world.post("/v1/replays", json!({ "filter": {} })).await.expect(202)["id"]);
        let (erased, erased_key) = Self::erased(world).await;
        let account = world.account.to_string();
        let user = json!({ "name": "ada", "password": "correct horse battery", "role": "operator" });
        let user = world.ask_as(&world.operator_key, Method::POST, "/v1/users", Some(user)).await.expect(201);
        let user = text(&user["id"]);
        let path = format!("/v1/accounts/{account}/portal-links");
        let link = world.ask_as(&world.operator_key, Method::POST, &path, None).await.expect(201);
        let portal_link = text(&link["id"]);
        Self {
            source,
            destination,
            route,
            event,
            delivery,
            replay,
            key,
            account,
            user,
            portal_link,
            erased,
            erased_key,
        }
    }

    async fn erased(world: &World) -> (String, String) {
        let operator = &world.operator_key;
        let body = json!({ "name": "Gone" });
        let made = world.ask_as(operator, Method::POST, "/v1/accounts", Some(body)).await.expect(201);
        let account = text(&made["id"]);
        let body = json!({ "name": "gone", "account_id": account });
        let key = world.ask_as(operator, Method::POST, "/v1/api-keys", Some(body)).await.expect(201);
        let path = format!("/v1/accounts/{account}");
        world.ask_as(operator, Method::DELETE, &path, None).await.expect(202);
        (account, text(&key["key"]))
    }

    fn all(&self) -> [&str; 7] {
        [&self.source, &self.destination, &self.route, &self.event, &self.delivery, &self.replay, &self.key]
    }

    /// The path, about what is there.
    fn put_into(&self, path: &str) -> String {
        let lists = [
            ("/v1/accounts", &self.account),
            ("/v1/api-keys", &self.key),
            ("/v1/deliveries", &self.delivery),
            ("/v1/destinations", &self.destination),
            ("/v1/events", &self.event),
            ("/v1/replays", &self.replay),
            ("/v1/routes", &self.route),
            ("/v1/sources", &self.source),
            ("/v1/users", &self.user),
        ];
        let found = lists.iter().find(|(list, _)| path.starts_with(list));
        let id = found.map_or("nonsense", |(_, id)| id.as_str());
        assert!(found.is_some() || !path.contains("{id}"), "{path}: say here what it is about");
        path.replace("{id}", id).replace("{key_id}", &self.key).replace("{link_id}", &self.portal_link)
    }
}

/// Only as much of an answer as comes by itself: a stream has no end.
async fn ask(world: &World, things: &Things, case: Case, method: &Method, path: &str) -> Reply {
    let mut request =
        Request::builder().uri(path).method(method.clone()).header(header::CONTENT_TYPE, "application/json");
    let foreign = world.foreign_account.to_string();
    let (key, account) = match case {
        Case::NoKey => (None, None),
        Case::Foreign => (Some(&world.foreign_key), None),
        Case::PlatformForNobody => (Some(&world.platform_key), None),
        Case::PlatformForForeign => (Some(&world.platform_key), Some(foreign.as_str())),
        Case::Erased => (Some(&things.erased_key), None),
        Case::PlatformForErased => (Some(&world.platform_key), Some(things.erased.as_str())),
    };
    if let Some(key) = key {
        request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
    }
    if let Some(account) = account {
        request = request.header("posthaste-account", account);
    }
    let body = if *method == Method::GET { String::new() } else { "{}".to_owned() };
    let request = request.body(Body::from(body)).expect("a request");
    let response = world.begin(request).await;
    let (parts, body) = response.into_parts();
    let streams = parts.headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream");
    let bytes = if streams { Bytes::new() } else { body.collect().await.expect("a whole body").to_bytes() };
    let body = serde_json::from_slice(&bytes).unwrap_or_default();
    Reply { status: parts.status, headers: parts.headers, bytes, body }
}

fn check(case: Case, owner: Owner, names_something: bool, reply: &Reply) {
    let found = (reply.status.as_u16(), reply.body["code"].as_str().unwrap_or_default());
    match (case, owner) {
        (Case::NoKey | Case::Erased, _) => assert_eq!(found, (401, "unauthorized")),
        (Case::PlatformForForeign | Case::PlatformForErased, Owner::Tenants) => {
            assert_eq!(found, (400, "invalid_header"));
        }
        (Case::PlatformForErased, Owner::Operator) => assert!(matches!(found.0, 403 | 404), "{found:?}"),
        (Case::PlatformForErased, _) => assert_eq!(found, (404, "not_found")),
        (Case::Foreign, Owner::Tenants) => assert_eq!(found, (403, "scope_missing")),
        (Case::PlatformForNobody, Owner::Account) => assert_eq!(found.0, 400),
        // It may: its scopes are tried elsewhere.
        (Case::PlatformForNobody, Owner::Tenants) => assert_ne!(found.0, 403),
        (Case::PlatformForNobody | Case::PlatformForForeign, Owner::Operator) => {
            assert_eq!(found, (403, "scope_missing"));
        }
        (Case::Foreign, Owner::Operator) if names_something => assert_eq!(found, (403, "scope_missing")),
        (Case::Foreign | Case::PlatformForForeign, _) if names_something => {
            assert_eq!(found, (404, "not_found"));
        }
        // What names nothing is about the account that asks.
        (Case::Foreign | Case::PlatformForForeign, _) => assert!(!reply.status.is_server_error()),
    }
}

on_every_store! {
    async fn nobody_gets_at_what_is_anothers(world) {
        let things = Things::of(&world).await;
        let mut tried = 0;
        for (path, method, operation) in operations() {
            if !path.starts_with("/v1/") {
                continue;
            }
            let (name, owner) = (operation["operationId"].as_str().expect("a name"), owner(&path));
            let method: Method = method.to_uppercase().parse().expect("a method");
            let concrete = things.put_into(&path);
            for case in CASES {
                // It may, and then there would be nothing left to look at: `erasure.rs` tries it.
                if name == "delete_account" && case == Case::PlatformForNobody {
                    continue;
                }
                let reply = ask(&world, &things, case, &method, &concrete).await;
                println!("{name} {case:?}: {} {}", reply.status, reply.body["code"]);
                check(case, owner, path.contains('{'), &reply);
                // A platform sees all accounts, where it is about accounts.
                if owner != Owner::Tenants {
                    let said = String::from_utf8_lossy(&reply.bytes);
                    let told = things.all().into_iter().find(|id| said.contains(id));
                    assert_eq!(told, None, "{name} {case:?} tells of it: {said}");
                }
                tried += 1;
            }
        }
        assert!(tried > 200, "{tried}");
        // And nothing of it had an effect.
        assert_eq!(world.get(&format!("/v1/sources/{}", things.source)).await.expect(200)["name"], "Stripe");
        let destination = world.get(&format!("/v1/destinations/{}", things.destination)).await.expect(200);
        assert_eq!(destination["status"], "active");
        world.get(&format!("/v1/routes/{}", things.route)).await.expect(200);
        let delivery = world.get(&format!("/v1/deliveries/{}", things.delivery)).await.expect(200);
        assert_eq!(delivery["status"], "retry_scheduled");
        assert_eq!(world.get(&format!("/v1/replays/{}", things.replay)).await.expect(200)["status"], "running");
    }
}
