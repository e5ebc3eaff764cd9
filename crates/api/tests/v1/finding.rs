//! Finding events: by tags, by metadata, and those that went nowhere.

use crate::{
    on_every_store,
    world::{Reply, World, text},
};
use axum::body::Body;
use http::Request;
use serde_json::{Value, json};

async fn publish(world: &World, body: Value) -> Reply {
    world.post("/v1/events", body).await
}

async fn ids(world: &World, query: &str) -> Vec<String> {
    let page = world.get(&format!("/v1/events?{query}")).await.expect(200);
    page["data"].as_array().unwrap().iter().map(|event| text(&event["id"])).collect()
}

async fn ingest(world: &World, source: &Value, headers: &[(&str, &str)], body: &str) -> Value {
    let url = text(&source["ingest_url"]);
    let mut request = Request::post(url.strip_prefix("https://hooks.example.com").unwrap());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let accepted = world.ask(request.body(Body::from(body.to_owned())).unwrap()).await.expect(202);
    world.get(&format!("/v1/events/{}", text(&accepted["id"]))).await.expect(200)
}

on_every_store! {
    async fn a_published_event_is_found_by_its_tags(world) {
        let body = json!({ "type": "a.b", "data": 1, "tags": ["order-7", "vip", "order-7"] });
        let first = text(&publish(&world, body).await.expect(202)["id"]);
        let batch = json!({ "events": [
            { "type": "a.c", "data": 2, "tags": ["order-8"] }, { "type": "a.c", "data": 3 },
            { "type": "a.c", "data": 4, "tags": [""] },
        ] });
        let results = world.post("/v1/events/batch", batch).await.expect(202)["results"].clone();
        let second = text(&results[0]["id"]);
        assert_eq!(results[2]["error"]["errors"][0]["pointer"], "/tags/0");

        let shown = world.get(&format!("/v1/events/{first}")).await.expect(200);
        assert_eq!(shown["tags"], json!(["order-7", "vip"]), "each once");
        assert_eq!(world.get("/v1/events?tag=order-7").await.expect(200)["data"][0]["tags"], shown["tags"]);
        assert_eq!(ids(&world, "tag=order-7").await, std::slice::from_ref(&first));
        assert_eq!(ids(&world, "tag=vip&tag=order-8").await, [second.clone(), first.clone()]);
        assert_eq!(ids(&world, "tag=vip&tag=order-8&type=a.c").await, [second]);
        assert_eq!(ids(&world, "tag=nobody").await, [""; 0]);
        let page = world.get("/v1/events?tag=vip&tag=order-8&limit=1").await.expect(200);
        let cursor = text(&page["next_cursor"]);
        assert_eq!(ids(&world, &format!("tag=vip&tag=order-8&limit=1&cursor={cursor}")).await, [first]);
        world.get(&format!("/v1/events?tag=vip&cursor={cursor}")).await.expect_problem(400, "invalid_cursor");
    }

    async fn tags_that_are_none_are_refused_and_change_nothing(world) {
        let given = |tags: Value| json!({ "type": "a.b", "data": 1, "tags": tags });
        let many: Vec<String> = (0..9).map(|n| n.to_string()).collect();
        publish(&world, given(json!(many))).await.expect_invalid("/tags", "too_many");
        for not in ["", "a\nb", &"a".repeat(129)] {
            publish(&world, given(json!(["fits", not]))).await.expect_invalid("/tags/1", "invalid_value");
        }
        publish(&world, given(json!("order-7"))).await.expect_invalid("/tags", "invalid_type");
        world.get("/v1/events?tag=").await.expect_invalid("/tag/0", "invalid_value");
        world.get("/v1/events?tag=%00").await.expect_invalid("/tag/0", "invalid_value");
        assert_eq!(ids(&world, "").await, [""; 0]);
        publish(&world, given(json!(["ü".repeat(128)]))).await.expect(202);
        publish(&world, given(Value::Null)).await.expect(202);
    }

    async fn a_repeat_keeps_the_tags_of_the_first(world) {
        let given = |tag: &str| json!({ "type": "a.b", "data": 1, "idempotency_key": "k", "tags": [tag] });
        let first = publish(&world, given("one")).await.expect(202);
        let repeat = publish(&world, given("two")).await.expect(200);
        assert_eq!((&repeat["id"], &repeat["status"]), (&first["id"], &json!("duplicate")));
        assert_eq!(ids(&world, "tag=one").await.len(), 1);
        assert_eq!(ids(&world, "tag=two").await.len(), 0);
    }

    async fn a_source_takes_tags_from_what_comes_in(world) {
        let rules = json!([
            { "path": "data.order.id", "prefix": "order-" }, { "header": "X-Customer" }, { "header": "authorization" },
            { "path": "items.0.sku" },
        ]);
        let source = world.post("/v1/sources", json!({ "name": "Shop", "tags": rules })).await.expect(201);
        let shown = json!([
            { "path": "data.order.id", "prefix": "order-" }, { "header": "x-customer" }, { "header": "authorization" },
            { "path": "items.0.sku" },
        ]);
        assert_eq!(source["tags"], shown);
        let headers = [("x-customer", "c-1"), ("authorization", "Bearer x")];
        let body = r#"{"data":{"order":{"id":7}},"items":[{"sku":"s-1"}]}"#;
        let event = ingest(&world, &source, &headers, body).await;
        assert_eq!(event["tags"], json!(["order-7", "c-1", "s-1"]), "and no credential");
        assert_eq!(ids(&world, "tag=order-7").await, [text(&event["id"])]);
        let long = format!(r#"{{"data":{{"order":{{"id":"{}"}}}},"items":{{}}}}"#, "9".repeat(200));
        assert_eq!(ingest(&world, &source, &[], &long).await["tags"], json!([]), "what does not fit is left out");
        assert_eq!(ingest(&world, &source, &[], "no JSON").await["tags"], json!([]));

        let path = format!("/v1/sources/{}", text(&source["id"]));
        let renamed = world.patch(&path, json!({ "name": "Other" })).await.expect(200);
        assert_eq!(renamed["tags"], shown, "a patch leaves out what it does not name");
        assert_eq!(world.patch(&path, json!({ "tags": null })).await.expect(200)["tags"], json!([]));
        assert_eq!(ingest(&world, &source, &headers, body).await["tags"], json!([]));
    }

    async fn rules_for_tags_are_checked(world) {
        let make = async |tags: Value| world.post("/v1/sources", json!({ "name": "Shop", "tags": tags })).await;
        make(json!([{ "path": "a", "header": "b" }])).await.expect_invalid("/tags/0", "invalid_value");
        make(json!([{ "prefix": "a" }])).await.expect_invalid("/tags/0", "invalid_value");
        for path in ["", "a..b", ".a", "a\n", &"a".repeat(257)] {
            make(json!([{ "path": path }])).await.expect_invalid("/tags/0/path", "invalid_value");
        }
        make(json!([{ "header": "no header" }])).await.expect_invalid("/tags/0/header", "invalid_header_name");
        let prefix = "a".repeat(129);
        make(json!([{ "path": "a", "prefix": prefix }])).await.expect_invalid("/tags/0/prefix", "invalid_value");
        make(json!(vec![json!({ "path": "a" }); 9])).await.expect_invalid("/tags", "too_many");
        make(json!([{ "path": "a", "colour": "red" }])).await.expect_invalid("/tags/0/colour", "unknown_field");
    }

    async fn metadata_is_searched_from_a_time_on(world) {
        let given = |metadata: Value| json!({ "type": "a.b", "data": 1, "metadata": metadata, "tags": ["t"] });
        let mut made = Vec::new();
        for metadata in [json!({ "tenant": "t-1", "n": 7 }), json!({ "tenant": "t-2" }), json!({ "a.b=c": "d e" })] {
            made.push(text(&publish(&world, given(metadata)).await.expect(202)["id"]));
        }
        let since = "since=2000-01-01T00:00:00Z";
        let search = async |query: &str| ids(&world, &format!("{since}&{query}")).await;
        assert_eq!(search("metadata.tenant=t-1").await, made[..1]);
        assert_eq!(search("metadata.tenant=t-1&metadata.tenant=t-2").await, [made[1].clone(), made[0].clone()]);
        assert_eq!(search("metadata.tenant=t-1&metadata.n=7&tag=t").await, made[..1]);
        assert_eq!(search("metadata.tenant=t-1&metadata.n=8").await, [""; 0]);
        assert_eq!(search("metadata.a.b%3Dc=d+e").await, made[2..]);
        assert_eq!(search("metadata.tenant=t-1&tag=other").await, [""; 0]);
        let page = world.get(&format!("/v1/events?{since}&metadata.tenant=t-1")).await.expect(200);
        assert_eq!((&page["next_cursor"], page.get("searched_until")), (&Value::Null, None), "all was looked at");

        world.get("/v1/events?metadata.tenant=t-1").await.expect_invalid("/since", "missing_field");
        world.get(&format!("/v1/events?{since}&metadata=t-1")).await.expect_invalid("/metadata/0", "invalid_value");
        world.get("/v1/deliveries?metadata.a=b").await.expect_invalid("/metadata", "unknown_parameter");
    }

    async fn a_page_of_a_search_says_how_far_it_has_looked(world) {
        let given = |n: u32| json!({ "type": "a.b", "data": n, "metadata": { "k": "v" } });
        let mut made = Vec::new();
        for n in 0..3 {
            made.insert(0, text(&publish(&world, given(n)).await.expect(202)["id"]));
        }
        let query = "/v1/events?since=2000-01-01T00:00:00Z&metadata.k=v&limit=2";
        let page = world.get(query).await.expect(200);
        let last = world.get(&format!("/v1/events/{}", made[1])).await.expect(200);
        let (until, received) = (text(&page["searched_until"]), text(&last["received_at"]));
        assert_eq!(until[..19], received[..19], "the last that was looked at");
        let rest = world.get(&format!("{query}&cursor={}", text(&page["next_cursor"]))).await.expect(200);
        assert_eq!((text(&rest["data"][0]["id"]), rest.get("searched_until")), (made[2].clone(), None));
    }

    async fn what_goes_nowhere_says_so_and_is_listed(world) {
        let lost = publish(&world, json!({ "type": "a.b", "data": 1 })).await.expect(202);
        assert_eq!((&lost["status"], &lost["deliveries"]), (&json!("unmatched"), &json!(0)));
        let source = world.post("/v1/sources", json!({ "name": "Shop" })).await.expect(201);
        let ingested = ingest(&world, &source, &[], "{}").await;
        let batch = json!({ "events": [{ "type": "a.b", "data": 1 }] });
        let result = world.post("/v1/events/batch", batch).await.expect(202)["results"][0].clone();
        assert_eq!(result["status"], "unmatched");
        world.routed_destination().await;
        let matched = publish(&world, json!({ "type": "a.b", "data": 2 })).await.expect(202);
        assert_eq!((&matched["status"], &matched["deliveries"]), (&json!("queued"), &json!(1)));
        let expected = [text(&result["id"]), text(&ingested["id"]), text(&lost["id"])];
        assert_eq!(ids(&world, "fanout=unmatched").await, expected);
        assert_eq!(ids(&world, "fanout=unmatched&type=a.*").await, [text(&result["id"]), text(&lost["id"])]);
    }
}
