//! Hazard: an account learns from how its requests fail what there is in a network that it may not reach.
//!
//! Destinations at forbidden addresses, by their addresses and by names that lead there, at a port that is open, at
//! one that is closed and at one that never answers: each is tested many times (`--count`), in turns. Beside them
//! destinations at a public address that cannot be reached for every other reason: a closed port, one that never
//! answers, a name that is not there, has no address, or whose server fails or is silent. In a network where all
//! addresses are this machine, with canaries at every one.
//!
//! Holds if the attempts at forbidden addresses cannot be told from each other, by what is said of them or by how
//! long they take; if the others have the few words there are for them; if no address and no word of a resolver is
//! anywhere in what the account is shown, in its attempts, its deliveries or its destinations; and if
//! no canary is called.
//!
//! On SQLite only: the store plays no part in it. Needs root.

use std::collections::BTreeMap;
use std::net::IpAddr;

use client::{AttemptView, TestEvent};
use domain::id::DestinationId;
use serde_json::Value;

use super::forbidden_targets::{once, put_into_the_table};
use crate::harness::own_network::name_server::Said;
use crate::harness::own_network::{OwnNetwork, PORT, PUBLIC};
use crate::harness::prelude::*;
use lab::BlackHole;

const OPEN: u16 = PORT;
const CLOSED: u16 = 444;
/// By address and by name; `mixed` leads to a public address too.
const FORBIDDEN_HOSTS: [&str; 5] =
    ["127.0.0.1", "169.254.169.254", "inside.example", "metadata.example", "mixed.example"];
const REFUSED: (&str, &str) = ("connect_error", "the destination refused the connection");
const UNANSWERED: (&str, &str) = ("timeout", "no connection within 1 s");
const UNRESOLVED: (&str, &str) = ("dns_error", "the destination's name could not be resolved");
/// Beginnings of our addresses, and what sockets and resolvers say.
const SECRETS: [&str; 8] =
    ["127.0.0", "169.254", "11.22.33", "nxdomain", "servfail", "no record", "os error", "errno"];
/// Below this it is the machine's own scheduler that is measured.
const FLOOR_MS: f64 = if cfg!(debug_assertions) { 3.0 } else { 1.0 };

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let network = OwnNetwork::enter(&[], &[], |name, _| script(name)).await?;
    let inside_hole = BlackHole::open().await?;
    let public_hole = BlackHole::open_at((PUBLIC, 0).into()).await?;
    let silent = inside_hole.addr()?.port();
    let mut testbed = network.plan(options)?.start().await?;

    let mut forbidden = Vec::new();
    for host in FORBIDDEN_HOSTS {
        for (state, port) in [("open", OPEN), ("closed", CLOSED), ("silent", silent)] {
            let id = testbed.add_destination(&once("forbidden", "https://good.example/"), &["all"]).await?;
            forbidden.push((state, host, id, format!("https://{host}:{port}/")));
        }
    }
    let public_silent = public_hole.addr()?.port();
    let mut others = Vec::new();
    for (url, expected) in [
        (format!("https://good.example:{CLOSED}/"), REFUSED),
        (format!("https://good.example:{public_silent}/"), UNANSWERED),
        ("https://nobody.example/".into(), UNRESOLVED),
        ("https://void.example/".into(), UNRESOLVED),
        ("https://failing.example/".into(), UNRESOLVED),
        ("https://silent.example/".into(), UNRESOLVED),
    ] {
        let id = testbed.add_destination(&once("unreached", &url), &["all"]).await?;
        others.push((id, url, expected));
    }
    testbed.stop().await?;
    let rows: Vec<_> = forbidden.iter().map(|(_, _, id, url)| (*id, url.as_str())).collect();
    put_into_the_table(&testbed.database, "/url", &rows).await?;
    testbed.start().await?;

    let rounds = options.count(40);
    let mut looks: BTreeMap<String, u64> = BTreeMap::new();
    let mut times: BTreeMap<(&str, &str), Vec<f64>> = BTreeMap::new();
    for _ in 0..rounds {
        for (state, host, id, _) in &forbidden {
            let (attempt, took) = tested(&testbed, *id).await?;
            *looks.entry(look(&attempt)?).or_default() += 1;
            times.entry((host, state)).or_default().push(took.as_secs_f64() * 1e3);
        }
    }
    report.note("blocked_attempts", rounds * forbidden.len() as u64);
    report.must_be("ways_a_blocked_attempt_looks", looks.len(), 1);
    report.must(looks.len() <= 1, format!("they can be told apart: {looks:?}"));
    report.must(!looks.keys().any(|look| look.contains("refused")), "a forbidden port's state is told");
    must_take_alike(&times, report);

    for (id, url, expected) in &others {
        let (attempt, _) = tested(&testbed, *id).await?;
        let error = attempt.error.as_ref().map(|error| (error.code.as_str(), error.message.as_str()));
        report.must(error == Some(*expected), format!("{url}: {error:?}, not {expected:?}"));
        must_tell_nothing(&attempt, url, report)?;
    }

    // The same as deliveries, which are kept and shown.
    let event = testbed.client.publish(&Publish::json("all", "{}")?).await?.id;
    testbed.must_drain(Duration::from_secs(30), report).await?;
    let shown =
        forbidden.iter().map(|(_, _, id, url)| (id, url)).chain(others.iter().map(|(id, url, _)| (id, url)));
    let mut read = 0;
    for (id, url) in shown {
        must_tell_nothing(&testbed.client.destination(*id).await?, url, report)?;
        must_tell_nothing(&testbed.client.destination_attempts(*id, None).await?, url, report)?;
        read += 2;
    }
    for delivery in testbed.client.deliveries(&Default::default(), None).await?.data {
        let url = &testbed.client.destination(delivery.destination_id).await?.url;
        must_tell_nothing(&testbed.client.delivery(delivery.id).await?, url, report)?;
        read += 1;
    }
    let event: Value = serde_json::to_value(testbed.client.event(event).await?)?;
    report.must(secrets_in(&event.to_string()).is_empty(), "an event tells an address");
    report.note("answers_read", read + 1);
    network.must_be_silent(&mut testbed, report);
    testbed.tear_down().await
}

fn script(name: &str) -> Said {
    match name {
        "inside.example" => Said::addresses([IpAddr::from([127, 0, 0, 1])]),
        "metadata.example" => Said::addresses([IpAddr::from([169, 254, 169, 254])]),
        "mixed.example" => Said::addresses([PUBLIC.into(), IpAddr::from([127, 0, 0, 1])]),
        "void.example" => Said::Addresses(Vec::new()),
        "failing.example" => Said::Failure,
        "silent.example" => Said::Nothing,
        _ => Said::NoSuchName,
    }
}

async fn tested(testbed: &Testbed, id: DestinationId) -> Result<(AttemptView, Duration)> {
    let began = Instant::now();
    let attempt = testbed.client.test(id, &TestEvent { force: true, ..TestEvent::default() }).await?;
    Ok((attempt, began.elapsed()))
}

/// Everything that is said of an attempt, without what differs between any two.
fn look(attempt: &AttemptView) -> Result<String> {
    let mut all = serde_json::to_value(attempt)?;
    for own in ["id", "delivery_id", "event_id", "destination_id", "started_at", "duration_ms"] {
        all[own] = Value::Null;
    }
    all["request"]["url"] = Value::Null;
    let headers = all["request"]["headers"].as_object().context("headers")?;
    let names: Vec<String> = headers.keys().cloned().collect();
    all["request"]["headers"] = json!(names);
    Ok(all.to_string())
}

/// The state of a port is not to be seen from how long an attempt takes.
fn must_take_alike(times: &BTreeMap<(&str, &str), Vec<f64>>, report: &mut Report) {
    let mut medians: BTreeMap<&str, BTreeMap<&str, f64>> = BTreeMap::new();
    for ((host, state), times) in times {
        medians.entry(host).or_default().insert(state, rounded(median(times.iter().copied())));
    }
    report.note("median_ms", &medians);
    for (host, of) in medians {
        let (least, most) = of.values().fold((f64::MAX, 0.0_f64), |(a, b), it| (a.min(*it), b.max(*it)));
        let alike = most - least <= FLOOR_MS.max(least / 10.0);
        report.must(alike, format!("{host}: the states of its ports can be told apart"));
    }
}

/// Besides the URL, which the account has written itself.
fn must_tell_nothing(shown: &impl serde::Serialize, url: &str, report: &mut Report) -> Result<()> {
    let text = serde_json::to_string(shown)?.replace(url, "");
    let found = secrets_in(&text);
    report.must(found.is_empty(), format!("{url}: {found:?} in {text}"));
    Ok(())
}

fn secrets_in(text: &str) -> Vec<&'static str> {
    let text = text.to_lowercase();
    SECRETS.into_iter().filter(|secret| text.contains(secret)).collect()
}
