//! The installation as `posthaste doctor` sees it, beside the nodes of a testbed or without them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::process::Command;
use tokio::time::timeout;

use super::{Report, Testbed};

/// An audit that finds something looks twice, half a minute apart at most.
const PATIENCE: Duration = Duration::from_secs(120);
/// What belongs to a node under test and not to the doctor that looks at it.
const OF_THE_NODE_ALONE: [&str; 3] = ["POSTHASTE_FAIL", "LD_PRELOAD", "FAKETIME"];

#[derive(Debug)]
pub(crate) struct Diagnosis {
    pub(crate) code: Option<i32>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) said: String,
    pub(crate) took: Duration,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
pub(crate) struct Finding {
    pub(crate) check: String,
    pub(crate) level: String,
    pub(crate) detail: String,
    pub(crate) fix: Option<String>,
    pub(crate) count: Option<u64>,
    #[serde(default)]
    pub(crate) examples: Vec<String>,
}

impl Diagnosis {
    pub(crate) fn finding(&self, check: &str) -> Option<&Finding> {
        // The worst comes with its fix.
        let of = || self.findings.iter().filter(|finding| finding.check == check);
        of().find(|finding| finding.fix.is_some()).or_else(|| of().next())
    }

    pub(crate) fn count(&self, check: &str) -> Option<u64> {
        self.finding(check)?.count
    }

    /// Everything that is not in order.
    pub(crate) fn troubles(&self) -> Vec<&Finding> {
        self.findings.iter().filter(|finding| finding.level != "ok" && finding.level != "warning").collect()
    }
}

/// Runs it with the settings of the testbed's first node, straight to the database.
pub(crate) async fn doctor(testbed: &Testbed, args: &[&str]) -> Result<Diagnosis> {
    let database = testbed.database.url();
    let mut command = node_command(testbed, &["doctor", "--json"]);
    command.args(args);
    // A testbed may have named another store to its node than its own.
    if !args.contains(&"--database") {
        command.env("POSTHASTE_DATABASE", database);
    }
    diagnose(command).await
}

/// A command of the testbed's binary, in the environment of its first node.
pub(crate) fn node_command(testbed: &Testbed, args: &[&str]) -> Command {
    let launch = testbed.launch();
    let mut command = Command::new(&launch.binary);
    command.args(args).kill_on_drop(true);
    let ours = |name: &str| !OF_THE_NODE_ALONE.contains(&name);
    command.envs(launch.env.iter().filter(|(name, _)| ours(name)).map(|(name, value)| (name, value)));
    command
}

pub(crate) async fn diagnose(mut command: Command) -> Result<Diagnosis> {
    let began = Instant::now();
    let run = timeout(PATIENCE, command.output()).await.context("doctor did not end")??;
    let said = String::from_utf8_lossy(&run.stderr).trim().to_owned();
    #[derive(Deserialize)]
    struct DoctorOutput {
        findings: Vec<Finding>,
    }
    let output: DoctorOutput = serde_json::from_slice(&run.stdout)
        .with_context(|| format!("doctor says {:?}: {said}", String::from_utf8_lossy(&run.stdout)))?;
    Ok(Diagnosis { code: run.status.code(), findings: output.findings, said, took: began.elapsed() })
}

/// The audit at the end of any check: nothing stands still, nothing was lost, nothing is about something that is not there.
pub(crate) async fn audit(testbed: &Testbed, report: &mut Report) -> Result<()> {
    let diagnosis = doctor(testbed, &["--audit"]).await?;
    report.note("audit_ms", diagnosis.took.as_millis() as u64);
    for finding in diagnosis.findings.iter().filter(|finding| finding.check.starts_with("audit")) {
        let well = finding.level == "ok" || finding.level == "warning";
        report.must(well, format!("doctor --audit: {}", json!(finding)));
    }
    Ok(())
}
