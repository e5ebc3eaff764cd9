//! An outsider: asks every node's ingest door all the while, on a connection of its own each time, and writes down
//! what was said and how long it took.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::sleep;

use super::{Fleet, Report, Stage, wire};

/// Longer than any answer should take: a door that hangs is to be seen hanging.
const PATIENCE: Duration = Duration::from_secs(15);

pub(crate) struct Outsider {
    stop: watch::Sender<bool>,
    lines: Vec<JoinHandle<Vec<Seen>>>,
}

/// One question and its answer.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) node: usize,
    pub(crate) asked: Instant,
    pub(crate) took: Duration,
    /// None: no connection, or not a word.
    pub(crate) status: Option<u16>,
    pub(crate) retry_after: Option<u64>,
}

impl Seen {
    /// A refusal as it should be: come back later, and when.
    pub(crate) fn refused(&self) -> bool {
        self.status == Some(503) && self.retry_after.is_some_and(|seconds| (1..=60).contains(&seconds))
    }

    pub(crate) fn accepted(&self) -> bool {
        self.status == Some(202)
    }
}

impl Outsider {
    /// Asks each node every so often, one question at a time.
    pub(crate) fn start(stage: &Stage, fleet: &Fleet, every: Duration) -> Outsider {
        let (stop, stopped) = watch::channel(false);
        let line = |node: usize| {
            let (addr, request) = (stage.members[node].addr, question(fleet));
            let mut stopped = stopped.clone();
            tokio::spawn(async move {
                let mut seen = Vec::new();
                while !*stopped.borrow() {
                    seen.push(ask(node, addr, &request).await);
                    let _ = tokio::time::timeout(every, stopped.changed()).await;
                }
                seen
            })
        };
        Outsider { lines: (0..stage.members.len()).map(line).collect(), stop }
    }

    /// One question to the first node, by a thread of its own.
    pub(crate) async fn once(stage: &Stage, fleet: &Fleet) -> Result<Seen> {
        let (addr, request) = (stage.addr, question(fleet));
        let asked = Instant::now();
        let answer = spawn_blocking(move || wire::exchange_by_a_thread(addr, &request, PATIENCE)).await?;
        let took = answer.as_ref().map_or(PATIENCE, |answer| answer.took);
        Ok(seen(0, asked, took, answer.ok()))
    }

    /// Everything that was seen, by node and time.
    pub(crate) async fn finish(self) -> Result<Vec<Seen>> {
        self.stop.send_replace(true);
        let mut all = Vec::new();
        for line in self.lines {
            all.extend(line.await?);
        }
        Ok(all)
    }
}

/// Waits until every node accepts events, and says how long that took.
pub(crate) async fn all_accept(stage: &Stage, fleet: &Fleet, limit: Duration) -> Result<Duration> {
    let began = Instant::now();
    let request = question(fleet);
    for (node, member) in stage.members.iter().enumerate() {
        while !ask(node, member.addr, &request).await.accepted() {
            ensure!(began.elapsed() < limit, "{} does not accept after {limit:?}", member.name);
            sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(began.elapsed())
}

/// Notes what was answered between two moments; anything but 202 and a proper 503 is a broken rule.
pub(crate) fn only_accepted_or_refused<'a>(
    seen: impl IntoIterator<Item = &'a Seen>,
    what: &str,
    report: &mut Report,
) {
    let (mut accepted, mut refused, mut wrong) = (0u64, 0u64, Vec::new());
    for answer in seen {
        match answer {
            answer if answer.accepted() => accepted += 1,
            answer if answer.refused() => refused += 1,
            other => wrong.push((other.node, other.status, other.retry_after)),
        }
    }
    report.note(what, serde_json::json!({ "accepted": accepted, "refused": refused, "other": wrong.len() }));
    wrong.truncate(8);
    report
        .must(wrong.is_empty(), format!("{what}: answers that are neither 202 nor a proper 503: {wrong:?}"));
}

/// An event of a type that nobody wants.
fn question(fleet: &Fleet) -> Vec<u8> {
    wire::request("POST", &fleet.ingest_path(), &[("x-event-type", "lab.nobody")], b"{}")
}

async fn ask(node: usize, addr: std::net::SocketAddr, request: &[u8]) -> Seen {
    let asked = Instant::now();
    let answer = wire::exchange(addr, request, PATIENCE).await.ok();
    seen(node, asked, asked.elapsed(), answer)
}

fn seen(node: usize, asked: Instant, took: Duration, answer: Option<wire::Answer>) -> Seen {
    let retry_after = answer.as_ref().and_then(|answer| answer.header("retry-after")?.parse().ok());
    Seen { node, asked, took, status: answer.and_then(|answer| answer.status), retry_after }
}
