//! What Posthaste tells of itself, as events that routes take.

use crate::{
    on_every_store,
    world::{World, text},
};
use api::Teller;
use domain::{
    gate::{Hold, HoldReason},
    operations::{OperationalKind, OperationalNote},
    outcome::Outcome,
    time::Clock as _,
};
use http::Method;
use serde_json::{Value, json};
use store::{Consequence, GateWord};

impl World {
    /// A destination with a route for these types.
    async fn watcher(&self, event_types: &[&str]) -> String {
        let id = self.destination().await;
        let body = json!({ "destination_id": id, "event_types": event_types });
        self.post("/v1/routes", body).await.expect(201);
        id
    }

    async fn told(&self, kind: &str) -> Vec<Value> {
        self.app.tell(&mut Teller::default()).await;
        let found = self.get(&format!("/v1/events?type=posthaste.{kind}")).await.expect(200);
        found["data"].as_array().expect("a list").clone()
    }

    async fn data_of(&self, event: &Value) -> Value {
        self.get(&format!("/v1/events/{}/payload", text(&event["id"]))).await.expect(200)
    }

    /// Where an event goes.
    async fn destinations_of(&self, event: &Value) -> Vec<String> {
        let id = text(&event["id"]);
        let found = self.get(&format!("/v1/deliveries?event_id={id}")).await.expect(200);
        let deliveries = found["data"].as_array().expect("a list").iter();
        deliveries.map(|delivery| text(&delivery["destination_id"])).collect()
    }

    async fn disable(&self, id: &str) {
        self.tell(&format!("/v1/destinations/{id}/disable")).await.expect(200);
    }

    async fn keep_gate(&self, destination: &str, kind: OperationalKind, hold: &Hold) {
        let id: domain::id::DestinationId = destination.parse().expect("an id");
        let now = self.clock.now();
        let note = OperationalNote::of_gate(self.account, id, (kind, hold), now);
        let word = GateWord {
            destination_id: id,
            shard: id.shard(),
            record: None,
            holds: Vec::new(),
            notes: vec![note],
        };
        self.store.keep_gates(self.node, &[word], now).await.expect("it is kept");
    }
}

on_every_store! {
    async fn only_patterns_that_begin_with_the_segment_take_them(world) {
        let watchers = [world.watcher(&["posthaste.**"]).await, world.watcher(&["posthaste.destination.*"]).await];
        for others in [&["*"][..], &["**"], &["*.destination.*"], &["*.**"], &["posthaste.replay.*"], &["order.*"]] {
            world.watcher(others).await;
        }
        let ill = world.destination().await;
        world.disable(&ill).await;
        let events = world.told("destination.disabled").await;
        assert_eq!(events.len(), 1, "{events:?}");
        assert_eq!(events[0]["source_id"], Value::Null);
        let mut reached = world.destinations_of(&events[0]).await;
        reached.sort_unstable();
        let mut expected = watchers.to_vec();
        expected.sort_unstable();
        assert_eq!(reached, expected);
        let data = world.data_of(&events[0]).await;
        assert_eq!(data["account_id"], json!(world.account));
        assert_eq!(data["reason"], "requested");
        let told = json!({ "id": ill, "uid": null, "name": "Orders", "origin": "https://example.com" });
        assert_eq!(data["destination"], told);
        // Once more, and by another teller: nothing is told twice.
        world.disable(&ill).await;
        assert_eq!(world.told("destination.disabled").await.len(), 1);
    }

    async fn what_is_about_a_destination_does_not_go_there(world) {
        let (ill, well) = (world.watcher(&["posthaste.**"]).await, world.watcher(&["posthaste.**"]).await);
        let hold = Hold {
            reason: HoldReason::Throttle,
            since: world.clock.now(),
            until: Some(world.clock.now()),
            detail: "429 Too Many Requests".into(),
            step: Some(1),
            probing: false,
        };
        for (kind, word) in [
            (OperationalKind::Throttled, "destination.throttled"),
            (OperationalKind::Unhealthy, "destination.unhealthy"),
            (OperationalKind::Recovered, "destination.recovered"),
        ] {
            world.keep_gate(&ill, kind, &hold).await;
            let events = world.told(word).await;
            assert_eq!(events.len(), 1, "{word}");
            assert_eq!(world.destinations_of(&events[0]).await, [&*well], "{word}");
            assert_eq!(world.data_of(&events[0]).await["destination"]["id"], json!(ill));
        }
    }

    async fn nobody_is_told_who_has_no_route_for_it(world) {
        world.watcher(&["*"]).await;
        let ill = world.destination().await;
        world.disable(&ill).await;
        assert!(world.told("destination.disabled").await.is_empty());
        assert!(world.store.untold(&[], 9).await.expect("notes").is_empty());
    }

    async fn a_destination_that_is_gone_is_told_with_why(world) {
        world.watcher(&["posthaste.**"]).await;
        let (ill, _) = world.routed_destination().await;
        let event = world.publish("order.paid", json!({})).await;
        let delivery = world.delivery_of(&event).await;
        world.attempt_that(Some(Consequence::Disables), &ill, &delivery, Outcome::Rejected, 410).await;
        let events = world.told("destination.disabled").await;
        assert_eq!(events.len(), 1);
        assert_eq!(world.data_of(&events[0]).await["reason"], "gone");
    }

    async fn dead_letters_are_told_by_the_minute_and_none_of_those_that_tell(world) {
        let watcher = world.watcher(&["posthaste.**"]).await;
        let (ill, _) = world.routed_destination().await;
        for _ in 0..3 {
            let event = world.publish("order.paid", json!({})).await;
            world.attempt(&ill, &world.delivery_of(&event).await, Outcome::Rejected, 404).await;
        }
        world.clock.minutes_pass(2);
        let events = world.told("delivery.dead_letter").await;
        let mut count = 0;
        for event in &events {
            let data = world.data_of(event).await;
            assert_eq!(data["reasons"][0]["reason"], "rejected");
            assert_eq!(data["reasons"][0]["http_status"], 404);
            count += data["count"].as_u64().expect("a count");
            let delivery = world.delivery_of(&text(&event["id"])).await;
            world.attempt(&watcher, &delivery, Outcome::Rejected, 404).await;
        }
        assert_eq!(count, 3);
        world.clock.minutes_pass(2);
        assert_eq!(world.told("delivery.dead_letter").await.len(), events.len(), "what tells makes nothing");
    }

    async fn a_note_that_outlives_its_event_makes_no_second_one(world) {
        world.watcher(&["posthaste.**"]).await;
        let note = OperationalNote::of_full_backlog(world.account, world.clock.now(), 7, 70);
        for _ in 0..2 {
            // As if the node had died before it deleted the note, and the numbers had changed since.
            world.store.note_operational(&note).await.expect("it is noted");
            let events = world.told("account.backlog_full").await;
            assert_eq!(events.len(), 1);
            assert_eq!(world.data_of(&events[0]).await["queued_deliveries"], 7);
        }
        assert!(world.store.untold(&[], 9).await.expect("notes").is_empty());
    }

    async fn an_account_is_told_so_many_a_minute_and_the_rest_later(world) {
        world.watcher(&["posthaste.**"]).await;
        let most = domain::limits::OPERATIONAL_EVENTS_A_MINUTE as usize;
        let mut teller = Teller::default();
        for n in 0..most + 5 {
            let note = OperationalNote::of_full_backlog(world.account, world.clock.now(), n as u64, 0);
            world.store.note_operational(&note).await.expect("it is noted");
        }
        // The one in the background has its own count: together no more than twice as many.
        world.app.tell(&mut teller).await;
        world.clock.minutes_pass(1);
        world.app.tell(&mut teller).await;
        assert!(world.store.untold(&[], 9).await.expect("notes").is_empty());
        let found = world.get("/v1/events?type=posthaste.**&limit=200").await.expect(200);
        assert_eq!(found["data"].as_array().map(Vec::len), Some(most + 5));
    }

    async fn the_operators_account_gets_copies_of_all(world) {
        let body = json!({ "name": "Operator", "uid": "operator" });
        let operator =
            text(&world.ask_as(&world.operator_key, Method::POST, "/v1/accounts", Some(body)).await.expect(201)["id"]);
        world.app.tell(&mut Teller::default()).await;
        let ill = world.destination().await;
        world.disable(&ill).await;
        assert!(world.told("destination.disabled").await.is_empty(), "the account itself has no route");
        let account = operator.parse().expect("an id");
        let filter = store::EventFilter::default();
        let page = store::Page { before: None, limit: 9 };
        let events = world.store.events(account, &filter, page).await.expect("a list").rows;
        assert_eq!(events.len(), 1);
        let payload = world.store.payload(events[0].event.id).await.expect("read").expect("there");
        let payload = payload.plain().expect("it is not sealed");
        let data: Value = serde_json::from_slice(&payload.payload).expect("JSON");
        assert_eq!((&data["account_id"], &data["destination"]["id"]), (&json!(world.account), &json!(ill)));
    }

    async fn nobody_publishes_types_of_ours(world) {
        for name in ["posthaste", "posthaste.destination.throttled", "posthaste.x"] {
            let body = json!({ "type": name, "data": {} });
            world.post("/v1/events", body).await.expect_invalid("/type", "invalid_event_type");
        }
        world.publish("posthastes.x", json!({})).await;
    }
}
