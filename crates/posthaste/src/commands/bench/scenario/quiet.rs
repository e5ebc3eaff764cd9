//! One event at a time, and nothing else to do: how long it takes from post to receiver, and what it costs.

use super::{ACKNOWLEDGED, ARRIVED, Scenario, latency};
use crate::{
    commands::bench::{
        BenchArgs, Figures, Measured, Told,
        figures::Better::{Lower, Zero},
        trial::Trial,
    },
    failure::Failure,
};
use lab::{Load, Until};
use std::time::Duration;

const IDLE_PER_SECOND: f64 = 20.0;
const LOW_PER_SECOND: f64 = 100.0;
const DRAINS_WITHIN: Duration = Duration::from_secs(20);

pub(super) async fn measure(
    scenario: Scenario,
    args: &BenchArgs,
    mut trial: Trial,
    told: &mut Told,
    figures: &mut Figures,
) -> Result<(), Failure> {
    let per_second = if scenario == Scenario::Low { LOW_PER_SECOND } else { IDLE_PER_SECOND };
    trial.destination("d", 10, "bench.one").await?;
    let types = ["bench.one".to_owned()];
    // The first events open connections.
    let warm = trial.pump(Until::Count(20), 1, &types);
    trial.send(warm).await?;
    for round in 0..args.rounds {
        told.round(scenario, round, args.rounds);
        trial.receiver.clear();
        let before = trial.spent();
        let mut config = trial.pump(Until::Elapsed(args.time), 1, &types);
        config.load = Load::Open { per_second };
        let sent = told.during(trial.send(config)).await?;
        trial.receiver.wait_for_succeeded(sent.accepted, DRAINS_WITHIN).await;
        let (nodes, database) = trial.spent().since(before, sent.accepted);
        figures.add(latency(ACKNOWLEDGED, &sent.latency));
        figures.add(latency(ARRIVED, &trial.receiver.end_to_end()));
        figures.add(nodes.map(|us| Measured::new("CPU of the node an event", "µs", Lower, us)));
        figures.add(database.map(|us| Measured::new("CPU of the database an event", "µs", Lower, us)));
        let lost = sent.accepted.saturating_sub(trial.receiver.distinct());
        figures.add([Measured::new("lost", "deliveries", Zero, lost as f64)]);
    }
    trial.end().await
}
