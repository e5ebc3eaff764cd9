//! Hazard: a database that is away looks like a denial: a client is told that its key is wrong, or that what it
//! asked for does not exist.
//!
//! Authenticated calls of every kind, from eight clients at once, while PostgreSQL crashes and comes back, twice.
//!
//! Holds if every call is answered as it was before, or 503 with Retry-After: never 401, 403, 404 or 500, and never
//! nothing.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::harness::prelude::*;
use crate::harness::testbed::{API_KEY, OPERATOR_KEY};

const AWAY: Duration = Duration::from_secs(3);
const CLIENTS: usize = 8;
const OUTAGES: u64 = 2;

/// One kind of call.
struct ApiCall {
    name: &'static str,
    bytes: Vec<u8>,
}

/// How often each call was answered how.
type Answers = BTreeMap<String, BTreeMap<String, u64>>;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::new(options)?.nodes(options.nodes(1)).start().await?;
    let server = testbed.server()?;
    let source = RoutedSource::make(&testbed, 2, 4).await?;
    testbed.add_destination(&testbed.destination("sole"), &[]).await?;
    let event = client::Publish::json("outage", "{}")?;
    let accepted = testbed.client.publish(&event).await?;

    let (stop, stopped) = watch::channel(false);
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        // Each has a destination of its own to change: two at once would rightly be told of each other.
        let own = testbed.client.create_destination(&testbed.destination(&format!("own{number}"))).await?.id;
        let calls = calls(&source, &own.to_string(), &accepted.id.to_string());
        let addr = testbed.nodes[number % testbed.nodes.len()].addr;
        for call in &calls {
            let answer = raw_http::exchange(addr, &call.bytes, Duration::from_secs(5)).await?;
            let good = answer.status.is_some_and(|status| (200..300).contains(&status));
            ensure!(good, "{} is answered {:?} by a healthy node", call.name, answer.status);
        }
        clients.spawn(call_in_turn(addr, calls, number, stopped.clone()));
    }
    for _ in 0..options.count(OUTAGES) {
        sleep(options.seconds(2)).await;
        server.crash().await?;
        sleep(AWAY).await;
        server.resume().await?;
        sleep(Duration::from_secs(2)).await;
    }
    stop.send_replace(true);
    let mut answers = Answers::new();
    while let Some(of_one) = clients.join_next().await {
        for (call, counts) in of_one? {
            for (word, count) in counts {
                *answers.entry(call.clone()).or_default().entry(word).or_default() += count;
            }
        }
    }
    let mut refused = 0;
    for (call, counts) in &answers {
        refused += counts.get("503").copied().unwrap_or(0);
        let wrong: Vec<_> = counts.keys().filter(|word| !word.starts_with('2') && *word != "503").collect();
        report.must(wrong.is_empty(), format!("{call} was answered {wrong:?}"));
    }
    report.note("answers", answers);
    report.must_be_at_least("refused", refused, 1.0);
    testbed.must_be_running(report);
    testbed.tear_down().await
}

fn calls(source: &RoutedSource, destination: &str, event: &str) -> Vec<ApiCall> {
    let own = format!("/v1/destinations/{destination}");
    let event_body = "{\"type\":\"outage\",\"data\":{}}";
    let call = |name, bytes| ApiCall { name, bytes };
    let mut calls = vec![
        call("publish", raw_http::json_request("POST", "/v1/events", API_KEY, event_body)),
        call("ingest", source.ingest_request("lab.nobody", b"{}")),
        call("update", raw_http::json_request("PATCH", &own, API_KEY, "{\"name\":\"sole\"}")),
        call("accounts", raw_http::json_request("GET", "/v1/accounts", OPERATOR_KEY, "")),
    ];
    let paths = [
        ("own_account", "/v1/account".to_owned()),
        ("destinations", "/v1/destinations".to_owned()),
        ("destination", own),
        ("events", "/v1/events".to_owned()),
        ("event", format!("/v1/events/{event}")),
        ("deliveries", "/v1/deliveries".to_owned()),
        ("keys", "/v1/api-keys".to_owned()),
    ];
    calls.extend(paths.map(|(name, path)| call(name, raw_http::json_request("GET", &path, API_KEY, ""))));
    calls
}

async fn call_in_turn(
    addr: SocketAddr,
    calls: Vec<ApiCall>,
    number: usize,
    stopped: watch::Receiver<bool>,
) -> Answers {
    let mut answers = Answers::new();
    for call in calls.iter().cycle().skip(number) {
        if *stopped.borrow() {
            break;
        }
        let word = match raw_http::exchange(addr, &call.bytes, Duration::from_secs(15)).await {
            Ok(answer) => match (answer.status, answer.header("retry-after")) {
                (Some(503), None) => "503 without Retry-After".to_owned(),
                (Some(status), _) => status.to_string(),
                (None, _) => "nothing".to_owned(),
            },
            Err(error) => error.to_string(),
        };
        *answers.entry(call.name.to_owned()).or_default().entry(word).or_default() += 1;
        sleep(Duration::from_millis(5)).await;
    }
    answers
}
