//! Every event goes to thousands of destinations: how many such events a second are kept up, and how long one is under way.

use super::{ACKNOWLEDGED, Scenario, latency};
use crate::{
    commands::bench::{
        BenchArgs, Figures, Measured, Told,
        figures::Better::{Higher, Lower, Zero},
        trial::Trial,
    },
    failure::Failure,
};
use lab::Until;
use std::time::{Duration, Instant};

const DESTINATIONS: u64 = 5_000;
const SLOTS: u32 = 5;
/// Events that are not delivered to all yet: with one there would be a pause after each, with many a queue is measured.
const UNDER_WAY: u64 = 3;
const DRAINS_WITHIN: Duration = Duration::from_secs(120);

pub(super) async fn measure(
    args: &BenchArgs,
    mut trial: Trial,
    told: &mut Told,
    figures: &mut Figures,
) -> Result<(), Failure> {
    let names: Vec<String> = (0..DESTINATIONS).map(|number| format!("d{number}")).collect();
    told.during(trial.destinations(&names, SLOTS, "bench.all")).await?;
    told.during(one_round(&mut trial, args.time / 4)).await?;
    for round in 0..args.rounds {
        told.round(Scenario::LargeFanout, round, args.rounds);
        figures.add(told.during(one_round(&mut trial, args.time)).await?);
    }
    trial.end().await
}

/// Each event is sent as soon as few enough are under way, so what was sent in all was kept up.
async fn one_round(trial: &mut Trial, span: Duration) -> Result<Vec<Measured>, Failure> {
    trial.receiver.clear();
    let (before, began_us, began) = (trial.spent(), trial.receiver.now_us(), Instant::now());
    let types = ["bench.all".to_owned()];
    let mut acknowledged = lab::Histogram::default();
    let mut events = 0;
    while began.elapsed() < span {
        let sent = trial.send(trial.pump(Until::Count(1), 1, &types)).await?;
        acknowledged.merge(&sent.latency);
        events += sent.accepted;
        let of_others = events.saturating_sub(UNDER_WAY - 1) * DESTINATIONS;
        trial.receiver.wait_for_succeeded(of_others, DRAINS_WITHIN).await;
    }
    let wanted = events * DESTINATIONS;
    trial.receiver.wait_for_succeeded(wanted, DRAINS_WITHIN).await;
    let spent = trial.spent().since(before, wanted);
    let last_us = trial.receiver.span_us().map_or(began_us, |span| span.end);
    let seconds = (last_us - began_us).max(1) as f64 / 1e6;
    let arrived = trial.receiver.end_to_end();
    let mut all = vec![
        Measured::new("events", "/s", Higher, events as f64 / seconds),
        Measured::new("deliveries", "/s", Higher, trial.receiver.distinct() as f64 / seconds),
    ];
    all.extend(latency(ACKNOWLEDGED, &acknowledged));
    // Of each event the last destination is among the slowest of a hundred.
    all.extend([
        Measured::new("arrived p50", "ms", Lower, arrived.percentile_ms(50.0)),
        Measured::new("arrived p99", "ms", Lower, arrived.percentile_ms(99.0)),
    ]);
    all.extend(spent.0.map(|us| Measured::new("CPU of the node a delivery", "µs", Lower, us)));
    all.extend(spent.1.map(|us| Measured::new("CPU of the database a delivery", "µs", Lower, us)));
    if let Some(bytes) = trial.memory() {
        all.push(Measured::new("memory of the node", "MiB", Lower, bytes as f64 / f64::from(1 << 20)));
    }
    all.extend([
        Measured::new("lost", "deliveries", Zero, wanted.saturating_sub(trial.receiver.distinct()) as f64),
        Measured::new("twice", "deliveries", Zero, trial.receiver.repeated() as f64),
    ]);
    Ok(all)
}
