//! What a node takes of its machine: memory and descriptors while something goes on, and what is left when it is over.

use std::time::Duration;

use anyhow::Result;
use lab::process::{called_ports, descriptors, rss_bytes};
use serde::Serialize;

use super::scrape::Scrape;
use super::{Background, Report, Testbed, becomes, mib, rounded};

const LOOK_EVERY: Duration = Duration::from_millis(20);
/// What a quiet node has open may differ by so much: a client's connection more or less.
const AS_MANY: u64 = 5;
/// Connections and tasks that have ended are gone in moments.
const GONE_WITHIN: Duration = Duration::from_secs(5);

/// Watches the first node until it is finished.
pub(crate) struct NodeWatch(Background<Peak>);

#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Peak {
    pub(crate) memory_bytes: u64,
    pub(crate) descriptors: u64,
}

impl NodeWatch {
    pub(crate) fn begin(testbed: &Testbed) -> Result<NodeWatch> {
        let pid = testbed.process()?.pid();
        Ok(NodeWatch(Background::thread(move |stop| {
            let mut peak = Peak::default();
            while !stop.is_set() {
                peak.memory_bytes = peak.memory_bytes.max(rss_bytes(pid)?);
                peak.descriptors = peak.descriptors.max(descriptors(pid)?);
                std::thread::sleep(LOOK_EVERY);
            }
            Ok(peak)
        })))
    }

    pub(crate) async fn finish(self) -> Result<Peak> {
        self.0.finish().await
    }
}

/// What a quiet node holds, without the connections it keeps to the healthy receiver and to its database: those come and go
/// with the load.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Holdings {
    pub(crate) memory_bytes: u64,
    sockets: u64,
    tasks: u64,
}

impl Holdings {
    pub(crate) async fn of(testbed: &Testbed) -> Result<Holdings> {
        let pid = testbed.process()?.pid();
        // What was told is told again for a second.
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        let tasks = Scrape::of(&testbed.nodes[0]).await?.sum("posthaste_tasks") as u64;
        let mut kept = vec![testbed.receiver.addr().port()];
        if let Some(server) = testbed.database.server() {
            kept.push(server.addr()?.port());
        }
        let (kept, others): (Vec<u16>, Vec<u16>) =
            called_ports(pid).into_iter().partition(|port| kept.contains(port));
        Ok(Holdings {
            memory_bytes: rss_bytes(pid)?,
            sockets: others.len() as u64,
            tasks: tasks.saturating_sub(kept.len() as u64),
        })
    }

    /// It has come back to this.
    pub(crate) async fn must_be_back(&self, testbed: &Testbed, report: &mut Report) -> Result<()> {
        let mut now = Holdings::of(testbed).await?;
        becomes(GONE_WITHIN, 1, async || {
            let is_back = now.sockets <= self.sockets + AS_MANY && now.tasks <= self.tasks + AS_MANY;
            if !is_back {
                now = Holdings::of(testbed).await?;
            }
            Ok(is_back)
        })
        .await?;
        report.note("sockets_before", self.sockets);
        report.must_be_at_most("sockets_after", now.sockets, self.sockets + AS_MANY);
        report.note("tasks_before", self.tasks);
        report.must_be_at_most("tasks_after", now.tasks, self.tasks + AS_MANY);
        report.note("memory_mib_before", rounded(mib(self.memory_bytes)));
        report.note("memory_mib_after", rounded(mib(now.memory_bytes)));
        Ok(())
    }
}
