//! A foreign id is a 404, byte for byte the one that an id gets which was never given out.

use crate::{
    on_every_store,
    world::{Reply, World, text},
};
use domain::outcome::Outcome;
use http::Method;
use serde_json::{Value, json};

/// An id that was never given out: the last characters changed.
fn random(id: &str) -> String {
    let (head, tail) = id.split_at(id.len() - 6);
    format!("{head}{}", if tail == "zzzzzz" { "000000" } else { "zzzzzz" })
}

fn without_request_id(reply: &Reply) -> (u16, String) {
    let mut body = reply.body.clone();
    let id = body.as_object_mut().and_then(|body| body.remove("request_id"));
    let bytes = String::from_utf8_lossy(&reply.bytes).into_owned();
    (reply.status.as_u16(), bytes.replace(id.as_ref().and_then(Value::as_str).unwrap_or("no request id"), ""))
}

async fn check(world: &World, method: Method, path: &str, id: &str, body: Option<Value>) {
    let ask = async |key: &str, id: &str| {
        let path = path.replace("{id}", id);
        world.ask_as(key, method.clone(), &path, body.clone()).await
    };
    let foreign = ask(&world.foreign_key, id).await;
    let unknown = ask(&world.foreign_key, &random(id)).await;
    let malformed = ask(&world.foreign_key, "nonsense").await;
    assert_eq!(foreign.status, 404, "{method} {path}: {}", foreign.body);
    assert_eq!(without_request_id(&foreign), without_request_id(&unknown), "{method} {path}");
    assert_eq!(without_request_id(&foreign), without_request_id(&malformed), "{method} {path}");
    let names = |reply: &Reply| reply.headers.keys().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names(&foreign), names(&unknown));
}

on_every_store! {
    async fn a_foreign_id_is_as_absent_as_a_random_one(world) {
        let (destination, route) = world.routed_destination().await;
        let source = text(&world.post("/v1/sources", json!({ "name": "Stripe" })).await.expect(201)["id"]);
        let key = text(&world.post("/v1/api-keys", json!({ "name": "ci" })).await.expect(201)["id"]);
        let event = world.publish("a.b", json!(1)).await;
        let delivery = world.delivery_of(&event).await;
        world.attempt(&destination, &delivery, Outcome::ServerError, 500).await;

        let patch = || Some(json!({ "name": "Stolen" }));
        check(&world, Method::DELETE, "/v1/api-keys/{id}", &key, None).await;
        for (path, id) in [("/v1/sources/{id}", &source), ("/v1/destinations/{id}", &destination), ("/v1/routes/{id}", &route)] {
            check(&world, Method::GET, path, id, None).await;
            check(&world, Method::PATCH, path, id, patch()).await;
            check(&world, Method::DELETE, path, id, None).await;
        }
        check(&world, Method::POST, "/v1/sources/{id}/rotate-token", &source, None).await;
        check(&world, Method::GET, "/v1/sources/{id}/ingest-url", &source, None).await;
        check(&world, Method::GET, "/v1/sources/{id}/refused", &source, None).await;
        for action in ["pause", "resume", "enable", "disable", "probe", "test", "rotate-secret"] {
            check(&world, Method::POST, &format!("/v1/destinations/{{id}}/{action}"), &destination, None).await;
        }
        for part in ["secret", "attempts", "holds", "stats", "stats/series"] {
            check(&world, Method::GET, &format!("/v1/destinations/{{id}}/{part}"), &destination, None).await;
        }
        check(&world, Method::GET, "/v1/events/{id}", &event, None).await;
        check(&world, Method::GET, "/v1/events/{id}/payload", &event, None).await;
        check(&world, Method::DELETE, "/v1/events/{id}/payload", &event, None).await;
        check(&world, Method::GET, "/v1/deliveries/{id}", &delivery, None).await;
        for action in ["retry", "cancel", "replay"] {
            check(&world, Method::POST, &format!("/v1/deliveries/{{id}}/{action}"), &delivery, None).await;
        }
        check(&world, Method::POST, "/v1/events/{id}/replay", &event, None).await;
        let replay = text(&world.post("/v1/replays", json!({ "filter": {} })).await.expect(202)["id"]);
        check(&world, Method::GET, "/v1/replays/{id}", &replay, None).await;
        for action in ["pause", "resume", "cancel"] {
            check(&world, Method::POST, &format!("/v1/replays/{{id}}/{action}"), &replay, None).await;
        }
        for ids in [&delivery, &random(&delivery)] {
            let body = json!({ "delivery_ids": [ids] });
            for path in ["/v1/replays", "/v1/dead-letters/dismiss"] {
                let refused = world.ask_as(&world.foreign_key, Method::POST, path, Some(body.clone())).await;
                refused.expect_problem(404, "not_found");
            }
        }
        assert_eq!(world.get(&format!("/v1/replays/{replay}")).await.expect(200)["status"], "running");

        // And nothing of it had an effect.
        assert_eq!(world.get(&format!("/v1/sources/{source}")).await.expect(200)["name"], "Stripe");
        assert_eq!(world.get(&format!("/v1/destinations/{destination}")).await.expect(200)["status"], "active");
        assert_eq!(world.get(&format!("/v1/deliveries/{delivery}")).await.expect(200)["status"], "retry_scheduled");
    }

    async fn lists_show_what_is_the_accounts_own(world) {
        let (destination, _) = world.routed_destination().await;
        world.post("/v1/sources", json!({ "name": "Stripe" })).await.expect(201);
        let event = world.publish("a.b", json!(1)).await;
        let delivery = world.delivery_of(&event).await;
        for list in ["sources", "destinations", "routes", "events", "deliveries"] {
            assert_ne!(world.get(&format!("/v1/{list}")).await.expect(200)["data"], json!([]), "{list}");
            let path = format!("/v1/{list}");
            let foreign = world.ask_as(&world.foreign_key, Method::GET, &path, None).await.expect(200);
            assert_eq!(foreign["data"], json!([]), "{list}");
        }
        for query in [format!("event_id={event}"), format!("destination_id={destination}")] {
            let path = format!("/v1/deliveries?{query}");
            let foreign = world.ask_as(&world.foreign_key, Method::GET, &path, None).await.expect(200);
            assert_eq!(foreign["data"], json!([]), "{query}");
        }
        let path = format!("/v1/events?q={event}");
        let foreign = world.ask_as(&world.foreign_key, Method::GET, &path, None).await.expect(200);
        assert_eq!(foreign["data"], json!([]));
        let keys = world.ask_as(&world.foreign_key, Method::GET, "/v1/api-keys", None).await.expect(200);
        assert_eq!(keys["data"].as_array().unwrap().len(), 1, "its own key alone");
        world.get(&format!("/v1/deliveries/{delivery}")).await.expect(200);
    }
}
