//! Pages and cursors, the same for every list.

use crate::{
    on_every_store,
    world::{World, text},
};
use http::Method;
use serde_json::json;
use std::collections::BTreeSet;

/// Walks a list to its end and gives the ids page by page.
async fn walk(world: &World, path: &str) -> Vec<Vec<String>> {
    let (mut pages, mut next) = (Vec::new(), path.to_owned());
    loop {
        let page = world.get(&next).await.expect(200);
        pages.push(page["data"].as_array().unwrap().iter().map(|row| text(&row["id"])).collect());
        let Some(cursor) = page["next_cursor"].as_str() else { return pages };
        next = format!("{path}{}cursor={cursor}", if path.contains('?') { '&' } else { '?' });
    }
}

on_every_store! {
    async fn a_list_of_120_is_walked_in_pages(world) {
        let destination = world.destination().await;
        for n in 0..120 {
            let body = json!({ "destination_id": destination, "name": format!("route {n}") });
            world.post("/v1/routes", body).await.expect(201);
        }
        let pages = walk(&world, "/v1/routes").await;
        assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [50, 50, 20]);
        let all: Vec<_> = pages.concat();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 120, "none twice, none left out");
        assert!(all.is_sorted_by(|newer, older| newer > older), "newest first");
        assert_eq!(walk(&world, "/v1/routes?limit=120").await.len(), 1, "a page that just fits is the last");
        assert_eq!(walk(&world, "/v1/routes?limit=7").await.concat(), all);
    }

    async fn events_and_deliveries_are_walked_too(world) {
        world.routed_destination().await;
        for n in 0..120 {
            world.publish(if n % 2 == 0 { "even" } else { "odd" }, json!(n)).await;
        }
        for path in ["/v1/events", "/v1/deliveries", "/v1/events?limit=7", "/v1/deliveries?limit=7"] {
            let all = walk(&world, path).await.concat();
            assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 120, "{path}");
            assert!(all.is_sorted_by(|newer, older| newer > older), "{path}");
        }
        assert_eq!(walk(&world, "/v1/events?type=odd&limit=25").await.concat().len(), 60);
        assert_eq!(walk(&world, "/v1/deliveries?type=odd&status=queued&limit=25").await.concat().len(), 60);
    }

    async fn a_page_of_large_rows_has_fewer_and_goes_on(world) {
        let headers: serde_json::Map<_, _> =
            (0..20).map(|n| (format!("x-{n}"), json!("x".repeat(1024)))).collect();
        let mut made = Vec::new();
        for _ in 0..60 {
            let body = json!({ "name": "large", "url": "https://example.com/", "headers": headers });
            made.insert(0, text(&world.post("/v1/destinations", body).await.expect(201)["id"]));
        }
        let pages = walk(&world, "/v1/destinations?limit=200").await;
        assert_eq!(pages.concat(), made);
        assert!(pages.len() == 2 && pages[0].len() > pages[1].len(), "{}", pages[0].len());
        let page = world.get("/v1/destinations?limit=200").await;
        assert!(page.bytes.len() <= domain::limits::PAGE_BYTES, "{}", page.bytes.len());
    }

    async fn a_cursor_fits_one_list_one_account_and_one_filter(world) {
        world.routed_destination().await;
        for n in 0..3 {
            world.publish("a.b", json!(n)).await;
        }
        let cursor = text(&world.get("/v1/events?limit=1&type=a.b").await.expect(200)["next_cursor"]);
        world.get(&format!("/v1/events?limit=2&type=a.b&cursor={cursor}")).await.expect(200);
        for path in [
            format!("/v1/events?limit=1&cursor={cursor}"),
            format!("/v1/events?limit=1&type=a.*&cursor={cursor}"),
            format!("/v1/deliveries?limit=1&type=a.b&cursor={cursor}"),
            format!("/v1/events?type=a.b&cursor={}", &cursor[1..]),
            "/v1/events?type=a.b&cursor=nonsense".into(),
            "/v1/events?type=a.b&cursor=".into(),
        ] {
            world.get(&path).await.expect_problem(400, "invalid_cursor");
        }
        let path = format!("/v1/events?limit=1&type=a.b&cursor={cursor}");
        let foreign = world.ask_as(&world.foreign_key, Method::GET, &path, None).await;
        foreign.expect_problem(400, "invalid_cursor");
    }

    async fn the_size_of_a_page_is_bounded(world) {
        for list in ["sources", "destinations", "routes", "api-keys", "events", "deliveries"] {
            for limit in ["0", "201", "many"] {
                let path = format!("/v1/{list}?limit={limit}");
                world.get(&path).await.expect_invalid("/limit", "out_of_range");
            }
            world.get(&format!("/v1/{list}?colour=red")).await.expect_invalid("/colour", "unknown_parameter");
        }
    }
}
