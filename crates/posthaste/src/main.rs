//! The binary: reads what it is asked, ties the crates together, and says in its exit code how it went.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod cli;
mod clock;
mod commands;
mod config;
mod data_dir;
mod dice;
mod failure;
mod output;
mod progress;
mod surroundings;
mod telemetry;
mod threads;

use clap::Parser;
use cli::{Cli, Command};
use failure::Failure;
use std::process::ExitCode;

/// Many small allocations on many threads, and a memory that comes back down after a burst.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let json = cli.json;
    use_small_pages();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if matches!(cli.command, Command::Serve(_)) {
        builder.worker_threads(threads::of_a_set());
    }
    let ended = match builder.enable_all().build() {
        Ok(runtime) => runtime.block_on(run(cli)),
        Err(error) => Err(Failure::failed(error)),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(json),
    }
}

/// The allocator asks for huge pages, and then every thread's first few bytes take two megabytes: with them a node that
/// answers many readers had three times the memory.
fn use_small_pages() {
    // A kernel without them has nothing to switch off.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

async fn run(cli: Cli) -> Result<(), Failure> {
    let json = cli.json;
    match cli.command {
        Command::Serve(args) => commands::serve::run(args, json).await,
        Command::Demo(args) => commands::demo::run(args, json).await,
        Command::Migrate(args) => commands::migrate::run(args, json).await,
        Command::Keys(args) => commands::keys::run(args, json).await,
        Command::Bench(args) => commands::bench::run(args, json).await,
        Command::Send(args) => commands::send::run(args, json).await,
        Command::Listen(args) => commands::listen::run(args, json).await,
        Command::Verify(args) => commands::verify::run(args, json),
        Command::Sign(args) => commands::sign::run(args, json),
        Command::Tail(args) => commands::tail::run(args, json).await,
        Command::Health(args) => commands::health::run(args, json).await,
        Command::Config(args) => commands::config::run(args, json),
        Command::Backup(args) => commands::backup::run(args, json).await,
        Command::Audit(args) => commands::audit::run(args, json).await,
        Command::Doctor(args) => commands::doctor::run(args, json).await,
    }
}
