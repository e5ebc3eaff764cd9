//! Hazard: one account fills what accounts share, and the others wait behind it or are refused.
//!
//! Another account sends 50 events a second (`--rate`) to a destination of its own: first alone, then beside an account
//! that takes all it can get of one thing after the other. `--seconds` is how long each is measured, `--count` how many
//! lanes of the first account are filled, `--only` names one of the things:
//!
//! - `events`: small ones, from 256 connections, as fast as they are taken
//! - `large_events`: of 4.9 MB, from 16 connections
//! - `filters`: 1 MB of small values for a hundred routes with filters
//! - `reads`: 64 clients that list, count and download
//! - `replays`: 20 at the highest pace
//! - `lanes`: 10,000 destinations that take two seconds to answer, with 20 deliveries each
//!
//! Holds if none of the other account's events is refused, and if they are answered and arrive within twice the time they
//! took alone (99th percentile); and if the node never has more than 512 MiB.

use std::sync::Arc;

use client::{NewRoute, ReplayInput};
use lab::{Receiver, Target};

use crate::harness::large_fanout;
use crate::harness::other_account::OtherAccount;
use crate::harness::prelude::*;
use crate::harness::testbed::{API_KEY, add_destination};

const THINGS: [&str; 6] = ["events", "large_events", "filters", "reads", "replays", "lanes"];
const LANES: u64 = 10_000;
const MEMORY_MIB: f64 = 512.0;
/// Below this it is the machine that is measured: two cores carry the node, its database, both producers and the receiver.
const FLOOR_MS: f64 = 50.0;
/// The pressure is on by then.
const WARM_UP: Duration = Duration::from_secs(2);

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::new(options)?.start().await?;
    testbed.receiver.default_script(Reply::ok().after(Duration::from_secs(2)));
    testbed.receiver.script("own", Script::ok());
    let other = OtherAccount::make(&testbed).await?;
    // With a thread of its own: behind thousands of answers that another receiver gives at once, the receiver is measured.
    let receiver = Receiver::local(Script::ok());
    let url = receiver.url("/d/other");
    add_destination(
        &other.client,
        &NewDestination { url, ..testbed.destination_with_slots("other", 50) },
        &[],
    )
    .await?;
    testbed.add_destination(&testbed.destination_with_slots("own", 50), &["own"]).await?;
    testbed.stop().await?;
    large_fanout::add_destinations(&testbed, options.count(LANES) as usize).await?;
    testbed.start().await?;

    let alone = measure(&testbed, &receiver, &other.key, options).await?;
    report.note("alone_answered_p99_ms", rounded(alone.answered_ms));
    report.note("alone_arrived_p99_ms", rounded(alone.arrived_ms));
    let is_wanted = |thing: &&str| options.only.as_ref().is_none_or(|only| thing.starts_with(only.as_str()));
    for thing in THINGS.into_iter().filter(is_wanted) {
        let pressure = Pressure::begin(&testbed, thing).await?;
        sleep(WARM_UP).await;
        let beside = measure(&testbed, &receiver, &other.key, options).await?;
        pressure.end().await?;
        report.must_be(&format!("{thing}_refused"), beside.refused, 0);
        let at_most = (2.0 * alone.answered_ms).max(FLOOR_MS);
        report.must_be_at_most(&format!("{thing}_answered_p99_ms"), beside.answered_ms, at_most);
        let at_most = (2.0 * alone.arrived_ms).max(FLOOR_MS);
        report.must_be_at_most(&format!("{thing}_arrived_p99_ms"), beside.arrived_ms, at_most);
        report.must_be_at_most(&format!("{thing}_memory_mib"), beside.memory_mib, MEMORY_MIB);
    }
    testbed.must_be_running(report);
    testbed.tear_down().await
}

/// How the other account fared.
struct Fared {
    answered_ms: f64,
    arrived_ms: f64,
    refused: u64,
    memory_mib: f64,
}

async fn measure(testbed: &Testbed, receiver: &Receiver, key: &str, options: &Options) -> Result<Fared> {
    receiver.clear();
    let target = Target::Publish { base: testbed.base_url(), key: key.into() };
    let config = PumpConfig {
        keep_log: false,
        retry_for: Duration::ZERO,
        ..PumpConfig::new(target, Until::Elapsed(options.seconds(8)))
    };
    let pid = testbed.process()?.pid();
    let memory = Background::task(move |stop| async move {
        let mut most = 0;
        while !stop.is_set() {
            most = most.max(lab::process::rss_bytes(pid)?);
            sleep(Duration::from_millis(50)).await;
        }
        Ok(most)
    });
    let sent = lab::pump::run(config.open(options.rate(50.0))).await?;
    let memory_mib = mib(memory.finish().await?);
    let arrived = async || Ok(receiver.succeeded_at("other") >= sent.accepted);
    ensure!(becomes(Duration::from_secs(20), 10, arrived).await?, "the other account's events do not arrive");
    Ok(Fared {
        answered_ms: sent.latency.percentile_ms(99.0),
        arrived_ms: receiver.end_to_end_of("other").percentile_ms(99.0),
        refused: sent.offered - sent.accepted,
        memory_mib,
    })
}

/// What the first account does, until it is ended.
struct Pressure {
    pumps: Vec<Pump>,
    tasks: Vec<Background<()>>,
}

impl Pressure {
    async fn begin(testbed: &Testbed, thing: &str) -> Result<Pressure> {
        let (mut pumps, mut tasks) = (Vec::new(), Vec::new());
        match thing {
            "events" => pumps.push(flood(testbed, 256, 512)?),
            "large_events" => pumps.push(flood(testbed, 16, 4_900_000)?),
            "filters" => {
                let id = testbed.client.create_destination(&testbed.destination("filtered")).await?.id;
                for at in 0..100 {
                    let filter = Some(json!({"data": {"items": {"n": {"$gt": 1_000_000 + at}}}}));
                    let event_types = vec!["filtered".to_owned()];
                    let route = NewRoute { filter, event_types, ..NewRoute::to(id) };
                    testbed.client.create_route(&route).await?;
                }
                let items: Vec<_> = (0..70_000).map(|n| json!({"n": n})).collect();
                let body = json!({"type": "filtered", "data": {"items": items}}).to_string();
                tasks.extend(asking(
                    testbed,
                    8,
                    vec![raw_http::json_request("POST", "/v1/events", API_KEY, &body)],
                ));
            }
            "reads" => {
                let paths = [
                    "/v1/deliveries?limit=200",
                    "/v1/events?limit=200",
                    "/v1/stats",
                    "/v1/destinations?limit=200",
                ];
                let requests = paths.map(|path| raw_http::json_request("GET", path, API_KEY, ""));
                tasks.extend(asking(testbed, 64, requests.to_vec()));
            }
            "replays" => {
                testbed.publish_copies("own", 1_000).await?;
                let arrived = async || Ok(testbed.receiver.succeeded_at("own") >= 1_000);
                wait_until("the account's own events have not arrived", Duration::from_secs(20), 20, arrived)
                    .await?;
                for _ in 0..20 {
                    let filter = serde_json::from_value(json!({"status": ["delivered"], "type": ["own"]}))?;
                    let replay =
                        ReplayInput { filter: Some(filter), rate: Some(10_000), ..Default::default() };
                    testbed.client.create_replay(&replay, None).await?;
                }
            }
            "lanes" => {
                for _ in 0..20 {
                    large_fanout::publish(testbed).await?;
                }
            }
            _ => unreachable!("{thing} is one of the things"),
        }
        Ok(Pressure { pumps, tasks })
    }

    async fn end(self) -> Result<()> {
        for pump in self.pumps {
            pump.finish().await;
        }
        for task in self.tasks {
            task.finish().await?;
        }
        Ok(())
    }
}

fn flood(testbed: &Testbed, connections: usize, body_bytes: usize) -> Result<Pump> {
    let target = Target::Publish { base: testbed.base_url(), key: API_KEY.into() };
    let config = PumpConfig {
        keep_log: false,
        retry_for: Duration::ZERO,
        body_bytes,
        ..PumpConfig::new(target, Until::Stopped)
    };
    Ok(Pump::start(PumpConfig { event_types: vec!["nobody".into()], ..config }.connections(connections))?)
}

/// So many clients, each with one of these requests after the other.
fn asking(testbed: &Testbed, clients: usize, requests: Vec<Vec<u8>>) -> Vec<Background<()>> {
    let (addr, requests) = (testbed.addr, Arc::new(requests));
    let client = |number: usize| {
        let requests = Arc::clone(&requests);
        Background::task(move |stop| async move {
            for request in requests.iter().cycle().skip(number) {
                if stop.is_set() {
                    break;
                }
                // Refused or not, the next one is asked for.
                let _ = raw_http::exchange(addr, request, Duration::from_secs(10)).await;
            }
            Ok(())
        })
    };
    (0..clients).map(client).collect()
}
