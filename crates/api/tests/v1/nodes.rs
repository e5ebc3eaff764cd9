//! The nodes, and what a node that only delivers answers.

use crate::{on_every_store, world::text};
use domain::account::Scope;
use http::Method;
use serde_json::json;

on_every_store! {
    async fn an_operator_sees_every_node_and_what_it_owns(world) {
        world.store.take_shards(world.node, 1_024).await.expect("shards");
        let listed = world.ask_as(&world.operator_key, Method::GET, "/v1/nodes", None).await.expect(200);
        assert_eq!(listed["next_cursor"], json!(null));
        let [node] = listed["data"].as_array().unwrap().as_slice() else { panic!("{listed}") };
        assert_eq!(node["id"], json!(world.node.to_string()));
        assert_eq!((&node["name"], &node["role"], &node["status"]), (&json!("test"), &json!("all"), &json!("active")));
        assert_eq!(node["shards"], 1_024);
        for time in ["joined_at", "expires_at"] {
            assert!(text(&node[time]).ends_with('Z'), "{node}");
        }
    }

    async fn an_account_sees_no_addresses_and_needs_the_scope(world) {
        let listed = world.get("/v1/nodes").await.expect(200);
        assert_eq!((&listed["data"][0]["name"], &listed["data"][0]["address"]), (&json!("test"), &json!(null)));
        let key = world.key_with(&[Scope::EventsRead]).await;
        world.ask_as(&key, Method::GET, "/v1/nodes", None).await.expect_problem(403, "scope_missing");
        world.ask_as("", Method::GET, "/v1/nodes", None).await.expect_problem(401, "unauthorized");
    }
}
