//! How fast it is, with everything on one machine: events of 512 bytes, one destination with many slots, a pump that
//! sends the next event when it has the answer to the last.
//!
//! Counts from the first post until the last event has arrived, at full durability, and says what an event costs in
//! CPU time at the node, the database, the pump and the receiver; and how that compares with what pump and receiver
//! cost, which depends less on how fast the machine is at the moment. `--seconds` is how long the pump runs in a round.
//!
//! Holds if in the best of three rounds at least 8,000 events a second go through on SQLite, and 5,000 on PostgreSQL, and
//! none is missing in any. The best, because whatever else the machine has to do only ever takes away.

use crate::harness::prelude::*;

const SLOTS: u32 = 1_000;
const CONNECTIONS: u64 = 128;
const ROUNDS: usize = 3;
const WARM_UP: Duration = Duration::from_secs(2);

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let testbed = TestbedPlan::new(options)?.start().await?;
    testbed.receiver.recording(Recording::Counts);
    testbed.add_destination(&testbed.destination_with_slots("d", SLOTS), &[]).await?;
    let pump = |until| PumpConfig {
        keep_log: false,
        connections: options.count(CONNECTIONS) as usize,
        ..testbed.publisher(until)
    };
    let warm = lab::pump::run(pump(Until::Elapsed(WARM_UP))).await?;
    testbed.receiver.wait_for_succeeded(warm.accepted, Duration::from_secs(30)).await;

    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let config = pump(Until::Elapsed(options.seconds(8)));
        rounds.push(one_round(&testbed, config, report).await?);
    }
    let best = rounds.iter().max_by(|one, other| one.per_second.total_cmp(&other.per_second));
    let best = best.context("there was no round")?;
    let floor = if options.store() == StoreKind::Sqlite { 8_000.0 } else { 5_000.0 };
    report.must_be_at_least("events_per_second", best.per_second, floor);
    report.note("rounds", rounds.iter().map(|round| rounded(round.per_second)).collect::<Vec<_>>());
    best.describe(report);
    report.note("node_rss_mib", testbed.process()?.rss_bytes()? >> 20);
    testbed.tear_down().await
}

struct Round {
    per_second: f64,
    sent: lab::PumpReport,
    end_to_end: lab::Histogram,
    spent: CpuTime,
}

async fn one_round(testbed: &Testbed, config: PumpConfig, report: &mut Report) -> Result<Round> {
    testbed.receiver.clear();
    let before = CpuTime::of(testbed).await?;
    let began_us = testbed.receiver.now_us();
    let sent = lab::pump::run(config).await?;
    let all = testbed.receiver.wait_for_succeeded(sent.accepted, Duration::from_secs(60)).await;
    let last_us = testbed.receiver.span_us().map_or(0, |span| span.end);
    let spent = CpuTime::spent(testbed, &before).await?;
    let arrived = testbed.receiver.succeeded();
    report.must(all && arrived == sent.accepted, format!("{arrived} of {} arrived", sent.accepted));
    report.must(sent.accepted == sent.offered, format!("{} of {} accepted", sent.accepted, sent.offered));
    let per_second = sent.accepted as f64 / last_us.saturating_sub(began_us).max(1) as f64 * 1e6;
    let end_to_end = testbed.receiver.end_to_end();
    Ok(Round { per_second, sent, end_to_end, spent })
}

impl Round {
    fn describe(&self, report: &mut Report) {
        let Self { sent, spent, .. } = self;
        let per_event = |time: Duration| rounded(us_per_event(time, sent.accepted));
        report.note("accepted_per_second", rounded(sent.rate));
        report.note("ack_latency", &sent.latency);
        report.note("end_to_end", &self.end_to_end);
        report.note("node_cpu_us_per_event", per_event(spent.nodes));
        report.note("database_cpu_us_per_event", per_event(spent.database));
        report.note("pump_cpu_us_per_event", per_event(sent.cpu));
        // Everything of our own process that is not the pump is the receiver.
        report.note("receiver_cpu_us_per_event", per_event(spent.own.saturating_sub(sent.cpu)));
        let ratio = spent.of_nodes_and_database().as_secs_f64() / spent.own.as_secs_f64().max(f64::EPSILON);
        report.note("cpu_of_pump_and_receiver", rounded(ratio));
    }
}
