use crate::{
    on_every_store,
    world::{World, text},
};
use axum::body::Body;
use domain::outcome::Outcome;
use http::Request;
use serde_json::{Value, json};

async fn listed(world: &World, query: &str) -> Vec<String> {
    let page = world.get(&format!("/v1/events?{query}")).await.expect(200);
    page["data"].as_array().unwrap().iter().map(|event| text(&event["id"])).collect()
}

async fn check(world: &World, query: &str, expected: &[&String]) {
    assert_eq!(listed(world, query).await.iter().collect::<Vec<_>>(), expected, "{query}");
}

on_every_store! {
    async fn an_event_has_every_member_of_the_contract(world) {
        let (destination, route) = world.routed_destination().await;
        let body = json!({
            "type": "invoice.paid", "data": { "amount": 5 }, "idempotency_key": "k-1", "metadata": { "region": "eu" },
            "tags": ["invoice-9"],
        });
        let event = text(&world.post("/v1/events", body).await.expect(202)["id"]);
        let shown = world.get(&format!("/v1/events/{event}")).await.expect(200);
        let expected = json!({
            "id": event, "type": "invoice.paid", "source_id": null, "idempotency_key": "k-1",
            "content_type": "application/json", "size_bytes": 12, "ordering_key": null, "metadata": { "region": "eu" },
            "tags": ["invoice-9"],
            "received_at": shown["received_at"], "deliver_at": null, "payload_erased_at": null,
            "fanout": { "total": 1, "delivered": 0, "waiting": 1, "dead_letter": 0, "dismissed": 0, "cancelled": 0, "exact": true, "expanding": false, "completed_at": null },
            "headers": shown["headers"], "payload": "{\"amount\":5}", "deliveries": shown["deliveries"],
        });
        assert_eq!(shown, expected);
        assert_eq!(shown["deliveries"][0]["destination_id"], destination);
        assert_eq!(shown["deliveries"][0]["route_id"], route);

        let listed = world.get("/v1/events").await.expect(200);
        let mut expected = expected;
        for only_there in ["headers", "payload", "deliveries"] {
            expected.as_object_mut().unwrap().remove(only_there);
        }
        assert_eq!(listed["data"], json!([expected]));
    }

    async fn filters_narrow_and_repeated_ones_widen(world) {
        let (destination, _) = world.routed_destination().await;
        let paid = world.publish("invoice.paid", json!(1)).await;
        let body = json!({ "type": "invoice.sent", "data": 2, "idempotency_key": "k-2" });
        let sent = text(&world.post("/v1/events", body).await.expect(202)["id"]);
        let made = world.publish("payment.card.made", json!(3)).await;
        check(&world, "", &[&made, &sent, &paid]).await;
        check(&world, "type=invoice.*", &[&sent, &paid]).await;
        check(&world, "type=invoice.paid&type=payment.**", &[&made, &paid]).await;
        check(&world, "idempotency_key=k-2", &[&sent]).await;
        check(&world, "q=k-2", &[&sent]).await;
        check(&world, &format!("q={paid}"), &[&paid]).await;
        check(&world, &format!("q={paid}&type=payment.**"), &[]).await;
        check(&world, "q=k-2&idempotency_key=k-3", &[]).await;
        check(&world, "since=2100-01-01T00:00:00Z", &[]).await;
        let since = text(&world.get(&format!("/v1/events/{sent}")).await.expect(200)["received_at"]);
        check(&world, &format!("since={since}"), &[&made, &sent]).await;
        check(&world, &format!("until={since}"), &[&paid]).await;

        let delivery = world.delivery_of(&paid).await;
        world.attempt(&destination, &delivery, Outcome::Success, 200).await;
        check(&world, "fanout=complete", &[&paid]).await;
        check(&world, "fanout=incomplete", &[&made, &sent]).await;

        world.get("/v1/events?colour=red").await.expect_invalid("/colour", "unknown_parameter");
        world.get("/v1/events?fanout=half").await.expect_invalid("/fanout", "unknown_value");
        world.get("/v1/events?since=yesterday").await.expect_invalid("/since", "invalid_value");
        world.get("/v1/events?type=pay*").await.expect_invalid("/type/0", "invalid_value");
    }

    async fn a_payload_comes_back_byte_for_byte_and_cannot_run(world) {
        let source = world.post("/v1/sources", json!({ "name": "Odd" })).await.expect(201);
        let url = text(&source["ingest_url"]);
        let sent: &[u8] = b"<script>alert(1)</script>\xff\x00";
        let request = Request::post(url.strip_prefix("https://hooks.example.com").unwrap())
            .header("content-type", "text/html")
            .body(Body::from(sent))
            .unwrap();
        let event = text(&world.ask(request).await.expect(202)["id"]);
        let payload = world.get(&format!("/v1/events/{event}/payload")).await;
        assert_eq!((payload.status.as_u16(), &payload.bytes[..]), (200, sent));
        assert_eq!(payload.headers["content-type"], "text/html");
        assert_eq!(payload.headers["content-length"], sent.len().to_string());
        assert_eq!(payload.headers["x-content-type-options"], "nosniff");
        assert!(payload.headers["content-disposition"].to_str().unwrap().starts_with("attachment"));
        assert!(payload.headers["content-security-policy"].to_str().unwrap().contains("sandbox"));
        let shown = world.get(&format!("/v1/events/{event}")).await.expect(200);
        assert_eq!((&shown["payload"], &shown["size_bytes"]), (&Value::Null, &json!(sent.len())));
    }

    async fn a_long_payload_is_left_out_of_the_event(world) {
        let event = world.publish("a.b", json!("x".repeat(64 * 1024))).await;
        let shown = world.get(&format!("/v1/events/{event}")).await.expect(200);
        assert_eq!(shown["payload"], Value::Null);
        let payload = world.get(&format!("/v1/events/{event}/payload")).await;
        assert_eq!(payload.bytes.len(), 64 * 1024 + 2);
    }

    async fn a_payload_of_many_pieces_comes_back_byte_for_byte(world) {
        let lines: Vec<_> = (0_u64..150_000).map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
        for data in [json!("x".repeat(3_000_000)), json!(lines)] {
            let event = world.publish("a.b", data.clone()).await;
            let payload = world.get(&format!("/v1/events/{event}/payload")).await;
            assert_eq!(payload.headers["content-length"], payload.bytes.len().to_string());
            assert!(payload.body == data);
        }
    }
}

#[tokio::test]
async fn an_altered_payload_is_not_passed_off_as_whole() {
    let (world, store) = World::forgetful().await;
    let event = world.publish("a.b", json!({ "amount": 5 })).await;
    store.alter_payload(event.parse().unwrap());
    world.get(&format!("/v1/events/{event}/payload")).await.expect_problem(500, "internal");
    let shown = world.get(&format!("/v1/events/{event}")).await.expect(200);
    assert_eq!((&shown["payload"], &shown["size_bytes"]), (&Value::Null, &json!(12)));
}
