//! What the process tells of itself: logs, human on a terminal and JSON where a machine reads them (`POSTHASTE_LOG` says
//! how much), and traces, if they are collected. Neither ever holds up the work; what is lost is counted.
//!
//! Logs go to standard error: standard output belongs to what a command was asked for.

mod attempts;
mod lines;
mod otlp;

use anyhow::Context;
use async_trait::async_trait;
use attempts::{AttemptLines, LineFormat};
use domain::{
    metrics::{MetricKind, Text},
    trace::Tracer,
};
use engine::AttemptLogger;
use lines::Lines;
use std::{
    io::{self, IsTerminal},
    sync::Arc,
};
use store::Scraped;
use tracing::Level;
use tracing_subscriber::{filter::Targets, layer::SubscriberExt as _, util::SubscriberInitExt as _};

pub(crate) use lines::Flush;
pub(crate) use otlp::{Exporter, Exporting};

/// `log.format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// Human on a terminal, JSON elsewhere.
    Auto,
    Human,
    Json,
}

/// What is worth a line unless `POSTHASTE_LOG` says otherwise; the libraries below the store talk at every start.
const DEFAULT_FILTER: &str = "info,tokio_postgres=warn";

/// How much is to be said.
pub(crate) fn filter() -> anyhow::Result<Targets> {
    filter_or(DEFAULT_FILTER)
}

fn filter_or(default: &str) -> anyhow::Result<Targets> {
    let set = std::env::var("POSTHASTE_LOG").ok().filter(|text| !text.is_empty());
    let text = set.as_deref().unwrap_or(default);
    text.parse().context("POSTHASTE_LOG is no filter such as `info,engine=debug`")
}

/// What a started log gives: lines are written as long as `flush` is kept, and what is left then is written before it is
/// gone.
pub(crate) struct Log {
    pub(crate) flush: Flush,
    /// Off if the filter leaves out the lines of attempts.
    pub(crate) attempts: AttemptLogger,
}

pub(crate) fn start(format: LogFormat) -> anyhow::Result<Log> {
    start_with(format, DEFAULT_FILTER)
}

/// The same for a program that somebody watches for something else: only what is wrong is said.
pub(crate) fn start_quietly(format: LogFormat) -> anyhow::Result<Log> {
    start_with(format, "warn")
}

fn start_with(format: LogFormat, default: &str) -> anyhow::Result<Log> {
    let filter = filter_or(default)?;
    let terminal = io::stderr().is_terminal();
    let json = match format {
        LogFormat::Auto => !terminal,
        LogFormat::Human => false,
        LogFormat::Json => true,
    };
    let (lines, flush) = Lines::start().context("logs cannot be written")?;
    let colours = terminal && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
    let format = if json { LineFormat::Json } else { LineFormat::Human { colours } };
    let attempts = match has_attempts(&filter) {
        true => AttemptLogger::new(Arc::new(AttemptLines::new(lines.clone(), format))),
        false => AttemptLogger::default(),
    };
    let filtered = tracing_subscriber::registry().with(filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(lines);
    match format {
        LineFormat::Json => filtered.with(lines.json().flatten_event(true).with_span_list(false)).init(),
        LineFormat::Human { colours } => filtered.with(lines.with_ansi(colours)).init(),
    }
    supervisor::log_panics();
    Ok(Log { flush, attempts })
}

fn has_attempts(filter: &Targets) -> bool {
    filter.would_enable(attempts::TARGET, &Level::INFO)
}

/// What metrics tell of logs and traces: what was exported, and what was lost.
#[derive(Default)]
pub(crate) struct TelemetryMetrics {
    pub(crate) exporter: Option<Arc<Exporter>>,
}

impl TelemetryMetrics {
    pub(crate) fn tracer(&self) -> Tracer {
        self.exporter.as_ref().map_or_else(Tracer::default, |exporter| Tracer::new(exporter.clone()))
    }
}

#[async_trait]
impl Scraped for TelemetryMetrics {
    async fn scrape(&self, _named: bool, text: &mut Text) {
        text.single(
            "posthaste_log_lines_dropped_total",
            MetricKind::Counter,
            "Log lines that were not written because they came faster than they could be.",
            lines::DROPPED.get(),
        );
        let counts = self.exporter.as_ref().map(|exporter| (exporter.sent.get(), exporter.dropped.get()));
        let (sent, dropped) = counts.unwrap_or_default();
        text.single(
            "posthaste_trace_spans_exported_total",
            MetricKind::Counter,
            "Spans that the collector has taken.",
            sent,
        );
        text.single(
            "posthaste_trace_spans_dropped_total",
            MetricKind::Counter,
            "Spans that were lost because there were too many, or because the collector did not take them.",
            dropped,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_says_whether_attempts_have_their_lines() {
        for (filter, expected) in [
            (DEFAULT_FILTER, true),
            ("info,api=debug", true),
            ("trace", true),
            ("info,posthaste::attempt=warn", false),
            ("warn", false),
            ("warn,posthaste::attempt=info", true),
            ("off", false),
        ] {
            assert_eq!(has_attempts(&filter.parse().expect("a filter")), expected, "{filter}");
        }
    }
}
