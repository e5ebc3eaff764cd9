//! The long checks: each starts the real binary, hurts it in one way, and counts what became of the promises.
//!
//! `checks <name>` runs one on every store it is for, prints one line of JSON a run, and exits 1 when something
//! did not hold; `checks list` names them all. A check is a file in `check/` whose first lines say what could go
//! wrong and what must hold. They share `harness/`: the testbed they run on, the tables as the database has
//! them, and the accounting at the end. Nothing here asks the node whether it did well.

mod check;
mod harness;

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser as _;

use check::{CHECKS, Check};
use harness::{Options, Report, StoreKind};

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    if options.name == "list" {
        for check in CHECKS {
            println!("{:<26} {:<12} {}", check.name, check.aliases.join(" "), check.shows);
        }
        return ExitCode::SUCCESS;
    }
    let Some(check) = check::named(&options.name) else {
        eprintln!("there is no check {:?}: `checks list` names them", options.name);
        return ExitCode::from(2);
    };
    let mut all_hold = true;
    for store in check.stores.iter().filter(|store| options.store.is_none_or(|only| only == **store)) {
        all_hold &= run(check, &options.on(*store), *store).await;
    }
    if all_hold { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn run(check: &Check, options: &Options, store: StoreKind) -> bool {
    let started = Instant::now();
    harness::logbook::begin(check.name, store);
    let mut report = Report::default();
    if let Err(error) = (check.run)(options, &mut report).await {
        report.fail(&error);
    }
    report.name(check, store, started.elapsed());
    println!("{report}");
    report.holds()
}
