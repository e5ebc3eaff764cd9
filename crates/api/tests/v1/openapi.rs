//! The OpenAPI document: what the code says, reviewed when it changes.

use crate::world::World;
use domain::{
    account::{KeyKind, Scope},
    delivery::Status,
    destination::{OnDeadLetter, Ordering, Scheme},
    gate::HoldReason,
    lane::WaitKind,
    limits,
    member::Role,
    outcome::Outcome,
    replay::ReplayStatus,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// `POSTHASTE_UPDATE=1 cargo test -p api openapi` writes it anew.
#[test]
fn the_document_is_the_one_that_was_reviewed() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
    let now = serde_json::to_string_pretty(&api::document()).expect("plain data") + "\n";
    if std::env::var_os("POSTHASTE_UPDATE").is_some() {
        std::fs::write(path, &now).expect("the document can be written");
    }
    let reviewed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        reviewed == now,
        "openapi.json is not what the code says: look at the change, then POSTHASTE_UPDATE=1"
    );
}

#[tokio::test]
async fn a_problem_leads_to_its_explanation() {
    let world = World::memory().await;
    let problem = world.get("/v1/nothing").await;
    let link = problem.body["type"].as_str().unwrap().to_owned();
    let (path, anchor) = link.split_once('#').unwrap();
    let page = world.get(path).await;
    assert_eq!(page.status, 200);
    assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
    assert_eq!(page.headers["x-content-type-options"], "nosniff");
    assert!(String::from_utf8_lossy(&page.bytes).contains(&format!("id=\"{anchor}\"")));
}

#[tokio::test]
async fn the_document_is_served() {
    let world = World::memory().await;
    let served = world.get("/openapi.json").await.expect(200);
    assert_eq!(served["openapi"].as_str().map(|version| &version[..3]), Some("3.1"));
    assert_eq!(served, api::document());
}

/// Everything the document names is answered, and what it does not name is not there. The router takes handlers only
/// together with their description, so the other way round holds by construction; these are the exceptions.
#[tokio::test]
async fn every_operation_of_the_document_is_on_the_router() {
    let world = World::memory().await;
    for (path, method, _) in operations() {
        let concrete =
            path.replace("{id}", "nonsense").replace("{key_id}", "nonsense").replace("{token}", "nonsense");
        let method = method.to_uppercase().parse().unwrap();
        let answer = world.ask_as("", method, &concrete, None).await;
        assert_ne!(answer.status, 405, "{path}");
        assert_ne!(answer.body["detail"], "no such page", "{path}");
    }
    world.get("/v1/nothing").await.expect_problem(404, "not_found");
    let refused = world.delete("/v1/destinations").await;
    let allowed: BTreeSet<_> = refused.headers["allow"].to_str().unwrap().split(',').map(str::trim).collect();
    assert!(allowed.contains("GET") && allowed.contains("POST"), "{allowed:?}");
    refused.expect_problem(405, "method_not_allowed");
}

#[test]
fn every_operation_has_a_name_of_its_own_and_says_what_can_go_wrong() {
    let mut names = BTreeSet::new();
    for (path, method, operation) in operations() {
        let name = operation["operationId"].as_str().unwrap_or_else(|| panic!("{method} {path} has no name"));
        assert!(names.insert(name.to_owned()), "{name} is two operations");
        if path.starts_with("/v1/") {
            let problem =
                |status: &str| operation["responses"][status]["content"].get("application/problem+json");
            assert!(
                problem("401").or_else(|| problem("4XX")).is_some(),
                "{method} {path} does not describe its problems"
            );
        }
    }
}

/// What can go wrong is told by its codes, in the response of their status.
#[test]
fn every_response_that_is_a_problem_names_its_codes() {
    for (path, method, operation) in operations() {
        for (status, response) in operation["responses"].as_object().unwrap() {
            if response["content"].get("application/problem+json").is_none() {
                continue;
            }
            let text = response["description"].as_str().unwrap_or_default();
            let codes: Vec<&str> = text.split('`').skip(1).step_by(2).collect();
            assert!(!codes.is_empty(), "{method} {path} {status}: {text:?} names no code");
        }
        let can_mismatch = operation["responses"].get("412").is_some();
        let has_if_match = operation["parameters"]
            .as_array()
            .is_some_and(|given| given.iter().any(|parameter| parameter["name"] == "if-match"));
        assert_eq!(can_mismatch, has_if_match, "{method} {path}");
    }
}

/// Where the document says that an answer has an entity tag it has one, and where it does not it has none.
#[tokio::test]
async fn an_entity_tag_comes_with_what_has_a_version() {
    let world = World::memory().await;
    let all = operations();
    let said = |method: &str, path: &str, status: u16| {
        let (_, _, operation) = all
            .iter()
            .find(|(at, of, _)| (of.as_str(), at.as_str()) == (method, path))
            .expect("an operation");
        operation["responses"][status.to_string()]["headers"].get("etag").is_some()
    };
    let (destination, route) = world.routed_destination().await;
    let source = world.post("/v1/sources", json!({ "name": "Shop" })).await.expect(201);
    let source = source["id"].as_str().unwrap().to_owned();
    let asked = [
        ("post", "/v1/sources", None, Some(json!({ "name": "Till" }))),
        ("get", "/v1/sources", None, None),
        ("get", "/v1/sources/{id}", Some(&source), None),
        ("patch", "/v1/sources/{id}", Some(&source), Some(json!({ "name": "Door" }))),
        ("get", "/v1/sources/{id}/ingest-url", Some(&source), None),
        ("post", "/v1/sources/{id}/rotate-token", Some(&source), None),
        ("post", "/v1/destinations", None, Some(json!({ "name": "A", "url": "https://a.example" }))),
        ("get", "/v1/destinations/{id}", Some(&destination), None),
        ("get", "/v1/destinations/{id}/stats", Some(&destination), None),
        ("patch", "/v1/destinations/{id}", Some(&destination), Some(json!({ "name": "B" }))),
        ("post", "/v1/destinations/{id}/pause", Some(&destination), None),
        ("post", "/v1/destinations/{id}/resume", Some(&destination), None),
        ("post", "/v1/destinations/{id}/disable", Some(&destination), None),
        ("post", "/v1/destinations/{id}/enable", Some(&destination), None),
        ("post", "/v1/destinations/{id}/probe", Some(&destination), None),
        ("post", "/v1/destinations/{id}/rotate-secret", Some(&destination), None),
        ("post", "/v1/routes", None, Some(json!({ "destination_id": destination }))),
        ("get", "/v1/routes/{id}", Some(&route), None),
        ("patch", "/v1/routes/{id}", Some(&route), Some(json!({ "enabled": false }))),
        ("get", "/v1/account", None, None),
        ("patch", "/v1/account", None, Some(json!({ "name": "Acme" }))),
    ];
    let mut tagged = 0;
    for (method, path, id, body) in asked {
        let concrete = id.map_or(path.to_owned(), |id| path.replace("{id}", id));
        let answer = world.ask_as(&world.key, method.to_uppercase().parse().unwrap(), &concrete, body).await;
        assert!(answer.status.is_success(), "{method} {path}: {}", answer.body);
        let tag = answer.headers.get("etag").map(|tag| tag.to_str().unwrap().to_owned());
        assert_eq!(tag.is_some(), said(method, path, answer.status.as_u16()), "{method} {path}");
        if let Some(tag) = tag {
            tagged += 1;
            let number = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
            assert!(number.is_some_and(|number| number.parse::<u64>().is_ok()), "{tag}");
        }
    }
    assert_eq!(tagged, 18);
}

#[test]
fn every_schema_that_is_referred_to_is_there() {
    let document = api::document();
    let mut wanted = BTreeSet::new();
    collect_references(&document, &mut wanted);
    for reference in wanted {
        let pointer = reference.trim_start_matches('#');
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
}

#[test]
fn the_words_of_the_document_are_those_of_the_rules() {
    let document = api::document();
    let schemas = &document["components"]["schemas"];
    for (name, words) in [
        ("ApiKeyKind", KeyKind::WORDS),
        ("DeliveryStatus", Status::WORDS),
        ("HoldReason", HoldReason::WORDS),
        ("OnDeadLetter", OnDeadLetter::WORDS),
        ("Ordering", Ordering::WORDS),
        ("Outcome", Outcome::WORDS),
        ("ReplayStatus", ReplayStatus::WORDS),
        ("Role", Role::WORDS),
        ("Scope", Scope::WORDS),
        ("SigningScheme", Scheme::WORDS),
        ("WaitKind", WaitKind::WORDS),
    ] {
        assert_eq!(schemas[name]["enum"], json!(words), "{name}");
    }
}

#[test]
fn a_body_or_a_parameter_is_left_out_and_never_null() {
    let mut left_out = Vec::new();
    for (_, _, operation) in operations() {
        let null = json!({"type": "null"});
        let is_null = |schema: &Value| {
            let shapes = schema["oneOf"].as_array().is_some_and(|shapes| shapes.contains(&null));
            shapes || schema["type"].as_array().is_some_and(|types| types.contains(&json!("null")))
        };
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            assert!(!is_null(&parameter["schema"]), "{parameter}");
        }
        let body = &operation["requestBody"];
        assert!(!is_null(&body["content"]["application/json"]["schema"]), "{body}");
        if body["required"] == false {
            left_out.push(operation["operationId"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(
        left_out,
        [
            "create_portal_link",
            "rotate_data_keys",
            "rotate_destination_secret",
            "test_destination",
            "replay_event",
            "rotate_master_key"
        ]
    );
}

#[test]
fn the_items_of_a_list_have_a_name() {
    let document = api::document();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let pages: Vec<_> = schemas.iter().filter(|(name, _)| name.ends_with("Page")).collect();
    assert!(pages.len() > 10, "{pages:?}");
    for (name, page) in pages {
        let item = page["properties"]["data"]["items"]["$ref"].as_str().unwrap();
        assert_eq!(format!("{}Page", item.rsplit('/').next().unwrap()), *name);
    }
}

#[test]
fn the_bounds_of_the_document_are_those_of_the_rules() {
    let document = api::document();
    let schemas = &document["components"]["schemas"];
    let member = |schema: &str, member: &str| schemas[schema]["properties"][member].clone();
    let seconds = |duration: std::time::Duration| duration.as_secs();
    for (schema, name, bound, expected) in [
        ("NewAccount", "retention_days", "maximum", limits::RETENTION_DAYS_MAX.into()),
        ("DefaultsInput", "max_concurrency", "maximum", limits::MAX_CONCURRENCY_MAX.into()),
        ("DefaultsInput", "timeout_seconds", "maximum", seconds(limits::TIMEOUT_MAX)),
        ("NewDestination", "max_concurrency", "maximum", limits::MAX_CONCURRENCY_MAX.into()),
        ("NewDestination", "timeout_seconds", "maximum", seconds(limits::TIMEOUT_MAX)),
        ("NewDestination", "forward_headers", "maxItems", limits::CUSTOM_HEADERS as u64),
        ("RateLimitInput", "requests", "maximum", limits::DESTINATION_RATE_MAX.into()),
        ("RateLimitInput", "per_seconds", "maximum", limits::DESTINATION_RATE_SECONDS_MAX.into()),
        ("RotateSecret", "overlap_seconds", "maximum", seconds(limits::ROTATION_OVERLAP_MAX)),
        ("NewRoute", "event_types", "maxItems", limits::ROUTE_PATTERNS as u64),
        ("NewSource", "rate_limit", "maximum", limits::RATE_LIMIT_MAX.into()),
        ("AccountKeyInput", "rate_limit", "maximum", limits::RATE_LIMIT_MAX.into()),
        ("ReplayByIds", "delivery_ids", "maxItems", limits::REPLAY_IDS as u64),
        ("ReplayByIds", "rate", "maximum", limits::REPLAY_RATE_MAX.into()),
        ("DeliveryFilter", "event_id", "maxItems", limits::FILTER_VALUES as u64),
        ("EventReplayInput", "destination_ids", "maxItems", limits::FILTER_VALUES as u64),
        ("PublishBatch", "events", "maxItems", limits::BATCH_EVENTS as u64),
    ] {
        assert_eq!(member(schema, name)[bound], json!(expected), "{schema}.{name} {bound}");
    }
    for (schema, name, expected) in [
        ("NewAccount", "retention_days", limits::RETENTION_DAYS_DEFAULT.into()),
        ("RotateSecret", "overlap_seconds", seconds(limits::ROTATION_OVERLAP_DEFAULT)),
        ("ReplayByFilter", "rate", u64::from(limits::REPLAY_RATE_DEFAULT)),
    ] {
        let text = member(schema, name)["description"].as_str().unwrap_or_default().to_owned();
        assert!(text.ends_with(&format!("{expected} if it is left out.")), "{schema}.{name}: {text}");
    }
}

pub(crate) fn operations() -> Vec<(String, String, Value)> {
    let document = api::document();
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            found.push((path.clone(), method.clone(), operation.clone()));
        }
    }
    assert!(found.len() > 40, "the document names {} operations", found.len());
    found
}

fn collect_references(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                match value.as_str() {
                    Some(reference) if name == "$ref" => drop(into.insert(reference.to_owned())),
                    _ => collect_references(value, into),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| collect_references(value, into)),
        _ => {}
    }
}
