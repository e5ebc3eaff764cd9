//! One node of a testbed: how it is started, and what is done to it.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use client::Client;
use lab::ChildProcess;
use lab::process::Launch;

use super::waiting::becomes;

/// How long anything may take to come up before the check is given up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct TestNode {
    /// The node's own name, by which the tables know it.
    pub(crate) name: String,
    pub(crate) addr: SocketAddr,
    pub(crate) launch: Launch,
    pub(crate) client: Client,
    process: Option<ChildProcess>,
    /// Every process it has been, and since when on the receiver's clock.
    pub(crate) runs: Vec<(u32, u64)>,
}

impl TestNode {
    pub(crate) fn new(name: String, addr: SocketAddr, launch: Launch, client: Client) -> TestNode {
        TestNode { name, addr, launch, client, process: None, runs: Vec::new() }
    }

    /// Starts the process; it is not ready yet.
    pub(crate) fn launch(&mut self, now_us: u64) -> Result<u32> {
        let pid = self.process.insert(ChildProcess::launch(self.launch.clone())?).pid();
        self.runs.push((pid, now_us));
        Ok(pid)
    }

    /// How long it took from the start until it was ready.
    pub(crate) async fn ready(&mut self) -> Result<Duration> {
        let addr = self.addr;
        let ready = self.process_mut()?.wait_until_serving(addr, "/readyz", PATIENCE).await;
        ready.with_context(|| format!("the log of {} says: {}", self.name, tail(&self.launch.log_file)))
    }

    /// SIGTERM, and waits for the end.
    pub(crate) async fn stop(&mut self) -> Result<()> {
        let status = self.process_mut()?.stop(Duration::from_secs(30)).await?;
        ensure!(status.is_some(), "{} did not stop within 30 s", self.name);
        Ok(())
    }

    pub(crate) fn process(&self) -> Result<&ChildProcess> {
        self.process.as_ref().context("the node was never started")
    }

    pub(crate) fn process_mut(&mut self) -> Result<&mut ChildProcess> {
        self.process.as_mut().context("the node was never started")
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.process.as_mut().is_some_and(ChildProcess::is_running)
    }

    /// Waits for the node to end by itself.
    pub(crate) async fn wait_for_exit(&mut self, limit: Duration) -> bool {
        becomes(limit, 2, async || Ok(!self.is_running())).await.unwrap_or(false)
    }

    /// Settings for the next start; None takes one away.
    pub(crate) fn set_env(&mut self, name: &str, value: Option<&str>) {
        self.launch.env.retain(|(known, _)| known != name);
        self.launch.env.extend(value.map(|value| (name.to_owned(), value.to_owned())));
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}", self.addr)
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.launch.log_file).unwrap_or_default()
    }
}

pub(crate) fn tail(file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(8)..].join(" ⏎ ")
}
