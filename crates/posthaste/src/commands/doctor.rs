//! `posthaste doctor`: what is in order, what is not, and what to do about it. It only looks: beside a running server as
//! well as before the first start.

mod audit;
mod finding;
mod host;
mod installation;
mod running;

use crate::{
    commands::print_json,
    config::{Config, Dev, SettingFlags, parse_duration},
    failure::{Code, Failure},
    output,
    progress::Progress,
};
use clap::Args;
use finding::{Finding, Level};
pub(super) use running::RunningDoctor;
use std::time::Duration;

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Look through the tables too, for work that nobody will ever do and for facts that do not fit together
    #[arg(long)]
    audit: bool,
    /// How long to look through the file of an embedded store; 0s: as long as it takes
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
    patience: Duration,
    #[command(flatten)]
    settings: SettingFlags,
}

pub(crate) async fn run(args: DoctorArgs, json: bool) -> Result<(), Failure> {
    let config = args.settings.config(Dev::No)?;
    let mut chart = Chart { json, ..Chart::silent() };
    chart.enter(host::open_files(&config));
    chart.enter(host::data_folder(&config));
    chart.enter(host::master_keys(&config));
    chart.enter_all(host::files(&config));
    chart.enter_all(host::surroundings(&config));
    examine(&args, &config, &mut chart).await?;
    chart.close()
}

async fn examine(args: &DoctorArgs, config: &Config, chart: &mut Chart) -> Result<(), Failure> {
    let mut progress = Progress::new(chart.json);
    let Some(installation) = installation::look(config, chart).await? else { return Ok(()) };
    installation.settings(config, chart).await;
    installation.secrets(config, chart).await;
    installation.clocks(config, chart).await;
    installation.certificates(chart).await;
    installation.extent(chart).await;
    installation.file(config, args.patience, &mut progress, chart).await?;
    if args.audit {
        let (lease, rescan, defaults) = (config.lease, config.rescan, config.defaults.clone());
        let terms = audit::Terms { lease, rescan, defaults };
        match audit::audit(installation.store.as_ref(), &terms, &mut progress).await {
            Ok(findings) => chart.enter_all(findings),
            Err(error) => chart.enter(installation::trouble("audit", &error)),
        }
    }
    Ok(())
}

/// Everything found so far, told as it is found.
struct Chart {
    findings: Vec<Finding>,
    json: bool,
}

impl Chart {
    fn silent() -> Self {
        Self { findings: Vec::new(), json: true }
    }

    fn enter(&mut self, finding: Finding) {
        if !self.json {
            output::line(&finding);
        }
        self.findings.push(finding);
    }

    fn enter_all(&mut self, findings: impl IntoIterator<Item = Finding>) {
        findings.into_iter().for_each(|finding| self.enter(finding));
    }

    /// The worst of it decides.
    fn close(self) -> Result<(), Failure> {
        let worst = self.findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok);
        if self.json {
            print_json(&serde_json::json!({ "ok": worst <= Level::Warning, "findings": self.findings }))?;
        }
        let (code, what) = match worst {
            Level::Ok | Level::Warning => return Ok(()),
            Level::Problem => (Code::Failed, "not everything is in order"),
            Level::Unsafe => (Code::Unsafe, "the store can lose acknowledged events"),
            Level::Damaged => (Code::Damaged, "the store is damaged"),
        };
        let named: Vec<&str> = self
            .findings
            .iter()
            .filter(|finding| finding.level == worst)
            .map(|finding| finding.check)
            .collect();
        Err(Failure::new(code, format!("{what}: {}", named.join(", "))))
    }
}
