//! Hazard: requests that nobody has signed cost a node more than those that count, or take the processor from everybody else.
//!
//! First as many requests that are rightly signed as forged ones, at a source that keeps what it does not believe:
//! what each costs the node, and on PostgreSQL the database, in CPU time. `--count` is how many. Then one account's
//! source, whose provider signs with a public key, is sent forged requests as fast as sixteen at once can, while another account
//! publishes a hundred a second, as it did before alone; `--seconds` is how long.
//!
//! Holds if a refused request costs at most what an accepted one costs, if it writes nothing that is an event and at most one request
//! a second, and if the other account loses nothing and its p99 is at most twice what it was alone.
//!
//! What one verification takes is measured by `cargo test -p domain --release -- --ignored --nocapture what_a_request_costs`.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use domain::limits;
use serde_json::Value;

use crate::harness::other_account::OtherAccount;
use crate::harness::prelude::*;
use crate::harness::providers::{Provider, Secret, Sending, Signed, providers};
use crate::harness::raw_http::{json_request, request};
use crate::harness::testbed::API_KEY;

const LIMIT: Duration = Duration::from_secs(20);
const FORGERS: u64 = 16;
/// Below this it is the machine's own scheduler that is measured.
const P99_FLOOR_MS: f64 = 10.0;
const PER_SECOND: f64 = 100.0;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::new(options)?.start().await?;
    let count = options.count(4_000);
    let github = open(&testbed, "github").await?;
    // The first ones pay for what is made once.
    send_all(&testbed, &github, count / 10, true).await?;
    send_all(&testbed, &github, count / 10, false).await?;
    let mut costs = Vec::new();
    for is_right in [true, false] {
        let before = CpuTime::of(&testbed).await?;
        let began = Instant::now();
        send_all(&testbed, &github, count, is_right).await?;
        let spent = CpuTime::spent(&testbed, &before).await?;
        let cost = us_per_event(spent.of_nodes_and_database(), count);
        let name = if is_right { "accepted" } else { "refused" };
        report.note(&format!("{name}_cpu_us_each"), rounded(cost));
        report.note(&format!("{name}_seconds"), rounded(began.elapsed().as_secs_f64()));
        costs.push(cost);
    }
    report.must_be_at_most("refused_costs_as_much_as_accepted", costs[1] / costs[0], 1.0);
    let events = testbed.database.count("events").await?;
    report.must_be("events", events, count + count / 10);
    let kept = testbed.database.count("refused_requests").await?;
    report.must_be_at_least("kept", kept, 1);
    report.must_be_at_most("kept_at_most", kept as f64, limits::REFUSED_KEPT as f64);
    forged_by_key_pair(&testbed, options, report).await?;
    testbed.must_be_running(report);
    testbed.tear_down().await
}

struct Door {
    provider: Provider,
    path: String,
    url: String,
    secret: Secret,
    other: Secret,
}

async fn open(testbed: &Testbed, name: &str) -> Result<Door> {
    let provider = providers().into_iter().find(|provider| provider.name == name).context("a provider")?;
    let (secret, other) = (provider.new_secret(), provider.new_secret());
    let verification = provider.verification(&[&secret]);
    let source = json!({ "name": name, "verification": verification, "keep_refused": true });
    let bytes = json_request("POST", "/v1/sources", API_KEY, &source.to_string());
    let made = raw_http::exchange(testbed.addr, &bytes, LIMIT).await?;
    let made: Value = serde_json::from_str(made.body())?;
    let url = made["ingest_url"].as_str().context("an ingest URL")?.to_owned();
    let path = url[url.find("/ingest/").context("a path")?..].to_owned();
    Ok(Door { provider, path, url, secret, other })
}

impl Door {
    fn request(&self, number: u64, is_right: bool) -> Vec<u8> {
        let id = format!("{number:x}-{:016x}-{}", rand::random::<u64>(), "y".repeat(200));
        let secret = if is_right { &self.secret } else { &self.other };
        let sending = Sending { url: &self.url, stamp: &self.provider.stamp(0), id: &id };
        let Signed { headers, body, .. } = self.provider.sign(secret, &sending);
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        request("POST", &self.path, &headers, &body)
    }
}

/// One after the other, each forged one from an address that is not slowed down.
async fn send_all(testbed: &Testbed, door: &Door, count: u64, is_right: bool) -> Result<()> {
    for number in 0..count {
        let from = address(if is_right { 0 } else { 1 + number });
        let answer =
            raw_http::exchange_from(from, testbed.addr, &door.request(number, is_right), LIMIT).await?;
        let expected = if is_right { 202 } else { 401 };
        ensure!(answer.status == Some(expected), "instead of {expected}: {}", answer.text);
    }
    Ok(())
}

/// Ten from each.
fn address(number: u64) -> Ipv4Addr {
    let place = number / 10;
    Ipv4Addr::from([127, 60 + (place / 62_500) as u8, (place / 250 % 250) as u8, 1 + (place % 250) as u8])
}

async fn forged_by_key_pair(testbed: &Testbed, options: &Options, report: &mut Report) -> Result<()> {
    let other = OtherAccount::make(testbed).await?;
    let span = options.seconds(10);
    let alone = lab::pump::run(other.pump(testbed, PER_SECOND, span)).await?;
    let door = Arc::new(open(testbed, "sendgrid").await?);
    let (sent, begun) = (Arc::<AtomicU64>::default(), Arc::new(AtomicU64::new(1_000_000)));
    let forgers: Vec<_> = (0..FORGERS)
        .map(|_| {
            let (door, sent, begun, addr) = (door.clone(), sent.clone(), begun.clone(), testbed.addr);
            Background::task(move |stop| async move {
                // Made once: it is the node that is to be kept busy.
                let request = door.request(0, false);
                while !stop.is_set() {
                    let from = address(begun.fetch_add(1, Relaxed));
                    let answer = raw_http::exchange_from(from, addr, &request, LIMIT).await?;
                    ensure!(
                        answer.status.is_some_and(|status| (400..=503).contains(&status)),
                        "{}",
                        answer.text
                    );
                    sent.fetch_add(1, Relaxed);
                }
                Ok(())
            })
        })
        .collect();
    let beside = lab::pump::run(other.pump(testbed, PER_SECOND, span)).await?;
    for forger in forgers {
        forger.finish().await?;
    }
    report.must_be_at_least("forged", sent.load(Relaxed), 1_000);
    report.must_be("refused_beside_forged_ones", beside.offered - beside.accepted, 0);
    let [alone_ms, beside_ms] = [&alone, &beside].map(|sent| sent.latency.percentile_ms(99.0));
    report.note("p99_alone_ms", rounded(alone_ms));
    report.must_be_at_most("p99_beside_forged_ms", beside_ms, (2.0 * alone_ms).max(P99_FLOOR_MS));
    Ok(())
}
