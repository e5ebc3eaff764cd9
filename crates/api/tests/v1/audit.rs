//! The audit log: every operation that changes or reveals something leaves one entry, and nothing else does.

use crate::{
    on_every_store,
    openapi::operations,
    world::{Reply, World, text},
};
use domain::{
    account::Scope,
    audit::AuditRecord,
    id::{AccountId, AuditId},
    outcome::Outcome,
};
use http::Method;
use serde_json::{Value, json};
use store::{AuditFilter, Checked, Page, StoreError, check_chain};

/// What is no change of what an account has: events come in, or something is only worked out.
const CHANGE_NOTHING: &[&str] =
    &["ingest", "look_at_ingest_url", "publish", "publish_batch", "preview_routes"];
/// What changes many things or nothing, and leaves an entry for each transaction: see `key_rotation.rs`.
const IN_STEPS: &[&str] = &["rotate_master_key", "rotate_data_keys"];
/// What changes nothing and is written down all the same.
const REVEAL: &[&str] = &["get_destination_secret", "get_source_ingest_url"];

/// What is asked, as whom.
struct Asked {
    key: String,
    path: String,
    body: Option<Value>,
    /// The id of what it is about, where it is there before.
    object: Option<String>,
}

/// Makes ready what the operation is about, so that it changes something.
async fn prepare(world: &World, operation: &str, path: &str) -> Asked {
    let mut body = None;
    let mut operator = false;
    let object = match operation {
        "create_account" => {
            (body, operator) = (Some(json!({ "name": "Initech" })), true);
            None
        }
        "update_account" => {
            (body, operator) = (Some(json!({ "name": "Initrode" })), true);
            Some(world.account.to_string())
        }
        "delete_account" => {
            operator = true;
            let made = world.ask_as(
                &world.operator_key,
                Method::POST,
                "/v1/accounts",
                Some(json!({ "name": "Gone" })),
            );
            Some(text(&made.await.expect(201)["id"]))
        }
        "create_portal_link" => {
            operator = true;
            None
        }
        "revoke_portal_link" => {
            operator = true;
            let path = format!("/v1/accounts/{}/portal-links", world.account);
            let made = world.ask_as(&world.operator_key, Method::POST, &path, None).await;
            Some(text(&made.expect(201)["id"]))
        }
        "create_user" => {
            let user = json!({ "name": "ada", "password": "correct horse battery", "role": "operator" });
            (body, operator) = (Some(user), true);
            None
        }
        "delete_user" => {
            operator = true;
            let user = json!({ "name": "bob", "password": "correct horse battery", "role": "operator" });
            let made = world.ask_as(&world.operator_key, Method::POST, "/v1/users", Some(user)).await;
            Some(text(&made.expect(201)["id"]))
        }
        "erase_event_payload" => {
            let event = world.publish("nobody.cares", json!({})).await;
            let shown = world.get(&format!("/v1/events/{event}")).await.expect(200);
            for delivery in shown["deliveries"].as_array().expect("a list") {
                let cancel = format!("/v1/deliveries/{}/cancel", text(&delivery["id"]));
                assert!(world.post(&cancel, json!({})).await.status.is_success(), "what waits is in use");
            }
            Some(event)
        }
        "update_own_account" => {
            body = Some(json!({ "name": "Initrode" }));
            Some(world.account.to_string())
        }
        "revoke_account_api_key" | "revoke_api_key" => {
            operator = operation == "revoke_account_api_key";
            Some(text(&world.post("/v1/api-keys", json!({ "name": "ci" })).await.expect(201)["id"]))
        }
        "create_api_key" => {
            body = Some(json!({ "name": "ci" }));
            None
        }
        "create_source" => {
            body = Some(json!({ "name": "Shop" }));
            None
        }
        "create_destination" => {
            body = Some(json!({ "name": "Orders", "url": "https://example.com/hooks" }));
            None
        }
        "create_route" => {
            body = Some(json!({ "destination_id": world.destination().await }));
            None
        }
        name if name.ends_with("_source")
            || name.starts_with("rotate_source")
            || name.starts_with("get_source") =>
        {
            body = (name == "update_source").then(|| json!({ "name": "Renamed" }));
            Some(text(&world.post("/v1/sources", json!({ "name": "Shop" })).await.expect(201)["id"]))
        }
        name if name.contains("destination") => {
            let id = world.destination().await;
            body = (name == "update_destination").then(|| json!({ "name": "Renamed" }));
            let before = match name {
                "resume_destination" => Some("pause"),
                "enable_destination" => Some("disable"),
                _ => None,
            };
            if let Some(before) = before {
                world.tell(&format!("/v1/destinations/{id}/{before}")).await.expect(200);
            }
            Some(id)
        }
        name if name.ends_with("_route") => {
            body = (name == "update_route").then(|| json!({ "name": "Renamed" }));
            Some(world.routed_destination().await.1)
        }
        "retry_delivery" | "cancel_delivery" | "replay_delivery" | "replay_event" => {
            let (destination, _) = world.routed_destination().await;
            let event = world.publish("order.paid", json!({})).await;
            let found =
                world.get(&format!("/v1/deliveries?event_id={event}&destination_id={destination}")).await;
            let delivery = text(&found.expect(200)["data"][0]["id"]);
            if operation.starts_with("replay") {
                world.attempt(&destination, &delivery, Outcome::Rejected, 400).await;
            }
            Some(if operation == "replay_event" { event } else { delivery })
        }
        "dismiss_dead_letters" => {
            let (destination, _) = world.routed_destination().await;
            let event = world.publish("order.paid", json!({})).await;
            let found =
                world.get(&format!("/v1/deliveries?event_id={event}&destination_id={destination}")).await;
            let delivery = text(&found.expect(200)["data"][0]["id"]);
            world.attempt(&destination, &delivery, Outcome::Rejected, 400).await;
            body = Some(json!({ "delivery_ids": [delivery], "note": "known" }));
            Some(delivery)
        }
        "create_replay" => {
            body = Some(json!({ "filter": {} }));
            None
        }
        "pause_replay" | "resume_replay" | "cancel_replay" => {
            Some(text(&world.post("/v1/replays", json!({ "filter": {} })).await.expect(202)["id"]))
        }
        other => panic!("`{other}` changes something: say here how it is tried"),
    };
    let id = object.clone().unwrap_or_default();
    let path = match operation {
        "create_portal_link" => path.replace("{id}", &world.account.to_string()),
        "revoke_portal_link" => path.replace("{id}", &world.account.to_string()).replace("{link_id}", &id),
        "revoke_account_api_key" => path.replace("{id}", &world.account.to_string()).replace("{key_id}", &id),
        _ => path.replace("{id}", &id),
    };
    let key = if operator { &world.operator_key } else { &world.key };
    Asked { key: key.clone(), path, body, object }
}

async fn everything(world: &World) -> Vec<AuditRecord> {
    let mut all = Vec::new();
    for owner in world.store.audit_chains(None, 1_000).await.expect("chains") {
        all.extend(world.store.audit_records(owner, 0, 10_000).await.expect("entries"));
    }
    all
}

/// What is there now and was not before.
fn new(before: &[AuditRecord], after: Vec<AuditRecord>) -> Vec<AuditRecord> {
    let known = |record: &AuditRecord| before.iter().any(|other| other.hash == record.hash);
    after.into_iter().filter(|record| !known(record)).collect()
}

async fn entries(world: &World, query: &str) -> Vec<Value> {
    let list = world.get(&format!("/v1/audit{query}")).await.expect(200);
    list["data"].as_array().expect("a list").clone()
}

async fn whole(world: &World, account: AccountId) {
    let checked = check_chain(&*world.store, Some(account)).await.expect("a chain");
    assert!(matches!(checked, Checked::Holds(_)), "{checked:?}");
}

#[tokio::test]
async fn what_cannot_be_written_down_is_not_revealed() {
    let (world, store) = World::forgetful().await;
    let destination = world.destination().await;
    let source = text(&world.post("/v1/sources", json!({ "name": "Shop" })).await.expect(201)["id"]);
    store.interrupt(|call| match call {
        "write_audit" => Err(StoreError::Unavailable("the disk is full".into())),
        _ => Ok(()),
    });
    for path in [format!("/v1/destinations/{destination}/secret"), format!("/v1/sources/{source}/ingest-url")]
    {
        let refused = world.get(&path).await;
        assert!(!String::from_utf8_lossy(&refused.bytes).contains("whsec_"));
        refused.expect_problem(503, "unavailable");
    }
    let test = world.tell(&format!("/v1/destinations/{destination}/test")).await;
    test.expect_problem(503, "unavailable");
}

on_every_store! {
    async fn every_operation_that_changes_or_reveals_something_leaves_one_entry(world) {
        let mut tried = 0;
        for (path, method, operation) in operations() {
            let name = operation["operationId"].as_str().expect("a name");
            let changes = method != "get" && !CHANGE_NOTHING.contains(&name) && !IN_STEPS.contains(&name);
            if !changes && !REVEAL.contains(&name) {
                continue;
            }
            let asked = prepare(&world, name, &path).await;
            let before = everything(&world).await;
            let method: Method = method.to_uppercase().parse().expect("a method");
            let reply: Reply = world.ask_as(&asked.key, method, &asked.path, asked.body).await;
            assert!(reply.status.is_success(), "{name}: {}", reply.body);
            let written = new(&before, everything(&world).await);
            let [record] = written.as_slice() else { panic!("{name} left {} entries", written.len()) };
            let entry = &record.entry;
            assert_eq!(entry.action, name);
            let object = asked.object.unwrap_or_else(|| text(&reply.body["id"]));
            assert_eq!(entry.object_id.as_deref(), Some(object.as_str()), "{name}");
            let request_id = entry.request_id.map(|id| id.to_string());
            assert_eq!(request_id.as_deref(), reply.headers["x-request-id"].to_str().ok(), "{name}");
            assert!(entry.actor.key_id().is_some() && entry.client.is_some(), "{name}: {entry:?}");
            tried += 1;
        }
        assert!(tried >= 30, "{tried} operations were tried");
        whole(&world, world.account).await;
    }

    async fn reading_and_what_is_refused_leave_no_entry(world) {
        let id = world.destination().await;
        let weak = world.key_with(&[Scope::DestinationsRead]).await;
        let before = everything(&world).await;
        world.get(&format!("/v1/destinations/{id}")).await.expect(200);
        world.get("/v1/audit").await.expect(200);
        world.patch(&format!("/v1/destinations/{id}"), json!({ "name": "" })).await.expect_problem(422, "validation_failed");
        world.tell(&format!("/v1/destinations/{id}/resume")).await.expect(200);
        world.post("/v1/replays", json!({ "filter": {}, "dry_run": true })).await.expect(200);
        world.publish("order.paid", json!({})).await;
        let path = format!("/v1/destinations/{id}/secret");
        world.ask_as(&weak, Method::GET, &path, None).await.expect_problem(403, "scope_missing");
        assert_eq!(new(&before, everything(&world).await), []);
    }

    async fn an_entry_says_what_changed_and_no_secret(world) {
        let secret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
        let body = json!({
            "name": "Orders", "url": "https://example.com/hooks/hunter2", "signing": { "secret": secret },
            "auth": { "type": "bearer", "token": "hunter2" }, "headers": { "x-api-key": "hunter2" },
        });
        let id = text(&world.post("/v1/destinations", body).await.expect(201)["id"]);
        let path = format!("/v1/destinations/{id}");
        world.patch(&path, json!({ "name": "Refunds", "auth": { "token": "hunter3" } })).await.expect(200);
        world.tell(&format!("{path}/rotate-secret")).await.expect(200);
        world.tell(&format!("{path}/pause")).await.expect(200);
        let found = entries(&world, &format!("?object_id={id}")).await;
        let told = json!(found).to_string();
        assert!(!told.contains("hunter") && !told.contains("whsec_"), "{told}");
        let differences: Vec<&Value> = found.iter().map(|entry| &entry["difference"]).collect();
        assert_eq!(differences[0], &json!({ "paused": { "from": false, "to": true } }));
        assert_eq!(differences[1], &json!({ "signing.secret": "changed" }));
        let expected = json!({ "name": { "from": "Orders", "to": "Refunds" }, "auth": "changed" });
        assert_eq!(differences[2], &expected);
        assert_eq!(differences[3]["name"], json!({ "to": "Orders" }));
        assert_eq!(differences[3]["url"], json!({ "to": "https://example.com/…" }));
    }

    async fn an_account_sees_its_own_entries_and_an_operator_all(world) {
        let id = world.destination().await;
        let own = entries(&world, "?action=create_destination").await;
        assert_eq!(own.len(), 1);
        assert_eq!(own[0]["object_id"], json!(id));
        assert_eq!(own[0]["actor"]["type"], "key");
        assert_eq!(own[0]["account_id"], json!(world.account));
        let foreign = world.ask_as(&world.foreign_key, Method::GET, "/v1/audit", None).await.expect(200);
        assert!(foreign["data"].as_array().unwrap().iter().all(|entry| entry["account_id"] != json!(world.account)));

        let body = json!({ "name": "another operator" });
        world.ask_as(&world.operator_key, Method::POST, "/v1/api-keys", Some(body)).await.expect(201);
        let all = world.ask_as(&world.operator_key, Method::GET, "/v1/audit?limit=200", None).await.expect(200);
        let has = |account: Value| all["data"].as_array().unwrap().iter().any(|entry| entry["account_id"] == account);
        assert!(has(json!(world.account)) && has(Value::Null));
        let path = format!("/v1/audit?account_id={}&actor=key_00000000000000000000000000", world.account);
        let none = world.ask_as(&world.operator_key, Method::GET, &path, None).await.expect(200);
        assert_eq!(none["data"], json!([]));
        world.get(&format!("/v1/audit?account_id={}", world.account)).await.expect_invalid("/account_id", "not_allowed");
        world.get("/v1/audit?actor=somebody").await.expect_invalid("/actor", "invalid_value");
    }

    async fn entries_are_listed_page_by_page(world) {
        for _ in 0..5 {
            world.destination().await;
        }
        let path = "/v1/audit?action=create_destination&limit=2";
        let (mut seen, mut next) = (Vec::new(), path.to_owned());
        loop {
            let page = world.get(&next).await.expect(200);
            seen.extend(page["data"].as_array().unwrap().iter().map(|entry| entry["number"].as_i64().unwrap()));
            match page["next_cursor"].as_str() {
                Some(cursor) => next = format!("{path}&cursor={cursor}"),
                None => break,
            }
        }
        assert_eq!(seen.len(), 5);
        assert!(seen.is_sorted_by(|one, two| one > two), "{seen:?}");
        let since = text(&world.get("/v1/audit").await.expect(200)["data"][0]["at"]);
        assert_eq!(entries(&world, &format!("?since={since}")).await.len(), 1);
        assert_eq!(entries(&world, &format!("?until={since}&action=create_destination")).await.len(), 4);
    }

    async fn refusals_are_summed_up(world) {
        let weak = world.key_with(&[Scope::EventsRead]).await;
        for _ in 0..3 {
            world.ask_as(&weak, Method::GET, "/v1/destinations", None).await.expect_problem(403, "scope_missing");
        }
        for _ in 0..2 {
            let path = "/v1/destinations/dst_01h455vb4pex5vsknk084sn02q";
            world.get(path).await.expect_problem(404, "not_found");
        }
        world.ask_as("phk_nonsense", Method::GET, "/v1/destinations", None).await.expect_problem(401, "unauthorized");
        world.get("/no/such/page").await.expect_problem(404, "not_found");
        world.app.sum_up_refusals().await;
        world.app.sum_up_refusals().await;
        let refused = async |code: &str| {
            let filter = AuditFilter { action: Some(format!("refused_{code}")), ..AuditFilter::default() };
            let page = Page::<AuditId> { before: None, limit: 10 };
            let found = world.store.audit_entries(None, &filter, page).await.expect("a list").rows;
            found.into_iter().map(|record| (record.account_id, record.entry.count)).collect::<Vec<_>>()
        };
        assert_eq!(refused("scope_missing").await, [(Some(world.account), Some(3))]);
        assert_eq!(refused("not_found").await, [(Some(world.account), Some(2))]);
        assert_eq!(refused("unauthorized").await, [(None, Some(1))]);
        whole(&world, world.account).await;
    }
}
