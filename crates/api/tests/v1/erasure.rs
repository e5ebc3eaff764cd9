//! Accounts that are deleted, and payloads that are erased.

use crate::{
    on_every_store,
    world::{World, text},
};
use domain::{account::Scope, outcome::Outcome};
use http::{Method, Request};
use serde_json::{Value, json};
use store::Change;

/// An event that was delivered.
async fn delivered(world: &World, destination: &str) -> (String, String) {
    let event = world.publish("order.paid", json!({ "customer": "Ann" })).await;
    let found = world.get(&format!("/v1/deliveries?event_id={event}&destination_id={destination}")).await;
    let delivery = text(&found.expect(200)["data"][0]["id"]);
    world.attempt(destination, &delivery, Outcome::Success, 200).await;
    (event, delivery)
}

on_every_store! {
    async fn a_deleted_account_is_gone_at_once(world) {
        let operator = &world.operator_key;
        let (destination, _) = world.routed_destination().await;
        let source = text(&world.post("/v1/sources", json!({ "name": "Stripe" })).await.expect(201)["id"]);
        let url = text(&world.get(&format!("/v1/sources/{source}/ingest-url")).await.expect(200)["ingest_url"]);
        let ingest = url.split_once("/ingest/").expect("an ingest URL").1.to_owned();
        world.publish("a.b", json!(1)).await;
        let path = format!("/v1/accounts/{}", world.account);
        assert_eq!(world.ask_as(operator, Method::GET, &path, None).await.expect(200)["erasure"], json!(null));
        world.ask_as(&world.key, Method::DELETE, &path, None).await.expect_problem(403, "scope_missing");

        let deleted = world.ask_as(operator, Method::DELETE, &path, None).await.expect(202);
        assert_eq!((&deleted["uid"], &deleted["name"]), (&json!(null), &json!("")));
        let erasure = &deleted["erasure"];
        assert!(erasure["requested_at"].is_string() && erasure["finished_at"].is_null(), "{deleted}");
        assert_eq!((&erasure["phase"], &erasure["erased_rows"]), (&json!("waiting"), &json!(0)));
        assert_eq!(world.announced.changes.lock().unwrap().last(), Some(&Change::Defaults(world.account)));

        world.get("/v1/account").await.expect_problem(401, "unauthorized");
        world.post("/v1/events", json!({ "type": "a.b", "data": 1 })).await.expect_problem(401, "unauthorized");
        world.get(&format!("/v1/destinations/{destination}")).await.expect_problem(401, "unauthorized");
        let request = Request::post(format!("/ingest/{ingest}")).body("{}".into()).expect("a request");
        world.ask(request).await.expect_problem(404, "not_found");
        let acting = Request::get("/v1/events").header("authorization", format!("Bearer {operator}"));
        let acting = acting.header("posthaste-account", world.account.to_string()).body("".into()).expect("a request");
        world.ask(acting).await.expect_problem(404, "not_found");
        let listed = world.ask_as(operator, Method::GET, "/v1/accounts", None).await.expect(200);
        assert!(listed["data"].as_array().unwrap().iter().all(|account| account["id"] != deleted["id"]));
        world.ask_as(operator, Method::PATCH, &path, Some(json!({ "name": "Back" }))).await.expect_problem(404, "not_found");

        let read = world.ask_as(operator, Method::GET, &path, None).await.expect(200);
        assert_eq!(read, deleted);
        let again = world.ask_as(operator, Method::DELETE, &path, None).await.expect(202);
        assert_eq!(again, deleted, "the same progress");
        let audit = format!("/v1/audit?account_id={}&action=delete_account", world.account);
        let log = world.ask_as(operator, Method::GET, &audit, None).await.expect(200);
        assert_eq!(log["data"].as_array().unwrap().len(), 1, "{log}");
    }

    async fn an_account_that_never_was_is_not_deleted(world) {
        let path = format!("/v1/accounts/{}", domain::id::AccountId::MIN);
        world.ask_as(&world.operator_key, Method::DELETE, &path, None).await.expect_problem(404, "not_found");
    }

    async fn a_payload_is_erased_with_the_answers_to_it(world) {
        let (destination, _) = world.routed_destination().await;
        let (event, delivery) = delivered(&world, &destination).await;
        let (path, payload) = (format!("/v1/events/{event}"), format!("/v1/events/{event}/payload"));
        let shown = world.get(&path).await.expect(200);
        assert_eq!(shown["payload_erased_at"], json!(null));
        assert!(text(&shown["payload"]).contains("Ann"));

        assert_eq!(world.delete(&payload).await.status, 204);
        assert_eq!(world.delete(&payload).await.status, 204, "again");
        let shown = world.get(&path).await.expect(200);
        assert_eq!((&shown["payload"], &shown["headers"]), (&json!(null), &json!({})));
        assert!(shown["payload_erased_at"].is_string());
        assert_eq!(shown["fanout"]["delivered"], 1, "what became of it stays");
        world.get(&payload).await.expect_problem(410, "payload_erased");
        let detail = world.get(&format!("/v1/deliveries/{delivery}")).await.expect(200);
        assert!(!detail.to_string().contains("busy"), "{detail}");

        world.tell(&format!("/v1/events/{event}/replay")).await.expect_problem(410, "payload_erased");
        world.tell(&format!("/v1/deliveries/{delivery}/replay")).await.expect_problem(410, "payload_erased");
        let log = world.get("/v1/audit?action=erase_event_payload").await.expect(200);
        assert_eq!(log["data"].as_array().map(Vec::len), Some(1), "{log}");
    }

    async fn a_payload_that_is_to_be_sent_stays(world) {
        world.routed_destination().await;
        let event = world.publish("order.paid", json!({ "customer": "Ann" })).await;
        let payload = format!("/v1/events/{event}/payload");
        let refused: Value = {
            let reply = world.delete(&payload).await;
            assert_eq!(reply.status, 409);
            reply.body
        };
        assert_eq!(refused["code"], "payload_in_use");
        world.get(&payload).await.expect(200);
        let weak = world.key_with(&[Scope::EventsRead, Scope::DeliveriesRetry]).await;
        world.ask_as(&weak, Method::DELETE, &payload, None).await.expect_problem(403, "scope_missing");
        let delivery = world.delivery_of(&event).await;
        world.tell(&format!("/v1/deliveries/{delivery}/cancel")).await.expect(200);
        assert_eq!(world.delete(&payload).await.status, 204);
    }
}
