//! The same from inside a running server: what it can look at beside its work. The file is not looked through, which takes
//! longer than a request, and neither are the tables.

use super::{
    Chart,
    finding::{Finding, Level},
    host, installation,
};
use crate::config::Config;
use api::doctor::{Doctor, FindingLevel, FindingView};
use async_trait::async_trait;

/// Looks at what a node was started with.
pub(crate) struct RunningDoctor {
    config: Config,
}

impl RunningDoctor {
    pub(crate) fn new(config: &Config) -> Self {
        Self { config: config.clone() }
    }
}

#[async_trait]
impl Doctor for RunningDoctor {
    async fn examine(&self) -> Vec<FindingView> {
        let config = &self.config;
        let mut chart = Chart::silent();
        chart.enter_all([host::open_files(config), host::data_folder(config), host::master_keys(config)]);
        chart.enter_all(host::files(config));
        chart.enter_all(host::surroundings(config));
        match installation::look(config, &mut chart).await {
            Ok(Some(installation)) => {
                installation.settings(config, &mut chart).await;
                installation.secrets(config, &mut chart).await;
                installation.clocks(config, &mut chart).await;
                installation.certificates(&mut chart).await;
                installation.extent(&mut chart).await;
            }
            Ok(None) => {}
            Err(failure) => {
                let fix = "Is the database there, and are its address and password right?";
                chart.enter(Finding::bad("store", Level::Problem, failure.to_string(), fix));
            }
        }
        chart.findings.into_iter().map(view).collect()
    }
}

fn view(finding: Finding) -> FindingView {
    let Finding { check, level, detail, fix, .. } = finding;
    let level = match level {
        Level::Ok => FindingLevel::Ok,
        Level::Warning => FindingLevel::Warning,
        Level::Problem => FindingLevel::Problem,
        Level::Unsafe => FindingLevel::Unsafe,
        Level::Damaged => FindingLevel::Damaged,
    };
    FindingView { check: check.into(), level, detail, fix }
}
