//! Backfills as they are asked for. That their deliveries are made is the engine's.

use crate::{
    on_every_store,
    world::{World, text},
};
use serde_json::{Value, json};

/// A destination without a route.
async fn unrouted(world: &World) -> String {
    world.destination().await
}

async fn route(world: &World, destination: &str, more: Value) {
    let mut route = json!({ "destination_id": destination });
    for (member, value) in more.as_object().expect("members") {
        route[member] = value.clone();
    }
    world.post("/v1/routes", route).await.expect(201);
}

on_every_store! {
    async fn a_backfill_is_counted_and_made(world) {
        let (usual, _) = world.routed_destination().await;
        for n in 0..3 {
            world.publish("invoice.paid", json!({ "n": n })).await;
        }
        world.publish("order.paid", json!({ "n": 1 })).await;
        let late = unrouted(&world).await;
        let asked = json!({ "events": { "type": ["invoice.*"] }, "match": "now", "rate": 2, "dry_run": true });
        let nothing = world.post("/v1/replays", asked.clone()).await.expect(200);
        assert_eq!((&nothing["matched"], &nothing["matched_exact"]), (&json!(0), &json!(true)), "{usual} had all");
        route(&world, &late, json!({})).await;
        let estimate = world.post("/v1/replays", asked.clone()).await.expect(200);
        assert_eq!(
            estimate,
            json!({
                "matched": 3, "matched_exact": true, "estimated_seconds": 2,
                "by_destination": [{ "destination_id": late, "count": 3 }],
            })
        );
        let mut asked = asked;
        asked["dry_run"] = json!(false);
        asked["destination_ids"] = json!([late]);
        let shown = world.post("/v1/replays", asked).await.expect(202);
        assert_eq!(shown["filter"], Value::Null);
        assert_eq!(shown["events"], json!({ "type": ["invoice.*"] }));
        assert_eq!(shown["destination_ids"], json!([late]));
        assert_eq!((&shown["status"], &shown["matched"]), (&json!("running"), &json!(3)));
        let id = text(&shown["id"]);
        assert_eq!(world.get(&format!("/v1/replays/{id}")).await.expect(200), shown);
        let paused = world.tell(&format!("/v1/replays/{id}/pause")).await.expect(200);
        assert_eq!(paused["status"], "paused");
        let cancelled = world.tell(&format!("/v1/replays/{id}/cancel")).await.expect(200);
        assert_eq!(cancelled["status"], "cancelled");
    }

    async fn filters_of_routes_count(world) {
        world.publish("invoice.paid", json!({ "n": 1 })).await;
        world.publish("invoice.paid", json!({ "n": 2 })).await;
        let late = unrouted(&world).await;
        route(&world, &late, json!({ "filter": { "data": { "n": 2 } } })).await;
        let asked = json!({ "events": {}, "match": "now", "dry_run": true });
        assert_eq!(world.post("/v1/replays", asked).await.expect(200)["matched"], 1);
    }

    async fn a_backfill_that_cannot_be_meant_is_refused(world) {
        let (destination, _) = world.routed_destination().await;
        for (body, pointer) in [
            (json!({ "events": {} }), "/match"),
            (json!({ "events": {}, "match": "now", "filter": {} }), "/events"),
            (json!({ "events": {}, "match": "now", "delivery_ids": [] }), "/events"),
            (json!({ "filter": {}, "match": "now" }), "/match"),
            (json!({ "filter": {}, "destination_ids": [destination] }), "/destination_ids"),
            (json!({ "events": {}, "match": "now", "destination_ids": [] }), "/destination_ids"),
            (json!({ "events": {}, "match": "now", "rate": 0 }), "/rate"),
        ] {
            let refused = world.post("/v1/replays", body.clone()).await.expect(422);
            let errors = refused["errors"].as_array().expect("errors");
            assert!(errors.iter().any(|error| error["pointer"] == pointer), "{body}: {refused}");
        }
        world.post("/v1/replays", json!({ "events": {}, "match": "then" })).await.expect(422);
        world.post("/v1/replays", json!({ "events": { "fanout": "complete" }, "match": "now" })).await.expect(422);
        world.post("/v1/replays", json!({ "events": { "q": "x" }, "match": "now" })).await.expect(422);
        let unknown = json!({ "events": {}, "match": "now", "destination_ids": ["dst_01h455vb4pex5vsknk084sn02q"] });
        world.post("/v1/replays", unknown).await.expect(404);
        assert_eq!(world.get("/v1/replays").await.expect(200)["data"], json!([]));
    }

    async fn one_event_is_backfilled_to_destinations_that_never_had_it(world) {
        let (usual, _) = world.routed_destination().await;
        let event = world.publish("invoice.paid", json!(1)).await;
        let late = unrouted(&world).await;
        let path = format!("/v1/events/{event}/replay");
        let refused = world.post(&path, json!({ "destination_ids": [late] })).await.expect(422);
        assert_eq!(refused["errors"][0]["code"], "no_route");
        assert_eq!(refused["errors"][0]["pointer"], "/destination_ids/0");
        route(&world, &late, json!({})).await;
        let mixed = world.post(&path, json!({ "destination_ids": [late, usual] })).await.expect(422);
        assert_eq!(mixed["errors"][0]["pointer"], "/destination_ids/1");
        let shown = world.post(&path, json!({ "destination_ids": [late] })).await.expect(202);
        assert_eq!((&shown["event_id"], &shown["matched"]), (&json!(event), &json!(1)));
        assert_eq!(shown["destination_ids"], json!([late]));
    }
}
