//! Dead letters: in groups, settled by a replay that was delivered, and by hand.

use crate::{
    on_every_store,
    replays::dead_letter,
    world::{World, text},
};
use domain::{account::Scope, id::DeliveryId, outcome::Outcome, time::Clock as _};
use http::Method;
use serde_json::{Value, json};

async fn delivery(world: &World, id: &str) -> Value {
    world.get(&format!("/v1/deliveries/{id}")).await.expect(200)
}

async fn fanout(world: &World, delivery: &Value) -> Value {
    let event = text(&delivery["event_id"]);
    world.get(&format!("/v1/events/{event}")).await.expect(200)["fanout"].clone()
}

async fn groups(world: &World, query: &str) -> Vec<Value> {
    let list = world.get(&format!("/v1/dead-letters/groups{query}")).await.expect(200);
    list["data"].as_array().expect("a list").clone()
}

async fn ids(world: &World, query: &str) -> Vec<String> {
    let list = world.get(&format!("/v1/deliveries?{query}")).await.expect(200);
    list["data"].as_array().expect("a list").iter().map(|it| text(&it["id"])).collect()
}

on_every_store! {
    async fn a_delivered_replay_resolves_its_dead_letter(world) {
        let (destination, _) = world.routed_destination().await;
        let dead = dead_letter(&world, &destination).await;
        let shown = delivery(&world, &dead).await;
        assert_eq!((&shown["resolved_at"], &shown["resolved_by"]), (&json!(null), &json!(null)));
        assert_eq!(shown["dismissal_note"], json!(null));
        let again = text(&world.tell(&format!("/v1/deliveries/{dead}/replay")).await.expect(202)["id"]);
        world.attempt(&destination, &again, Outcome::Success, 200).await;
        let shown = delivery(&world, &dead).await;
        assert_eq!(shown["status"], "dead_letter");
        assert_eq!(shown["resolved_by"], json!({ "type": "delivery", "delivery_id": again }));
        assert_eq!(shown["resolved_at"], delivery(&world, &again).await["ended_at"]);
        let told = fanout(&world, &shown).await;
        assert_eq!((&told["delivered"], &told["dead_letter"], &told["dismissed"]), (&json!(1), &json!(0), &json!(0)));
        assert_eq!(told["completed_at"], shown["ended_at"]);
        assert_eq!(groups(&world, "").await, Vec::<Value>::new());

        // The same replay twice sends nothing twice.
        let dry_run = async |filter: Value| {
            world.post("/v1/replays", json!({ "filter": filter, "dry_run": true })).await.expect(200)["matched"].clone()
        };
        assert_eq!(dry_run(json!({})).await, json!(0));
        assert_eq!(dry_run(json!({ "resolved": "any" })).await, json!(1));
        assert_eq!(dry_run(json!({ "resolved": "true" })).await, json!(1));
        assert_eq!(dry_run(json!({ "status": ["delivered"] })).await, json!(1), "it is no dead letter");
        world.post("/v1/replays", json!({ "filter": { "resolved": "perhaps" } })).await
            .expect_invalid("/filter/resolved", "unknown_value");
        for (resolved, told) in [(None, "false"), (Some("any"), "any")] {
            let mut body = json!({ "delivery_ids": [dead] });
            if let Some(resolved) = resolved {
                body["resolved"] = json!(resolved);
            }
            assert_eq!(world.post("/v1/replays", body).await.expect(202)["resolved"], told);
        }
        let misplaced = json!({ "filter": {}, "resolved": "any" });
        world.post("/v1/replays", misplaced).await.expect_invalid("/resolved", "not_allowed");
    }

    async fn lists_have_any_unless_told_otherwise(world) {
        let (destination, _) = world.routed_destination().await;
        let (one, two) = (dead_letter(&world, &destination).await, dead_letter(&world, &destination).await);
        world.post("/v1/dead-letters/dismiss", json!({ "delivery_ids": [one] })).await.expect(200);
        assert_eq!(ids(&world, "status=dead_letter").await, [two.clone(), one.clone()]);
        assert_eq!(ids(&world, "status=dead_letter&resolved=any").await, [two.clone(), one.clone()]);
        assert_eq!(ids(&world, "resolved=true").await, [one]);
        assert_eq!(ids(&world, "status=dead_letter&resolved=false").await, [two]);
        world.get("/v1/deliveries?resolved=perhaps").await.expect_invalid("/resolved", "unknown_value");
    }

    async fn dead_letters_are_dismissed_with_a_note(world) {
        let (destination, _) = world.routed_destination().await;
        let mut dead = Vec::new();
        for _ in 0..3 {
            dead.push(dead_letter(&world, &destination).await);
        }
        let waiting = world.publish("invoice.paid", json!(2)).await;
        let waiting = world.delivery_of(&waiting).await;
        let body = json!({ "delivery_ids": [dead[0], dead[1], waiting], "note": "sent by hand" });
        let answer = world.post("/v1/dead-letters/dismiss", body.clone()).await.expect(200);
        assert_eq!(answer, json!({ "dismissed": 2, "skipped": 1, "more": false, "next_until": null }));
        let again = world.post("/v1/dead-letters/dismiss", body).await.expect(200);
        assert_eq!((&again["dismissed"], &again["skipped"]), (&json!(0), &json!(3)));
        let shown = delivery(&world, &dead[0]).await;
        assert_eq!((&shown["status"], &shown["dismissal_note"]), (&json!("dead_letter"), &json!("sent by hand")));
        assert_eq!(shown["resolved_by"]["type"], "key");
        assert!(text(&shown["resolved_by"]["key_id"]).starts_with("key_"));
        let told = fanout(&world, &shown).await;
        assert_eq!((&told["dismissed"], &told["dead_letter"]), (&json!(1), &json!(0)));
        assert_eq!(groups(&world, "").await[0]["count"], 1);
        let entries = world.get("/v1/audit?action=dismiss_dead_letters").await.expect(200);
        assert_eq!(entries["data"].as_array().map(Vec::len), Some(1), "what settled nothing is no act");
        assert_eq!((&entries["data"][0]["count"], &entries["data"][0]["difference"]["note"]["to"]), (&json!(2), &json!("sent by hand")));

        // It can still be had again, by its id.
        let new = text(&world.tell(&format!("/v1/deliveries/{}/replay", dead[0])).await.expect(202)["id"]);
        world.attempt(&destination, &new, Outcome::Success, 200).await;
        let shown = delivery(&world, &dead[0]).await;
        assert_eq!(shown["resolved_by"], json!({ "type": "delivery", "delivery_id": new }));
        assert_eq!(shown["dismissal_note"], json!(null));
        let told = fanout(&world, &shown).await;
        assert_eq!((&told["delivered"], &told["dismissed"]), (&json!(1), &json!(0)));
    }

    async fn dead_letters_are_dismissed_by_a_filter(world) {
        let (first, _) = world.routed_destination().await;
        let mut dead = Vec::new();
        for _ in 0..5 {
            dead.push(dead_letter(&world, &first).await);
        }
        let body = json!({ "filter": { "destination_id": [first], "http_status": [404] }, "note": "gone for good" });
        let answer = world.post("/v1/dead-letters/dismiss", body.clone()).await.expect(200);
        assert_eq!(answer, json!({ "dismissed": 5, "skipped": 0, "more": false, "next_until": null }));
        let answer = world.post("/v1/dead-letters/dismiss", body).await.expect(200);
        assert_eq!(answer["dismissed"], 0);
        assert_eq!(ids(&world, "resolved=false&status=dead_letter").await, Vec::<String>::new());
        let entry = &world.get("/v1/audit?action=dismiss_dead_letters").await.expect(200)["data"][0];
        assert_eq!(entry["count"], 5);
        assert_eq!(entry["difference"]["filter"]["to"]["http_status"], json!([404]));
    }

    async fn what_cannot_be_dismissed_is_refused(world) {
        let (destination, _) = world.routed_destination().await;
        let dead = dead_letter(&world, &destination).await;
        let refused = async |body: Value| world.post("/v1/dead-letters/dismiss", body).await;
        refused(json!({})).await.expect_invalid("/filter", "missing_field");
        refused(json!({ "filter": {}, "delivery_ids": [] })).await.expect_invalid("/delivery_ids", "not_allowed");
        refused(json!({ "delivery_ids": [] })).await.expect_invalid("/delivery_ids", "missing_value");
        refused(json!({ "filter": { "status": ["delivered"] } })).await.expect_invalid("/filter/status/0", "not_allowed");
        refused(json!({ "filter": { "resolved": "any" } })).await.expect_invalid("/filter/resolved", "not_allowed");
        refused(json!({ "filter": {}, "colour": "red" })).await.expect_invalid("/colour", "unknown_field");
        for note in ["".to_owned(), "x".repeat(1_001), "two\nlines".into()] {
            refused(json!({ "delivery_ids": [dead], "note": note })).await.expect_invalid("/note", "invalid_value");
        }
        let many: Vec<_> = (0..10_001).map(|n: u128| DeliveryId::at(world.clock.now(), n << 8).to_string()).collect();
        refused(json!({ "delivery_ids": many })).await.expect_invalid("/delivery_ids", "too_many");
        let unknown = DeliveryId::at(world.clock.now(), 1).to_string();
        let problem = refused(json!({ "delivery_ids": [dead, unknown] })).await.expect(404);
        assert_eq!(problem["errors"][0]["pointer"], "/delivery_ids/1");
        assert_eq!(delivery(&world, &dead).await["resolved_at"], json!(null), "nothing was settled");
        let weak = world.key_with(&[Scope::DeliveriesRead]).await;
        let body = Some(json!({ "delivery_ids": [dead] }));
        world.ask_as(&weak, Method::POST, "/v1/dead-letters/dismiss", body).await.expect_problem(403, "scope_missing");
    }

    async fn groups_tell_outcome_and_destination_and_are_narrowed(world) {
        let (first, _) = world.routed_destination().await;
        let dead = dead_letter(&world, &first).await;
        let name = text(&world.get(&format!("/v1/destinations/{first}")).await.expect(200)["name"]);
        let created = text(&delivery(&world, &dead).await["created_at"]);
        let expected = json!([{
            "destination_id": first, "destination_name": name, "reason": "rejected", "outcome": "rejected",
            "http_status": 404, "count": 1, "first_at": created, "last_at": created, "sample_delivery_id": dead,
        }]);
        assert_eq!(json!(groups(&world, "").await), expected);
        assert_eq!(json!(groups(&world, &format!("?destination_id={first}&since={created}&resolved=false")).await), expected);
        let other = world.destination().await;
        assert_eq!(groups(&world, &format!("?destination_id={other}")).await, Vec::<Value>::new());
        world.clock.days_pass(2);
        let now = world.clock.now();
        assert_eq!(groups(&world, &format!("?since={now}")).await, Vec::<Value>::new());
        for resolved in ["true", "any"] {
            let refused = world.get(&format!("/v1/dead-letters/groups?resolved={resolved}")).await;
            refused.expect_invalid("/resolved", "not_allowed");
        }
        world.delete(&format!("/v1/destinations/{first}")).await;
        assert_eq!(groups(&world, "").await[0]["destination_name"], json!(name), "also when it is deleted");
    }

    async fn a_retry_of_what_has_ended_names_the_replay(world) {
        let (destination, _) = world.routed_destination().await;
        let dead = dead_letter(&world, &destination).await;
        let refused = world.tell(&format!("/v1/deliveries/{dead}/retry")).await;
        assert!(text(&refused.body["detail"]).contains("/replay"), "{}", refused.body);
        refused.expect_problem(409, "delivery_ended");
    }
}
