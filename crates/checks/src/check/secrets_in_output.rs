//! Hazard: a secret, or what a customer sent, is told by what the node says of itself: a log at its most talkative, an error
//! that repeats what it was given, a metric's label, a span, an audit entry.
//!
//! The node logs everything (`trace`) and exports traces. Texts that can be found again are given as secrets of every kind, as
//! keys, right and wrong, in the query of a destination's URL, in headers, payloads, metadata and idempotency keys, in answers
//! of receivers, in malformed requests, and as the password of the database. Deliveries succeed, are refused, throttled, cut
//! off, time out, meet no TLS and nobody at all; requests are malformed in many ways; the database cuts its connections
//! (PostgreSQL); commands are given what they cannot use.
//!
//! Holds if none of the texts is found in the log, the metrics, the spans, `/readyz`, the audit log, the list of processes,
//! what commands print, and the answers to those who were refused. (That a panic tells nothing either is `panics`'.)

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use domain::id::DestinationId;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::harness::canaries::Canaries;
use crate::harness::doctor::node_command;
use crate::harness::postgres_server::PostgresServer;
use crate::harness::prelude::*;
use crate::harness::testbed::{API_KEY, OPERATOR_KEY};

const PATIENCE: Duration = Duration::from_secs(40);
const EVENTS: u64 = 5;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut canaries = Canaries::default();
    let collector = Collector::start(&mut canaries).await?;
    let plan = TestbedPlan::new(options)?
        .env("POSTHASTE_LOG", "trace")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &format!("http://{}", collector.addr))
        .env("OTEL_EXPORTER_OTLP_HEADERS", &format!("x-collector={}", collector.header));
    let plan = with_password(plan, options, &mut canaries).await?;
    let mut testbed = plan.start().await?;
    canaries.know("an account's key", API_KEY.rsplit('_').next().unwrap_or_default());
    canaries.know("an operator's key", OPERATOR_KEY.rsplit('_').next().unwrap_or_default());
    let master = crate::harness::testbed::MASTER_KEY;
    canaries.know("the master key", base64_bytes(master));

    let mut told = Told::default();
    let asker = Asker { testbed: &testbed };
    asker.deliveries(&mut canaries, report).await?;
    asker.refusals(&mut canaries, &mut told).await?;
    if let Some(server) = testbed.database.server() {
        let cut = "select count(pg_terminate_backend(pid)) from pg_stat_activity \
                   where pid <> pg_backend_pid() and backend_type = 'client backend'";
        // It cuts its own connection's siblings, and answers.
        let _ = server.number(cut).await;
        // Refused while it has no connection.
        let published = async || Ok(testbed.publish_copies("after.the.cut", EVENTS).await.is_ok());
        wait_until("nothing is taken after the cut", PATIENCE, 200, published).await?;
        report.must_be("left_in_queue_after_the_cut", testbed.quiesce(PATIENCE).await?, 0);
    }
    commands(&testbed, &mut canaries, &mut told).await?;
    outputs(&testbed, &mut told).await?;
    let pid = testbed.process()?.pid();
    told.note("the list of processes", std::fs::read(format!("/proc/{pid}/cmdline"))?);
    testbed.stop().await?;
    let log = testbed.log();
    report.note("log_lines", log.lines().count());
    report.must(
        log.contains("TRACE") || log.contains("\"trace\"") || log.contains("DEBUG"),
        "the log is not at its most talkative",
    );
    told.note("the log", log.into_bytes());
    let spans = collector.received();
    report.note("span_bytes", spans.len());
    report.must(!spans.is_empty(), "no span was exported");
    told.note("the spans", spans);

    report.note("planted", canaries.count());
    report.note("kinds", canaries.kinds());
    report.note("outputs", told.0.len());
    report.note("bytes_looked_through", told.0.iter().map(|(_, bytes)| bytes.len()).sum::<usize>());
    let mut found: Vec<String> = told
        .0
        .iter()
        .flat_map(|(place, bytes)| {
            canaries.found_in(bytes).into_iter().map(move |what| format!("{what} in {place}"))
        })
        .collect();
    found.sort();
    found.dedup();
    report.must_be("secrets_told", found.len(), 0);
    found.truncate(20);
    for found in found {
        report.must(false, found);
    }
    testbed.tear_down().await
}

/// What was said, and where.
#[derive(Default)]
struct Told(Vec<(String, Vec<u8>)>);

impl Told {
    fn note(&mut self, place: &str, bytes: Vec<u8>) {
        self.0.push((place.to_owned(), bytes));
    }
}

fn base64_bytes(text: &str) -> Vec<u8> {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    STANDARD.decode(text).unwrap_or_else(|_| text.into())
}

/// On PostgreSQL the URL has a password; the server does not ask for one.
async fn with_password(plan: TestbedPlan, options: &Options, canaries: &mut Canaries) -> Result<TestbedPlan> {
    if options.store() == StoreKind::Sqlite {
        return Ok(plan);
    }
    let schema = Some(format!("check_{:016x}", rand::random::<u64>()));
    let database = Database::Postgres { server: PostgresServer::start().await?, schema };
    let url = database.url().replacen('@', &format!(":{}@", canaries.plant("the database's password")), 1);
    Ok(plan.database(database).env("POSTHASTE_DATABASE", &url))
}

struct Asker<'a> {
    testbed: &'a Testbed,
}

impl Asker<'_> {
    async fn send(&self, bytes: &[u8]) -> Result<raw_http::RawAnswer> {
        Ok(raw_http::exchange(self.testbed.addr, bytes, Duration::from_secs(5)).await?)
    }

    async fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let answer = self.send(&raw_http::json_request(method, path, API_KEY, &body.to_string())).await?;
        ensure!(answer.status.is_some_and(|status| status < 300), "{method} {path}: {}", answer.text);
        Ok(serde_json::from_str(answer.body()).unwrap_or_default())
    }

    /// Destinations that answer in every way there is, with everything in them that is nobody's business.
    async fn deliveries(&self, canaries: &mut Canaries, report: &mut Report) -> Result<()> {
        let receiver = &self.testbed.receiver;
        let mut answer = |status: u16| {
            let body = canaries.plant("an answer's body");
            Reply::status(status).header("x-answer", &canaries.plant("an answer's header")).body(body)
        };
        for (name, reply) in [
            ("delivered", answer(200)),
            ("refused", answer(400)),
            ("failing", answer(500)),
            ("gone", answer(410)),
            ("redirecting", answer(302).header("location", "http://127.0.0.1:9/elsewhere")),
            ("throttling", answer(429).header("retry-after", "soon")),
            ("silent", answer(200).after(Duration::from_secs(5))),
        ] {
            receiver.script(name, reply);
        }
        let nobody = crate::harness::testbed::free_addr()?;
        let names = [
            ("delivered", receiver.url("/d/delivered")),
            ("refused", receiver.url("/d/refused")),
            ("failing", receiver.url("/d/failing")),
            ("gone", receiver.url("/d/gone")),
            ("redirecting", receiver.url("/d/redirecting")),
            ("throttling", receiver.url("/d/throttling")),
            ("silent", receiver.url("/d/silent")),
            ("nobody", format!("http://{nobody}/d/nobody")),
            ("no-tls", receiver.url("/d/no-tls").replacen("http:", "https:", 1)),
            ("blocked", "http://10.0.0.1/d/blocked".into()),
        ];
        for (at, (name, url)) in names.iter().enumerate() {
            let url = format!("{url}?key={}", canaries.plant("the query of a URL"));
            let auth = match at % 3 {
                0 => json!({ "type": "bearer", "token": canaries.plant("a bearer token") }),
                1 => {
                    json!({ "type": "basic", "username": "checks", "password": canaries.plant("a password of a destination") })
                }
                _ => {
                    json!({ "type": "headers", "headers": { "x-api-key": canaries.plant("a secret header") } })
                }
            };
            let body = json!({
                "name": name, "url": url, "auth": auth, "timeout_seconds": 1,
                "headers": { "x-own": canaries.plant("a header of a destination") },
                "retry_policy": { "schedule_seconds": [1] },
            });
            let made = match name.starts_with("blocked") {
                // Refused when it is made.
                true => continue,
                false => self.ask("POST", "/v1/destinations", &body).await?,
            };
            let id = made["id"].as_str().context("an id")?.to_owned();
            let secret = made["signing"]["secret"].as_str().context("a new secret is shown")?;
            canaries.know("a signing secret", secret.trim_start_matches("whsec_"));
            self.ask("POST", "/v1/routes", &json!({ "destination_id": id })).await?;
            let shown = self.ask("GET", &format!("/v1/destinations/{id}/secret"), &json!({})).await?;
            ensure!(shown["secret"] == made["signing"]["secret"], "it is the same secret");
            self.ask("POST", &format!("/v1/destinations/{id}/rotate-secret"), &json!({})).await?;
        }
        for number in 0..EVENTS {
            let body = json!({
                "type": "secret.happened", "data": { "card": canaries.plant("a payload") },
                "metadata": { "customer": canaries.plant("metadata") },
            });
            let key = canaries.plant("an idempotency key");
            let bearer = format!("Bearer {API_KEY}");
            let header = canaries.plant("a header of a request");
            let headers = [
                ("authorization", bearer.as_str()),
                ("content-type", "application/json"),
                ("idempotency-key", key.as_str()),
                ("x-customer", header.as_str()),
            ];
            let request = raw_http::request("POST", "/v1/events", &headers, body.to_string().as_bytes());
            let answer = self.send(&request).await?;
            ensure!(answer.status == Some(202), "event {number}: {}", answer.text);
        }
        let source = self.ask("POST", "/v1/sources", &json!({ "name": "Shop" })).await?;
        let url = source["ingest_url"].as_str().context("a new URL is shown")?;
        let token = url.rsplit('/').next().unwrap_or_default().to_owned();
        canaries.know("an ingest URL", &token);
        self.ask(
            "POST",
            "/v1/routes",
            &json!({ "source_id": source["id"], "destination_id": first(self, "delivered").await? }),
        )
        .await?;
        let header = canaries.plant("a header that came in");
        let payload = canaries.plant("a payload that came in");
        let request = raw_http::request(
            "POST",
            &format!("/ingest/{token}"),
            &[("x-shop", &header)],
            payload.as_bytes(),
        );
        let answer = self.send(&request).await?;
        ensure!(answer.status == Some(202), "it was not taken: {}", answer.text);
        // What is throttled waits for as long as its policy says: the others are waited for, and it is let go.
        let throttling = first(self, "throttling").await?;
        let throttling: DestinationId = throttling.as_str().context("an id")?.parse()?;
        let id = self.testbed.database.literal(throttling.bytes());
        let others = format!("select count(*) from queue where destination_id <> {id}");
        let ended = async || Ok(self.testbed.database.number(&others).await? == 0);
        wait_until("the deliveries do not end", PATIENCE, 100, ended).await?;
        let told =
            format!("select count(*) from attempts where destination_id = {id} and outcome = 'throttled'");
        report.must_be_at_least("throttled", self.testbed.database.number(&told).await?, 1.0);
        self.testbed.client.delete_destination(throttling).await?;
        let outcomes = "select count(distinct outcome) from attempts where outcome is not null";
        report.must_be_at_least("outcomes", self.testbed.database.number(outcomes).await?, 6.0);
        Ok(())
    }

    /// Requests with something wrong in each place where a secret may be.
    async fn refusals(&self, canaries: &mut Canaries, told: &mut Told) -> Result<()> {
        let mut requests: Vec<(String, Vec<u8>)> = Vec::new();
        let mut add = |what: &str, bytes: Vec<u8>| requests.push((what.to_owned(), bytes));
        let wrong = |canaries: &mut Canaries| canaries.plant("a secret that was refused");
        for kind in ["phk", "pho", "php", "phi"] {
            let key = format!("{kind}_ChecksAccnt0_{}", wrong(canaries));
            add("a wrong key", raw_http::json_request("GET", "/v1/events", &key, ""));
        }
        let key = wrong(canaries);
        add(
            "a key in the query",
            raw_http::request("GET", &format!("/v1/events?api_key=phk_{key}"), &[], b""),
        );
        add(
            "an unknown ingest URL",
            raw_http::request("POST", &format!("/ingest/{}", wrong(canaries)), &[], b"{}"),
        );
        add(
            "basic credentials",
            raw_http::request(
                "GET",
                "/v1/events",
                &[("authorization", &format!("Basic {}", wrong(canaries)))],
                b"",
            ),
        );
        let destination = |auth: Value, signing: Value| {
            json!({ "name": "x", "url": "https://example.com/", "auth": auth, "signing": signing })
                .to_string()
        };
        let post = |body: String| raw_http::json_request("POST", "/v1/destinations", API_KEY, &body);
        for auth in [
            json!({ "type": "bearer", "token": [wrong(canaries)] }),
            json!({ "type": "bearer", "token": format!("{}\n", wrong(canaries)) }),
            json!({ "type": "bearer", "tokens": wrong(canaries) }),
            json!({ "type": "basic", "username": "a:b", "password": wrong(canaries) }),
            json!({ "type": "basic", "username": null, "password": wrong(canaries) }),
            json!({ "type": "headers", "headers": { "host": wrong(canaries) } }),
            json!({ "type": "headers", "headers": { "x": [wrong(canaries)] } }),
            json!({ "type": "headers", "headers": wrong(canaries) }),
            json!(wrong(canaries)),
        ] {
            add("malformed credentials", post(destination(auth, json!({}))));
        }
        for signing in [
            json!({ "secret": format!("whsec_{}!", wrong(canaries)) }),
            json!({ "secret": wrong(canaries) }),
            json!({ "secret": { "value": wrong(canaries) } }),
            json!({ "secrets": [wrong(canaries)] }),
        ] {
            add("a malformed signing secret", post(destination(json!({ "type": "none" }), signing)));
        }
        for verification in [
            json!({ "type": "github", "secrets": wrong(canaries) }),
            json!({ "type": "basic", "secrets": [wrong(canaries)] }),
            json!({ "type": "standard", "secrets": [wrong(canaries)] }),
            json!({ "type": "discord", "secrets": [wrong(canaries)] }),
            json!({ "type": "none", "secrets": [wrong(canaries)] }),
            json!({ "type": "nobody", "secrets": [wrong(canaries)] }),
        ] {
            let body = json!({ "name": "x", "verification": verification }).to_string();
            add("a malformed verification", raw_http::json_request("POST", "/v1/sources", API_KEY, &body));
        }
        let user = json!({ "name": "ada", "password": [wrong(canaries)], "role": "operator" }).to_string();
        add("a malformed password", raw_http::json_request("POST", "/v1/users", OPERATOR_KEY, &user));
        let form = [("content-type", "application/json"), ("sec-fetch-site", "same-origin")];
        let sign_in = json!({ "user": "ada", "password": wrong(canaries) }).to_string();
        add("a wrong password", raw_http::request("POST", "/ui/sign-in", &form, sign_in.as_bytes()));
        let sign_in = json!({ "key": format!("pho_{}", wrong(canaries)) }).to_string();
        add("a wrong key at the door", raw_http::request("POST", "/ui/sign-in", &form, sign_in.as_bytes()));
        let cut = format!("{{\"type\":\"a\",\"data\":\"{}", wrong(canaries));
        add("JSON that is cut off", raw_http::json_request("POST", "/v1/events", API_KEY, &cut));
        let garbage = format!("GET / HTTP/1.1\r\nhost: checks\r\n{}\r\n\r\n", wrong(canaries));
        add("a malformed head", garbage.into_bytes());
        for (what, bytes) in requests {
            let answer = self.send(&bytes).await?;
            ensure!(answer.status.is_none_or(|status| status >= 300), "{what} was taken: {}", answer.text);
            told.note(&format!("the answer to {what}"), answer.text.into_bytes());
        }
        Ok(())
    }
}

/// The id of a destination by its name.
async fn first(asker: &Asker<'_>, name: &str) -> Result<Value> {
    let list = asker.ask("GET", "/v1/destinations?limit=50", &json!({})).await?;
    let all = list["data"].as_array().context("a list")?;
    let found = all.iter().find(|destination| destination["name"] == name);
    Ok(found.context("it was made")?["id"].clone())
}

/// What commands print about settings that they can, and cannot, use.
async fn commands(testbed: &Testbed, canaries: &mut Canaries, told: &mut Told) -> Result<()> {
    let password = canaries.plant("a password of a database that is not there");
    let away = format!("postgres://checks:{password}@127.0.0.1:1/checks");
    let bad = format!("k1:{}", canaries.plant("a malformed master key"));
    let proxy = format!("http://checks:{}@127.0.0.1:9", canaries.plant("the password of a proxy"));
    for (args, name, value) in [
        (&["doctor", "--json"][..], "POSTHASTE_NODE_NAME", "checks"),
        (&["config", "show"], "POSTHASTE_EGRESS_PROXY", &proxy),
        (&["config", "show", "--json"], "POSTHASTE_EGRESS_PROXY", &proxy),
        (&["config", "check"], "POSTHASTE_MASTER_KEY", &bad),
        (&["doctor"], "POSTHASTE_DATABASE", &away),
        (&["audit", "verify"], "POSTHASTE_DATABASE", &away),
        (&["keys", "list"], "POSTHASTE_DATABASE", &away),
        (&["keys", "rotate"], "POSTHASTE_DATABASE", &away),
        (&["keys", "rotate"], "POSTHASTE_MASTER_KEY", &bad),
        (&["serve"], "POSTHASTE_MASTER_KEY", &bad),
        (&["serve"], "POSTHASTE_BOOTSTRAP_API_KEY", &bad),
    ] {
        let run = node_command(testbed, args).env(name, value).env("POSTHASTE_LOG", "trace").output().await?;
        let place = format!("what `{}` prints", args.join(" "));
        told.note(&place, [run.stdout, run.stderr].concat());
    }
    Ok(())
}

/// What the running node tells to those who look after it.
async fn outputs(testbed: &Testbed, told: &mut Told) -> Result<()> {
    for path in ["/metrics", "/readyz", "/healthz", "/openapi.json"] {
        let answer = testbed.get(path).await?;
        ensure!(answer.status == Some(200), "{path}: {}", answer.text);
        told.note(path, answer.text.into_bytes());
    }
    for (key, path) in [
        (OPERATOR_KEY, "/v1/doctor"),
        (OPERATOR_KEY, "/v1/nodes"),
        (OPERATOR_KEY, "/v1/master-keys"),
        (OPERATOR_KEY, "/v1/audit?limit=200"),
        (API_KEY, "/v1/audit?limit=200"),
        (API_KEY, "/v1/sources"),
        (API_KEY, "/v1/stats"),
    ] {
        let request = raw_http::json_request("GET", path, key, "");
        let answer = raw_http::exchange(testbed.addr, &request, Duration::from_secs(10)).await?;
        ensure!(answer.status == Some(200), "{path}: {}", answer.text);
        told.note(path, answer.text.into_bytes());
    }
    Ok(())
}

/// Takes whatever spans are sent to it.
struct Collector {
    addr: SocketAddr,
    /// What it is to be told with each of them.
    header: String,
    received: Arc<Mutex<Vec<u8>>>,
}

impl Collector {
    async fn start(canaries: &mut Canaries) -> Result<Collector> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (addr, received) = (listener.local_addr()?, Arc::<Mutex<Vec<u8>>>::default());
        let kept = received.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let kept = kept.clone();
                tokio::spawn(async move {
                    let mut buffer = vec![0; 64 * 1024];
                    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                        kept.lock().expect("nobody panics").extend_from_slice(&buffer[..count]);
                        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                        if stream.write_all(answer).await.is_err() {
                            break;
                        }
                    }
                });
            }
        });
        Ok(Collector { addr, header: canaries.plant("a collector's key"), received })
    }

    /// The bodies: what stands in the heads is the node's own word to its collector.
    fn received(&self) -> Vec<u8> {
        let all = self.received.lock().expect("nobody panics").clone();
        let text = String::from_utf8_lossy(&all).into_owned();
        text.replace(&format!("x-collector: {}", self.header), "").into_bytes()
    }
}
