//! Accounts that have their payloads encrypted, as their users meet it.

use crate::{on_every_store, world::World};
use api::data_keys::{DataKeyPlan, DataKeyRotation, DataKeyStep};
use domain::{account::Account, audit::AuditEntry, id::EventId, testing::audit_entry, time::Clock};
use serde_json::{Value, json};
use std::time::Duration;
use store::StoredEvent;

async fn encrypting(world: &World) {
    let changed = world.patch("/v1/account", json!({ "encrypt_payloads": true })).await.expect(200);
    assert_eq!(changed["encrypt_payloads"], true);
}

async fn is_sealed(world: &World, event: &str) -> bool {
    let event: EventId = event.parse().unwrap();
    let stored = world.store.payload(event).await.unwrap().expect("it is there");
    matches!(stored, StoredEvent::Sealed(_))
}

async fn step(world: &World, older_than: Option<Duration>) -> DataKeyStep {
    let entry = |_| -> AuditEntry { audit_entry() };
    let rotation = DataKeyRotation {
        store: &*world.store,
        master: world.secrets.master(),
        dice: &*world.dice,
        entry: &entry,
    };
    let plan = DataKeyPlan { now: world.clock.now(), after: None, older_than };
    rotation.step(&plan).await.expect("a step")
}

/// The account without what its payloads were sealed by.
async fn lose_the_key(world: &World) {
    let account = world.store.account(world.account).await.unwrap();
    let (master, now) = (world.secrets.master(), world.clock.now());
    let both = master.with_new_data_key(account.id, &account.data_key, now, &*world.dice).unwrap();
    let newest = master.without_data_keys_before(account.id, &both, now, &*world.dice).unwrap();
    let account = Account { data_key: newest.expect("one less"), ..account };
    world.store.update_account(&account, &audit_entry()).await.unwrap();
}

on_every_store! {
    async fn an_account_says_whether_its_payloads_are_encrypted(world) {
        assert_eq!(world.get("/v1/account").await.expect(200)["encrypt_payloads"], false);
        encrypting(&world).await;
        assert_eq!(world.get("/v1/account").await.expect(200)["encrypt_payloads"], true);
        let renamed = world.patch("/v1/account", json!({ "name": "Acme" })).await.expect(200);
        assert_eq!(renamed["encrypt_payloads"], true, "what is not named stays");
        let restored = world.patch("/v1/account", json!({ "encrypt_payloads": null })).await.expect(200);
        assert_eq!(restored["encrypt_payloads"], false);
        let made = json!({ "name": "Initech", "encrypt_payloads": true });
        let made = world.ask_as(&world.operator_key, http::Method::POST, "/v1/accounts", Some(made)).await.expect(201);
        assert_eq!(made["encrypt_payloads"], true);
        world.patch("/v1/account", json!({ "encrypt_payloads": "yes" })).await.expect_invalid("/encrypt_payloads", "invalid_type");
        let entries = world.get("/v1/audit").await.expect(200)["data"].to_string();
        assert!(entries.contains("encrypt_payloads"), "{entries}");
    }

    async fn what_comes_after_it_is_encrypted_and_shown_as_it_came(world) {
        let before = world.publish("a.b", json!({ "amount": 5 })).await;
        encrypting(&world).await;
        let after = world.publish("a.b", json!({ "amount": 6 })).await;
        assert_eq!((is_sealed(&world, &before).await, is_sealed(&world, &after).await), (false, true));
        for (event, payload) in [(&before, r#"{"amount":5}"#), (&after, r#"{"amount":6}"#)] {
            let shown = world.get(&format!("/v1/events/{event}")).await.expect(200);
            assert_eq!((&shown["payload"], &shown["size_bytes"]), (&json!(payload), &json!(payload.len())));
            let bytes = world.get(&format!("/v1/events/{event}/payload")).await;
            assert_eq!((bytes.status.as_u16(), &bytes.bytes[..]), (200, payload.as_bytes()));
            assert_eq!(bytes.headers["content-length"], payload.len().to_string());
        }
        world.patch("/v1/account", json!({ "encrypt_payloads": false })).await.expect(200);
        assert!(!is_sealed(&world, &world.publish("a.b", json!({})).await).await);
        let shown = world.get(&format!("/v1/events/{after}")).await.expect(200);
        assert_eq!(shown["payload"], r#"{"amount":6}"#, "what is stored stays as it was, and is read");
        // More than a piece, and more than is unpacked at once.
        encrypting(&world).await;
        for size in [70_000, 1_500_000] {
            let data = "x".repeat(size);
            let event = world.publish("a.b", json!(data)).await;
            assert!(is_sealed(&world, &event).await);
            let bytes = world.get(&format!("/v1/events/{event}/payload")).await;
            assert_eq!(bytes.bytes.len(), size + 2);
            assert_eq!(world.get(&format!("/v1/events/{event}")).await.expect(200)["payload"], Value::Null);
        }
    }

    async fn routes_look_into_what_is_encrypted(world) {
        encrypting(&world).await;
        let event = world.publish("a.b", json!({ "amount": 6 })).await;
        let destination = world.destination().await;
        let filter = json!({ "data": { "amount": { "$gte": 6 } } });
        let route = json!({ "destination_id": destination, "filter": filter });
        world.post("/v1/routes", route).await.expect(201);
        let judged = world.post("/v1/routes/preview", json!({ "event_id": event })).await.expect(200);
        assert_eq!(judged["data"][0]["matches"], true);
        let backfill = json!({ "events": {}, "match": "now", "destination_ids": [destination], "dry_run": true });
        let survey = world.post("/v1/replays", backfill).await.expect(200);
        assert_eq!(survey["matched"], 1);
        let to = json!({ "destination_ids": [destination] });
        world.post(&format!("/v1/events/{event}/replay"), to).await.expect(202);
    }

    async fn what_nobody_can_read_any_more_is_said_to_be_erased(world) {
        encrypting(&world).await;
        let event = world.publish("a.b", json!({ "amount": 6 })).await;
        // Before this node has opened anything by it.
        lose_the_key(&world).await;
        world.get(&format!("/v1/events/{event}/payload")).await.expect_problem(410, "payload_erased");
        let shown = world.get(&format!("/v1/events/{event}")).await.expect(200);
        assert_eq!((&shown["payload"], &shown["headers"]), (&Value::Null, &json!({})));
        world.post("/v1/routes/preview", json!({ "event_id": event })).await.expect_problem(410, "payload_erased");
        assert_eq!(world.get("/v1/events").await.expect(200)["data"][0]["id"], json!(event), "it is still there");
    }

    async fn an_older_data_key_stays_as_long_as_events_of_its_time_do(world) {
        encrypting(&world).await;
        let event = world.publish("a.b", json!({ "amount": 6 })).await;
        world.clock.minutes_pass(10);
        let begun = step(&world, Some(Duration::ZERO)).await;
        assert_eq!((begun.begun, begun.kept), (2, 0));
        let newer = world.publish("a.b", json!({ "amount": 7 })).await;
        world.clock.minutes_pass(10);
        let ended = step(&world, None).await;
        assert_eq!((ended.ended, ended.kept, ended.waiting), (1, 1, 0), "one of two accounts has nothing that is sealed");
        for (event, payload) in [(&event, r#"{"amount":6}"#), (&newer, r#"{"amount":7}"#)] {
            assert_eq!(world.get(&format!("/v1/events/{event}")).await.expect(200)["payload"], json!(payload));
        }
        // A third one beside them, and none is begun before the one before it is done.
        let again = step(&world, Some(Duration::ZERO)).await;
        assert_eq!((again.begun, again.kept), (2, 0));
        assert_eq!(step(&world, Some(Duration::ZERO)).await.begun, 0);
        world.clock.minutes_pass(10);
        assert_eq!(step(&world, None).await.kept, 1);
        let keys = async || {
            let wrapped = world.store.account(world.account).await.unwrap().data_key;
            world.secrets.master().data_key(world.account, &wrapped).unwrap().count()
        };
        assert_eq!(keys().await, 3);
    }
}

#[tokio::test(start_paused = true)]
async fn every_node_forgets_the_keys_of_a_deleted_account() {
    let world = World::memory().await;
    encrypting(&world).await;
    world.publish("a.b", json!({})).await;
    let other = world.another_node().await;
    other.data_key(world.account).await.expect("it is there");
    for node in [&world.app, &other] {
        assert_eq!(node.accounts_with_keys(), [world.account]);
    }
    let path = format!("/v1/accounts/{}", world.account);
    world.ask_as(&world.operator_key, http::Method::DELETE, &path, None).await.expect(202);
    assert_eq!(world.app.accounts_with_keys(), [], "the one that was asked, at once");
    // A second.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(other.accounts_with_keys(), []);
}
