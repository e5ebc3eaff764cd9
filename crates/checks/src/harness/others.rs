//! Nineteen destinations under a steady load, beside a twentieth that is in trouble: do they notice?

use std::time::Duration;

use anyhow::{Result, ensure};
use lab::process::cpu_time;
use lab::{Histogram, Pump, PumpConfig, Receiver, Until};
use tokio::time::{Instant, sleep};

use super::backlog::Pattern;
use super::report::rounded;
use super::{Fleet, Plan, Report, Stage, StoreKind};

const NUMBER: usize = 19;
const SLOTS: u32 = 5;
/// Connections are open and caches are warm by then.
const WARM_UP: Duration = Duration::from_secs(2);
/// They keep so much of their throughput.
const KEPT: f64 = 0.95;

pub(crate) struct Others {
    fleet: Fleet,
}

/// What arrived at them in a time.
pub(crate) struct Arrived {
    pub(crate) events: u64,
    pub(crate) per_second: f64,
    pub(crate) end_to_end: Histogram,
}

impl Arrived {
    pub(crate) fn p99_ms(&self) -> f64 {
        self.end_to_end.percentile_us(99.0) as f64 / 1e3
    }
}

impl Others {
    pub(crate) async fn assemble(stage: &Stage) -> Result<Others> {
        Ok(Others { fleet: Fleet::assemble(stage, NUMBER, SLOTS).await? })
    }

    /// Begins a load of one event to each in turn, so many a second in all; returns when it has become steady.
    pub(crate) async fn load(&self, per_second: f64) -> Result<Pump> {
        let types = self.fleet.names.iter().map(|name| format!("lab.{name}")).collect();
        let config = self.fleet.pump(Until::Stopped).open(per_second);
        let pump = Pump::start(PumpConfig { event_types: types, ..config })?;
        sleep(WARM_UP).await;
        Ok(pump)
    }

    /// What arrives from now on.
    pub(crate) async fn watch(&self, receiver: &Receiver, span: Duration) -> Arrived {
        let from_us = receiver.now_us();
        sleep(span).await;
        let until_us = receiver.now_us();
        let mut end_to_end = Histogram::default();
        for name in &self.fleet.names {
            let records = receiver.records(name);
            let inside = records.iter().filter(|record| (from_us..until_us).contains(&record.start_us));
            end_to_end.merge(&inside.filter_map(|record| record.end_to_end_us).collect());
        }
        let events = end_to_end.count();
        Arrived { events, per_second: events as f64 * 1e6 / (until_us - from_us) as f64, end_to_end }
    }

    /// Ends the load: everything it brought must have arrived.
    pub(crate) async fn finish(&self, pump: Pump, receiver: &Receiver, report: &mut Report) {
        let sent = pump.finish().await;
        let arrived = || self.fleet.names.iter().map(|name| receiver.succeeded_at(name)).sum::<u64>();
        let deadline = Instant::now() + Duration::from_secs(10);
        while arrived() < sent.accepted && Instant::now() < deadline {
            sleep(Duration::from_millis(20)).await;
        }
        report.must(sent.accepted == sent.offered, format!("the others' events were refused: {sent}"));
        report.exactly("arrived_at_the_others", arrived(), sent.accepted);
    }
}

/// As much arrived while there was trouble as before.
pub(crate) fn unchanged(before: &Arrived, during: &Arrived, report: &mut Report) {
    report.note("others_per_second_before", rounded(before.per_second));
    report.note("others_per_second", rounded(during.per_second));
    report.note("others_p99_ms_before", rounded(before.p99_ms()));
    report.note("others_p99_ms", rounded(during.p99_ms()));
    report.at_least("others_keep_of_their_throughput", during.per_second / before.per_second, KEPT);
}

/// An installation with the nineteen, and one beside them whose deliveries wait in the tables.
pub(crate) struct Ground {
    pub(crate) stage: Stage,
    pub(crate) others: Others,
    pub(crate) pattern: Pattern,
}

impl Ground {
    /// With the twentieth paused, and one delivery waiting for it.
    pub(crate) async fn prepare(plan: Plan, name: &str, slots: u32) -> Result<Ground> {
        let stage = plan.start().await?;
        let pattern = Pattern::make(&stage, name, slots).await?;
        let others = Others::assemble(&stage).await?;
        Ok(Ground { stage, others, pattern })
    }

    /// Stops the node and lets so many wait for the twentieth, which is paused no more; none: it stays as it is.
    pub(crate) async fn fill(&mut self, backlog: u64) -> Result<()> {
        self.stage.stop().await?;
        if backlog > 0 {
            self.pattern.copy(&self.stage.database, 0, backlog).await?;
            self.pattern.release(&self.stage.database).await?;
        }
        if self.stage.database.kind() == StoreKind::Postgres {
            // Or the server does it by itself, in the middle of a measurement.
            self.stage.database.write("vacuum analyze events").await?;
        }
        Ok(())
    }

    /// Waits until nothing of the others waits any more: all their endings are written.
    pub(crate) async fn settled(&self) -> Result<()> {
        let id = self.stage.database.literal(self.pattern.destination.bytes());
        let sql = format!("select count(*) from queue where destination_id <> {id}");
        let deadline = Instant::now() + Duration::from_secs(10);
        while self.stage.database.number(&sql).await? > 0 {
            ensure!(Instant::now() < deadline, "what has arrived at the others is not settled");
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// CPU time of the node so far, and of the database, which has it alone.
    pub(crate) async fn cpu(&self) -> Result<Duration> {
        let database = match self.stage.database.server() {
            Some(server) => server.cpu_time().await?,
            None => Duration::ZERO,
        };
        Ok(database + cpu_time(self.stage.node()?.pid())?)
    }
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
