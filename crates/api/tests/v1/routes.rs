use crate::{on_every_store, world::text};
use http::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;

on_every_store! {
    async fn a_route_is_made_read_changed_and_removed(world) {
        let destination = world.destination().await;
        let made = world.post("/v1/routes", json!({ "destination_id": destination })).await.expect(201);
        let expected = json!({
            "id": made["id"], "uid": null, "name": null, "enabled": true, "source_id": null,
            "destination_id": destination, "event_types": ["*"], "filter": null, "retry_policy": null,
            "timeout_seconds": null, "signing": null, "created_at": made["created_at"], "updated_at": made["updated_at"],
        });
        assert_eq!(made, expected);
        let path = format!("/v1/routes/{}", text(&made["id"]));
        assert_eq!(world.get(&path).await.expect(200), expected);

        let patch = json!({
            "name": "Big payments", "event_types": ["payment.*"], "filter": { "data": { "amount": { "$gte": 100 }, "note": null } },
            "retry_policy": { "schedule_seconds": [5] }, "timeout_seconds": 3, "signing": { "scheme": "none" },
        });
        let changed = world.patch(&path, patch.clone()).await.expect(200);
        assert_eq!(changed["filter"], patch["filter"], "a null inside a filter is a value");
        let policy = json!({ "schedule_seconds": [5], "jitter": null, "expire_after_seconds": null, "retry_statuses": null });
        assert_eq!(changed["retry_policy"], policy, "what it does not say is the destination's");
        let more = world.patch(&path, json!({ "retry_policy": { "retry_statuses": ["4xx"] } })).await.expect(200);
        assert_eq!(more["retry_policy"]["retry_statuses"], json!(["4xx"]));
        assert_eq!(more["retry_policy"]["schedule_seconds"], json!([5]));
        assert_eq!(
            changed["signing"],
            json!({ "scheme": "none", "ed25519": false, "svix_headers": false, "header": null })
        );
        let replaced = world.patch(&path, json!({ "filter": { "type": "a" }, "retry_policy": null, "event_types": null })).await.expect(200);
        assert_eq!(replaced["filter"], json!({ "type": "a" }), "a filter is replaced as a whole");
        assert_eq!((&replaced["retry_policy"], &replaced["event_types"]), (&json!(null), &json!(["*"])));
        assert_eq!(world.patch(&path, json!({ "filter": null })).await.expect(200)["filter"], json!(null));
        assert_eq!(world.patch(&path, json!({})).await.expect(200)["name"], "Big payments");

        assert_eq!(world.get("/v1/routes").await.expect(200)["data"].as_array().unwrap().len(), 1);
        assert_eq!(world.delete(&path).await.status, 204);
        world.get(&path).await.expect_problem(404, "not_found");
    }

    async fn what_is_wrong_is_refused(world) {
        let destination = world.destination().await;
        for (more, pointer, code) in [
            (json!({ "colour": 1 }), "/colour", "unknown_field"),
            (json!({ "destination_id": "dst_1" }), "/destination_id", "not_found"),
            (json!({ "destination_id": "no uid" }), "/destination_id", "invalid_value"),
            (json!({ "destination_id": "dst_01h455vb4pex5vsknk084sn02q" }), "/destination_id", "not_found"),
            (json!({ "source_id": "src_01h455vb4pex5vsknk084sn02q" }), "/source_id", "not_found"),
            (json!({ "event_types": [] }), "/event_types", "invalid_length"),
            (json!({ "event_types": ["a", "pay*"] }), "/event_types/1", "invalid_pattern"),
            (json!({ "event_types": vec!["a"; 65] }), "/event_types", "invalid_length"),
            (json!({ "filter": { "data": { "a": { "$near": 1 } } } }), "/filter/data/a/$near", "unknown_operator"),
            (
                json!({ "filter": { "data": { "a": { "$eq": { "$ref": "b" } } } } }),
                "/filter/data/a/$eq/$ref",
                "unknown_operator",
            ),
            (json!({ "timeout_seconds": 0 }), "/timeout_seconds", "out_of_range"),
            (json!({ "retry_policy": { "jitter": 2 } }), "/retry_policy/jitter", "out_of_range"),
            (json!({ "signing": { "scheme": "svix" } }), "/signing/scheme", "unknown_value"),
            (json!({ "signing": { "secret": "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD" } }), "/signing/secret", "not_allowed"),
        ] {
            let mut body = json!({ "destination_id": destination });
            for (name, value) in more.as_object().unwrap() {
                body[name] = value.clone();
            }
            world.post("/v1/routes", body).await.expect_invalid(pointer, code);
        }
        world.post("/v1/routes", json!({})).await.expect_invalid("/destination_id", "missing_field");
        assert_eq!(world.get("/v1/routes").await.expect(200)["data"], json!([]));
    }

    async fn a_foreign_destination_cannot_be_led_to(world) {
        let destination = world.destination().await;
        let body = json!({ "destination_id": destination });
        let refused = world.ask_as(&world.foreign_key, Method::POST, "/v1/routes", Some(body)).await;
        refused.expect_invalid("/destination_id", "not_found");
    }

    async fn of_two_routes_to_one_destination_the_oldest_delivers(world) {
        let (shared, alone) = (world.destination().await, world.destination().await);
        let mut ids = Vec::new();
        for (destination, event_types) in
            [(&shared, "order.paid"), (&shared, "order.*"), (&alone, "*"), (&shared, "*"), (&shared, "refund.*")]
        {
            let body = json!({ "destination_id": destination, "event_types": [event_types] });
            ids.push(text(&world.post("/v1/routes", body).await.expect(201)["id"]));
        }
        let preview = world.post("/v1/routes/preview", json!({ "type": "order.sent" })).await.expect(200);
        let said: Vec<_> = preview["data"].as_array().unwrap().iter().map(|route| {
            (text(&route["route_id"]), route["matches"] == true, route["delivers"] == true)
        }).collect();
        let expected =
            [(1, true, true), (2, true, true), (3, true, false), (0, false, false), (4, false, false)];
        assert_eq!(said, expected.map(|(n, matches, delivers): (usize, _, _)| (ids[n].clone(), matches, delivers)));

        let event = world.publish("order.paid", json!({})).await;
        let detail = world.get(&format!("/v1/events/{event}")).await.expect(200);
        assert_eq!(detail["fanout"]["total"], 2);
        assert_eq!(detail["other_routes"], json!([ids[1], ids[3]]));
        let by = |delivery: &Value| (text(&delivery["destination_id"]), text(&delivery["route_id"]));
        let by: BTreeSet<_> = detail["deliveries"].as_array().unwrap().iter().map(by).collect();
        assert_eq!(by, [(shared.clone(), ids[0].clone()), (alone.clone(), ids[2].clone())].into());
        let listed = world.get("/v1/events").await.expect(200);
        assert_eq!(listed["data"][0]["other_routes"], json!([ids[1], ids[3]]));

        let event = world.publish("user.left", json!({})).await;
        world.delete(&format!("/v1/routes/{}", ids[3])).await.expect(204);
        let detail = world.get(&format!("/v1/events/{event}")).await.expect(200);
        assert_eq!(detail.get("other_routes"), None, "only where there are any");
    }

    async fn a_preview_says_why(world) {
        let destination = world.destination().await;
        let source = text(&world.post("/v1/sources", json!({ "name": "Stripe" })).await.expect(201)["id"]);
        let mut ids = Vec::new();
        for more in [
            json!({ "enabled": false }),
            json!({ "event_types": ["invoice.*", "refund.**"] }),
            json!({ "filter": { "data": { "amount": { "$gte": 100 } } } }),
            json!({ "source_id": source }),
            json!({ "event_types": ["payment.*"] }),
        ] {
            let mut body = json!({ "destination_id": destination });
            for (name, value) in more.as_object().unwrap() {
                body[name] = value.clone();
            }
            ids.push(text(&world.post("/v1/routes", body).await.expect(201)["id"]));
        }
        let expected = json!({ "data": [
            { "route_id": ids[4], "destination_id": destination, "matches": true, "delivers": true, "why": null },
            { "route_id": ids[0], "destination_id": destination, "matches": false, "delivers": false,
              "why": { "path": "enabled", "expected": true, "found": false } },
            { "route_id": ids[1], "destination_id": destination, "matches": false, "delivers": false,
              "why": { "path": "type", "expected": ["invoice.*", "refund.**"], "found": "payment.made" } },
            { "route_id": ids[2], "destination_id": destination, "matches": false, "delivers": false,
              "why": { "path": "data.amount", "expected": { "$gte": 100 }, "found": 90 } },
            { "route_id": ids[3], "destination_id": destination, "matches": false, "delivers": false,
              "why": { "path": "source_id", "expected": source, "found": null } },
        ] });
        let inline = json!({ "type": "payment.made", "data": { "amount": 90 } });
        assert_eq!(world.post("/v1/routes/preview", inline).await.expect(200), expected);
        let event = world.publish("payment.made", json!({ "amount": 90 })).await;
        assert_eq!(world.post("/v1/routes/preview", json!({ "event_id": event })).await.expect(200), expected);

        let unknown = json!({ "type": "a", "source_id": "src_01h455vb4pex5vsknk084sn02q" });
        world.post("/v1/routes/preview", unknown).await.expect_invalid("/source_id", "not_found");
        let foreign = Some(json!({ "type": "a", "source_id": source }));
        let foreign = world.ask_as(&world.foreign_key, Method::POST, "/v1/routes/preview", foreign).await;
        foreign.expect_invalid("/source_id", "not_found");
        world.post("/v1/routes/preview", json!({})).await.expect_invalid("/type", "missing_field");
        let both = json!({ "event_id": event, "type": "a" });
        world.post("/v1/routes/preview", both).await.expect_invalid("/event_id", "not_allowed");
        let foreign = json!({ "event_id": event });
        let foreign = world.ask_as(&world.foreign_key, Method::POST, "/v1/routes/preview", Some(foreign)).await;
        foreign.expect_problem(404, "not_found");
    }

    async fn a_draft_is_tried_without_being_saved(world) {
        let tried = async |mut body: Value, draft: Value| {
            body["draft"] = draft;
            world.post("/v1/routes/preview", body).await.expect(200)
        };
        let source = text(&world.post("/v1/sources", json!({ "name": "Stripe" })).await.expect(201)["id"]);
        let event = world.publish("payment.made", json!({ "amount": 90 })).await;
        // Of an event that is there, and of one that is made up, whatever its source; no route looks at a payload.
        for body in [
            json!({ "event_id": event }),
            json!({ "type": "payment.made", "data": { "amount": 90 }, "source_id": source }),
        ] {
            let dear = json!({ "filter": { "data": { "amount": { "$gte": 100 } } } });
            let why = json!({ "path": "data.amount", "expected": { "$gte": 100 }, "found": 90 });
            let said = tried(body.clone(), dear).await;
            assert_eq!(said, json!({ "data": [], "draft": { "matches": false, "why": why } }));
            let cheap = json!({ "event_types": ["payment.*"], "filter": { "data": { "amount": { "$lt": 100 } } } });
            assert_eq!(tried(body.clone(), cheap).await["draft"], json!({ "matches": true, "why": null }));
            let why = json!({ "path": "type", "expected": ["order.*"], "found": "payment.made" });
            let other = json!({ "event_types": ["order.*"], "filter": null });
            assert_eq!(tried(body.clone(), other).await["draft"], json!({ "matches": false, "why": why }));
            assert_eq!(tried(body.clone(), json!({})).await["draft"]["matches"], true, "it takes everything");
            let without = world.post("/v1/routes/preview", body).await.expect(200);
            assert_eq!(without.get("draft"), None, "only if there was one");
        }
        assert_eq!(world.get("/v1/routes").await.expect(200)["data"], json!([]), "nothing is kept");

        let wrong = json!({ "type": "a", "draft": {
            "event_types": ["a", "b.*.**.c"], "filter": { "data": { "x": { "$near": 1 } } },
        } });
        let wrong = world.post("/v1/routes/preview", wrong).await;
        wrong.expect_invalid("/draft/filter/data/x/$near", "unknown_operator");
        let upper = json!({ "type": "a", "draft": { "filter": { "headers": { "X-Tier": "gold" } } } });
        let upper = world.post("/v1/routes/preview", upper).await;
        upper.expect_invalid("/draft/filter/headers/X-Tier", "invalid_value");
        let none = json!({ "type": "a", "draft": { "event_types": [] } });
        world.post("/v1/routes/preview", none).await.expect_invalid("/draft/event_types", "invalid_length");
        let more = json!({ "type": "a", "draft": { "destination_id": "x" } });
        world.post("/v1/routes/preview", more).await.expect_invalid("/draft/destination_id", "unknown_field");
    }

    async fn a_changed_route_counts_for_the_next_event(world) {
        let (_, route) = world.routed_destination().await;
        world.publish("a.b", json!(1)).await;
        world.patch(&format!("/v1/routes/{route}"), json!({ "enabled": false })).await.expect(200);
        let event = world.publish("a.b", json!(2)).await;
        let shown = world.get(&format!("/v1/events/{event}")).await.expect(200);
        assert_eq!(shown["fanout"]["total"], 0);
        assert_eq!(world.get("/v1/deliveries").await.expect(200)["data"].as_array().unwrap().len(), 1);
    }
}
