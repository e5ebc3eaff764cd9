//! Asks the ingest URL of every node all the while, on a connection of its own each time, and writes down what was
//! answered and how long it took.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::json;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::waiting::{Background, wait_until};
use super::{Report, RoutedSource, Testbed, raw_http};

/// Longer than any answer should take: a node that hangs is to be seen hanging.
const PATIENCE: Duration = Duration::from_secs(15);
/// When a trouble with the database is over every node accepts events again by then.
pub(crate) const SERVING_WITHIN: Duration = Duration::from_secs(5);
/// No route wants it.
const EVENT_TYPE: &str = "lab.nobody";

pub(crate) struct IngestProbe {
    of_nodes: Vec<Background<Vec<ProbeAnswer>>>,
}

/// One request and its answer.
#[derive(Debug, Clone)]
pub(crate) struct ProbeAnswer {
    pub(crate) node: usize,
    pub(crate) asked: Instant,
    pub(crate) took: Duration,
    /// None: no connection, or not a word.
    pub(crate) status: Option<u16>,
    pub(crate) retry_after: Option<u64>,
}

impl ProbeAnswer {
    fn new(node: usize, asked: Instant, took: Duration, answer: Option<raw_http::RawAnswer>) -> ProbeAnswer {
        let retry_after = answer.as_ref().and_then(|answer| answer.header("retry-after")?.parse().ok());
        ProbeAnswer { node, asked, took, status: answer.and_then(|answer| answer.status), retry_after }
    }

    /// Come back later, and when: as a refusal should be.
    pub(crate) fn has_good_retry_after(&self) -> bool {
        self.retry_after.is_some_and(|seconds| (1..=60).contains(&seconds))
    }

    pub(crate) fn refused(&self) -> bool {
        self.status == Some(503) && self.has_good_retry_after()
    }

    pub(crate) fn accepted(&self) -> bool {
        self.status == Some(202)
    }

    /// Whether it was asked and answered between two moments.
    pub(crate) fn is_between(&self, from: Instant, until: Instant) -> bool {
        self.asked > from && self.asked + self.took < until
    }
}

impl IngestProbe {
    /// Asks each node every so often, one request at a time.
    pub(crate) fn start(testbed: &Testbed, source: &RoutedSource, every: Duration) -> IngestProbe {
        let of_node = |node: usize| {
            let (addr, request) = (testbed.nodes[node].addr, source.ingest_request(EVENT_TYPE, b"{}"));
            Background::task(|stop| async move {
                let mut answers = Vec::new();
                while !stop.is_set() {
                    answers.push(ask(node, addr, &request).await);
                    sleep(every).await;
                }
                Ok(answers)
            })
        };
        IngestProbe { of_nodes: (0..testbed.nodes.len()).map(of_node).collect() }
    }

    /// One request to the first node, by a thread of its own.
    pub(crate) async fn ask_once(testbed: &Testbed, source: &RoutedSource) -> Result<ProbeAnswer> {
        let (addr, request) = (testbed.addr, source.ingest_request(EVENT_TYPE, b"{}"));
        let asked = Instant::now();
        let answer = spawn_blocking(move || raw_http::exchange_blocking(addr, &request, PATIENCE)).await?;
        let took = answer.as_ref().map_or(PATIENCE, |answer| answer.took);
        Ok(ProbeAnswer::new(0, asked, took, answer.ok()))
    }

    /// All answers, by node and time.
    pub(crate) async fn finish(self) -> Result<Vec<ProbeAnswer>> {
        self.of_nodes.iter().for_each(Background::stop);
        let mut all = Vec::new();
        for of_node in self.of_nodes {
            all.extend(of_node.finish().await?);
        }
        Ok(all)
    }
}

/// Waits until every node accepts events, and says how long that took.
pub(crate) async fn wait_until_all_accept(
    testbed: &Testbed,
    source: &RoutedSource,
    limit: Duration,
) -> Result<Duration> {
    let began = Instant::now();
    let request = source.ingest_request(EVENT_TYPE, b"{}");
    for (at, node) in testbed.nodes.iter().enumerate() {
        let otherwise = format!("{} does not accept", node.name);
        wait_until(&otherwise, limit, 20, async || Ok(ask(at, node.addr, &request).await.accepted())).await?;
    }
    Ok(began.elapsed())
}

/// Waits until every node accepts events; that must be so soon after the trouble was over.
pub(crate) async fn must_accept_again(
    testbed: &Testbed,
    source: &RoutedSource,
    over_since: Instant,
    report: &mut Report,
) -> Result<()> {
    wait_until_all_accept(testbed, source, Duration::from_secs(30)).await?;
    report.must_be_at_most("serving_again_after_seconds", over_since.elapsed(), SERVING_WITHIN);
    Ok(())
}

/// Notes what was answered; anything but 202 and a proper 503 is a broken rule.
pub(crate) fn must_be_accepted_or_refused(answers: &[ProbeAnswer], name: &str, report: &mut Report) {
    let accepted = answers.iter().filter(|answer| answer.accepted()).count();
    let refused = answers.iter().filter(|answer| answer.refused()).count();
    let other = answers.iter().filter(|answer| !answer.accepted() && !answer.refused());
    let mut wrong: Vec<_> = other.map(|answer| (answer.node, answer.status, answer.retry_after)).collect();
    report.note(name, json!({ "accepted": accepted, "refused": refused, "other": wrong.len() }));
    wrong.truncate(8);
    report
        .must(wrong.is_empty(), format!("{name}: answers that are neither 202 nor a proper 503: {wrong:?}"));
}

async fn ask(node: usize, addr: SocketAddr, request: &[u8]) -> ProbeAnswer {
    let asked = Instant::now();
    let answer = raw_http::exchange(addr, request, PATIENCE).await.ok();
    ProbeAnswer::new(node, asked, asked.elapsed(), answer)
}
