//! Hazard: a destination with a long backlog starves all others, because whoever looks for work wades through it.
//!
//! A thousand destinations with ten waiting deliveries each, once alone and once beside a destination that is at its
//! limit with a million waiting (`--count`); everything waits in the tables when the node starts. Three such pairs,
//! one after the other.
//!
//! Holds if the thousand drain as fast beside the backlog as without it, within a fifth (median of three), and the
//! CPU that node and database spend on them, which is where a dearer fetch would show, is the same within a fifth.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use client::{NewDestination, NewRoute};
use lab::process::cpu_time;
use lab::{Recording, Reply};

use crate::Ask;
use crate::harness::backlog::Pattern;
use crate::harness::report::rounded;
use crate::harness::{Plan, Report, Stage, StoreKind};

const OTHERS: usize = 1_000;
const EACH: u64 = 10;
const PAIRS: u16 = 3;
const TOLERANCE: f64 = 1.2;
/// The steps of the kernel's CPU clock, and the other work of a node, must not decide.
const CPU_GRACE: f64 = 0.1;

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let backlog = ask.count(1_000_000);
    let mut alone = Ground::prepare(ask, store, 0).await?;
    let mut beside = Ground::prepare(ask, store, backlog).await?;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for round in 0..PAIRS {
        without.push(alone.drain(round).await?);
        with.push(beside.drain(round).await?);
    }
    let (seconds_alone, seconds_beside) =
        (median(&without, |run| run.seconds), median(&with, |run| run.seconds));
    let (cpu_alone, cpu_beside) =
        (median(&without, |run| run.cpu_seconds), median(&with, |run| run.cpu_seconds));
    report.note("backlog", beside.pattern.waiting(&beside.stage.database).await?);
    report.note("open_at_the_full_destination", beside.full);
    report.note("others", OTHERS as u64 * EACH);
    report.note("seconds_alone", rounded(seconds_alone));
    report.note("seconds_beside", rounded(seconds_beside));
    report.at_most("slower_by", seconds_beside / seconds_alone, TOLERANCE);
    report.note("cpu_seconds_alone", rounded(cpu_alone));
    report.note("cpu_seconds_beside", rounded(cpu_beside));
    report.at_most("dearer_by", (cpu_beside - CPU_GRACE).max(0.0) / cpu_alone, TOLERANCE);
    report.must(beside.full > 0, "the destination with the backlog was never at work");
    alone.stage.strike().await?;
    beside.stage.strike().await?;
    Ok(report)
}

/// One of the two installations that are compared.
struct Ground {
    stage: Stage,
    pattern: Pattern,
    full: u32,
}

#[derive(Clone, Copy)]
struct Run {
    seconds: f64,
    cpu_seconds: f64,
}

impl Ground {
    async fn prepare(ask: &Ask, store: StoreKind, backlog: u64) -> Result<Ground> {
        let mut stage = Plan::new(ask, store)?.start().await?;
        stage.receiver.recording(Recording::Counts);
        // As long as its deadline allows: five slots, two a second.
        stage.receiver.script("full", Reply::ok().after(Duration::from_millis(2_500)));
        let pattern = Pattern::make(&stage, "full", 5).await?;
        for at in 0..OTHERS {
            let name = format!("o{at:04}");
            let plan = NewDestination { max_concurrency: 5, ..stage.destination(&name) };
            let id = stage.client.create_destination(&plan).await?.id;
            let route = NewRoute { event_types: vec!["others".into()], ..NewRoute::to(id) };
            stage.client.create_route(&route).await?;
        }
        stage.stop().await?;
        if backlog > 0 {
            pattern.copy(&stage.database, 0, backlog).await?;
            pattern.release(&stage.database).await?;
        }
        Ok(Ground { stage, pattern, full: 0 })
    }

    /// Starts the node on fresh deliveries for the others, and times from its readiness until they have arrived.
    async fn drain(&mut self, round: u16) -> Result<Run> {
        self.pattern.fan_out(&self.stage.database, round, EACH).await?;
        self.stage.receiver.clear();
        let server = self.stage.database.server().cloned();
        let database_cpu = async || match &server {
            Some(server) => server.cpu_time().await,
            None => Ok(Duration::ZERO),
        };
        let database_before = database_cpu().await?;
        self.stage.start().await?;
        let began = Instant::now();
        let wanted = OTHERS as u64 * EACH;
        // What the full destination gets is not counted among the others'.
        let others = |stage: &Stage| stage.receiver.succeeded() - stage.receiver.succeeded_at("full");
        while others(&self.stage) < wanted {
            ensure!(
                began.elapsed() < Duration::from_secs(60),
                "only {} of {wanted} arrived",
                others(&self.stage)
            );
            let missing = wanted - others(&self.stage);
            let goal = self.stage.receiver.succeeded() + missing;
            self.stage.receiver.wait_for_succeeded(goal, Duration::from_millis(20)).await;
        }
        let seconds = began.elapsed().as_secs_f64();
        let cpu = cpu_time(self.stage.node()?.pid())? + database_cpu().await?.saturating_sub(database_before);
        self.full = self.full.max(self.stage.receiver.max_open("full"));
        self.stage.stop().await?;
        Ok(Run { seconds, cpu_seconds: cpu.as_secs_f64() })
    }
}

fn median(runs: &[Run], of: impl Fn(&Run) -> f64) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
