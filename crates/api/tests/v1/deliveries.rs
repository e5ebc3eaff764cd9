use crate::{
    on_every_store,
    world::{World, text},
};
use domain::{account::Scope, outcome::Outcome};
use http::Method;
use serde_json::json;
use store::LaneView;

async fn listed(world: &World, query: &str) -> Vec<String> {
    let page = world.get(&format!("/v1/deliveries?{query}")).await.expect(200);
    page["data"].as_array().unwrap().iter().map(|delivery| text(&delivery["id"])).collect()
}

fn run_lane(world: &World, destination: &str) {
    world.lanes.views.lock().unwrap().insert(destination.into(), LaneView::default());
}

async fn check(world: &World, query: &str, expected: &[&String]) {
    assert_eq!(listed(world, query).await.iter().collect::<Vec<_>>(), expected, "{query}");
}

on_every_store! {
    async fn an_attempt_without_an_answer_says_why_by_a_code_a_kind_and_a_sentence(world) {
        let (destination, _) = world.routed_destination().await;
        let event = world.publish("invoice.paid", json!(1)).await;
        let delivery = world.delivery_of(&event).await;
        world.attempt(&destination, &delivery, Outcome::NetworkError, 500).await;
        let shown = world.get(&format!("/v1/deliveries/{delivery}")).await.expect(200);
        let said = json!({ "code": "connect_error", "kind": "refused", "message": "it refused the connection" });
        assert_eq!(shown["attempts"][0]["error"], said);
    }

    async fn deliveries_of_an_ordered_destination_are_numbered(world) {
        let (destination, _) = world.routed_destination().await;
        let path = format!("/v1/destinations/{destination}");
        world.patch(&path, json!({ "ordering": "key", "on_dead_letter": "pause" })).await.expect(200);
        let mut numbers = Vec::new();
        for key in ["a", "b", "a"] {
            let body = json!({ "type": "invoice.paid", "data": 1, "ordering_key": key });
            let event = text(&world.post("/v1/events", body).await.expect(202)["id"]);
            let delivery = world.delivery_of(&event).await;
            let shown = world.get(&format!("/v1/deliveries/{delivery}")).await.expect(200);
            assert_eq!(shown["ordering_key"], *key);
            numbers.push((shown["sequence"].as_i64().unwrap(), delivery));
        }
        assert_eq!(numbers.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 2, 3]);
        let shown = world.get(&path).await.expect(200);
        assert_eq!((&shown["ordering"], &shown["queued_events"]), (&json!("key"), &json!(3)));
        // What waits has its place: another ordering must wait until it is gone.
        for ordering in ["strict", "none"] {
            let patch = json!({ "ordering": ordering, "on_dead_letter": "continue" });
            world.patch(&path, patch).await.expect_problem(409, "destination_busy");
        }
        world.patch(&path, json!({ "ordering": "key", "name": "Renamed" })).await.expect(200);
        for (number, delivery) in numbers {
            let ended = world.post(&format!("/v1/deliveries/{delivery}/cancel"), json!({})).await.expect(200);
            assert_eq!((&ended["status"], &ended["sequence"]), (&json!("cancelled"), &json!(number)));
        }
        let patch = json!({ "ordering": "none", "on_dead_letter": "continue" });
        assert_eq!(world.patch(&path, patch).await.expect(200)["ordering"], "none");
        let event = world.publish("invoice.paid", json!(1)).await;
        let delivery = world.delivery_of(&event).await;
        let shown = world.get(&format!("/v1/deliveries/{delivery}")).await.expect(200);
        assert_eq!(shown["sequence"], json!(null));
    }

    async fn a_delivery_has_every_member_of_the_contract(world) {
        let (destination, route) = world.routed_destination().await;
        let event = world.publish("invoice.paid", json!(1)).await;
        let delivery = world.delivery_of(&event).await;
        world.attempt(&destination, &delivery, Outcome::ServerError, 503).await;
        run_lane(&world, &destination);
        let shown = world.get(&format!("/v1/deliveries/{delivery}")).await.expect(200);
        let attempt = &shown["attempts"][0];
        let expected = json!({
            "id": delivery, "event_id": event, "event_type": "invoice.paid", "route_id": route,
            "destination_id": destination, "status": "retry_scheduled", "reason": null, "attempt_count": 1,
            "retry_count": 1, "last_outcome": "server_error", "last_http_status": 503, "sequence": null,
            "ordering_key": null, "created_at": shown["created_at"], "next_attempt_at": shown["next_attempt_at"],
            "ended_at": null, "replay_id": null, "replay_of": null,
            "waiting_for": {
                "kind": "capacity", "since": shown["created_at"], "until": null, "behind": null,
                "detail": "its turn on this node",
            },
            "resolved_at": null, "resolved_by": null, "dismissal_note": null,
            "attempts": [attempt],
        });
        assert_eq!(shown, expected);
        assert!(shown["next_attempt_at"].is_string());
        let started = text(&attempt["started_at"]);
        let seconds = started.parse::<domain::time::Timestamp>().unwrap().seconds();
        let trace = domain::trace::TraceContext::of_untraced(
            event.parse().unwrap(),
            text(&attempt["id"]).parse().unwrap(),
        );
        assert_eq!(*attempt, json!({
            "id": attempt["id"], "delivery_id": delivery, "event_id": event, "destination_id": destination, "number": 1,
            "started_at": started, "duration_ms": 112,
            "timing_ms": { "dns": 2, "connect": 6, "tls": null, "first_byte": 90 }, "connection_reused": false,
            "outcome": "server_error", "http_status": 503, "retry_after_seconds": 60, "error": null,
            "request": { "method": "POST", "url": "https://example.com/hooks", "headers": {
                "content-type": "application/json", "user-agent": attempt["request"]["headers"]["user-agent"],
                "accept-encoding": "identity", "webhook-id": event, "webhook-timestamp": seconds.to_string(),
                "posthaste-event-type": "invoice.paid", "posthaste-delivery": delivery, "posthaste-attempt": "1",
                "traceparent": trace.to_string(), "authorization": "***", "x-team": "orders",
            } },
            "response": { "headers": { "server": "nginx" }, "body": "busy", "body_base64": null, "truncated": false },
            "node": attempt["node"], "late": false,
        }));
    }

    async fn the_lane_knows_what_is_being_delivered(world) {
        let (destination, _) = world.routed_destination().await;
        let event = world.publish("a.b", json!(1)).await;
        let delivery = world.delivery_of(&event).await;
        let shown = async || world.get(&format!("/v1/deliveries/{delivery}")).await.expect(200);
        let idle = shown().await;
        assert_eq!((&idle["status"], &idle["waiting_for"]["kind"]), (&json!("queued"), &json!("no_worker")));
        run_lane(&world, &destination);
        assert_eq!(shown().await["waiting_for"]["kind"], "capacity");

        world.lanes.delivering.lock().unwrap().insert(delivery.clone());
        let open = shown().await;
        assert_eq!((&open["status"], &open["waiting_for"], &open["next_attempt_at"]), (&json!("delivering"), &json!(null), &json!(null)));
        check(&world, "status=delivering", &[&delivery]).await;
        check(&world, "status=queued", &[]).await;
        check(&world, "status=queued&status=delivering", &[&delivery]).await;
    }

    async fn filters_narrow_and_repeated_ones_widen(world) {
        let (destination, route) = world.routed_destination().await;
        let mut ids = Vec::new();
        for event_type in ["a.one", "a.two", "b.three"] {
            let event = world.publish(event_type, json!(1)).await;
            ids.push(world.delivery_of(&event).await);
        }
        world.attempt(&destination, &ids[0], Outcome::Rejected, 404).await;
        world.attempt(&destination, &ids[1], Outcome::Success, 200).await;
        let newest_first = |picked: &[usize]| picked.iter().map(|n| ids[*n].clone()).collect::<Vec<_>>();
        for (query, picked) in [
            ("status=dead_letter", &[0][..]),
            ("status=dead_letter&status=queued", &[2, 0]),
            ("reason=rejected", &[0]),
            ("reason=exhausted", &[]),
            ("type=a.*", &[1, 0]),
            ("type=a.*&status=delivered", &[1]),
            ("http_status=404", &[0]),
            ("http_status=404&http_status=200", &[1, 0]),
            (&format!("destination_id={destination}"), &[2, 1, 0]),
            (&format!("route_id={route}"), &[2, 1, 0]),
            ("since=2100-01-01T00:00:00Z", &[]),
            ("replay_id=rpl_01h455vb4pex5vsknk084sn02q", &[]),
            ("source_id=src_01h455vb4pex5vsknk084sn02q", &[]),
        ] {
            assert_eq!(listed(&world, query).await, newest_first(picked), "{query}");
        }
        world.get("/v1/deliveries?status=lost").await.expect_invalid("/status/0", "unknown_value");
        world.get("/v1/deliveries?reason=bored").await.expect_invalid("/reason/0", "unknown_value");
        world.get("/v1/deliveries?event_id=evt_1").await.expect_invalid("/event_id/0", "invalid_value");
        world.get("/v1/deliveries?http_status=99").await.expect_invalid("/http_status/0", "out_of_range");
        let many = "http_status=200&".repeat(51);
        world.get(&format!("/v1/deliveries?{many}")).await.expect_invalid("/http_status", "too_many");
    }

    async fn a_retry_makes_it_due_and_tells_the_owner(world) {
        let (destination, _) = world.routed_destination().await;
        let event = world.publish("a.b", json!(1)).await;
        let delivery = world.delivery_of(&event).await;
        world.attempt(&destination, &delivery, Outcome::ServerError, 500).await;
        let path = format!("/v1/deliveries/{delivery}");
        let before = text(&world.get(&path).await.expect(200)["next_attempt_at"]);
        let after = world.tell(&format!("{path}/retry")).await.expect(202);
        assert!(text(&after["next_attempt_at"]) < before);
        let looked: Vec<_> = world.announced.looks.lock().unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(looked, [delivery]);
    }

    async fn what_has_ended_stays_as_it_is(world) {
        let (destination, _) = world.routed_destination().await;
        let event = world.publish("a.b", json!(1)).await;
        let delivery = world.delivery_of(&event).await;
        let path = format!("/v1/deliveries/{delivery}");
        let cancelled = world.tell(&format!("{path}/cancel")).await.expect(200);
        assert_eq!((&cancelled["status"], &cancelled["reason"]), (&json!("cancelled"), &json!("requested")));
        assert!(cancelled["ended_at"].is_string());
        assert_eq!((&cancelled["attempts"], &cancelled["waiting_for"]), (&json!([]), &json!(null)));
        world.tell(&format!("{path}/cancel")).await.expect_problem(409, "delivery_ended");
        world.tell(&format!("{path}/retry")).await.expect_problem(409, "delivery_ended");
        let shown = world.get(&format!("/v1/events/{event}")).await.expect(200);
        assert_eq!((&shown["fanout"]["cancelled"], &shown["fanout"]["waiting"]), (&json!(1), &json!(0)));
        let shown = world.get(&format!("/v1/destinations/{destination}")).await.expect(200);
        assert_eq!(shown["queued_events"], 0);
    }

    async fn looking_is_not_touching(world) {
        let (_, _) = world.routed_destination().await;
        let event = world.publish("a.b", json!(1)).await;
        let delivery = world.delivery_of(&event).await;
        let reader = world.key_with(&[Scope::DeliveriesRead]).await;
        world.ask_as(&reader, Method::GET, &format!("/v1/deliveries/{delivery}"), None).await.expect(200);
        for action in ["retry", "cancel"] {
            let refused = world.ask_as(&reader, Method::POST, &format!("/v1/deliveries/{delivery}/{action}"), None).await;
            refused.expect_problem(403, "scope_missing");
        }
    }
}
