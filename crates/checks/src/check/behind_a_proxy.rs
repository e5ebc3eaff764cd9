//! Hazard: a node that refuses a request before it has read it, or that stops, breaks the connection off; a proxy in front of
//! it then says 502, and a client that should have waited, or mended its request, is told that the node is broken.
//!
//! nginx stands before the node and keeps its connections; it hands bodies on whole, or as they come. Through it go events
//! that are accepted and events that are refused early for every reason there is, of 1 KiB and of 5 MiB (6 MiB where that is
//! the reason), many at once; then the node is stopped under that load, with `shutdown.delay` and without. On PostgreSQL a
//! second node only delivers, and is asked too.
//!
//! Holds if clients only ever see statuses of the node's own, each with its problem document; if that stays so as long as
//! the node's door is open; and if nginx never once found an answer broken off on a connection that the node had taken.
//! Needs nginx.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use client::NewSource;
use tokio::task::JoinSet;

use crate::harness::nginx::Nginx;
use crate::harness::prelude::*;
use crate::harness::raw_http::RawAnswer;
use crate::harness::testbed::API_KEY;

const SMALL: usize = 1 << 10;
/// As large as an event may be, and larger.
const LARGE: usize = 5 << 20;
const TOO_LARGE: usize = 6 << 20;
/// Of each kind, from so many clients at once.
const ROUNDS: u64 = 4;
const CLIENTS: usize = 6;
const PATIENCE: Duration = Duration::from_secs(30);
const DELAY: Duration = Duration::from_secs(2);
/// A request that is begun so long before the door shuts is inside by then.
const ON_THE_WAY: Duration = Duration::from_millis(500);

/// A request, and what the node may say to it.
#[derive(Clone)]
struct Asked {
    name: String,
    bytes: Arc<Vec<u8>>,
    allowed: &'static [(u16, &'static str)],
}

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let nodes = options.nodes(2).min(2);
    let plan = TestbedPlan::new(options)?.nodes(nodes);
    let mut testbed = plan.env("POSTHASTE_SHUTDOWN_DELAY", "0s").build().await?;
    if nodes > 1 {
        testbed.nodes[1].set_env("POSTHASTE_ROLE", Some("worker"));
    }
    testbed.start_all().await?;
    let nginx = Nginx::start(testbed.addr, &testbed.dir().join("nginx")).await?;
    let source = RoutedSource::make(&testbed, 1, 4).await?;
    let slow = NewSource { rate_limit: Some(1), ..NewSource::new("slow") };
    let slow = testbed.client.create_source(&slow).await?.ingest_url.context("it is shown once")?;
    let slow = slow.rsplit('/').next().context("an ingest URL ends in its token")?.to_owned();

    let all = asked(&source, &slow);
    for (way, addr) in nginx.ways() {
        for one in &all {
            let answers = ask(addr, one, options.count(ROUNDS)).await?;
            judge(&answers, one, way, report);
        }
    }
    report.must_be("broken_answers", nginx.broken_answers().len(), 0);

    if nodes > 1 {
        let delivers = Nginx::start(testbed.nodes[1].addr, &testbed.dir().join("nginx-1")).await?;
        for (way, addr) in delivers.ways() {
            for size in [SMALL, LARGE] {
                let one = Asked {
                    name: format!("worker {size}"),
                    bytes: Arc::new(source.ingest_request("lab.nobody", &body(size))),
                    allowed: &[(503, "only_delivers")],
                };
                judge(&ask(addr, &one, options.count(ROUNDS)).await?, &one, way, report);
            }
        }
        report.must_be("broken_answers_of_a_worker", delivers.broken_answers().len(), 0);
    }

    for delay in [DELAY, Duration::ZERO] {
        testbed.stop().await?;
        testbed.set_env("POSTHASTE_SHUTDOWN_DELAY", Some(&format!("{}s", delay.as_secs())));
        testbed.start().await?;
        let what = if delay.is_zero() { "stopped_at_once" } else { "stopped_with_delay" };
        let load = Load::begin(&nginx, &all);
        sleep(Duration::from_secs(2)).await;
        let told = Instant::now();
        testbed.process()?.terminate().await?;
        if !delay.is_zero() {
            sleep(delay - ON_THE_WAY).await;
            let seen = load.end().await?;
            report.note(what, &seen);
            report.must(told.elapsed() < delay + PATIENCE, "the load did not end");
            must_be_its_own(&seen, false, what, report);
        } else {
            testbed.wait_for_exit(PATIENCE).await;
            let seen = load.end().await?;
            report.note(what, &seen);
            // Nobody is there any more: the connection is refused, and that is nginx's to tell.
            must_be_its_own(&seen, true, what, report);
        }
        let broken = nginx.broken_answers();
        report.must(broken.is_empty(), format!("{what}: {:?}", broken.first()));
        testbed.wait_for_exit(PATIENCE).await;
        testbed.start().await?;
    }
    testbed.tear_down().await
}

/// Every reason to refuse an event before it is read, in both sizes; and none.
fn asked(source: &RoutedSource, slow: &str) -> Vec<Asked> {
    let mut all = Vec::new();
    let mut add = |name: &str, path: &str, size: usize, headers: &[(&str, &str)], allowed| {
        let bytes = Arc::new(raw_http::request("POST", path, headers, &body(size)));
        all.push(Asked { name: format!("{name} {size}"), bytes, allowed });
    };
    let typed = ("x-event-type", "lab.nobody");
    let (own, key) = (source.ingest_path(), format!("Bearer {API_KEY}"));
    for size in [SMALL, LARGE] {
        add("accepted", &own, size, &[typed], &[(202, ""), (503, "overloaded")][..]);
        let unknown = format!("/ingest/{}", "x".repeat(slow.len()));
        add("unknown", &unknown, size, &[typed], &[(404, "not_found"), (429, "rate_limited")]);
        let wrong = [("authorization", "Bearer phk_Nobody000000_NobodyNobodyNobodyNobodyNobody")];
        add("wrong key", "/v1/events", size, &wrong, &[(401, "unauthorized"), (429, "rate_limited")]);
        add("too fast", &format!("/ingest/{slow}"), size, &[typed], &[(202, ""), (429, "rate_limited")]);
        let packed = [typed, ("content-encoding", "gzip")];
        add("packed", &own, size, &packed, &[(415, "unsupported_media_type")]);
        let text = [("authorization", key.as_str()), ("content-type", "text/plain")];
        add("not JSON", "/v1/events", size, &text, &[(415, "unsupported_media_type")]);
        add("no such path", "/v1/nothing", size, &[("authorization", key.as_str())], &[(404, "not_found")]);
    }
    add("too large", &own, TOO_LARGE, &[typed], &[(413, "payload_too_large")]);
    all
}

/// A document of about this size.
fn body(size: usize) -> Vec<u8> {
    format!("{{\"a\":\"{}\"}}", "b".repeat(size.saturating_sub(8))).into_bytes()
}

async fn ask(addr: SocketAddr, one: &Asked, rounds: u64) -> Result<Vec<RawAnswer>> {
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let bytes = Arc::clone(&one.bytes);
        clients.spawn(async move {
            let mut answers = Vec::new();
            for _ in 0..rounds {
                answers.push(raw_http::exchange(addr, &bytes, PATIENCE).await?);
            }
            Ok::<_, std::io::Error>(answers)
        });
    }
    let mut answers = Vec::new();
    while let Some(client) = clients.join_next().await {
        answers.extend(client??);
    }
    Ok(answers)
}

fn judge(answers: &[RawAnswer], one: &Asked, way: &str, report: &mut Report) {
    for answer in answers {
        let (status, code) = (answer.status.unwrap_or(0), answer.code().unwrap_or_default());
        let right = one.allowed.contains(&(status, code.as_str()));
        report.must(right, format!("{}, {way}: {status} {code:?}: {:.120}", one.name, answer.body()));
    }
}

/// All of it at once, for as long as it takes; what was answered, counted.
struct Load {
    over: Arc<AtomicBool>,
    clients: JoinSet<Result<BTreeMap<String, u64>>>,
}

impl Load {
    fn begin(nginx: &Nginx, all: &[Asked]) -> Load {
        let (over, mut clients) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
        // Mostly small ones: large ones alone would be too few to meet the moment.
        let small: Vec<Asked> = all.iter().filter(|one| one.bytes.len() < LARGE).cloned().collect();
        for (_, addr) in nginx.ways() {
            for mix in [small.clone(), small.clone(), small.clone(), all.to_vec()] {
                clients.spawn(go_on(addr, mix, Arc::clone(&over)));
            }
        }
        Load { over, clients }
    }

    async fn end(mut self) -> Result<BTreeMap<String, u64>> {
        self.over.store(true, Ordering::Relaxed);
        let mut seen = BTreeMap::new();
        while let Some(client) = self.clients.join_next().await {
            for (answer, count) in client?? {
                *seen.entry(answer).or_default() += count;
            }
        }
        Ok(seen)
    }
}

async fn go_on(addr: SocketAddr, mix: Vec<Asked>, over: Arc<AtomicBool>) -> Result<BTreeMap<String, u64>> {
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    for one in mix.iter().cycle() {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let answer = raw_http::exchange(addr, &one.bytes, PATIENCE).await?;
        let (status, code) = (answer.status.unwrap_or(0), answer.code().unwrap_or_default());
        let known = one.allowed.contains(&(status, code.as_str()));
        let told = if known { "as usual".into() } else { format!("{status} {code}") };
        *seen.entry(told).or_default() += 1;
    }
    Ok(seen)
}

/// While it stops a node may also say so.
fn must_be_its_own(seen: &BTreeMap<String, u64>, is_gone: bool, what: &str, report: &mut Report) {
    for answer in seen.keys() {
        let own = matches!(answer.as_str(), "as usual" | "503 draining") || (is_gone && answer == "502 ");
        report.must(own, format!("{what}: a client was told {answer:?}"));
    }
    report.must(seen.get("as usual").is_some_and(|count| *count > 100), format!("{what}: hardly any load"));
}
