//! `posthaste bench`: how fast it is on this machine. Each scenario runs on a node of its own, with a producer and a
//! receiver beside it; what depends on the machine is told as a ratio to a relay that stores nothing, measured right
//! before and after each round ([`lab::relay`]).
//!
//! | module | what it is |
//! |---|---|
//! | [`scenario`] | what is tried, and what one round of it measures |
//! | [`trial`] | the nodes under trial, the receiver, and what they spend |
//! | [`reference`] | the relay, as a process of its own |
//! | [`figures`] | what was measured: a value a round, its median and its spread |
//! | [`report`] | all of it as a table, and as JSON |
//! | [`comparison`] | two results beside each other, with the noise |
//! | [`machine`] | what it ran on |

mod comparison;
mod figures;
mod machine;
mod reference;
mod report;
mod scenario;
mod trial;

use super::own_folder::OwnFolder;
use crate::{config::parse_duration, failure::Failure, output, progress::Progress};
use anyhow::Context;
use clap::{Args, ValueEnum as _};
use figures::{Figures, Measured};
use machine::Machine;
use report::{BenchReport, ScenarioReport};
use scenario::Scenario;
use std::{
    future::Future,
    net::SocketAddr,
    path::PathBuf,
    pin::pin,
    time::{Duration, Instant},
};
use store::postgres::drop_scratch;
use tokio::signal::unix::{SignalKind, signal};
use trial::Trial;

const FOLDER: OwnFolder = OwnFolder {
    command: "posthaste bench",
    mark: "bench.toml",
    says: "# The folder of `posthaste bench`, which removes it when it is done.\n",
};

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// What to try [default: all of them]
    #[arg(value_enum)]
    scenarios: Vec<Scenario>,
    /// PostgreSQL to try it on, postgres://…; otherwise the embedded store. It gets a schema of its own
    #[arg(long, value_name = "URL", conflicts_with = "url")]
    database: Option<String>,
    /// So many nodes on that database
    #[arg(long, default_value_t = 1, requires = "database", value_parser = clap::value_parser!(u8).range(1..=16))]
    nodes: u8,
    /// A server that runs, instead of nodes of its own. It must be allowed to call the receiver (`egress.allow`)
    #[arg(long, value_name = "URL", requires = "key")]
    url: Option<String>,
    /// A key of an account of that server
    #[arg(long, env = "POSTHASTE_API_KEY", hide_env_values = true)]
    key: Option<String>,
    /// Where the receiver listens
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    receiver: SocketAddr,
    /// Rounds of each scenario; what is told is their median
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=50))]
    rounds: u8,
    /// How long the load of a round lasts
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "8s")]
    time: Duration,
    /// Bytes of an event's payload
    #[arg(long, value_name = "BYTES", default_value_t = 512, value_parser = clap::value_parser!(u32).range(96..=1_048_576))]
    size: u32,
    /// Another build to try
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// A folder for its data, on the disk that is to be measured
    #[arg(long, value_name = "FOLDER", default_value = "posthaste-bench")]
    data_dir: PathBuf,
    /// Leave that folder as it is at the end
    #[arg(long)]
    keep: bool,
    /// Compare two results of --json, and measure nothing
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"], conflicts_with_all = ["scenarios", "database", "url"])]
    compare: Vec<PathBuf>,
    /// Be the relay, and pass what comes on to this URL
    #[arg(long, hide = true, value_name = "URL", requires = "relay_at")]
    relay_to: Option<String>,
    #[arg(long, hide = true, value_name = "ADDRESS")]
    relay_at: Option<SocketAddr>,
}

pub(crate) async fn run(args: BenchArgs, json: bool) -> Result<(), Failure> {
    if let (Some(to), Some(at)) = (&args.relay_to, args.relay_at) {
        return reference::be_it(at, to).await;
    }
    if let [before, after] = args.compare.as_slice() {
        return comparison::run(before, after, json);
    }
    FOLDER.claim(&args.data_dir)?;
    let report = measure(&args, json).await;
    if !args.keep {
        FOLDER.remove(&args.data_dir)?;
    }
    let report = report?;
    if json {
        super::print_json(&report)?;
    } else {
        output::whole(report.table());
    }
    match report.broken() {
        Some(broken) => Err(Failure::failed(anyhow::anyhow!("{broken}"))),
        None => Ok(()),
    }
}

async fn measure(args: &BenchArgs, json: bool) -> Result<BenchReport, Failure> {
    let chosen = match args.scenarios.as_slice() {
        [] => Scenario::value_variants()
            .iter()
            .copied()
            .filter(|scenario| scenario.can_be_tried(args))
            .collect(),
        some => some.to_vec(),
    };
    if let Some(not) = chosen.iter().find(|scenario| !scenario.can_be_tried(args)) {
        return Err(Failure::configuration(format!(
            "{not} ends nodes with kill -9 and can only be tried on nodes of its own, without --url"
        )));
    }
    let mut told = Told::new(json, chosen.iter().map(|scenario| scenario.takes(args)).sum());
    let mut scenarios = Vec::new();
    for scenario in chosen {
        told.begin(scenario);
        let scratch = args.database.as_deref().map(trial::scratch_schema).transpose()?;
        let tried = async {
            let trial = Trial::start(args, scenario.name(), scenario.settings(), scratch.as_deref()).await?;
            scenario.measure(args, trial, &mut told).await
        };
        let measured = tokio::select! {
            measured = tried => measured,
            () = told_to_stop() => Err(Failure::failed(anyhow::anyhow!("stopped before it was done"))),
        };
        // However it ended, and its nodes with it.
        if let Some(url) = &scratch {
            drop_scratch(url).await?;
        }
        scenarios.push(ScenarioReport::new(scenario, measured?));
    }
    Ok(BenchReport { machine: Machine::here(), setting: args.into(), scenarios })
}

/// By SIGINT or SIGTERM.
async fn told_to_stop() {
    let Ok(mut terminated) = signal(SignalKind::terminate()) else { return std::future::pending().await };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated.recv() => {}
    }
}

/// Where a bench is, and how long it will take.
struct Told {
    progress: Progress,
    what: String,
    began: Instant,
    /// Of all scenarios, as planned.
    all: Duration,
}

impl Told {
    fn new(json: bool, all: Duration) -> Self {
        Self { progress: Progress::new(json), what: String::new(), began: Instant::now(), all }
    }

    fn begin(&mut self, scenario: Scenario) {
        self.what = scenario.name().to_owned();
    }

    fn round(&mut self, scenario: Scenario, round: u8, of: u8) {
        self.what = format!("{scenario}, round {} of {of}", round + 1);
    }

    /// Does it, and says how far everything is meanwhile.
    async fn during<T>(&mut self, work: impl Future<Output = T>) -> T {
        const LOOK_EVERY: Duration = Duration::from_millis(500);
        let mut work = pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = tokio::time::sleep(LOOK_EVERY) => {
                    let (spent, all) = (self.began.elapsed(), self.all);
                    self.progress.say(|| format!("{}  {}", bar(spent, all), self.what));
                }
            }
        }
    }
}

/// `[#####     ]  50 %`; what takes longer than planned stays at 99 %.
fn bar(spent: Duration, all: Duration) -> String {
    const WIDTH: usize = 30;
    let part = (spent.as_secs_f64() / all.as_secs_f64().max(1.0)).min(0.99);
    let full = (part * WIDTH as f64) as usize;
    format!("[{}{}] {:2.0} %", "#".repeat(full), " ".repeat(WIDTH - full), part * 100.0)
}

/// A port of this machine that is free at the moment.
fn free_address() -> Result<SocketAddr, Failure> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).context("no port is free")?;
    Ok(listener.local_addr().context("no port is free")?)
}
