//! The four receivers of the demo, and the destinations and routes that lead to them.

use super::generator::{FOR_FLAKY, FOR_LIMITED, FOR_SLOW};
use crate::{commands::window_limit::WindowLimit, failure::Failure};
use anyhow::Context;
use client::{Client, DestinationView, Error, NewDestination, NewRoute};
use domain::{id::DestinationId, retry::RetrySettings};
use lab::{Latency, Receiver, Recording, Reply, Script, ScriptedRequest};
use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

pub(super) const WHAT_THEY_DO: [&str; 4] = [
    "healthy   takes everything, in some 30 ms",
    "slow      takes invoice.created, in 0.7 s; two slots, and something always waits for one",
    "flaky     takes order.paid: one in four fails with 503 and succeeds when it is tried again, one in ten is rejected \
     with 422 and becomes a dead letter",
    "limited   takes message.sent: ten in five seconds, the rest is answered with 429 and Retry-After, and the destination \
     is held until then",
];

pub(super) const OUTAGE_AFTER: Duration = Duration::from_secs(10);
pub(super) const OUTAGE_LASTS: Duration = Duration::from_secs(30);

const SLOW_SLOTS: u32 = 2;
const SLOW_TAKES: Duration = Duration::from_millis(700);
const LIMIT: u64 = 10;
const LIMIT_WINDOW: Duration = Duration::from_secs(5);
/// Short, so that what becomes of a failure is seen within seconds.
const RETRIES: [u64; 4] = [1, 2, 4, 8];
/// In an outage: nothing is left of them when it ends.
const FEW_RETRIES: [u64; 2] = [1, 2];

/// They answer as long as this is kept.
pub(super) struct Receivers {
    healthy: Receiver,
    slow: Receiver,
    flaky: Receiver,
    limited: Receiver,
    is_down: Switch,
}

/// Whether the healthy one is down.
#[derive(Debug, Clone, Default)]
pub(super) struct Switch(Arc<AtomicBool>);

impl Switch {
    pub(super) fn set_down(&self, down: bool) {
        self.0.store(down, Ordering::Relaxed);
    }
}

/// Where they are, as the API knows them.
pub(super) struct DemoDestinations {
    pub(super) healthy: DestinationId,
    slow: DestinationId,
    flaky: DestinationId,
    limited: DestinationId,
}

impl DemoDestinations {
    pub(super) fn named(&self) -> [(&'static str, DestinationId); 4] {
        [("healthy", self.healthy), ("slow", self.slow), ("flaky", self.flaky), ("limited", self.limited)]
    }
}

impl Receivers {
    pub(super) fn start() -> Result<Self, Failure> {
        let is_down = Switch::default();
        let down = is_down.clone();
        let usual = Latency::LogNormal { median: Duration::from_millis(30), sigma: 0.5 };
        let healthy = Script::custom(move |_| match down.0.load(Ordering::Relaxed) {
            true => Reply::status(503),
            false => Reply::ok().after(usual),
        });
        let limit = WindowLimit::new(LIMIT, LIMIT_WINDOW);
        let limited = Script::custom(move |_| match limit.refusal(Instant::now()) {
            Some((reply, _)) => reply,
            None => Reply::ok().after(Duration::from_millis(20)),
        });
        Ok(Self {
            healthy: listen(healthy)?,
            slow: listen(Reply::ok().after(SLOW_TAKES).into())?,
            flaky: listen(Script::custom(flaky))?,
            limited: listen(limited)?,
            is_down,
        })
    }

    pub(super) fn healthy(&self) -> Switch {
        self.is_down.clone()
    }

    /// Each is made, or moved to where its receiver is now: a demo may go on in the folder of an earlier one.
    pub(super) async fn make_destinations(
        &self,
        client: &Client,
        outage: bool,
    ) -> Result<DemoDestinations, Failure> {
        let known = client.destinations(None).await?.data;
        let make = async |uid: &str, name: &str, receiver: &Receiver, slots, retries: &[u64], types: &str| {
            let (url, schedule) = (receiver.url("/hook"), seconds(retries));
            let retry_policy = RetrySettings { schedule: Some(schedule), ..RetrySettings::default() };
            let known = known.iter().find(|known| known.uid.as_deref() == Some(uid));
            let new = NewDestination {
                uid: Some(uid.into()),
                max_concurrency: slots,
                retry_policy,
                ..NewDestination::new(name, &url)
            };
            let destination = made(client, known, &new).await?;
            route(client, uid, destination, types).await?;
            Ok::<_, Error>(destination)
        };
        let retries: &[u64] = if outage { &FEW_RETRIES } else { &RETRIES };
        Ok(DemoDestinations {
            healthy: make("demo-healthy", "Healthy", &self.healthy, None, retries, "*").await?,
            slow: make("demo-slow", "Slow", &self.slow, Some(SLOW_SLOTS), &RETRIES, FOR_SLOW).await?,
            flaky: make("demo-flaky", "Flaky", &self.flaky, None, &RETRIES, FOR_FLAKY).await?,
            limited: make("demo-limited", "Limited", &self.limited, None, &RETRIES, FOR_LIMITED).await?,
        })
    }
}

fn seconds(all: &[u64]) -> Vec<Duration> {
    all.iter().copied().map(Duration::from_secs).collect()
}

fn listen(script: Script) -> Result<Receiver, Failure> {
    let address = (Ipv4Addr::LOCALHOST, 0).into();
    let receiver = Receiver::start_with(address, script, Recording::Counts);
    Ok(receiver.context("no port for a receiver of the demo")?)
}

/// The same event fares the same whenever it is tried: by its number, which stands in its payload.
fn flaky(seen: &ScriptedRequest<'_>) -> Reply {
    let payload: Option<serde_json::Value> = serde_json::from_slice(seen.body).ok();
    let number = payload.as_ref().and_then(|payload| payload["number"].as_u64()).unwrap_or(0) / 4;
    if number % 10 == 2 {
        return Reply::status(422).body("{\"error\":\"this order is not one of ours\"}");
    }
    if number % 4 == 1 && seen.attempt <= 1 {
        return Reply::status(503).after(Duration::from_millis(10));
    }
    Reply::ok().after(Duration::from_millis(40))
}

async fn made(
    client: &Client,
    known: Option<&DestinationView>,
    new: &NewDestination,
) -> Result<DestinationId, Error> {
    let Some(known) = known else { return Ok(client.create_destination(new).await?.id) };
    let patch = serde_json::json!({ "url": new.url, "retry_policy": new.retry_policy });
    Ok(client.update_destination(known.id, &patch).await?.id)
}

/// One that is there already stays as it is.
async fn route(client: &Client, uid: &str, destination: DestinationId, types: &str) -> Result<(), Error> {
    let event_types = vec![types.parse().expect("a word is a pattern")];
    let route = NewRoute { uid: Some(uid.into()), event_types, ..NewRoute::to(destination) };
    match client.create_route(&route).await {
        Err(error) if error.problem().is_some_and(|problem| problem.status == 409) => Ok(()),
        made => made.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of an order by the status.
    fn said(number: u64, attempt: u32) -> u16 {
        let body = format!("{{\"number\":{number}}}").into();
        let seen = ScriptedRequest {
            destination: "/hook",
            arrival: 1,
            open: 1,
            attempt,
            method: &"POST".parse().unwrap(),
            path: "/hook",
            headers: &Default::default(),
            body: &body,
        };
        let Reply::Answer(answer) = flaky(&seen) else { panic!("it answers") };
        answer.status.as_u16()
    }

    #[test]
    fn of_the_first_orders_some_succeed_some_when_tried_again_and_one_never() {
        // Every fourth event is an order.
        let orders: Vec<u64> = (3..=80).step_by(4).collect();
        let first: Vec<u16> = orders.iter().map(|number| said(*number, 1)).collect();
        let again: Vec<u16> = orders.iter().map(|number| said(*number, 2)).collect();
        assert_eq!(first.iter().filter(|status| **status == 503).count(), 5);
        assert_eq!(first.iter().filter(|status| **status == 422).count(), 2);
        assert!(again.iter().all(|status| [200, 422].contains(status)), "{again:?}");
    }
}
