//! What a check is asked for on the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

use super::StoreKind;

/// Try the built binary as its users and its enemies would.
#[derive(Debug, Clone, Parser)]
pub(crate) struct Options {
    /// Which check, by its name or an alias; `list` names them.
    pub(crate) name: String,
    /// Only on this store; otherwise on every store the check is for.
    #[arg(long, value_enum)]
    pub(crate) store: Option<StoreKind>,
    /// How long the load lasts, where there is one.
    #[arg(long)]
    seconds: Option<u64>,
    /// Events per second.
    #[arg(long)]
    pub(crate) rate: Option<f64>,
    /// How many of whatever the check counts: events, rows, rounds.
    #[arg(long)]
    count: Option<u64>,
    /// How many nodes, where there can be several.
    #[arg(long)]
    nodes: Option<usize>,
    /// Of the parts of a check only those whose name begins so, where they have names.
    #[arg(long)]
    pub(crate) only: Option<String>,
    /// What the faults are drawn from, where they are drawn; otherwise a new one, which is in the report.
    #[arg(long)]
    seed: Option<u64>,
    /// The binary to try; otherwise the one beside this program, or the debug build where failpoints are needed.
    #[arg(long)]
    pub(crate) posthaste: Option<PathBuf>,
    /// Leave the files and tables for a look.
    #[arg(long)]
    pub(crate) keep: bool,
}

impl Options {
    /// The same for a run on one store.
    pub(crate) fn on(&self, store: StoreKind) -> Options {
        Options { store: Some(store), ..self.clone() }
    }

    /// The store of this run.
    pub(crate) fn store(&self) -> StoreKind {
        self.store.expect("a check runs on one store at a time")
    }

    pub(crate) fn seconds(&self, default: u64) -> Duration {
        Duration::from_secs(self.seconds.unwrap_or(default))
    }

    pub(crate) fn rate(&self, default: f64) -> f64 {
        self.rate.unwrap_or(default)
    }

    /// SQLite has one node, whatever is asked for.
    pub(crate) fn nodes(&self, default: usize) -> usize {
        if self.store() == StoreKind::Sqlite { 1 } else { self.nodes.unwrap_or(default).max(1) }
    }

    pub(crate) fn seed(&self) -> u64 {
        // Read by people and by JSON, which has no room for more.
        self.seed.unwrap_or_else(|| rand::random::<u64>() >> 11)
    }

    pub(crate) fn count(&self, default: u64) -> u64 {
        self.count.unwrap_or(default)
    }
}
