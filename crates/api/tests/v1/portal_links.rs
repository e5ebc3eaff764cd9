//! Portal links: what opens one and what ends it, and that whoever came by one sees one account and nothing of how it is run.

use crate::{
    on_every_store,
    openapi::operations,
    sessions::{Browser, a_moment, signed_in},
    world::{Reply, World, text},
};
use api::ListenAddress;
use axum::body::Body;
use domain::{
    account::Scope,
    id::AccountId,
    outcome::Outcome,
    time::{Clock as _, Timestamp},
};
use http::{Method, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use std::{
    fmt::{Debug, Write as _},
    sync::{Arc, Mutex},
    time::Duration,
};
use store::Page;
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

/// With the platform's key.
async fn make(world: &World, account: impl ToString, body: Value) -> Reply {
    let path = format!("/v1/accounts/{}/portal-links", account.to_string());
    world.ask_as(&world.platform_key, Method::POST, &path, Some(body)).await
}

/// A link's id and its path with the token.
async fn link(world: &World, account: impl ToString, body: Value) -> (String, String) {
    let made = make(world, account, body).await.expect(201);
    let path = text(&made["url"]).strip_prefix("https://hooks.example.com").unwrap().to_owned();
    (text(&made["id"]), path)
}

fn token(path: &str) -> &str {
    path.strip_prefix("/portal?t=").expect("a link of ours")
}

impl Browser {
    /// Presses the button on the page of a link.
    async fn opens(&mut self, path: &str) -> Reply {
        self.post("/ui/portal", json!({ "token": token(path) })).await
    }
}

/// Signed in by a link to this account.
async fn portal(world: &World, account: AccountId, body: Value) -> Browser {
    let (_, path) = link(world, account, body).await;
    let mut browser = Browser::at(&world.app);
    browser.opens(&path).await.expect(200);
    browser.reads_page().await;
    browser
}

fn shown(reply: &Reply) -> String {
    String::from_utf8_lossy(&reply.bytes).into_owned()
}

async fn links(world: &World) -> Value {
    let path = format!("/v1/accounts/{}/portal-links", world.account);
    world.ask_as(&world.platform_key, Method::GET, &path, None).await.expect(200)["data"].clone()
}

/// One of everything in the first account.
struct Things {
    destination: String,
    route: String,
    source: String,
    event: String,
    delivery: String,
    replay: String,
}

impl Things {
    async fn of(world: &World) -> Self {
        let (destination, route) = world.routed_destination().await;
        let source = text(&world.post("/v1/sources", json!({ "name": "Stripe" })).await.expect(201)["id"]);
        let event = world.publish("a.b", json!({ "secret": 1 })).await;
        let delivery = world.delivery_of(&event).await;
        world.attempt(&destination, &delivery, Outcome::ServerError, 500).await;
        let replay = text(&world.post("/v1/replays", json!({ "filter": {} })).await.expect(202)["id"]);
        Self { destination, route, source, event, delivery, replay }
    }

    fn put_into(&self, path: &str) -> String {
        let lists = [
            ("/v1/deliveries", &self.delivery),
            ("/v1/destinations", &self.destination),
            ("/v1/events", &self.event),
            ("/v1/replays", &self.replay),
            ("/v1/routes", &self.route),
            ("/v1/sources", &self.source),
        ];
        let other = "usr_01h455vb4pex5vsknk084sn02q".to_owned();
        let id = lists.iter().find(|(list, _)| path.starts_with(list)).map_or(&other, |(_, id)| id);
        path.replace("{id}", id).replace("{key_id}", "x").replace("{link_id}", "x")
    }
}

/// What a session may ask for that was begun by a link, as this test has it and not the program.
fn is_of_portal(method: &str, path: &str) -> bool {
    let kinds =
        ["dead-letters", "deliveries", "destinations", "events", "replays", "routes", "stats", "stream"];
    let kind = path.split('/').nth(2).unwrap_or_default();
    let brings_in = method == "post" && matches!(path, "/v1/events" | "/v1/events/batch");
    kinds.contains(&kind) && !brings_in && (method, path) != ("delete", "/v1/events/{id}/payload")
}

/// Only as much of an answer as comes by itself: a stream has no end.
async fn asked(browser: &Browser, method: &str, path: &str) -> (StatusCode, Value) {
    let method: Method = method.to_uppercase().parse().expect("a method");
    let body = (method != Method::GET).then(|| json!({}));
    let answer = browser.begin(method, &format!("/ui{path}"), body).await;
    let streams = answer.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream");
    let status = answer.status();
    (status, if streams { Value::Null } else { World::reply(answer).await.body })
}

on_every_store! {
    async fn a_link_opens_once_by_a_button_and_begins_a_session_of_its_account(world) {
        let made = make(&world, world.account, json!({})).await;
        assert_eq!(made.headers[header::CACHE_CONTROL], "no-store");
        let made = made.expect(201);
        assert_eq!((&made["account_id"], &made["status"]), (&json!(world.account), &json!("unopened")));
        assert_eq!((&made["read_only"], &made["session_seconds"]), (&json!(false), &json!(43_200)));
        let path = text(&made["url"]).strip_prefix("https://hooks.example.com").unwrap().to_owned();
        let mut browser = Browser::at(&world.app);
        for method in [Method::HEAD, Method::GET, Method::GET] {
            let page = browser.ask(method.clone(), &path, None).await;
            assert_eq!(page.status, 200, "{method}: looking does not open it");
            assert!(!page.headers.contains_key(header::SET_COOKIE));
            assert_eq!(page.headers["referrer-policy"], "no-referrer");
            assert_eq!(page.headers[header::CACHE_CONTROL], "no-store");
        }
        assert_eq!(shown(&browser.get(&path).await), format!("portal of {}: nothing wrong", token(&path)));
        let opened = browser.opens(&path).await;
        let cookie = opened.headers[header::SET_COOKIE].to_str().unwrap().to_owned();
        assert!(cookie.starts_with("__Host-sid=") && cookie.ends_with("HttpOnly; SameSite=Lax; Secure"), "{cookie}");
        assert!(!cookie.contains(token(&path)));
        opened.expect(200);
        let page = browser.reads_page().await;
        assert_eq!((&page["account"], &page["portal"]), (&json!(world.account), &json!(true)));
        assert_eq!((&page["operator"], &page["chooses"], &page["name"]), (&json!(false), &json!(false), &json!("Portal")));
        assert_eq!(
            page["scopes"],
            json!(["events:read", "deliveries:read", "destinations:read", "deliveries:retry", "destinations:write"])
        );
        let again = browser.get(&path).await;
        assert_eq!((again.status.as_u16(), again.headers[header::LOCATION].to_str().unwrap()), (303, "/"), "to its own");

        let mut other = Browser::at(&world.app);
        other.opens(&path).await.expect_problem(401, "sign_in_refused");
        let again = other.get(&path).await;
        assert_eq!(again.status, 401);
        assert!(shown(&again).contains("has been used"));
        other.opens("/portal?t=nonsense").await.expect_problem(401, "sign_in_refused");
        assert_eq!(other.get("/portal").await.status, 401);
    }

    async fn a_link_is_good_for_an_hour_or_less_and_its_session_for_half_a_day_or_less(world) {
        let seconds = |expires: u32, session: u32| json!({ "expires_in_seconds": expires, "session_seconds": session });
        for (body, pointer) in [
            (seconds(3_601, 60), "/expires_in_seconds"),
            (seconds(9, 60), "/expires_in_seconds"),
            (seconds(60, 59), "/session_seconds"),
            (seconds(60, 43_201), "/session_seconds"),
        ] {
            make(&world, world.account, body).await.expect_invalid(pointer, "out_of_range");
        }
        make(&world, world.account, json!({ "colour": 1 })).await.expect_invalid("/colour", "unknown_field");
        let (_, whole) = link(&world, world.account, json!({})).await;
        let (_, short) = link(&world, world.account, seconds(120, 1_200)).await;
        let (_, opened) = link(&world, world.account, seconds(120, 1_200)).await;
        world.clock.minutes_pass(1);
        let mut browser = Browser::at(&world.app);
        browser.opens(&opened).await.expect(200);
        let ends_at: Timestamp = serde_json::from_value(browser.reads_page().await["ends_at"].clone()).unwrap();
        let left = ends_at.since(world.clock.now());
        assert!(left <= Duration::from_secs(1_200) && left > Duration::from_secs(1_199), "{left:?}");
        world.clock.minutes_pass(1);
        let mut late = Browser::at(&world.app);
        late.opens(&short).await.expect_problem(401, "sign_in_refused");
        assert_eq!(late.get(&short).await.status, 401);
        world.clock.minutes_pass(18);
        browser.get("/ui/v1/events").await.expect(200);
        world.clock.minutes_pass(1);
        a_moment().await;
        browser.get("/ui/v1/events").await.expect_problem(401, "unauthorized");
        world.clock.minutes_pass(39);
        late.opens(&whole).await.expect_problem(401, "sign_in_refused");
    }

    async fn the_account_is_named_by_its_id_or_its_uid(world) {
        let body = json!({ "name": "Initech", "uid": "customer-7" });
        let made = world.ask_as(&world.operator_key, Method::POST, "/v1/accounts", Some(body)).await.expect(201);
        let by_uid = make(&world, "customer-7", json!({})).await.expect(201);
        assert_eq!(by_uid["account_id"], made["id"]);
        make(&world, AccountId::MAX, json!({})).await.expect_problem(404, "not_found");
        make(&world, "nobody", json!({})).await.expect_problem(404, "not_found");
        let path = format!("/v1/accounts/{}/portal-links", world.account);
        for key in [&world.key, &world.foreign_key] {
            world.ask_as(key, Method::POST, &path, None).await.expect_problem(403, "scope_missing");
        }
        world.ask_as(&world.operator_key, Method::POST, &path, None).await.expect(201);
    }

    async fn a_link_gives_no_more_than_the_key_has_that_made_it(world) {
        let mut scopes = vec![Scope::AccountsWrite, Scope::EventsRead, Scope::DeliveriesRead, Scope::DestinationsRead];
        let platform = world.platform_with(&scopes).await;
        let path = format!("/v1/accounts/{}/portal-links", world.account);
        let made = world.ask_as(&platform, Method::POST, &path, None).await.expect(201);
        let mut browser = Browser::at(&world.app);
        browser.opens(text(&made["url"]).strip_prefix("https://hooks.example.com").unwrap()).await.expect(200);
        let page = browser.reads_page().await;
        assert_eq!(page["scopes"], json!(["events:read", "deliveries:read", "destinations:read"]));
        let body = json!({ "name": "Orders", "url": "https://example.com/hooks" });
        browser.post("/ui/v1/destinations", body).await.expect_problem(403, "scope_missing");
        let secret = format!("/ui/v1/destinations/{}/secret", world.destination().await);
        browser.get(&secret).await.expect_problem(403, "scope_missing");
        scopes.remove(1);
        let blind = world.platform_with(&scopes).await;
        world.ask_as(&blind, Method::POST, &path, None).await.expect_problem(403, "scope_missing");
    }

    async fn a_portal_works_in_its_account(world) {
        let things = Things::of(&world).await;
        let mut portal = portal(&world, world.account, json!({})).await;
        for path in ["events", "deliveries", "destinations", "routes", "replays", "dead-letters/groups", "stats/series"] {
            portal.get(&format!("/ui/v1/{path}")).await.expect(200);
        }
        let destination = format!("/ui/v1/destinations/{}", things.destination);
        portal.ask(Method::PATCH, &destination, Some(json!({ "name": "Renamed" }))).await.expect(200);
        portal.post(&format!("{destination}/test"), json!({})).await.expect(200);
        portal.post(&format!("/ui/v1/deliveries/{}/cancel", things.delivery), json!({})).await.expect(200);
        let again = portal.post(&format!("/ui/v1/deliveries/{}/replay", things.delivery), json!({})).await;
        assert!(again.status.is_success(), "{}", again.body);
        let replay = portal.post("/ui/v1/replays", json!({ "filter": {} })).await.expect(202);
        assert!(text(&replay["created_by"]).starts_with("ptl_"));
        assert_eq!(portal.get(&format!("/ui/v1/replays/{}", text(&replay["id"]))).await.expect(200)["created_by"], replay["created_by"]);
        let secret = portal.get(&format!("{destination}/secret")).await.expect(200);
        assert!(text(&secret["secret"]).starts_with("whsec_"));
        portal.get(&format!("/ui/v1/events/{}/payload", things.event)).await.expect(200);
        portal.get(&format!("/ui/v1/sources/{}/ingest-url", things.source)).await.expect_problem(403, "scope_missing");
        let entries = world.get(&format!("/v1/audit?actor={}", text(&replay["created_by"]))).await.expect(200);
        let actors: Vec<&Value> = entries["data"].as_array().unwrap().iter().map(|entry| &entry["actor"]["type"]).collect();
        assert!(actors.len() >= 6 && actors.iter().all(|actor| **actor == "portal_link"), "{entries}");
    }

    async fn the_values_of_auth_cannot_be_carried_off(world) {
        let body = json!({
            "name": "Orders", "url": "https://example.com/hooks", "auth": { "type": "bearer", "token": "hunter2" },
        });
        let id = text(&world.post("/v1/destinations", body).await.expect(201)["id"]);
        let mut portal = portal(&world, world.account, json!({})).await;
        let path = format!("/ui/v1/destinations/{id}");
        assert!(!shown(&portal.get(&path).await).contains("hunter2"));
        let elsewhere = portal.ask(Method::PATCH, &path, Some(json!({ "url": "https://evil.example/" }))).await;
        assert_eq!(elsewhere.status, 422, "{}", elsewhere.body);
        assert!(elsewhere.body["errors"].to_string().contains("/auth"), "{}", elsewhere.body);
        let same = json!({ "url": "https://example.com/other" });
        portal.ask(Method::PATCH, &path, Some(same)).await.expect(200);
    }

    async fn a_portal_opens_what_is_of_an_accounts_deliveries_and_nothing_else(world) {
        let things = Things::of(&world).await;
        let portal = portal(&world, world.account, json!({})).await;
        let mut tried = 0;
        for (path, method, _) in operations() {
            if !path.starts_with("/v1/") {
                continue;
            }
            let (status, body) = asked(&portal, &method, &things.put_into(&path)).await;
            let is_refused = status == 403 && body["code"] == "scope_missing";
            assert_eq!(!is_refused, is_of_portal(&method, &path), "{method} {path}: {status} {body}");
            tried += 1;
        }
        assert!(tried > 60, "{tried}");
        for path in ["/ui/account", "/ui/password"] {
            let refused = portal.clone().post(path, json!({ "account": "", "current": "x", "new": "y" })).await;
            assert!(matches!(refused.status.as_u16(), 403 | 422), "{path}: {}", refused.body);
        }
        portal.clone().post("/ui/account", json!({ "account": world.foreign_account })).await.expect_problem(403, "scope_missing");
    }

    async fn a_read_only_link_changes_tries_and_reveals_nothing(world) {
        let things = Things::of(&world).await;
        let mut portal = portal(&world, world.account, json!({ "read_only": true })).await;
        let page = portal.reads_page().await;
        assert_eq!(page["scopes"], json!(["events:read", "deliveries:read", "destinations:read"]));
        assert_eq!(page["only_looks"], json!(true));
        for (path, method, _) in operations() {
            if !path.starts_with("/v1/") {
                continue;
            }
            let (status, body) = asked(&portal, &method, &things.put_into(&path)).await;
            let is_refused = status == 403 && body["code"] == "scope_missing";
            let looks = method == "get" && is_of_portal(&method, &path) && path != "/v1/destinations/{id}/secret";
            assert_eq!(!is_refused, looks, "{method} {path}: {status} {body}");
        }
        assert_eq!(world.get(&format!("/v1/destinations/{}", things.destination)).await.expect(200)["status"], "active");
        portal.post("/ui/sign-out", json!({})).await.expect(204);
    }

    async fn nothing_of_another_account_is_seen_whatever_id_is_guessed(world) {
        let things = Things::of(&world).await;
        let mut portal = portal(&world, world.foreign_account, json!({})).await;
        let ids = [&things.destination, &things.route, &things.event, &things.delivery, &things.replay];
        for (path, method, _) in operations() {
            if !(path.contains("{id}") && is_of_portal(&method, &path)) {
                continue;
            }
            let (status, body) = asked(&portal, &method, &things.put_into(&path)).await;
            assert_eq!((status.as_u16(), &body["code"]), (404, &json!("not_found")), "{method} {path}: {body}");
        }
        let queries = [
            "events".to_owned(),
            format!("events?q={}", things.event),
            format!("events?source_id={}", things.source),
            "deliveries".to_owned(),
            format!("deliveries?event_id={}", things.event),
            format!("deliveries?destination_id={}", things.destination),
            format!("deliveries?replay_id={}", things.replay),
            "destinations".to_owned(),
            "routes".to_owned(),
            "replays".to_owned(),
            "dead-letters/groups".to_owned(),
            format!("dead-letters/groups?destination_id={}", things.destination),
        ];
        for query in queries {
            let found = portal.get(&format!("/ui/v1/{query}")).await;
            assert!(ids.iter().all(|id| !shown(&found).contains(*id)), "{query}");
            assert_eq!(found.expect(200)["data"], json!([]), "{query}");
        }
        assert_eq!(portal.get("/ui/v1/stats").await.expect(200)["totals"]["events"], 0);
        for (path, body) in [
            ("/ui/v1/replays", json!({ "delivery_ids": [things.delivery] })),
            ("/ui/v1/dead-letters/dismiss", json!({ "delivery_ids": [things.delivery] })),
            ("/ui/v1/routes", json!({ "destination_id": things.destination })),
        ] {
            let refused = portal.post(path, body).await;
            assert!(matches!(refused.status.as_u16(), 404 | 422), "{path}: {}", refused.body);
        }
        let request = http::Request::builder()
            .uri("/ui/v1/events")
            .header(header::HOST, portal.host)
            .header(header::COOKIE, portal.cookie.clone().unwrap())
            .header("posthaste-account", world.account.to_string());
        let other = portal.service.clone().answer(request.body(Body::empty()).unwrap()).await;
        assert_eq!(other.status(), 403, "the account is not for it to name");

        let stream: Response<Body> = portal.begin(Method::GET, "/ui/v1/stream", None).await;
        assert_eq!(stream.status(), 200);
        let mut told = stream.into_body();
        let theirs = world.publish("not.yours", json!({})).await;
        let body = json!({ "type": "yours", "data": {} });
        let own = world.ask_as(&world.foreign_key, Method::POST, "/v1/events", Some(body)).await.expect(202);
        let mut heard = String::new();
        while !heard.contains(&text(&own["id"])) {
            let frame = tokio::time::timeout(Duration::from_secs(20), told.frame()).await.expect("it is told of its own");
            heard.push_str(&String::from_utf8_lossy(&frame.unwrap().unwrap().into_data().unwrap_or_default()));
        }
        assert!(!heard.contains(&theirs) && !heard.contains("not.yours"), "{heard}");
    }

    async fn a_revoked_link_ends_its_session_on_every_node(world) {
        let second = world.another_node().await;
        let (id, path) = link(&world, world.account, json!({})).await;
        let (unopened, unopened_path) = link(&world, world.account, json!({})).await;
        let mut browser = Browser::at(&second);
        browser.opens(&path).await.expect(200);
        browser.reads_page().await;
        let mut here = Browser { service: Browser::at(&world.app).service, ..browser.clone() };
        here.get("/ui/v1/events").await.expect(200);
        let stream = here.begin(Method::GET, "/ui/v1/stream", None).await;
        let rest = tokio::spawn(World::reply(stream));
        for id in [&id, &unopened] {
            let path = |account: AccountId| format!("/v1/accounts/{account}/portal-links/{id}");
            let foreign = world.ask_as(&world.platform_key, Method::DELETE, &path(world.foreign_account), None).await;
            foreign.expect_problem(404, "not_found");
            let own = path(world.account);
            world.ask_as(&world.platform_key, Method::DELETE, &own, None).await.expect(204);
            world.ask_as(&world.platform_key, Method::DELETE, &own, None).await.expect_problem(404, "not_found");
        }
        here.get("/ui/v1/events").await.expect_problem(401, "unauthorized");
        a_moment().await;
        browser.get("/ui/v1/events").await.expect_problem(401, "unauthorized");
        assert_eq!(browser.get("/events").await.status, 303);
        Browser::at(&world.app).opens(&unopened_path).await.expect_problem(401, "sign_in_refused");
        let ended = tokio::time::timeout(Duration::from_secs(10), rest).await.expect("the stream ends").unwrap();
        assert!(shown(&ended).contains("not valid any more"));
    }

    async fn a_link_ends_with_its_key_and_with_its_account(world) {
        let body = json!({ "name": "customers", "kind": "platform" });
        let made = world.ask_as(&world.operator_key, Method::POST, "/v1/api-keys", Some(body)).await.expect(201);
        let path = format!("/v1/accounts/{}/portal-links", world.account);
        let url = async |key: &str| {
            let made = world.ask_as(key, Method::POST, &path, None).await.expect(201);
            text(&made["url"]).strip_prefix("https://hooks.example.com").unwrap().to_owned()
        };
        let (opened, unopened) = (url(&text(&made["key"])).await, url(&text(&made["key"])).await);
        let mut browser = Browser::at(&world.app);
        browser.opens(&opened).await.expect(200);
        browser.get("/ui/v1/events").await.expect(200);
        let key = format!("/v1/api-keys/{}", text(&made["id"]));
        world.ask_as(&world.operator_key, Method::DELETE, &key, None).await.expect(204);
        browser.get("/ui/v1/events").await.expect_problem(401, "unauthorized");
        Browser::at(&world.app).opens(&unopened).await.expect_problem(401, "sign_in_refused");

        let unopened = url(&world.platform_key).await;
        let mut browser = portal(&world, world.account, json!({})).await;
        browser.get("/ui/v1/events").await.expect(200);
        let account = format!("/v1/accounts/{}", world.account);
        world.ask_as(&world.platform_key, Method::DELETE, &account, None).await.expect(202);
        browser.get("/ui/v1/events").await.expect_problem(401, "unauthorized");
        Browser::at(&world.app).opens(&unopened).await.expect_problem(401, "sign_in_refused");
        make(&world, world.account, json!({})).await.expect_problem(404, "not_found");
    }

    async fn links_are_listed_with_who_is_signed_in_by_them_and_without_their_tokens(world) {
        let (open, open_path) = link(&world, world.account, json!({ "read_only": true })).await;
        let (unopened, unopened_path) = link(&world, world.account, json!({})).await;
        let mut browser = Browser::at(&world.app);
        browser.opens(&open_path).await.expect(200);
        browser.reads_page().await;
        let listed = links(&world).await;
        assert_eq!((&listed[0]["id"], &listed[0]["status"]), (&json!(unopened), &json!("unopened")));
        assert_eq!((&listed[1]["id"], &listed[1]["status"]), (&json!(open), &json!("open")));
        assert_eq!((&listed[0]["session"], &listed[0]["opened_at"]), (&Value::Null, &Value::Null));
        assert_eq!((&listed[1]["read_only"], &listed[1]["session"]["client"].is_string()), (&json!(true), &true));
        for path in [&open_path, &unopened_path] {
            assert!(!listed.to_string().contains(token(path)), "{listed}");
        }
        assert!(listed[0].get("url").is_none());
        browser.post("/ui/sign-out", json!({})).await.expect(204);
        world.clock.minutes_pass(60);
        let statuses = links(&world).await;
        assert_eq!((&statuses[0]["status"], &statuses[1]["status"]), (&json!("over"), &json!("over")));
        let path = format!("/v1/accounts/{}/portal-links?limit=1", world.account);
        let page = world.ask_as(&world.operator_key, Method::GET, &path, None).await.expect(200);
        assert_eq!(page["data"][0]["id"], json!(unopened));
        let path = format!("{path}&cursor={}", text(&page["next_cursor"]));
        let page = world.ask_as(&world.operator_key, Method::GET, &path, None).await.expect(200);
        assert_eq!((&page["data"][0]["id"], &page["next_cursor"]), (&json!(open), &Value::Null));
    }

    async fn making_opening_and_revoking_are_written_down_in_the_accounts_own_log(world) {
        let (id, path) = link(&world, world.account, json!({ "session_seconds": 600 })).await;
        let mut browser = Browser::at(&world.app);
        browser.opens(&path).await.expect(200);
        let revoked = format!("/v1/accounts/{}/portal-links/{id}", world.account);
        world.ask_as(&world.operator_key, Method::DELETE, &revoked, None).await.expect(204);
        let found = world.get(&format!("/v1/audit?object_id={id}")).await.expect(200);
        let entries = found["data"].as_array().unwrap();
        let told: Vec<_> = entries.iter().map(|entry| (text(&entry["action"]), text(&entry["actor"]["type"]))).collect();
        let told: Vec<_> = told.iter().map(|(action, actor)| (action.as_str(), actor.as_str())).collect();
        assert_eq!(
            told,
            [("revoke_portal_link", "operator"), ("open_portal_link", "portal_link"), ("create_portal_link", "platform")]
        );
        assert_eq!(entries[1]["actor"]["portal_link_id"], json!(id));
        assert!(entries[1]["client"].is_string());
        assert_eq!(entries[2]["difference"]["session_seconds"], json!({ "to": 600 }));
        assert!(!found.to_string().contains(token(&path)));
        let mine = world.get(&format!("/v1/audit?actor={id}")).await.expect(200);
        assert_eq!(mine["data"].as_array().unwrap().len(), 1);
    }

    async fn a_portal_is_at_the_address_of_the_world_alone(world) {
        let (_, path) = link(&world, world.account, json!({})).await;
        let mut admin = Browser::by(&world.app, ListenAddress::Admin);
        admin.get(&path).await.expect_problem(404, "not_found");
        admin.opens(&path).await.expect_problem(401, "sign_in_refused");
        let mut public = Browser::by(&world.app, ListenAddress::Public);
        public.opens(&path).await.expect(200);
        public.get("/ui/v1/events").await.expect(200);
        let mut strayed = Browser { service: admin.service.clone(), ..public.clone() };
        strayed.get("/ui/v1/events").await.expect_problem(401, "sign_in_refused");
        assert_eq!(strayed.get("/events").await.status, 303);
    }

    async fn a_portal_is_not_opened_over_plain_http_or_by_another_site(world) {
        let (_, path) = link(&world, world.account, json!({})).await;
        let app = world.node_at("http://192.168.1.7:8080").await;
        let mut plain = Browser { host: "192.168.1.7:8080", origin: Some("http://192.168.1.7:8080"), fetch_site: None, ..Browser::at(&app) };
        let page = plain.get(&path).await;
        assert_eq!(page.status, 403);
        assert!(shown(&page).contains("public_url"));
        plain.opens(&path).await.expect_problem(403, "tls_needed");
        let mut evil = Browser { fetch_site: Some("cross-site"), ..Browser::at(&world.app) };
        evil.opens(&path).await.expect_problem(403, "cross_site");
        Browser::at(&world.app).opens(&path).await.expect(200);
    }

    async fn whoever_opens_a_link_is_nobody_else_in_that_browser_any_more(world) {
        let mut operator = signed_in(&world, &world.operator_key).await;
        let before = operator.clone();
        let (_, path) = link(&world, world.account, json!({})).await;
        operator.opens(&path).await.expect(200);
        assert_eq!(operator.reads_page().await["operator"], json!(false));
        operator.get("/ui/v1/accounts").await.expect_problem(403, "scope_missing");
        before.clone().get("/ui/v1/accounts").await.expect_problem(401, "unauthorized");
        let sessions = operator.get("/ui/sessions").await.expect(200);
        assert_eq!((sessions["data"].as_array().unwrap().len(), &sessions["data"][0]["kind"]), (1, &json!("portal_link")));
    }

    async fn of_the_token_only_a_hash_is_kept_and_it_is_in_no_log(world) {
        let log = Log::default();
        let guard = tracing::subscriber::set_default(log.clone());
        let (id, path) = link(&world, world.account, json!({})).await;
        let mut browser = Browser::at(&world.app);
        browser.get(&path).await;
        browser.opens(&path).await.expect(200);
        browser.opens(&path).await.expect_problem(401, "sign_in_refused");
        browser.get("/ui/v1/events").await.expect(200);
        drop(guard);
        let logged = log.0.lock().unwrap().clone();
        assert!(logged.contains("request.answered"), "{logged}");
        assert!(!logged.contains(token(&path)), "{logged}");
        let kept = world.store.portal_links(world.account, Page { before: None, limit: 9 }).await.unwrap();
        assert_eq!(kept[0].link.id.to_string(), id);
        assert!(!format!("{kept:?}").contains(token(&path)));
    }

    async fn tokens_are_not_guessed(world) {
        let mut browser = Browser::at(&world.app);
        let mut refused = 0;
        for _ in 0..domain::limits::WRONG_CREDENTIALS + 1 {
            refused += u32::from(browser.opens("/portal?t=wrong").await.status == 429);
        }
        assert_eq!(refused, 1);
    }
}

/// All that is logged on this thread, as text.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        span.record(&mut Written(&mut self.0.lock().unwrap()));
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        values.record(&mut Written(&mut self.0.lock().unwrap()));
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Written(&mut self.0.lock().unwrap()));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Written<'a>(&'a mut String);

impl Visit for Written<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = writeln!(self.0, "{field}={value:?}");
    }
}
