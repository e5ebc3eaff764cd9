use crate::{
    on_every_store,
    world::{Reply, World, text},
};
use axum::body::Body;
use domain::{
    account::Scope,
    delivery::{Ending, Settled},
    id::{AttemptId, DeliveryId, DestinationId, EventId},
    outcome::{DeadReason, Outcome},
    time::Clock as _,
};
use http::{Method, Request, header};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use store::{Fact, Settlement, Window};

/// An event whose delivery is rejected: the delivery's id.
pub(crate) async fn dead_letter(world: &World, destination: &str) -> String {
    let event = world.publish("invoice.paid", json!(1)).await;
    let found = world.get(&format!("/v1/deliveries?event_id={event}&destination_id={destination}")).await;
    let delivery = text(&found.expect(200)["data"][0]["id"]);
    world.attempt(destination, &delivery, Outcome::Rejected, 404).await;
    delivery
}

async fn ask_with_key(world: &World, path: &str, key: &str, body: Value) -> Reply {
    let request = Request::post(path)
        .header(header::AUTHORIZATION, format!("Bearer {}", world.key))
        .header(header::CONTENT_TYPE, "application/json")
        .header("idempotency-key", key)
        .body(Body::from(body.to_string()))
        .expect("a request");
    world.ask(request).await
}

on_every_store! {
    async fn a_replay_has_every_member_of_the_contract(world) {
        let (destination, _) = world.routed_destination().await;
        for _ in 0..3 {
            dead_letter(&world, &destination).await;
        }
        let filter = json!({ "destination_id": [destination], "reason": ["rejected"] });
        let shown = world.post("/v1/replays", json!({ "filter": filter, "rate": 2 })).await.expect(202);
        let id = text(&shown["id"]);
        assert_eq!(
            shown,
            json!({
                "id": id, "status": "running",
                "filter": {
                    "status": ["dead_letter"], "reason": ["rejected"], "event_id": [],
                    "destination_id": [destination], "route_id": [], "source_id": [], "type": [],
                    "http_status": [], "replay_id": [], "since": null, "until": null, "resolved": "false",
                },
                "rate": 2, "matched": 3, "matched_exact": true, "created": 0, "delivered": 0, "dead_letter": 0,
                "skipped": 0, "waiting_for": null, "estimated_seconds": 2, "created_by": shown["created_by"],
                "created_at": shown["created_at"], "finished_at": null,
            })
        );
        assert!(text(&shown["created_by"]).starts_with("key_"));
        assert_eq!(world.get(&format!("/v1/replays/{id}")).await.expect(200), shown);
        let list = world.get("/v1/replays").await.expect(200);
        assert_eq!(list, json!({ "data": [shown], "next_cursor": null }));
    }

    async fn a_dry_run_counts_and_makes_nothing(world) {
        let (destination, _) = world.routed_destination().await;
        let mut ids = Vec::new();
        for _ in 0..4 {
            ids.push(dead_letter(&world, &destination).await);
        }
        let by_destination = |count| json!([{ "destination_id": destination, "count": count }]);
        for (body, count, seconds) in [
            (json!({ "filter": {}, "rate": 3, "dry_run": true }), 4, 2),
            (json!({ "delivery_ids": [ids[0], ids[2], ids[0]], "dry_run": true }), 2, 1),
        ] {
            let told = world.post("/v1/replays", body).await.expect(200);
            let expected = json!({
                "matched": count, "matched_exact": true, "by_destination": by_destination(count),
                "estimated_seconds": seconds,
            });
            assert_eq!(told, expected);
        }
        let none = json!({ "filter": { "http_status": [500] }, "dry_run": true });
        let told = world.post("/v1/replays", none).await.expect(200);
        assert_eq!((&told["matched"], &told["by_destination"]), (&json!(0), &json!([])));
        let unknown = DeliveryId::at(world.clock.now(), 1);
        let unknown = json!({ "delivery_ids": [unknown], "dry_run": true });
        world.post("/v1/replays", unknown).await.expect_problem(404, "not_found");
        assert_eq!(world.get("/v1/replays").await.expect(200)["data"], json!([]));
    }

    async fn what_cannot_be_replayed_is_refused(world) {
        let refused = async |body: Value| world.post("/v1/replays", body).await;
        refused(json!({})).await.expect_invalid("/filter", "missing_field");
        let both = json!({ "filter": {}, "delivery_ids": [] });
        refused(both).await.expect_invalid("/delivery_ids", "not_allowed");
        refused(json!({ "delivery_ids": [] })).await.expect_invalid("/delivery_ids", "missing_value");
        for rate in [0, 10_001] {
            refused(json!({ "filter": {}, "rate": rate })).await.expect_invalid("/rate", "out_of_range");
        }
        let waiting = json!({ "filter": { "status": ["dead_letter", "queued"] } });
        refused(waiting).await.expect_invalid("/filter/status/1", "not_allowed");
        let reason = json!({ "filter": { "reason": ["sulking"] } });
        refused(reason).await.expect_invalid("/filter/reason/0", "unknown_value");
        refused(json!({ "filter": { "colour": ["red"] } })).await.expect_invalid("/filter/colour", "unknown_field");
        refused(json!({ "delivery_ids": ["evt_01h455vb4pex5vsknk084sn02q"] }))
            .await
            .expect_invalid("/delivery_ids/0", "invalid_value");
        let id = |n: u128| DeliveryId::at(world.clock.now(), n << 8).to_string();
        let many: Vec<_> = (0..10_001).map(id).collect();
        refused(json!({ "delivery_ids": many })).await.expect_invalid("/delivery_ids", "too_many");
        let most = &many[..10_000];
        refused(json!({ "delivery_ids": most })).await.expect_problem(404, "not_found");
        assert_eq!(world.get("/v1/replays").await.expect(200)["data"], json!([]));
    }

    async fn ids_that_are_not_there_are_named_by_their_places(world) {
        let (destination, _) = world.routed_destination().await;
        let mut ids = Vec::new();
        for _ in 0..3 {
            ids.push(dead_letter(&world, &destination).await);
        }
        let id = |n: u128| DeliveryId::at(world.clock.now(), n << 8).to_string();
        // Out of order, and one of them twice.
        let (later, earlier) = (id(1 << 60), id(1));
        let given = [&later, &ids[2], &earlier, &ids[0], &later, &ids[1]];
        for dry_run in [true, false] {
            let refused = world.post("/v1/replays", json!({ "delivery_ids": given, "dry_run": dry_run })).await;
            let problem = refused.expect(404);
            let error = |index| json!({
                "pointer": format!("/delivery_ids/{index}"), "code": "not_found", "detail": "no such delivery",
            });
            assert_eq!(problem["errors"], json!([error(0), error(2), error(4)]));
        }
        let many: Vec<_> = (1..=200).map(id).collect();
        let problem = world.post("/v1/replays", json!({ "delivery_ids": many })).await.expect(404);
        assert_eq!(problem["errors"].as_array().map(Vec::len), Some(100));
        assert_eq!(world.get("/v1/replays").await.expect(200)["data"], json!([]));
    }

    async fn what_is_not_there_was_pruned_if_its_id_is_older_than_what_is_kept(world) {
        let (destination, _) = world.routed_destination().await;
        let delivery = dead_letter(&world, &destination).await;
        let event = text(&world.get(&format!("/v1/deliveries/{delivery}")).await.expect(200)["event_id"]);
        let old = world.clock.now();
        world.clock.days_pass(91);
        let new = world.clock.now();
        let ask = async |event: &str, delivery: &str, status: u16, code: &str| {
            let given = || Some(json!({ "delivery_ids": [delivery] }));
            let mut said = Vec::new();
            for (path, body) in [
                (format!("/v1/events/{event}/replay"), None),
                (format!("/v1/deliveries/{delivery}/replay"), None),
                ("/v1/replays".into(), given()),
            ] {
                let answer = world.ask_as(&world.foreign_key, Method::POST, &path, body).await.expect(status);
                assert_eq!(answer["code"], code, "{path}: {answer}");
                said.push((answer["detail"].clone(), answer["errors"].clone()));
            }
            said
        };
        // Another's, which are there, answer as those that never were.
        let id = |at| (EventId::at(at, 1 << 20).to_string(), DeliveryId::at(at, 1 << 20).to_string());
        let (foreign, (never_event, never)) = (ask(&event, &delivery, 410, "pruned").await, id(old));
        assert_eq!(ask(&never_event, &never, 410, "pruned").await, foreign);
        let (new_event, new) = id(new);
        ask(&new_event, &new, 404, "not_found").await;

        let both = world.post("/v1/replays", json!({ "delivery_ids": [new, delivery, never] })).await.expect(404);
        let codes: Vec<_> = both["errors"].as_array().unwrap().iter().map(|error| (&error["pointer"], &error["code"])).collect();
        assert_eq!(codes, [(&json!("/delivery_ids/0"), &json!("not_found")), (&json!("/delivery_ids/2"), &json!("pruned"))]);
        // What is there still, however old, is replayed.
        world.tell(&format!("/v1/deliveries/{delivery}/replay")).await.expect(202);
        world.tell(&format!("/v1/events/{event}/replay")).await.expect(202);
        world.post("/v1/replays", json!({ "delivery_ids": [delivery] })).await.expect(202);
    }

    async fn a_key_stands_for_one_replay(world) {
        let body = json!({ "filter": {}, "rate": 5 });
        let first = ask_with_key(&world, "/v1/replays", "monday", body.clone()).await.expect(202);
        let spelled = json!({ "rate": 5, "filter": { "status": [] } });
        for same in [body.clone(), spelled] {
            assert_eq!(ask_with_key(&world, "/v1/replays", "monday", same).await.expect(202), first);
        }
        let other = json!({ "filter": {}, "rate": 6 });
        let conflict = ask_with_key(&world, "/v1/replays", "monday", other).await;
        conflict.expect_problem(409, "idempotency_conflict");
        let second = ask_with_key(&world, "/v1/replays", "tuesday", body.clone()).await.expect(202);
        assert_ne!(second["id"], first["id"]);
        let quoted = ask_with_key(&world, "/v1/replays", "\"monday\"", body.clone()).await.expect(202);
        assert_eq!(quoted["id"], first["id"]);
        let malformed = ask_with_key(&world, "/v1/replays", "", body).await;
        malformed.expect_problem(400, "invalid_header");
    }

    async fn a_replay_is_paused_resumed_and_cancelled(world) {
        let id = text(&world.post("/v1/replays", json!({ "filter": {} })).await.expect(202)["id"]);
        let tell = async |action: &str| world.tell(&format!("/v1/replays/{id}/{action}")).await;
        for (action, status) in [
            ("pause", "paused"), ("pause", "paused"), ("resume", "running"), ("resume", "running"),
            ("cancel", "cancelled"), ("cancel", "cancelled"),
        ] {
            let shown = tell(action).await.expect(200);
            assert_eq!(shown["status"], status);
            assert_eq!(shown["finished_at"].is_null(), status != "cancelled");
            assert_eq!(shown["estimated_seconds"].is_null(), status != "running");
        }
        for action in ["pause", "resume"] {
            tell(action).await.expect_problem(409, "replay_ended");
        }
    }

    async fn replays_that_have_not_ended_are_counted(world) {
        for _ in 0..20 {
            world.post("/v1/replays", json!({ "filter": {} })).await.expect(202);
        }
        world.post("/v1/replays", json!({ "filter": {} })).await.expect_problem(409, "quota_exceeded");
    }

    async fn one_delivery_is_replayed_at_once(world) {
        let (destination, route) = world.routed_destination().await;
        let old = dead_letter(&world, &destination).await;
        let before = world.get(&format!("/v1/deliveries/{old}")).await.expect(200);
        let path = format!("/v1/deliveries/{old}/replay");
        let new = world.tell(&path).await.expect(202);
        assert_eq!((&new["replay_of"], &new["event_id"]), (&json!(old), &before["event_id"]));
        assert_eq!((&new["destination_id"], &new["route_id"]), (&json!(destination), &json!(route)));
        assert_eq!((&new["attempt_count"], &new["status"]), (&json!(0), &json!("queued")));
        let new_id = text(&new["id"]);
        assert!(world.announced.looks.lock().unwrap().contains(&new_id.parse().unwrap()), "its lane is told");
        assert_eq!(world.get(&format!("/v1/deliveries/{old}")).await.expect(200), before);
        let replay = world.get(&format!("/v1/replays/{}", text(&new["replay_id"]))).await.expect(200);
        assert_eq!((&replay["status"], &replay["created"], &replay["matched"]), (&json!("completed"), &json!(1), &json!(1)));
        assert_eq!(replay["filter"], json!(null));

        world.tell(&format!("/v1/deliveries/{new_id}/replay")).await.expect_problem(409, "delivery_waiting");
        world.attempt(&destination, &new_id, Outcome::Rejected, 404).await;
        let chain = world.tell(&format!("/v1/deliveries/{new_id}/replay")).await.expect(202);
        assert_eq!(chain["replay_of"], json!(old), "the first of the chain");
        let replay = world.get(&format!("/v1/replays/{}", text(&new["replay_id"]))).await.expect(200);
        assert_eq!((&replay["delivered"], &replay["dead_letter"]), (&json!(0), &json!(1)));

        let keyed = ask_with_key(&world, &path, "once", json!({})).await.expect(202);
        let repeated = ask_with_key(&world, &path, "once", json!({})).await.expect(202);
        assert_eq!(keyed["id"], repeated["id"]);
        let other = dead_letter(&world, &destination).await;
        let conflict = ask_with_key(&world, &format!("/v1/deliveries/{other}/replay"), "once", json!({})).await;
        conflict.expect_problem(409, "idempotency_conflict");
        world.delete(&format!("/v1/destinations/{destination}")).await;
        world.tell(&path).await.expect_problem(404, "not_found");
    }

    async fn an_event_is_replayed_to_all_or_some(world) {
        let (first, _) = world.routed_destination().await;
        let (second, _) = world.routed_destination().await;
        let event = world.publish("invoice.paid", json!(1)).await;
        let found = world.get(&format!("/v1/deliveries?event_id={event}")).await.expect(200);
        for (delivery, outcome) in found["data"].as_array().unwrap().iter().zip([Outcome::Success, Outcome::Rejected]) {
            let status = if outcome == Outcome::Success { 200 } else { 404 };
            let (destination, id) = (text(&delivery["destination_id"]), text(&delivery["id"]));
            world.attempt(&destination, &id, outcome, status).await;
        }
        let path = format!("/v1/events/{event}/replay");
        let all = world.tell(&path).await.expect(202);
        assert_eq!((&all["matched"], &all["status"]), (&json!(2), &json!("running")));
        assert_eq!(all["filter"]["event_id"], json!([event]));
        let some = world.post(&path, json!({ "destination_ids": [second] })).await.expect(202);
        assert_eq!((&some["matched"], &some["filter"]["destination_id"]), (&json!(1), &json!([second])));
        world.post(&path, json!({ "destination_ids": [] })).await.expect_invalid("/destination_ids", "missing_value");
        world.post(&path, json!({ "destinations": [] })).await.expect_invalid("/destinations", "unknown_field");
        let unknown = json!({ "destination_ids": ["dst_01h455vb4pex5vsknk084sn02q"] });
        world.post(&path, unknown).await.expect_problem(404, "not_found");
        let keyed = ask_with_key(&world, &path, "again", json!({})).await.expect(202);
        assert_eq!(ask_with_key(&world, &path, "again", json!({})).await.expect(202)["id"], keyed["id"]);
        let narrower = json!({ "destination_ids": [first] });
        let conflict = ask_with_key(&world, &path, "again", narrower).await;
        conflict.expect_problem(409, "idempotency_conflict");
    }

    async fn dead_letters_are_grouped_by_what_they_have_in_common(world) {
        let (destination, _) = world.routed_destination().await;
        let first = dead_letter(&world, &destination).await;
        let last = dead_letter(&world, &destination).await;
        expire(&world, &destination).await;
        let made = |id: &str| id.parse::<DeliveryId>().unwrap().made_at();
        let page = world.get("/v1/dead-letters/groups").await.expect(200);
        let [expired, rejected] = page["data"].as_array().unwrap().as_slice() else { panic!("{page}") };
        assert_eq!(
            *rejected,
            json!({
                "destination_id": destination, "destination_name": rejected["destination_name"],
                "reason": "rejected", "outcome": "rejected", "http_status": 404, "count": 2,
                "first_at": made(&first), "last_at": made(&last), "sample_delivery_id": last,
            })
        );
        assert_eq!((&expired["reason"], &expired["http_status"]), (&json!("expired"), &json!(null)));
        assert_eq!(expired["outcome"], json!(null), "it was never tried");
        assert_eq!(page["next_cursor"], json!(null));
        let one = world.get("/v1/dead-letters/groups?limit=1").await.expect(200);
        assert_eq!(one["data"], json!([expired]));
        let cursor = text(&one["next_cursor"]);
        let rest = world.get(&format!("/v1/dead-letters/groups?limit=1&cursor={cursor}")).await.expect(200);
        assert_eq!((&rest["data"], &rest["next_cursor"]), (&json!([rejected]), &json!(null)));
        let foreign = world.ask_as(&world.foreign_key, Method::GET, "/v1/dead-letters/groups", None).await;
        assert_eq!(foreign.expect(200)["data"], json!([]));
    }

    async fn replays_need_their_scopes(world) {
        let (destination, _) = world.routed_destination().await;
        let delivery = dead_letter(&world, &destination).await;
        let reader = world.key_with(&[Scope::DeliveriesRead]).await;
        let writer = world.key_with(&[Scope::DeliveriesRetry]).await;
        let body = || Some(json!({ "filter": {} }));
        let made = world.ask_as(&writer, Method::POST, "/v1/replays", body()).await.expect(202);
        let replay = format!("/v1/replays/{}", text(&made["id"]));
        for path in ["/v1/replays", "/v1/dead-letters/groups", &replay] {
            world.ask_as(&reader, Method::GET, path, None).await.expect(200);
            world.ask_as(&writer, Method::GET, path, None).await.expect_problem(403, "scope_missing");
        }
        let paths = [format!("{replay}/pause"), format!("/v1/deliveries/{delivery}/replay")];
        for path in &paths {
            world.ask_as(&reader, Method::POST, path, None).await.expect_problem(403, "scope_missing");
        }
        world.ask_as(&reader, Method::POST, "/v1/replays", body()).await.expect_problem(403, "scope_missing");
    }
}

/// Ends a delivery without an attempt.
async fn expire(world: &World, destination: &str) {
    world.publish("invoice.paid", json!(2)).await;
    let destination_id: DestinationId = destination.parse().expect("an id");
    let window = Window {
        shard: destination_id.shard(),
        destination_id,
        from: domain::delivery::Position::START,
        last_track: i64::MAX,
        limit: 1,
    };
    let delivery = world.store.fetch(&[window]).await.expect("a window").remove(0).remove(0).delivery;
    let (at, ending) = (world.clock.now(), Ending::DeadLetter(DeadReason::Expired));
    let settlement = Settlement {
        shard: destination_id.shard(),
        fact: Fact::EndedWithout { id: AttemptId::at(at, 99), at, node: world.node, ending },
        settled: Settled::Ended(ending),
        consequence: None,
        delivery,
    };
    assert_eq!(world.store.settle(world.node, &[settlement], at).await.expect("a settlement"), [true]);
}

#[tokio::test]
async fn what_is_no_longer_kept_is_gone() {
    let (world, store) = World::forgetful().await;
    let (destination, _) = world.routed_destination().await;
    let delivery = dead_letter(&world, &destination).await;
    let shown = world.get(&format!("/v1/deliveries/{delivery}")).await.expect(200);
    let event: EventId = text(&shown["event_id"]).parse().unwrap();
    store.lose_event(event);
    world.tell(&format!("/v1/deliveries/{delivery}/replay")).await.expect_problem(410, "pruned");
    world.tell(&format!("/v1/events/{event}/replay")).await.expect_problem(410, "pruned");
    let never = EventId::at(world.clock.now(), 1 << 20);
    world.tell(&format!("/v1/events/{never}/replay")).await.expect_problem(404, "not_found");
    let replays: BTreeSet<_> = world.get("/v1/replays").await.expect(200)["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|replay| text(&replay["id"]))
        .collect();
    assert!(replays.is_empty());
}
