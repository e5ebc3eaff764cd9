//! What is almost right is refused, and the refusal says what is wrong in words of the API.

use crate::{on_every_store, world::World};
use axum::body::Body;
use http::{Method, Request};
use serde_json::json;

fn request(world: &World, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Request<Body> {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("authorization", format!("Bearer {}", world.key))
        .header("content-type", "application/json");
    for (name, value) in headers {
        let kept = request.headers_mut().expect("well-formed so far");
        kept.insert(http::HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
    }
    request.body(Body::from(body.to_owned())).unwrap()
}

on_every_store! {
    async fn a_list_is_not_taken_for_an_object(world) {
        world.post("/v1/events", json!(["a.b", 1, null, null, null, null, null, {}])).await
            .expect_invalid("", "invalid_type");
        world.post("/v1/destinations", json!([])).await.expect_invalid("", "invalid_type");
        let policy = json!({"name": "a", "url": "https://example.com/", "retry_policy": [[1], 0.2, 100, []]});
        world.post("/v1/destinations", policy).await.expect_invalid("/retry_policy", "invalid_type");
    }

    async fn an_action_without_a_body_may_name_a_content_type_all_the_same(world) {
        let path = format!("/v1/destinations/{}/rotate-secret", world.destination().await);
        world.ask(request(&world, Method::POST, &path, &[], "")).await.expect(200);
        world.ask(request(&world, Method::POST, &path, &[], " ")).await.expect_problem(400, "invalid_json");
    }

    async fn a_member_given_twice_is_refused(world) {
        let destination = world.destination().await;
        for (body, place) in [
            (r#"{"name":"a","name":"b"}"#, "/name"),
            (r#"{"headers":{"x-a":"1","x-a":"2"}}"#, "/headers/x-a"),
        ] {
            let path = format!("/v1/destinations/{destination}");
            world.ask(request(&world, Method::PATCH, &path, &[], body)).await
                .expect_invalid(place, "duplicate_field");
        }
    }

    async fn a_patch_names_only_what_there_is(world) {
        let destination = format!("/v1/destinations/{}", world.destination().await);
        world.patch(&destination, json!({"colour": null})).await.expect_invalid("/colour", "unknown_field");
        world.patch(&destination, json!({"retry_policy": {"colour": null}})).await
            .expect_invalid("/retry_policy/colour", "unknown_field");
        world.patch(&destination, json!({"headers": {"x-any": null}, "uid": null})).await.expect(200);
    }

    async fn a_merge_patch_may_be_called_one(world) {
        let destination = format!("/v1/destinations/{}", world.destination().await);
        let as_patch = [("content-type", "application/merge-patch+json")];
        world.ask(request(&world, Method::PATCH, &destination, &as_patch, r#"{"name":"b"}"#)).await.expect(200);
        world.ask(request(&world, Method::POST, "/v1/destinations", &as_patch, "{}")).await
            .expect_problem(415, "unsupported_media_type");
    }

    async fn an_encoded_body_is_not_read_as_if_it_were_plain(world) {
        let body = r#"{"type":"a","data":1}"#;
        world.ask(request(&world, Method::POST, "/v1/events", &[("content-encoding", "gzip")], body)).await
            .expect_problem(415, "unsupported_media_type");
    }

    async fn what_changed_meanwhile_is_not_removed(world) {
        let (destination, route) = world.routed_destination().await;
        let source = world.post("/v1/sources", json!({"name": "Shop"})).await.expect(201)["id"].clone();
        let source = source.as_str().unwrap();
        let paths =
            [format!("/v1/routes/{route}"), format!("/v1/sources/{source}"), format!("/v1/destinations/{destination}")];
        for path in paths {
            world.ask(request(&world, Method::DELETE, &path, &[("if-match", "\"0\"")], "")).await
                .expect_problem(412, "version_mismatch");
            let now = world.get(&path).await;
            let tag = now.headers["etag"].to_str().unwrap().to_owned();
            let removed = world.ask(request(&world, Method::DELETE, &path, &[("if-match", &tag)], "")).await;
            assert_eq!(removed.status, 204, "{path}");
        }
    }

    async fn a_uid_can_be_put_into_a_path(world) {
        for uid in [".", ".."] {
            let body = json!({"name": "a", "url": "https://example.com/", "uid": uid});
            world.post("/v1/destinations", body).await.expect_invalid("/uid", "invalid_uid");
        }
    }

    async fn a_filter_that_could_never_match_a_header_is_refused(world) {
        let destination = world.destination().await;
        let filtered = |filter| json!({"destination_id": destination, "filter": filter});
        world.post("/v1/routes", filtered(json!({"headers": {"X-Shop": "a"}}))).await
            .expect_invalid("/filter/headers/X-Shop", "invalid_value");
        world.post("/v1/routes", filtered(json!({"headers": {"x-shop": "A"}}))).await.expect(201);
    }

    async fn no_message_speaks_of_the_program(world) {
        let body = json!({"name": "a", "url": "https://example.com/", "max_concurrency": "5"});
        let problem = world.post("/v1/destinations", body).await.expect(422);
        assert_eq!(
            problem["errors"][0]["detail"],
            "expected a whole number that is not negative, found a string"
        );
    }
}
