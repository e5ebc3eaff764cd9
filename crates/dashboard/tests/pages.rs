//! Every page as a browser gets it: signed in through the real sessions, on the world of the API's own tests. Whatever an
//! account or a stranger wrote is shown as text.

#[allow(dead_code, reason = "the world of the API's tests, of which pages need a part")]
#[path = "../../api/tests/v1/world.rs"]
mod world;

use api::{ApiService, ListenAddress, Pages, keys::KeyText};
use axum::body::Body;
use domain::{account::Scope, outcome::Outcome};
use http::{Request, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::json;
use world::World;

/// What must never come back as markup.
const HOSTILE: &str = "</title><script>alert(1)</script>\"'><img src=x onerror=alert(2)>";

struct Browser {
    service: ApiService,
    cookie: String,
}

struct Page {
    status: StatusCode,
    location: String,
    text: String,
}

impl Browser {
    async fn of(world: &World, key: &str) -> Self {
        let mut browser = Self::stranger(world);
        browser.comes_in("/ui/sign-in", json!({ "key": key })).await;
        browser
    }

    /// Signed in by a portal link to the first account.
    async fn by_portal_link(world: &World, options: serde_json::Value) -> Self {
        let path = format!("/v1/accounts/{}/portal-links", world.account);
        let made = world.ask_as(&world.operator_key, http::Method::POST, &path, Some(options)).await;
        let url = world::text(&made.expect(201)["url"]);
        let path = url.strip_prefix("https://hooks.example.com").unwrap();
        let mut browser = Self::stranger(world);
        let page = browser.get(path).await;
        Self::check("/portal", &page);
        let token = path.strip_prefix("/portal?t=").unwrap();
        assert!(page.text.contains("data-sign-in=\"/ui/portal\"") && page.text.contains(token));
        browser.comes_in("/ui/portal", json!({ "token": token })).await;
        browser
    }

    fn stranger(world: &World) -> Self {
        Self::of_server(world, None)
    }

    /// Of a server that was started for development with this key.
    fn of_server(world: &World, dev_key: Option<&str>) -> Self {
        let pages = Pages {
            router: dashboard::router(dev_key.and_then(KeyText::parse)),
            login: dashboard::login_page,
            set_up: dashboard::set_up_page,
            portal: dashboard::portal_page,
            missing: dashboard::missing_page,
        };
        let service = ApiService::new(ListenAddress::Only, world.app.clone(), Some(pages));
        Self { service, cookie: String::new() }
    }

    async fn comes_in(&mut self, path: &str, body: serde_json::Value) {
        let request = self
            .request("POST", path)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body.to_string()));
        let answer = self.service.clone().answer(request.unwrap()).await;
        assert_eq!(answer.status(), 200);
        let cookie = answer.headers()[header::SET_COOKIE].to_str().unwrap();
        self.cookie = cookie.split(';').next().unwrap().to_owned();
    }

    fn request(&self, method: &str, path: &str) -> http::request::Builder {
        let request = Request::builder().method(method).uri(path);
        request
            .header("host", "127.0.0.1:8080")
            .header("origin", "http://127.0.0.1:8080")
            .header("sec-fetch-site", "same-origin")
            .header("cookie", &self.cookie)
    }

    async fn get(&self, path: &str) -> Page {
        let request = self.request("GET", path).body(Body::empty()).unwrap();
        let (parts, body) = self.service.clone().answer(request).await.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let location = parts.headers.get(header::LOCATION).map(|to| to.to_str().unwrap().to_owned());
        Page {
            status: parts.status,
            location: location.unwrap_or_default(),
            text: String::from_utf8_lossy(&bytes).into_owned(),
        }
    }

    /// A page as it should be, whatever is on it.
    #[track_caller]
    fn check(path: &str, page: &Page) {
        assert_eq!(page.status, 200, "{path}: {}", page.text);
        assert!(page.text.ends_with("</html>"), "{path} is whole");
        let lower = page.text.to_lowercase();
        assert!(!lower.contains(" style="), "{path} has a style in it");
        assert!(!lower.contains("<style"), "{path} has a style in it");
        assert_eq!(
            lower.matches("<script").count(),
            lower.matches("<script src=\"/assets/").count()
                + lower.matches("<script type=\"module\" src=\"/assets/").count(),
            "{path} has a script in it"
        );
        assert!(!lower.contains("<img"), "{path} shows what somebody wrote as markup");
        // Scripts, styles and the page together may have 150 KB; the files have some 80.
        assert!(page.text.len() < 75_000, "{path} has {} bytes", page.text.len());
    }
}

const SCREENS: &[&str] = &[
    "/",
    "/?accounts",
    "/?accounts=&account=nobody",
    "/events",
    "/events?q=status:dead_letter",
    "/events?q=type:a.*%20since:1h",
    "/events?q=nonsense:%3Cimg%3E",
    "/events?q=metadata.a:b",
    "/events?q=since:7d",
    "/events?q=since:2d%20until:1d%20status:delivered",
    "/events?q=since:1d%20until:2d",
    "/destinations",
    "/destinations?sort=backlog",
    "/destinations?held=true",
    "/destinations/new",
    "/dead-letters",
    "/replays",
    "/sources",
    "/routes",
    "/settings",
    "/docs",
    "/docs?op=create_destination",
    "/docs?op=none",
];

#[tokio::test]
async fn every_page_is_there_before_anything_has_happened() {
    let world = World::memory().await;
    let browser = Browser::of(&world, &world.key).await;
    for path in SCREENS {
        Browser::check(path, &browser.get(path).await);
    }
    let first = browser.get("/").await.text;
    assert!(first.contains("curl http://127.0.0.1:8080/v1/events"), "the quick start has the real address");
}

#[tokio::test]
async fn the_quick_start_has_the_key_of_a_development_server_for_whoever_holds_it() {
    let world = World::memory().await;
    let other = world.key_with(&Scope::OF_ACCOUNT).await;
    for (key, is_filled_in) in [(&world.key, true), (&other, false), (&world.foreign_key, false)] {
        let mut browser = Browser::of_server(&world, Some(&world.key));
        browser.comes_in("/ui/sign-in", json!({ "key": key })).await;
        let page = browser.get("/").await.text;
        assert!(page.contains("hello.world"), "it is the quick start");
        assert_eq!(page.contains(&format!("Bearer {}", &*world.key)), is_filled_in);
        assert_eq!(page.contains("Bearer $POSTHASTE_KEY"), !is_filled_in);
    }
}

#[tokio::test]
async fn whatever_somebody_wrote_is_shown_as_text() {
    let world = World::memory().await;
    let destination =
        json!({ "name": HOSTILE, "uid": "u1", "url": "https://example.com/hooks?<script>alert(3)</script>" });
    let destination = world::text(&world.post("/v1/destinations", destination).await.expect(201)["id"]);
    world
        .post("/v1/routes", json!({ "destination_id": destination, "name": HOSTILE, "filter": null }))
        .await
        .expect(201);
    world.post("/v1/sources", json!({ "name": HOSTILE })).await.expect(201);
    world.post("/v1/api-keys", json!({ "name": HOSTILE })).await.expect(201);
    let event = json!({
        "type": "order.paid", "data": { "x": HOSTILE }, "tags": [HOSTILE], "metadata": { "x": HOSTILE }, "ordering_key": HOSTILE,
    });
    let event = world::text(&world.post("/v1/events", event).await.expect(202)["id"]);
    let delivery = world.delivery_of(&event).await;
    world.attempt(&destination, &delivery, Outcome::ServerError, 500).await;
    let rejected = world.publish("order.lost", json!(HOSTILE)).await;
    let second = world.delivery_of(&rejected).await;
    world.attempt(&destination, &second, Outcome::Rejected, 404).await;
    world.post("/v1/replays", json!({ "filter": { "status": ["dead_letter"] } })).await.expect(202);
    world.post(&format!("/v1/destinations/{destination}/pause"), json!({})).await;

    let browser = Browser::of(&world, &world.key).await;
    let more = [
        format!("/events/{event}"),
        format!("/events/{rejected}"),
        format!("/events?selected={event}"),
        format!("/events?q=destination:{destination}"),
        format!("/destinations/{destination}"),
        format!("/destinations/{destination}?over=24h"),
        format!("/events?q={}", url::form_urlencoded::byte_serialize(HOSTILE.as_bytes()).collect::<String>()),
    ];
    for path in SCREENS.iter().map(|path| (*path).to_owned()).chain(more) {
        Browser::check(&path, &browser.get(&path).await);
    }
    let shown = browser.get(&format!("/events/{event}")).await.text;
    assert!(shown.contains("&lt;script&gt;alert(1)"), "it is shown, as text");
    assert!(shown.contains("HTTP 500") && shown.contains("Next attempt"));
    assert!(browser.get("/dead-letters").await.text.contains("HTTP 404"));
}

#[tokio::test]
async fn the_overview_tells_the_last_hour_and_what_needs_somebody() {
    let world = World::memory().await;
    let (destination, _) = world.routed_destination().await;
    for (outcome, status) in [(Outcome::Success, 200), (Outcome::ServerError, 503), (Outcome::Rejected, 404)]
    {
        let event = world.publish("a", json!({})).await;
        let delivery = world.delivery_of(&event).await;
        world.attempt(&destination, &delivery, outcome, status).await;
    }
    let browser = Browser::of(&world, &world.key).await;
    let page = browser.get("/").await.text;
    for told in ["Latency of deliveries", "2 failed", "Oldest due", "data-spark=\"events|", "dead letters"] {
        assert!(page.contains(told), "{told}");
    }
    assert!(!page.contains("Nothing. Every destination"), "dead letters grow");
    let calm = page.matches("<li>").count();
    world.post(&format!("/v1/destinations/{destination}/pause"), json!({})).await.expect(200);
    let page = browser.get("/").await.text;
    assert!(page.contains(&format!("/v1/destinations/{destination}/resume")), "with its remedy");
    assert!(page.matches("<li>").count() > calm);
    assert!(browser.get("/destinations?held=true").await.text.contains(&destination));
    world.post(&format!("/v1/destinations/{destination}/resume"), json!({})).await.expect(200);
    assert!(browser.get("/destinations?held=true").await.text.contains("None is held"));
}

#[tokio::test]
async fn a_destination_shows_its_attempts_its_course_and_its_changes() {
    let world = World::memory().await;
    let (destination, _) = world.routed_destination().await;
    for (outcome, status) in [(Outcome::Success, 200), (Outcome::Throttled, 429)] {
        let event = world.publish("a", json!({})).await;
        let delivery = world.delivery_of(&event).await;
        world.attempt(&destination, &delivery, outcome, status).await;
    }
    let path = format!("/destinations/{destination}");
    let changed = world.patch(&format!("/v1{path}"), json!({ "max_concurrency": 2 })).await;
    changed.expect(200);
    world.post(&format!("/v1{path}/rotate-secret"), json!({ "overlap_seconds": 3600 })).await.expect(200);
    world.post(&format!("/v1{path}/pause"), json!({})).await.expect(200);
    let browser = Browser::of(&world, &world.key).await;
    let page = browser.get(&path).await;
    Browser::check(&path, &page);
    let page = page.text;
    assert_eq!(page.matches("<use href=\"#point-").count(), 2, "a point for each attempt");
    assert!(page.contains("#point-warn") && page.contains("class=\"held quiet\""), "and the hold among them");
    for chart in
        ["Attempts", "How long attempts took", "Slots in use", "Due, and every slot taken", "Backlog"]
    {
        assert!(page.contains(&format!("<span class=\"chart-title\">{chart}")), "{chart}");
    }
    assert!(page.contains("<code>max_concurrency</code>") && page.contains("→ 2"), "what was changed");
    assert!(page.contains("Two secrets sign at present"), "until when the old one signs");
    assert!(page.contains("set here; empty it") && page.contains("the default"), "where values come from");
    for range in ["24h", "7d", "30d"] {
        let path = format!("{path}?over={range}");
        assert_eq!(browser.get(&path).await.status, 200, "{path}");
    }
    let key = world.key_with(&[Scope::DestinationsRead]).await;
    let page = Browser::of(&world, &key).await.get(&path).await.text;
    assert!(
        page.contains("audit:read") && !page.contains("→ 2"),
        "changes are for who may see the audit log"
    );
    assert!(!page.contains("<use ") && page.contains("may not see events"));
}

#[tokio::test]
async fn where_there_is_nothing_a_browser_gets_a_page_and_a_program_a_problem() {
    let world = World::memory().await;
    let browser = Browser::of(&world, &world.key).await;
    let asks = async |path: &str, accepts: &str| {
        let request = browser.request("GET", path).header("accept", accepts).body(Body::empty()).unwrap();
        let (parts, body) = browser.service.clone().answer(request).await.into_parts();
        assert_eq!(parts.status, 404, "{path}");
        (parts.headers, String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap())
    };
    for path in ["/event", "/events/", "/destinations/new/"] {
        let (headers, text) = asks(path, "text/html,*/*;q=0.8").await;
        assert!(text.contains("There is no such page") && text.ends_with("</html>"), "{path}: {text}");
        assert!(headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap().contains("script-src 'self'"));
    }
    for (path, accepts) in
        [("/event", "*/*"), ("/v1/nothing", "text/html,*/*"), ("/ui/v1/nothing", "text/html,*/*")]
    {
        assert!(asks(path, accepts).await.1.contains("\"code\":\"not_found\""), "{path}");
    }
}

#[tokio::test]
async fn ids_lead_where_they_are_shown() {
    let world = World::memory().await;
    let (destination, route) = world.routed_destination().await;
    let event = world.publish("a", json!({})).await;
    let delivery = world.delivery_of(&event).await;
    let browser = Browser::of(&world, &world.key).await;
    for (path, to) in [
        (format!("/e/{event}"), format!("/events/{event}")),
        (format!("/events?q={event}"), format!("/events/{event}")),
        (format!("/events?q=%20{event}%20"), format!("/events/{event}")),
        (format!("/events?q={route}"), format!("/events?q=route%3A{route}")),
        (format!("/events?q={destination}"), format!("/destinations/{destination}")),
        (format!("/deliveries/{delivery}"), format!("/events/{event}#{delivery}")),
    ] {
        let page = browser.get(&path).await;
        assert!(page.status.is_redirection(), "{path}: {}", page.status);
        assert_eq!(page.location, to);
    }
}

#[tokio::test]
async fn what_is_not_there_or_anothers_is_a_page_that_says_so() {
    let world = World::memory().await;
    let event = world.publish("a", json!({})).await;
    let stranger = Browser::of(&world, &world.foreign_key).await;
    for path in [
        format!("/events/{event}"),
        "/events/nonsense".into(),
        "/destinations/nonsense".into(),
        "/replays/x".into(),
    ] {
        let page = stranger.get(&path).await;
        assert_eq!(page.status, 404, "{path}");
        assert!(page.text.contains("not_found") && page.text.ends_with("</html>"));
    }
}

#[tokio::test]
async fn a_page_shows_what_the_key_may_see_and_names_what_it_lacks() {
    let world = World::memory().await;
    let event = world.publish("secret.type", json!({})).await;
    let key = world.key_with(&[Scope::DestinationsRead]).await;
    let browser = Browser::of(&world, &key).await;
    for path in [
        "/",
        "/events",
        "/dead-letters",
        "/replays",
        "/destinations/new",
        &format!("/events/{event}"),
        &format!("/events?selected={event}"),
    ] {
        let page = browser.get(path).await;
        assert_eq!(page.status, 403, "{path}");
        assert!(
            page.text.contains("does not have the scope") && !page.text.contains("secret.type"),
            "{path}"
        );
    }
    for path in ["/destinations", "/sources", "/routes", "/settings"] {
        Browser::check(path, &browser.get(path).await);
    }
    let settings = browser.get("/settings").await.text;
    assert!(settings.contains("may not manage keys") && !settings.contains("Audit log"));
}

/// What no portal link opens.
const BEYOND_PORTAL: &[&str] = &["/sources", "/docs", "/docs?op=create_destination", "/docs?op=none"];

#[tokio::test]
async fn a_portal_shows_one_account_and_nothing_of_how_it_is_run() {
    for options in [json!({}), json!({ "read_only": true })] {
        let world = World::memory().await;
        let (destination, _) = world.routed_destination().await;
        let event = world.publish("order.paid", json!({ "x": HOSTILE })).await;
        let delivery = world.delivery_of(&event).await;
        world.attempt(&destination, &delivery, Outcome::ServerError, 500).await;
        world.post("/v1/sources", json!({ "name": "shop" })).await.expect(201);
        let browser = Browser::by_portal_link(&world, options.clone()).await;
        let more = [
            format!("/events/{event}"),
            format!("/events?selected={event}"),
            format!("/destinations/{destination}"),
        ];
        let paths = SCREENS.iter().map(|path| (*path).to_owned()).chain(more);
        for path in paths.filter(|path| !BEYOND_PORTAL.contains(&path.as_str())) {
            let page = browser.get(&path).await;
            if path == "/destinations/new" && options["read_only"] == json!(true) {
                assert_eq!(page.status, 403, "{path}");
                continue;
            }
            Browser::check(&path, &page);
            for never in [
                "href=\"/sources\"",
                "href=\"/docs",
                "/v1/api-keys",
                "/v1/account\"",
                "/v1/users",
                "/v1/sources",
                "ingest-url",
                "Switch account",
                "Umbrella",
                "shards",
                "posthaste doctor",
                "Audit log",
                "POSTHASTE_KEY</code> (",
            ] {
                assert!(!page.text.contains(never), "{path} shows {never}");
            }
            if options["read_only"] == json!(true) {
                for never in ["data-action=\"/v1", "data-reveal", "data-method=\"POST\""] {
                    assert!(!page.text.contains(never), "{path} lets one act: {never}");
                }
                let forms = page.text.matches("data-form=\"/v1").count();
                assert_eq!(forms, page.text.matches("<fieldset disabled").count(), "{path} lets one change");
            }
        }
        for path in BEYOND_PORTAL {
            let page = browser.get(path).await;
            assert_eq!(page.status, 403, "{path}");
            assert!(page.text.contains("Not by this link") && !page.text.contains("shop"), "{path}");
        }
        let settings = browser.get("/settings").await.text;
        assert!(settings.contains("You came by a link") && settings.contains("data-sign-out"));
        let shown = browser.get(&format!("/destinations/{destination}")).await.text;
        assert_eq!(shown.contains("Reveal the secret"), options["read_only"] != json!(true));
    }
}

#[tokio::test]
async fn a_link_that_is_used_up_says_so() {
    let world = World::memory().await;
    let stranger = Browser::stranger(&world);
    for path in ["/portal", "/portal?t=nonsense", &format!("/portal?t={}", "A".repeat(43))] {
        let page = stranger.get(path).await;
        assert_eq!(page.status, 401, "{path}");
        assert!(page.text.contains("has been used, or is over") && !page.text.contains("/ui/portal"));
    }
}

#[tokio::test]
async fn an_operator_chooses_an_account() {
    let world = World::memory().await;
    let browser = Browser::of(&world, &world.operator_key).await;
    for path in ["/", "/events", "/settings"] {
        let page = browser.get(path).await;
        Browser::check(path, &page);
    }
    let accounts = browser.get("/").await.text;
    assert!(accounts.contains("Acme") && accounts.contains("Umbrella"));
}

#[tokio::test]
async fn who_is_not_signed_in_sees_nothing_but_the_way_in() {
    let world = World::memory().await;
    let stranger = Browser::stranger(&world);
    for path in ["/", "/events", "/settings", "/docs"] {
        let page = stranger.get(path).await;
        assert!(page.status.is_redirection(), "{path}: {}", page.status);
        assert!(page.location.starts_with("/login"), "{path}: {}", page.location);
    }
    let login = stranger.get("/login?next=/events").await;
    Browser::check("/login", &login);
    assert!(login.text.contains("data-next=\"/events\""));
}

#[tokio::test]
async fn files_are_kept_for_ever_by_what_is_in_them() {
    let world = World::memory().await;
    let browser = Browser::of(&world, &world.key).await;
    let page = browser.get("/login").await.text + &browser.get("/").await.text;
    let start = page.find("/assets/").unwrap();
    let url = &page[start..start + page[start..].find('"').unwrap()];
    let request = browser.request("GET", url).body(Body::empty()).unwrap();
    let answer = browser.service.clone().answer(request).await;
    assert_eq!(answer.status(), 200);
    assert!(answer.headers()[header::CACHE_CONTROL].to_str().unwrap().contains("immutable"));
    let etag = answer.headers()[header::ETAG].clone();
    let request =
        browser.request("GET", url).header(header::IF_NONE_MATCH, etag).body(Body::empty()).unwrap();
    assert_eq!(browser.service.clone().answer(request).await.status(), 304);
    assert_eq!(
        browser.get("/assets/x/app.css").await.status,
        200,
        "a page of the version before still has a look"
    );
    assert_eq!(browser.get("/assets/x/..%2fCargo.toml").await.status, 404);
}

#[tokio::test]
async fn an_event_says_where_it_went_and_why_nowhere_else() {
    let world = World::memory().await;
    world.routed_destination().await;
    let choosy = json!({ "name": "crm", "url": "https://example.com/crm" });
    let choosy = world::text(&world.post("/v1/destinations", choosy).await.expect(201)["id"]);
    let filter = json!({ "data": { "amount": { "$gte": 100 } } });
    let route = json!({ "destination_id": choosy, "filter": filter });
    world.post("/v1/routes", route).await.expect(201);
    let event = world.publish("invoice.paid", json!({ "amount": 90 })).await;
    let browser = Browser::of(&world, &world.key).await;
    let page = browser.get(&format!("/events/{event}")).await.text;
    for said in ["1 of 2 destinations", ">crm</a> did not match", "<code>90</code>", "<code>≥ 100</code>"] {
        assert!(page.contains(said), "{said}: {page}");
    }
}

#[tokio::test]
async fn a_list_has_the_command_that_shows_the_same_and_no_other() {
    let world = World::memory().await;
    let browser = Browser::of(&world, &world.key).await;
    let dead = browser.get("/events?q=status:dead_letter").await.text;
    assert!(dead.contains("/v1/deliveries?status=dead_letter"));
    assert!(dead.contains("posthaste tail") && dead.contains("--kind delivery.changed --status dead_letter"));
    let tagged = browser.get("/events?q=tag:a").await.text;
    assert!(tagged.contains("/v1/events?tag=a") && !tagged.contains("posthaste tail"));
}

#[tokio::test]
async fn only_what_has_ended_is_offered_for_a_replay_of_all_that_match() {
    let world = World::memory().await;
    let browser = Browser::of(&world, &world.key).await;
    for (query, offered) in [
        ("status:dead_letter", true),
        ("http_status:503", true),
        ("type:a", true),
        ("status:queued", false),
        ("tag:a", false),
        ("", false),
    ] {
        let page = browser.get(&format!("/events?q={query}")).await.text;
        assert_eq!(page.contains("Replay all that match"), offered, "{query}");
    }
}

#[tokio::test]
async fn dead_letters_show_their_course_and_leave_when_they_are_settled() {
    let world = World::memory().await;
    let (destination, _) = world.routed_destination().await;
    let event = world.publish("order.lost", json!({})).await;
    let delivery = world.delivery_of(&event).await;
    world.attempt(&destination, &delivery, Outcome::Rejected, 404).await;
    let browser = Browser::of(&world, &world.key).await;
    let page = browser.get("/dead-letters").await.text;
    assert!(page.contains("↑ 1 today") && page.contains("data-samples=\"/v1/deliveries?status=dead_letter"));
    let dismissed = json!({ "delivery_ids": [delivery], "note": "known" });
    world.post("/v1/dead-letters/dismiss", dismissed).await.expect(200);
    assert!(browser.get("/dead-letters").await.text.contains("No dead letters"));
}

#[tokio::test]
async fn a_key_is_offered_the_scopes_that_an_account_may_give() {
    let world = World::memory().await;
    let settings = Browser::of(&world, &world.key).await.get("/settings").await.text;
    assert!(settings.contains("value=\"events:read\"") && !settings.contains("value=\"accounts:read\""));
    assert!(!settings.contains("data-doctor") && !settings.contains("/v1/users"), "the operator's");
}

#[tokio::test]
async fn an_operator_finds_an_account_by_its_name_and_looks_after_the_installation() {
    let world = World::memory().await;
    let browser = Browser::of(&world, &world.operator_key).await;
    let found = browser.get("/?accounts=&account=umb").await.text;
    assert!(found.contains("Umbrella") && !found.contains("Acme"));
    let by_id = browser.get(&format!("/?accounts=&account={}", world.account)).await.text;
    assert!(by_id.contains("Acme") && !by_id.contains("Umbrella"));
    let settings = browser.get("/settings").await.text;
    assert!(settings.contains("data-doctor") && settings.contains("data-form=\"/v1/users\""));
}

#[tokio::test]
async fn a_source_says_how_it_verifies_and_never_its_secret() {
    let world = World::memory().await;
    let secret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    let verified = json!({ "type": "stripe", "secrets": [secret], "allowed_addresses": ["192.0.2.0/24"] });
    world.post("/v1/sources", json!({ "name": "payments", "verification": verified })).await.expect(201);
    let own = json!({ "type": "hmac", "secrets": ["my own secret"], "header": "X-Own-Signature" });
    world.post("/v1/sources", json!({ "name": "own", "verification": own })).await.expect(201);
    let page = Browser::of(&world, &world.key).await.get("/sources").await;
    Browser::check("/sources", &page);
    for told in
        ["Verified: <strong>Stripe</strong>, 1 secret, good for 300 s", "192.0.2.0/24", "x-own-signature"]
    {
        assert!(page.text.contains(told), "{told}");
    }
    assert!(!page.text.contains(secret) && !page.text.contains("my own secret"));
    // Of each way all there is to fill in, once for all sources.
    assert_eq!(page.text.matches("data-for=\"pagerduty\"").count(), 1);
}

#[tokio::test]
async fn what_browsers_ask_for_by_themselves_is_there_for_everybody() {
    let world = World::memory().await;
    let icon = Browser::stranger(&world).get("/favicon.ico").await;
    assert_eq!(icon.status, StatusCode::OK);
    assert!(icon.text.starts_with("<svg"));
}
