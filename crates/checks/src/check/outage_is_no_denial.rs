//! Hazard: a database that is away looks like a denial: a client is told that its key is wrong, or that what it
//! asked for does not exist.
//!
//! Authenticated calls of every kind, from eight clients at once, while PostgreSQL crashes and comes back, twice.
//!
//! Holds if every call is answered as it was before, or 503 with Retry-After: never 401, 403, 404 or 500, and never
//! nothing.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::Ask;
use crate::harness::fleet::sole_destination;
use crate::harness::stage::{API_KEY, OPERATOR_KEY};
use crate::harness::{Fleet, Plan, Report, StoreKind, wire};

const AWAY: Duration = Duration::from_secs(3);
const CLIENTS: usize = 8;
const OUTAGES: u64 = 2;

/// One kind of call.
struct Call {
    name: &'static str,
    bytes: Vec<u8>,
}

/// How often each call was answered how.
type Answers = BTreeMap<String, BTreeMap<String, u64>>;

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let mut stage = Plan::new(ask, store)?.nodes(ask.nodes(store, 1)).start().await?;
    let server = stage.database.server().context("this check needs PostgreSQL")?.clone();
    let fleet = Fleet::assemble(&stage, 2, 4).await?;
    sole_destination(&stage.client, &stage.destination("sole")).await?;
    let event = client::Publish::json("e12", "{}")?;
    let accepted = stage.client.publish(&event).await?;

    let (stop, stopped) = watch::channel(false);
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        // Each has a destination of its own to change: two at once would rightly be told of each other.
        let own = stage.client.create_destination(&stage.destination(&format!("own{number}"))).await?.id;
        let calls = calls(&fleet, &own.to_string(), &accepted.id.to_string());
        let addr = stage.members[number % stage.members.len()].addr;
        for call in &calls {
            let answer = wire::exchange(addr, &call.bytes, Duration::from_secs(5)).await?;
            let good = answer.status.is_some_and(|status| (200..300).contains(&status));
            ensure!(good, "{} is answered {:?} by a healthy node", call.name, answer.status);
        }
        clients.spawn(ask_on(addr, calls, number, stopped.clone()));
    }
    for _ in 0..ask.count(OUTAGES) {
        sleep(ask.seconds(2)).await;
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
    report.at_least("refused", refused as f64, 1.0);
    report.must(stage.all_running(), "a node exited");
    stage.strike().await?;
    Ok(report)
}

fn calls(fleet: &Fleet, destination: &str, event: &str) -> Vec<Call> {
    let key = format!("Bearer {API_KEY}");
    let operator = format!("Bearer {OPERATOR_KEY}");
    let json = ("content-type", "application/json");
    let mut calls = vec![
        Call {
            name: "publish",
            bytes: wire::request(
                "POST",
                "/v1/events",
                &[("authorization", &key), json],
                b"{\"type\":\"e12\",\"data\":{}}",
            ),
        },
        Call {
            name: "ingest",
            bytes: wire::request("POST", &fleet.ingest_path(), &[("x-event-type", "lab.nobody")], b"{}"),
        },
        Call {
            name: "update",
            bytes: wire::request(
                "PATCH",
                &format!("/v1/destinations/{destination}"),
                &[("authorization", &key), json],
                b"{\"name\":\"sole\"}",
            ),
        },
        Call {
            name: "accounts",
            bytes: wire::request("GET", "/v1/accounts", &[("authorization", &operator)], b""),
        },
    ];
    let paths = [
        ("own_account", "/v1/account".to_owned()),
        ("destinations", "/v1/destinations".to_owned()),
        ("destination", format!("/v1/destinations/{destination}")),
        ("events", "/v1/events".to_owned()),
        ("event", format!("/v1/events/{event}")),
        ("deliveries", "/v1/deliveries".to_owned()),
        ("keys", "/v1/api-keys".to_owned()),
    ];
    calls.extend(paths.map(|(name, path)| Call {
        name,
        bytes: wire::request("GET", &path, &[("authorization", &key)], b""),
    }));
    calls
}

async fn ask_on(
    addr: SocketAddr,
    calls: Vec<Call>,
    number: usize,
    stopped: watch::Receiver<bool>,
) -> Answers {
    let mut answers = Answers::new();
    for call in calls.iter().cycle().skip(number) {
        if *stopped.borrow() {
            break;
        }
        let word = match wire::exchange(addr, &call.bytes, Duration::from_secs(15)).await {
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
