//! Nineteen destinations under a steady load, beside a twentieth that is in trouble: do they notice?

use std::time::Duration;

use anyhow::Result;
use lab::{Histogram, Pump, Receiver, Until};
use tokio::time::sleep;

use super::backlog::BacklogTemplate;
use super::figures::rounded;
use super::waiting::{becomes, wait_until};
use super::{Report, RoutedSource, StoreKind, Testbed, TestbedPlan};

const NUMBER: usize = 19;
const SLOTS: u32 = 5;
/// Connections are open and caches are warm by then.
const WARM_UP: Duration = Duration::from_secs(2);
/// They keep so much of their throughput.
const KEPT: f64 = 0.95;

pub(crate) struct Bystanders {
    source: RoutedSource,
}

/// What arrived at them in a time.
pub(crate) struct ArrivalFigures {
    pub(crate) events: u64,
    pub(crate) per_second: f64,
    pub(crate) end_to_end: Histogram,
}

impl Bystanders {
    pub(crate) async fn make(testbed: &Testbed) -> Result<Bystanders> {
        Bystanders::of_number(testbed, NUMBER).await
    }

    pub(crate) async fn of_number(testbed: &Testbed, number: usize) -> Result<Bystanders> {
        Ok(Bystanders { source: RoutedSource::make(testbed, number, SLOTS).await? })
    }

    /// Begins a load of one event to each in turn, so many a second in all; returns when it has become steady.
    pub(crate) async fn load(&self, per_second: f64) -> Result<Pump> {
        let pump = Pump::start(self.source.pump_singly(Until::Stopped).open(per_second))?;
        sleep(WARM_UP).await;
        Ok(pump)
    }

    /// What arrives from now on.
    pub(crate) async fn watch(&self, receiver: &Receiver, span: Duration) -> ArrivalFigures {
        let from_us = receiver.now_us();
        sleep(span).await;
        self.arrived_since(receiver, from_us)
    }

    /// What has arrived since then, by the receiver's clock.
    pub(crate) fn arrived_since(&self, receiver: &Receiver, from_us: u64) -> ArrivalFigures {
        let window = from_us..receiver.now_us();
        let end_to_end =
            end_to_end_of(receiver, &self.source.names, |record| window.contains(&record.start_us));
        let events = end_to_end.count();
        ArrivalFigures { events, per_second: events as f64 * 1e6 / (window.end - from_us) as f64, end_to_end }
    }

    /// How many of their events have arrived.
    pub(crate) fn arrived(&self, receiver: &Receiver) -> u64 {
        self.source.names.iter().map(|name| receiver.succeeded_at(name)).sum()
    }

    /// Ends the load: everything it brought must have arrived.
    pub(crate) async fn finish(&self, pump: Pump, receiver: &Receiver, report: &mut Report) {
        self.finish_after(0, pump, receiver, report).await;
    }

    /// The same for one that was begun when so many had arrived.
    pub(crate) async fn finish_after(
        &self,
        already: u64,
        pump: Pump,
        receiver: &Receiver,
        report: &mut Report,
    ) {
        let sent = pump.finish().await;
        let arrived = || self.arrived(receiver) - already;
        // Whether it did in time is judged by the count.
        let _ = becomes(Duration::from_secs(10), 20, async || Ok(arrived() >= sent.accepted)).await;
        report.must(sent.accepted == sent.offered, format!("the others' events were refused: {sent}"));
        report.must_be("arrived_at_the_others", arrived(), sent.accepted);
    }
}

/// From post to arrival, of the requests that are wanted.
pub(crate) fn end_to_end_of(
    receiver: &Receiver,
    destinations: &[std::sync::Arc<str>],
    wanted: impl Fn(&lab::Record) -> bool,
) -> Histogram {
    let mut all = Histogram::default();
    for name in destinations {
        let records = receiver.records(name);
        let some = records.iter().filter(|record| wanted(record));
        all.merge(&some.filter_map(|record| record.end_to_end_us).collect());
    }
    all
}

/// As much arrived while there was trouble as before.
pub(crate) fn must_be_unharmed(before: &ArrivalFigures, during: &ArrivalFigures, report: &mut Report) {
    report.note("others_per_second_before", rounded(before.per_second));
    report.note("others_per_second", rounded(during.per_second));
    report.note("others_p99_ms_before", rounded(before.end_to_end.percentile_ms(99.0)));
    report.note("others_p99_ms", rounded(during.end_to_end.percentile_ms(99.0)));
    report.must_be_at_least("others_keep_of_their_throughput", during.per_second / before.per_second, KEPT);
}

/// An installation with the nineteen, and one beside them whose deliveries wait in the tables.
pub(crate) struct BystanderTestbed {
    pub(crate) testbed: Testbed,
    pub(crate) bystanders: Bystanders,
    pub(crate) template: BacklogTemplate,
}

impl BystanderTestbed {
    /// With the twentieth paused, and one delivery waiting for it.
    pub(crate) async fn start(plan: TestbedPlan, name: &str, slots: u32) -> Result<BystanderTestbed> {
        let testbed = plan.start().await?;
        let template = BacklogTemplate::make(&testbed, name, slots).await?;
        let bystanders = Bystanders::make(&testbed).await?;
        Ok(BystanderTestbed { testbed, bystanders, template })
    }

    /// Stops the node and lets so many wait for the twentieth, which is paused no more; none: it stays as it is.
    pub(crate) async fn fill(&mut self, backlog: u64) -> Result<()> {
        self.testbed.stop().await?;
        if backlog > 0 {
            self.template.copy(&self.testbed.database, 0, backlog).await?;
            self.template.release(&self.testbed.database).await?;
        }
        if self.testbed.database.kind() == StoreKind::Postgres {
            // Or the server does it by itself, in the middle of a measurement.
            self.testbed.database.write("vacuum analyze events").await?;
        }
        Ok(())
    }

    /// Waits until nothing of the bystanders waits any more: all their endings are written.
    pub(crate) async fn wait_until_settled(&self) -> Result<()> {
        let id = self.testbed.database.literal(self.template.destination.bytes());
        let sql = format!("select count(*) from queue where destination_id <> {id}");
        let otherwise = "what has arrived at the others is not settled";
        let settled = async || Ok(self.testbed.database.number(&sql).await? == 0);
        wait_until(otherwise, Duration::from_secs(10), 20, settled).await
    }
}
