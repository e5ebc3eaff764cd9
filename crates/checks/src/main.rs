//! The long checks: each starts the real binary, hurts it in one way, and counts what became of the promises.
//!
//! `checks <name>` runs one on every store it is for, prints one line of JSON a run, and exits 1 when something
//! did not hold; `checks list` names them all. A check is a file in `check/` whose first lines say what could go
//! wrong and what must hold. They share `harness/`: the stage they are set on, the tables as the database has
//! them, and the accounting at the end. Nothing here asks the node whether it did well.

mod check;
mod harness;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;

use check::{CHECKS, Check};
use harness::{Report, StoreKind};

/// Try the built binary as its users and its enemies would.
#[derive(Debug, Clone, Parser)]
pub(crate) struct Ask {
    /// Which check, by its name or an alias; `list` names them.
    name: String,
    /// Only on this store; otherwise on every store the check is for.
    #[arg(long, value_enum)]
    store: Option<StoreKind>,
    /// How long the load lasts, where there is one.
    #[arg(long)]
    seconds: Option<u64>,
    /// Events per second.
    #[arg(long)]
    rate: Option<f64>,
    /// How many of whatever the check counts: events, rows, rounds.
    #[arg(long)]
    count: Option<u64>,
    /// How many nodes, where there can be several.
    #[arg(long)]
    nodes: Option<usize>,
    /// Of the parts of a check only those whose name begins so, where they have names.
    #[arg(long)]
    only: Option<String>,
    /// What the faults are drawn from, where they are drawn; otherwise a new one, which is in the report.
    #[arg(long)]
    seed: Option<u64>,
    /// The binary to try; otherwise the one beside this program, or the debug build where failpoints are needed.
    #[arg(long)]
    posthaste: Option<PathBuf>,
    /// Leave the files and tables for a look.
    #[arg(long)]
    keep: bool,
}

impl Ask {
    pub(crate) fn seconds(&self, default: u64) -> Duration {
        Duration::from_secs(self.seconds.unwrap_or(default))
    }

    pub(crate) fn rate(&self, default: f64) -> f64 {
        self.rate.unwrap_or(default)
    }

    /// SQLite has one node, whatever is asked for.
    pub(crate) fn nodes(&self, store: StoreKind, default: usize) -> usize {
        if store == StoreKind::Sqlite { 1 } else { self.nodes.unwrap_or(default).max(1) }
    }

    pub(crate) fn seed(&self) -> u64 {
        // Read by people and by JSON, which has no room for more.
        self.seed.unwrap_or_else(|| rand::random::<u64>() >> 11)
    }

    pub(crate) fn count(&self, default: u64) -> u64 {
        self.count.unwrap_or(default)
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let ask = Ask::parse();
    if ask.name == "list" {
        for check in CHECKS {
            println!("{:<26} {:<12} {}", check.name, check.aliases.join(" "), check.shows);
        }
        return ExitCode::SUCCESS;
    }
    let Some(check) = check::named(&ask.name) else {
        eprintln!("there is no check {:?}: `checks list` names them", ask.name);
        return ExitCode::from(2);
    };
    let mut all_hold = true;
    for store in check.stores.iter().filter(|store| ask.store.is_none_or(|only| only == **store)) {
        all_hold &= run(check, &ask, *store).await;
    }
    if all_hold { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn run(check: &Check, ask: &Ask, store: StoreKind) -> bool {
    let started = Instant::now();
    harness::logbook::begin(check.name, store);
    let mut report = (check.run)(ask.clone(), store).await.unwrap_or_else(|error| Report::failed(&error));
    report.name(check, store, started.elapsed());
    println!("{report}");
    report.holds()
}
