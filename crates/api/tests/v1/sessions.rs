//! Signing in to the dashboard: what begins a session, what ends it, and that no other site has anything of it.

use crate::{
    on_every_store,
    world::{Reply, World, text},
};
use api::{ApiService, App, ListenAddress, Pages, session::Visitor};
use axum::{Router, body::Body, routing::get};
use domain::{account::Scope, audit::Actor, id::AccountId, limits, time::Clock as _};
use http::{HeaderMap, Method, Request, header};
use serde_json::{Value, json};
use store::Page;

const OURS: &str = "https://hooks.example.com";

/// A page that says whom it was made for.
async fn shown(visitor: Visitor) -> String {
    json!({
        "account": visitor.account_id(), "scopes": visitor.scopes(), "operator": visitor.is_operator(),
        "name": visitor.key_name(), "csrf": visitor.csrf_token(), "chooses": visitor.may_choose_account(),
        "portal": visitor.is_portal(), "ends_at": visitor.ends_at(), "only_looks": visitor.only_looks(),
    })
    .to_string()
}

fn pages() -> Pages {
    Pages {
        router: Router::<App>::new().route("/", get(shown)).route("/events", get(shown)),
        login: |next, problem| format!("login to {next}: {}", problem.unwrap_or("nothing wrong")),
        set_up: |token, problem| format!("set up by {token}: {}", problem.unwrap_or("nothing wrong")),
        portal: |token, problem| format!("portal of {token}: {}", problem.unwrap_or("nothing wrong")),
        missing: || "no such page".into(),
    }
}

/// A browser at one of the nodes.
#[derive(Clone)]
pub(crate) struct Browser {
    pub(crate) service: ApiService,
    pub(crate) cookie: Option<String>,
    pub(crate) csrf: String,
    pub(crate) host: &'static str,
    pub(crate) origin: Option<&'static str>,
    pub(crate) fetch_site: Option<&'static str>,
    pub(crate) address: &'static str,
}

impl Browser {
    pub(crate) fn at(app: &App) -> Self {
        Self::by(app, ListenAddress::Only)
    }

    pub(crate) fn by(app: &App, address: ListenAddress) -> Self {
        Self {
            service: ApiService::new(address, app.clone(), Some(pages())),
            cookie: None,
            csrf: String::new(),
            host: "hooks.example.com",
            origin: Some(OURS),
            fetch_site: Some("same-origin"),
            address: "/",
        }
    }

    pub(crate) async fn ask(&mut self, method: Method, path: &str, body: Option<Value>) -> Reply {
        let reply = World::reply(self.begin(method, path, body).await).await;
        if let Some(set) = reply.headers.get(header::SET_COOKIE) {
            let set = set.to_str().unwrap().split(';').next().unwrap().to_owned();
            self.cookie = Some(set).filter(|set| !set.ends_with('='));
        }
        reply
    }

    /// The answer's head, and its body as it comes.
    pub(crate) async fn begin(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> http::Response<Body> {
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, self.host);
        if let Some(cookie) = &self.cookie {
            request = request.header(header::COOKIE, cookie);
        }
        if let Some(origin) = self.origin {
            request = request.header(header::ORIGIN, origin);
        }
        if let Some(site) = self.fetch_site {
            request = request.header("sec-fetch-site", site);
        }
        if !self.csrf.is_empty() {
            request = request.header("x-csrf-token", &self.csrf);
        }
        let body = match body {
            Some(body) => {
                request = request.header(header::CONTENT_TYPE, "application/json");
                Body::from(body.to_string())
            }
            None => Body::empty(),
        };
        self.service.clone().answer(request.body(body).unwrap()).await
    }

    pub(crate) async fn get(&mut self, path: &str) -> Reply {
        self.ask(Method::GET, path, None).await
    }

    pub(crate) async fn post(&mut self, path: &str, body: Value) -> Reply {
        self.ask(Method::POST, path, Some(body)).await
    }

    /// Signs in, and reads what a page of ours says.
    async fn signs_in(&mut self, body: Value) {
        self.post("/ui/sign-in", body).await.expect(200);
        self.reads_page().await;
    }

    pub(crate) async fn reads_page(&mut self) -> Value {
        let page = self.get(self.address).await.expect(200);
        self.csrf = text(&page["csrf"]);
        page
    }
}

pub(crate) async fn signed_in(world: &World, key: &str) -> Browser {
    let mut browser = Browser::at(&world.app);
    browser.signs_in(json!({ "key": key })).await;
    browser
}

fn has_page_headers(headers: &HeaderMap) {
    let csp = headers["content-security-policy"].to_str().unwrap();
    assert!(csp.contains("frame-ancestors 'none'") && csp.contains("script-src 'self'"), "{csp}");
    assert!(!csp.contains("unsafe"), "{csp}");
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("x-frame-options", "DENY"),
        ("cache-control", "no-store"),
    ] {
        assert_eq!(headers[name], value, "{name}");
    }
}

/// Long enough for what is remembered of a session to be read again.
pub(crate) async fn a_moment() {
    tokio::time::sleep(limits::CREDENTIAL_FRESH + limits::CREDENTIAL_OVERLAP).await;
}

on_every_store! {
    async fn a_session_stands_in_for_its_key(world) {
        let key = world.key_with(&[Scope::DestinationsRead, Scope::DestinationsWrite]).await;
        let mut browser = signed_in(&world, &key).await;
        let page = browser.reads_page().await;
        assert_eq!(page["account"], json!(world.account));
        assert_eq!(page["scopes"], json!(["destinations:read", "destinations:write"]));
        assert_eq!((&page["operator"], &page["name"], &page["chooses"]), (&json!(false), &json!("test"), &json!(false)));
        let body = json!({ "name": "Orders", "url": "https://example.com/hooks" });
        let id = text(&browser.post("/ui/v1/destinations", body).await.expect(201)["id"]);
        assert_eq!(browser.get(&format!("/ui/v1/destinations/{id}")).await.expect(200)["name"], "Orders");
        browser.get("/ui/v1/events").await.expect_problem(403, "scope_missing");
        browser.get("/ui/v1/nothing").await.expect_problem(404, "not_found");
        browser.get("/v1/destinations").await.expect_problem(401, "unauthorized");
    }

    async fn the_cookie_is_as_narrow_as_can_be(world) {
        let mut browser = Browser::at(&world.app);
        let signed_in = browser.post("/ui/sign-in", json!({ "key": world.key })).await;
        let cookie = signed_in.headers[header::SET_COOKIE].to_str().unwrap().to_owned();
        assert!(cookie.starts_with("__Host-sid="), "{cookie}");
        assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Lax; Secure"), "{cookie}");
        assert!(signed_in.headers.contains_key("strict-transport-security"));
        let mut local = Browser { host: "127.0.0.1:8080", origin: Some("http://127.0.0.1:8080"), ..Browser::at(&world.app) };
        let signed_in = local.post("/ui/sign-in", json!({ "key": world.key })).await;
        let cookie = signed_in.headers[header::SET_COOKIE].to_str().unwrap();
        assert!(cookie.starts_with("sid=") && cookie.ends_with("; Path=/; HttpOnly; SameSite=Lax"), "{cookie}");
        assert!(!signed_in.headers.contains_key("strict-transport-security"));
    }

    async fn every_page_has_its_headers_and_no_frame_shows_it(world) {
        let mut browser = signed_in(&world, &world.key).await;
        has_page_headers(&browser.get("/").await.headers);
        has_page_headers(&browser.get("/login").await.headers);
        has_page_headers(&Browser::at(&world.app).get("/login").await.headers);
        has_page_headers(&Browser::at(&world.app).get("/events").await.headers);
        let data = browser.get("/ui/v1/destinations").await.headers;
        assert!(data["content-security-policy"].to_str().unwrap().contains("sandbox"));
        assert_eq!(data["x-content-type-options"], "nosniff");
        assert_eq!(data["cross-origin-resource-policy"], "same-origin");
        let event = world.publish("a", json!({})).await;
        let payload = browser.get(&format!("/ui/v1/events/{event}/payload")).await.headers;
        assert_eq!(payload["content-type"], "text/plain; charset=utf-8", "whatever its sender called it");
        assert!(payload["content-disposition"].to_str().unwrap().starts_with("attachment"));
    }

    async fn another_site_changes_nothing(world) {
        let signed_in = signed_in(&world, &world.key).await;
        let body = || json!({ "name": "Orders", "url": "https://example.com/hooks" });
        let sites = [
            (Some("cross-site"), Some(OURS)),
            (Some("same-site"), Some(OURS)),
            (Some("none"), Some(OURS)),
            (None, Some("https://evil.example")),
            (None, Some("https://hooks.example.com.evil.example")),
            (None, Some("http://hooks.example.com")),
            (None, Some("null")),
            (None, None),
        ];
        for (fetch_site, origin) in sites {
            let mut evil = Browser { fetch_site, origin, ..signed_in.clone() };
            evil.post("/ui/v1/destinations", body()).await.expect_problem(403, "cross_site");
            evil.post("/ui/sign-out", json!({})).await.expect_problem(403, "cross_site");
            evil.post("/ui/sign-in", json!({ "key": world.key })).await.expect_problem(403, "cross_site");
        }
        let mut same = Browser { fetch_site: None, ..signed_in.clone() };
        same.post("/ui/v1/destinations", body()).await.expect(201);
        assert_eq!(same.get("/ui/v1/destinations").await.expect(200)["data"].as_array().unwrap().len(), 1);
    }

    async fn a_change_names_the_token_of_its_own_session(world) {
        let mut browser = signed_in(&world, &world.key).await;
        let other = signed_in(&world, &world.foreign_key).await;
        let again = signed_in(&world, &world.key).await;
        for wrong in ["", "x", &other.csrf, &again.csrf] {
            let mut without = Browser { csrf: wrong.to_owned(), ..browser.clone() };
            let body = json!({ "name": "Orders", "url": "https://example.com/hooks" });
            without.post("/ui/v1/destinations", body).await.expect_problem(403, "cross_site");
        }
        browser.post("/ui/v1/sources", json!({ "name": "Shop" })).await.expect(201);
    }

    async fn a_form_of_any_site_is_no_request_of_ours(world) {
        let browser = signed_in(&world, &world.key).await;
        let request = Request::builder()
            .method(Method::POST)
            .uri("/ui/sign-in")
            .header(header::HOST, "hooks.example.com")
            .header("sec-fetch-site", "same-origin")
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(Body::from(format!("key={}", world.key)));
        let reply = World::reply(browser.service.clone().answer(request.unwrap()).await).await;
        reply.expect_problem(415, "unsupported_media_type");
    }

    async fn an_id_that_was_planted_is_not_the_one_that_is_signed_in(world) {
        let mut attacker = signed_in(&world, &world.foreign_key).await;
        let planted = attacker.cookie.clone();
        let mut victim = Browser { cookie: planted.clone(), ..Browser::at(&world.app) };
        victim.signs_in(json!({ "key": world.key })).await;
        assert_ne!(victim.cookie, planted);
        attacker.get("/ui/v1/destinations").await.expect_problem(401, "unauthorized");
        let invented = format!("__Host-sid={}", "A".repeat(43));
        let mut victim = Browser { cookie: Some(invented.clone()), ..Browser::at(&world.app) };
        victim.signs_in(json!({ "key": world.key })).await;
        assert_ne!(victim.cookie, Some(invented.clone()));
        let mut attacker = Browser { cookie: Some(invented), ..Browser::at(&world.app) };
        attacker.get("/ui/v1/destinations").await.expect_problem(401, "unauthorized");
    }

    async fn who_has_signed_out_is_out_on_every_node(world) {
        let second = world.another_node().await;
        let mut browser = signed_in(&world, &world.key).await;
        let mut elsewhere = Browser { service: Browser::at(&second).service, ..browser.clone() };
        assert_eq!(elsewhere.get("/").await.expect(200)["account"], json!(world.account), "signed in on node 1, used on node 2");
        elsewhere.post("/ui/v1/sources", json!({ "name": "Shop" })).await.expect(201);
        let stolen = browser.clone();
        let out = browser.post("/ui/sign-out", json!({})).await;
        assert_eq!(out.status, 204);
        assert!(out.headers[header::SET_COOKIE].to_str().unwrap().contains("Max-Age=0"));
        stolen.clone().get("/ui/v1/sources").await.expect_problem(401, "unauthorized");
        a_moment().await;
        elsewhere.get("/ui/v1/sources").await.expect_problem(401, "unauthorized");
        assert_eq!(elsewhere.get("/events").await.status, 303);
    }

    async fn a_stream_ends_with_its_session(world) {
        let mut browser = signed_in(&world, &world.key).await;
        let request = Request::builder()
            .uri("/ui/v1/stream")
            .header(header::HOST, browser.host)
            .header(header::COOKIE, browser.cookie.clone().unwrap())
            .body(Body::empty());
        let stream = browser.service.clone().answer(request.unwrap()).await;
        assert_eq!(stream.status(), 200);
        let mut rest = tokio::spawn(World::reply(stream));
        assert!(tokio::time::timeout(limits::CREDENTIAL_FRESH * 2, &mut rest).await.is_err(), "it goes on");
        browser.post("/ui/sign-out", json!({})).await.expect(204);
        let ended = tokio::time::timeout(std::time::Duration::from_secs(10), rest).await.expect("it ends").unwrap();
        assert!(String::from_utf8_lossy(&ended.bytes).contains("not valid any more"));
    }

    async fn whoever_is_not_signed_in_is_sent_to_sign_in_and_back_to_a_path_of_ours(world) {
        let mut browser = Browser::at(&world.app);
        let sent = browser.get("/events?q=type%3Aa&since=1h").await;
        assert_eq!(sent.status, 303);
        assert_eq!(sent.headers[header::LOCATION], "/login?next=%2Fevents%3Fq%3Dtype%253Aa%26since%3D1h");
        let page = |reply: Reply| String::from_utf8(reply.bytes.to_vec()).unwrap();
        let login = browser.get("/login?next=%2Fevents%3Fq%3Da").await;
        assert_eq!(page(login), "login to /events?q=a: nothing wrong");
        for evil in ["//evil.example", "https://evil.example", "/%5Cevil.example", "javascript:alert(1)"] {
            let login = browser.get(&format!("/login?next={evil}")).await;
            assert_eq!(page(login), "login to /: nothing wrong", "{evil}");
        }
        browser.signs_in(json!({ "key": world.key })).await;
        let on = browser.get("/login?next=//evil.example").await;
        assert_eq!((on.status.as_u16(), &on.headers[header::LOCATION]), (303, &"/".parse().unwrap()));
    }

    async fn plain_http_beyond_this_machine_is_refused_with_what_to_do(world) {
        let app = world.node_at("http://192.168.1.7:8080").await;
        let mut browser = Browser { host: "192.168.1.7:8080", origin: Some("http://192.168.1.7:8080"), fetch_site: None, ..Browser::at(&app) };
        let refused = browser.post("/ui/sign-in", json!({ "key": world.key })).await;
        let said = refused.body["detail"].to_string();
        assert!(said.contains("public_url") && said.contains("trusted_proxies"), "{said}");
        refused.expect_problem(403, "tls_needed");
        let page = browser.get("/login").await;
        assert_eq!(page.status, 403);
        assert!(String::from_utf8_lossy(&page.bytes).contains("public_url"));
        let mut local = Browser { host: "localhost:8080", origin: Some("http://localhost:8080"), ..browser };
        local.signs_in(json!({ "key": world.key })).await;
    }

    async fn a_session_ends_with_its_key_its_rest_and_its_length(world) {
        let mut browser = signed_in(&world, &world.key).await;
        world.clock.minutes_pass(29);
        browser.get("/ui/v1/sources").await.expect(200);
        // That it was used is noted beside the request, with the time at which it is written.
        a_moment().await;
        world.clock.minutes_pass(31);
        a_moment().await;
        browser.get("/ui/v1/sources").await.expect_problem(401, "unauthorized");

        let made = world.post("/v1/api-keys", json!({ "name": "page" })).await.expect(201);
        let mut browser = signed_in(&world, &text(&made["key"])).await;
        world.delete(&format!("/v1/api-keys/{}", text(&made["id"]))).await.expect(204);
        browser.get("/ui/v1/sources").await.expect_problem(401, "unauthorized");

        let mut browser = signed_in(&world, &world.key).await;
        let session = world.store.sessions(None, Page { before: None, limit: 1 }).await.unwrap().remove(0);
        for _ in 0..2 {
            world.clock.minutes_pass(20);
            browser.get("/ui/v1/sources").await.expect(200);
            a_moment().await;
        }
        world.clock.minutes_pass(12 * 60 - 41);
        world.store.touch_session(session.id, world.clock.now()).await.unwrap();
        browser.get("/ui/v1/sources").await.expect(200);
        world.clock.minutes_pass(1);
        a_moment().await;
        browser.get("/ui/v1/sources").await.expect_problem(401, "unauthorized");
    }

    async fn sessions_are_listed_and_ended_by_their_holder(world) {
        let (mut one, mut two) = (signed_in(&world, &world.key).await, signed_in(&world, &world.key).await);
        let mut foreign = signed_in(&world, &world.foreign_key).await;
        let list = one.get("/ui/sessions").await.expect(200);
        let list = list["data"].as_array().unwrap();
        assert_eq!(list.len(), 2);
        let other = text(&list.iter().find(|session| session["current"] == json!(false)).unwrap()["id"]);
        let path = format!("/ui/sessions/{other}");
        foreign.ask(Method::DELETE, &path, None).await.expect_problem(404, "not_found");
        two.get("/ui/v1/sources").await.expect(200);
        one.ask(Method::DELETE, &path, None).await.expect(204);
        two.get("/ui/v1/sources").await.expect_problem(401, "unauthorized");
        one.get("/ui/v1/sources").await.expect(200);

        let mut operator = signed_in(&world, &world.operator_key).await;
        let all = operator.get("/ui/sessions").await.expect(200);
        assert_eq!(all["data"].as_array().unwrap().len(), 3, "everybody's");
    }

    async fn an_operator_chooses_the_account_it_looks_at(world) {
        let mut operator = signed_in(&world, &world.operator_key).await;
        let page = operator.reads_page().await;
        assert_eq!((&page["account"], &page["operator"], &page["chooses"]), (&Value::Null, &json!(true), &json!(true)));
        operator.get("/ui/v1/accounts").await.expect(200);
        operator.get("/ui/v1/sources").await.expect_problem(400, "invalid_header");
        operator.post("/ui/account", json!({ "account": AccountId::MAX })).await.expect_problem(404, "not_found");
        operator.post("/ui/account", json!({ "account": world.account })).await.expect(200);
        assert_eq!(operator.reads_page().await["account"], json!(world.account));
        operator.post("/ui/v1/sources", json!({ "name": "Shop" })).await.expect(201);
        operator.get("/ui/v1/accounts").await.expect(200);
        operator.post("/ui/account", json!({ "account": "" })).await.expect(200);
        assert_eq!(operator.reads_page().await["account"], Value::Null);
        let mut account = signed_in(&world, &world.key).await;
        account.post("/ui/account", json!({ "account": world.account })).await.expect_problem(403, "scope_missing");
    }

    async fn with_an_address_of_their_own_operators_are_nowhere_else(world) {
        let mut public = Browser::by(&world.app, ListenAddress::Public);
        let refused = public.post("/ui/sign-in", json!({ "key": world.operator_key })).await;
        refused.expect_problem(401, "sign_in_refused");
        let mut admin = Browser::by(&world.app, ListenAddress::Admin);
        admin.signs_in(json!({ "key": world.operator_key })).await;
        admin.get("/ui/v1/accounts").await.expect(200);
        let mut strayed = Browser { service: public.service.clone(), ..admin.clone() };
        strayed.get("/ui/v1/accounts").await.expect_problem(401, "sign_in_refused");
        assert_eq!(strayed.get("/events").await.status, 303);
        public.signs_in(json!({ "key": world.key })).await;
    }

    async fn signing_in_and_out_is_written_down_and_so_is_what_was_refused(world) {
        let mut browser = signed_in(&world, &world.key).await;
        browser.post("/ui/sign-out", json!({})).await.expect(204);
        let found = world.get("/v1/audit").await.expect(200);
        let actions: Vec<&Value> = found["data"].as_array().unwrap().iter().map(|entry| &entry["action"]).collect();
        assert_eq!(actions[..2], ["sign_out", "sign_in"]);
        assert_eq!(found["data"][0]["actor"]["type"], "key");
        let wrong = api::keys::KeyText::generate(domain::account::KeyKind::Account, &domain::testing::CountingDice::default());
        browser.post("/ui/sign-in", json!({ "key": wrong.expose() })).await.expect_problem(401, "sign_in_refused");
        world.app.sum_up_refusals().await;
        let found = world.ask_as(&world.operator_key, Method::GET, "/v1/audit?action=refused_sign_in_refused", None).await;
        assert_eq!(found.expect(200)["data"][0]["count"], 1);
    }

    async fn a_link_signs_in_once(world) {
        let key = api::keys::KeyText::parse(&world.key).unwrap();
        let link = world.app.new_sign_in_link(&key).await.unwrap();
        let mut browser = Browser::at(&world.app);
        let opened = browser.get(&link).await;
        assert_eq!((opened.status.as_u16(), opened.headers[header::LOCATION].to_str().unwrap()), (303, "/"));
        assert_eq!(browser.reads_page().await["account"], json!(world.account));
        let mut other = Browser::at(&world.app);
        let again = other.get(&link).await;
        assert_eq!(again.status, 401);
        assert!(String::from_utf8_lossy(&again.bytes).contains("has been used"));
        assert!(!again.headers.contains_key(header::SET_COOKIE));
        let late = world.app.new_sign_in_link(&key).await.unwrap();
        world.clock.minutes_pass(60);
        assert_eq!(other.get(&late).await.status, 401);
        assert_eq!(other.get("/login?t=nonsense").await.status, 401);
    }

    async fn the_first_user_sets_itself_up_and_makes_others(world) {
        let link = world.app.new_set_up_link().await.unwrap().expect("there is no user");
        let token = link.strip_prefix("/setup?t=").unwrap();
        let mut browser = Browser::at(&world.app);
        let page = browser.get(&link).await;
        assert_eq!(page.status, 200);
        let body = |password: &str| json!({ "token": token, "user": " Ada ", "password": password });
        browser.post("/ui/set-up", body("short")).await.expect_invalid("/password", "too_short");
        browser.post("/ui/set-up", body("correct horse battery")).await.expect(200);
        let page = browser.reads_page().await;
        assert_eq!((&page["name"], &page["operator"]), (&json!("ada"), &json!(true)));
        let mut second = Browser::at(&world.app);
        second.post("/ui/set-up", body("correct horse battery")).await.expect_problem(401, "sign_in_refused");
        assert_eq!(world.app.new_set_up_link().await.unwrap(), None);

        let viewer = json!({ "name": "bob", "password": "correct horse battery", "role": "viewer", "accounts": [world.account] });
        let made = browser.post("/ui/v1/users", viewer.clone()).await.expect(201);
        assert_eq!((&made["name"], made.get("password")), (&json!("bob"), None));
        browser.post("/ui/v1/users", viewer).await.expect_problem(409, "uid_taken");
        assert_eq!(browser.get("/ui/v1/users").await.expect(200)["data"].as_array().unwrap().len(), 2);
        let entries = browser.get("/ui/v1/audit?action=create_user").await.expect(200);
        let entry = &entries["data"][0];
        assert_eq!(entry["actor"]["type"], "user");
        assert!(!entry.to_string().contains("argon2"), "{entry}");

        second.post("/ui/sign-in", json!({ "user": "bob", "password": "correct horse batterz" })).await.expect_problem(401, "sign_in_refused");
        second.post("/ui/sign-in", json!({ "user": "eve", "password": "correct horse battery" })).await.expect_problem(401, "sign_in_refused");
        second.signs_in(json!({ "user": "BOB", "password": "correct horse battery" })).await;
        let page = second.reads_page().await;
        assert_eq!((&page["account"], &page["operator"], &page["chooses"]), (&json!(world.account), &json!(false), &json!(false)));
        second.get("/ui/v1/sources").await.expect(200);
        second.post("/ui/v1/sources", json!({ "name": "Shop" })).await.expect_problem(403, "scope_missing");
        second.get("/ui/v1/users").await.expect_problem(403, "scope_missing");

        let id = text(&made["id"]);
        browser.ask(Method::DELETE, &format!("/ui/v1/users/{id}"), None).await.expect(204);
        second.get("/ui/v1/sources").await.expect_problem(401, "unauthorized");
        browser.ask(Method::DELETE, &format!("/ui/v1/users/{id}"), None).await.expect_problem(404, "not_found");
    }

    async fn an_editor_works_in_its_accounts_and_no_other(world) {
        let operator = |body: Value| world.ask_as(&world.operator_key, Method::POST, "/v1/users", Some(body));
        let accounts = world.store.accounts(Page { before: None, limit: 9 }).await.unwrap();
        let foreign = accounts.iter().find(|account| account.id != world.account).unwrap().id;
        let made = world.ask_as(&world.operator_key, Method::POST, "/v1/accounts", Some(json!({ "name": "Initech", "uid": "initech" })));
        let third = text(&made.await.expect(201)["id"]);
        let password = "correct horse battery";
        let body = json!({ "name": "eve", "password": password, "role": "editor", "accounts": [world.account, third] });
        operator(body).await.expect(201);
        let wrong = json!({ "name": "mal", "password": password, "role": "editor" });
        operator(wrong).await.expect_invalid("/accounts", "too_few");
        let wrong = json!({ "name": "mal", "password": password, "role": "operator", "accounts": [third] });
        operator(wrong).await.expect_invalid("/accounts", "not_allowed");
        let wrong = json!({ "name": "mal", "password": password, "role": "viewer", "accounts": [AccountId::MAX] });
        operator(wrong).await.expect_invalid("/accounts/0", "not_found");

        let mut eve = Browser::at(&world.app);
        eve.signs_in(json!({ "user": "eve", "password": password })).await;
        assert_eq!(eve.reads_page().await["chooses"], json!(true));
        eve.post("/ui/account", json!({ "account": "initech" })).await.expect(200);
        assert_eq!(eve.reads_page().await["account"], json!(third));
        eve.post("/ui/account", json!({ "account": foreign })).await.expect_problem(404, "not_found");
        let source = eve.post("/ui/v1/sources", json!({ "name": "Shop" })).await.expect(201);
        eve.post("/ui/account", json!({ "account": world.account })).await.expect(200);
        eve.get(&format!("/ui/v1/sources/{}", text(&source["id"]))).await.expect_problem(404, "not_found");
        eve.post("/ui/v1/api-keys", json!({ "name": "mine" })).await.expect_problem(403, "scope_missing");
        eve.get("/ui/v1/accounts").await.expect_problem(403, "scope_missing");
    }

    async fn a_user_changes_its_own_password(world) {
        let password = "correct horse battery";
        let body = json!({ "name": "eve", "password": password, "role": "viewer", "accounts": [world.account] });
        world.ask_as(&world.operator_key, Method::POST, "/v1/users", Some(body)).await.expect(201);
        let mut eve = Browser::at(&world.app);
        eve.signs_in(json!({ "user": "eve", "password": password })).await;
        let mut elsewhere = Browser::at(&world.app);
        elsewhere.signs_in(json!({ "user": "eve", "password": password })).await;
        let change = |current: &str| json!({ "current": current, "new": "another horse battery" });
        eve.post("/ui/password", change("wrong horse battery")).await.expect_invalid("/current", "invalid_value");
        let before = eve.cookie.clone();
        eve.post("/ui/password", change(password)).await.expect(200);
        assert_ne!(eve.cookie, before, "rotated");
        eve.reads_page().await;
        elsewhere.get("/ui/v1/sources").await.expect_problem(401, "unauthorized");
        elsewhere.post("/ui/sign-in", json!({ "user": "eve", "password": password })).await.expect_problem(401, "sign_in_refused");
        elsewhere.signs_in(json!({ "user": "eve", "password": "another horse battery" })).await;
        let records = world.store.audit_records(None, 0, 100).await.unwrap();
        let changed = records.iter().find(|record| record.entry.action == "change_password").unwrap();
        assert!(matches!(changed.entry.actor, Actor::User(_)));
        let mut by_key = signed_in(&world, &world.key).await;
        by_key.post("/ui/password", change(password)).await.expect_problem(403, "scope_missing");
    }

    async fn keys_and_users_are_not_guessed(world) {
        let mut browser = Browser::at(&world.app);
        let mut refused = 0;
        for _ in 0..limits::WRONG_CREDENTIALS + 1 {
            let reply = browser.post("/ui/sign-in", json!({ "key": "phk_wrong" })).await;
            refused += u32::from(reply.status == 429);
        }
        assert_eq!(refused, 1);
        let reply = browser.post("/ui/sign-in", json!({ "user": "eve", "password": "x" })).await;
        reply.expect_problem(429, "rate_limited");
    }

    async fn without_pages_there_is_no_dashboard(world) {
        let plain = ApiService::new(ListenAddress::Only, world.app.clone(), None);
        let mut browser = Browser { service: plain, ..signed_in(&world, &world.key).await };
        for path in ["/", "/login", "/ui/v1/sources", "/ui/sessions"] {
            browser.get(path).await.expect_problem(404, "not_found");
        }
        browser.post("/ui/sign-in", json!({ "key": world.key })).await.expect_problem(404, "not_found");
    }
}
