//! The figures that checks compare: medians of interleaved pairs, memory, and CPU time an event.

use std::time::Duration;

use anyhow::Result;
use lab::process::ProcessStat;

use super::{Report, Testbed};

/// Three decimals are enough for a report.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

pub(crate) fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Microseconds of a time for each of so many events.
pub(crate) fn us_per_event(time: Duration, events: u64) -> f64 {
    time.as_secs_f64() * 1e6 / events.max(1) as f64
}

/// The same figure measured alone and beside some trouble, in turn: whatever else the machine has to do meets both.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    pub(crate) alone: Vec<f64>,
    pub(crate) beside: Vec<f64>,
}

impl Pairs {
    /// Notes every measurement under these names, and gives the two medians.
    pub(crate) fn medians(&self, alone: &str, beside: &str, report: &mut Report) -> (f64, f64) {
        report.note(&format!("each_{alone}"), &self.alone);
        report.note(&format!("each_{beside}"), &self.beside);
        (median(self.alone.iter().copied()), median(self.beside.iter().copied()))
    }
}

/// CPU time so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CpuTime {
    pub(crate) nodes: Duration,
    /// Of the server, which a check has alone; SQLite is part of its node.
    pub(crate) database: Duration,
    /// Of this process: the producer and the receiver.
    pub(crate) own: Duration,
}

impl CpuTime {
    pub(crate) async fn of(testbed: &Testbed) -> Result<CpuTime> {
        let database = match testbed.database.server() {
            Some(server) => server.cpu_time().await?,
            None => Duration::ZERO,
        };
        let mut nodes = Duration::ZERO;
        for node in &testbed.nodes {
            nodes += node.process()?.cpu_time()?;
        }
        Ok(CpuTime { nodes, database, own: ProcessStat::of(std::process::id())?.cpu_time })
    }

    /// What was spent since then. A node that was started anew counts from its own beginning.
    pub(crate) async fn spent(testbed: &Testbed, before: &CpuTime) -> Result<CpuTime> {
        let now = CpuTime::of(testbed).await?;
        Ok(CpuTime {
            nodes: now.nodes.saturating_sub(before.nodes),
            database: now.database.saturating_sub(before.database),
            own: now.own.saturating_sub(before.own),
        })
    }

    /// Of what is tried, without what tries it.
    pub(crate) fn of_nodes_and_database(&self) -> Duration {
        self.nodes + self.database
    }
}
