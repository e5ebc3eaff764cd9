//! Logs: human lines on a terminal, JSON where a machine reads them. `POSTHASTE_LOG` says how much.
//!
//! They go to standard error: standard output belongs to what a command was asked for.

use anyhow::Context;
use std::io::{self, IsTerminal};
use tracing_subscriber::EnvFilter;

/// `log.format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// Human on a terminal, JSON elsewhere.
    Auto,
    Human,
    Json,
}

/// What is worth a line unless `POSTHASTE_LOG` says otherwise; the libraries below the store talk at every start.
const DEFAULT_FILTER: &str = "info,refinery_core=warn,tokio_postgres=warn";

/// How much is to be said.
pub(crate) fn filter() -> anyhow::Result<EnvFilter> {
    match std::env::var("POSTHASTE_LOG") {
        Ok(text) if !text.is_empty() => {
            text.parse().context("POSTHASTE_LOG is no filter such as `info,engine=debug`")
        }
        _ => Ok(EnvFilter::new(DEFAULT_FILTER)),
    }
}

pub(crate) fn start(format: LogFormat) -> anyhow::Result<()> {
    let filter = filter()?;
    let terminal = io::stderr().is_terminal();
    let json = match format {
        LogFormat::Auto => !terminal,
        LogFormat::Human => false,
        LogFormat::Json => true,
    };
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    if json {
        lines.json().flatten_event(true).with_span_list(false).init();
    } else {
        lines.with_ansi(terminal && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty())).init();
    }
    std::panic::set_hook(Box::new(tell_of_panic));
    Ok(())
}

/// Where, and on what way there. Not what was said: a panic's words may hold a payload or a secret.
fn tell_of_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let backtrace = std::backtrace::Backtrace::force_capture();
    tracing::error!(place, %backtrace, "a panic: this is a fault of the program");
}
