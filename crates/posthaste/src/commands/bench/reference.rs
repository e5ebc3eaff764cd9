//! The relay, as a process of its own: what it spends is told apart from producer and receiver.

use super::{BenchArgs, free_address};
use crate::failure::Failure;
use anyhow::Context;
use lab::{ChildProcess, PumpConfig, Receiver, Target, Until};
use std::{net::SocketAddr, time::Duration};
use tokio::net::TcpListener;

const STARTS_WITHIN: Duration = Duration::from_secs(5);
const DRAINS_WITHIN: Duration = Duration::from_secs(10);
/// The destination of the receiver that everything goes to.
const PATH: &str = "/d/relay";

/// What this process does when it is started as the relay.
pub(super) async fn be_it(at: SocketAddr, to: &str) -> Result<(), Failure> {
    let to = to.parse().map_err(|_| Failure::configuration("--relay-to is not a URL"))?;
    let listener = TcpListener::bind(at).await.with_context(|| format!("cannot listen on {at}"))?;
    Ok(lab::relay::serve(listener, to).await.context("the relay ended")?)
}

/// What the machine does without us, just now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reference {
    pub(super) per_second: f64,
    /// Of the relay, for each event.
    pub(super) cpu_us: f64,
}

impl Reference {
    /// Of two that were measured before and after a round.
    pub(super) fn between(self, other: Reference) -> Reference {
        Reference {
            per_second: f64::midpoint(self.per_second, other.per_second),
            cpu_us: f64::midpoint(self.cpu_us, other.cpu_us),
        }
    }
}

/// A closed loop through a relay that lives for this measurement alone.
pub(super) async fn measure(
    args: &BenchArgs,
    receiver: &Receiver,
    connections: usize,
) -> Result<Reference, Failure> {
    let at = free_address()?;
    let exe = std::env::current_exe().context("this program cannot be found")?;
    let (to, at_text) = (receiver.url(PATH), at.to_string());
    let flags = ["bench", "--relay-to", &to, "--relay-at", &at_text];
    let log = args.data_dir.join("relay.log");
    let mut process = ChildProcess::start(exe, &flags, &[], log).context("the relay does not start")?;
    process.wait_until_serving(at, "/", STARTS_WITHIN).await.context("the relay does not start")?;
    let config = |until| PumpConfig {
        keep_log: false,
        body_bytes: args.size as usize,
        connections,
        ..PumpConfig::new(Target::Url(format!("http://{at}/")), until)
    };
    // Half of a round, after a moment in which connections are opened.
    let warm = lab::pump::run(config(Until::Elapsed(args.time / 16))).await.context("the producer")?;
    receiver.wait_for_succeeded(warm.accepted, DRAINS_WITHIN).await;
    receiver.clear();
    let (before, began_us) = (process.cpu_time().context("the relay's CPU time")?, receiver.now_us());
    let sent = lab::pump::run(config(Until::Elapsed(args.time / 2))).await.context("the producer")?;
    let all = receiver.wait_for_succeeded(sent.accepted, DRAINS_WITHIN).await;
    let spent = process.cpu_time().context("the relay's CPU time")?.saturating_sub(before);
    let last_us = receiver.span_us().map_or(began_us, |span| span.end);
    receiver.clear();
    process.kill9().await.context("the relay does not end")?;
    if !all || sent.accepted == 0 {
        return Err(Failure::failed(anyhow::anyhow!(
            "of {} events through the relay not all arrived: the machine is too busy to measure anything",
            sent.accepted
        )));
    }
    Ok(Reference {
        per_second: sent.accepted as f64 / (last_us - began_us).max(1) as f64 * 1e6,
        cpu_us: spent.as_secs_f64() * 1e6 / sent.accepted as f64,
    })
}
