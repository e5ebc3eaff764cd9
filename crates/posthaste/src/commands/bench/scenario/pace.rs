//! A destination that takes 300 ms, with more waiting for it than it can take: how much of its slots is used. The ideal is
//! slots divided by 300 ms.

use super::Scenario;
use crate::{
    commands::bench::{
        BenchArgs, Figures, Measured, Told,
        figures::Better::{Higher, Zero},
        trial::Trial,
    },
    failure::Failure,
};
use lab::{Load, Pump, Reply, Until};
use std::time::Duration;

const TAKES: Duration = Duration::from_millis(300);
/// How many slots, and what the figures of it are called.
const SLOTS: [(u32, &str, &str); 4] = [
    (10, "10 slots", "10 slots, of the ideal"),
    (20, "20 slots", "20 slots, of the ideal"),
    (50, "50 slots", "50 slots, of the ideal"),
    (100, "100 slots", "100 slots, of the ideal"),
];
/// More than can be taken comes in, so that something always waits.
const BEYOND: f64 = 1.3;
const DRAINS_WITHIN: Duration = Duration::from_secs(60);

pub(super) async fn slots(
    args: &BenchArgs,
    mut trial: Trial,
    told: &mut Told,
    figures: &mut Figures,
) -> Result<(), Failure> {
    trial.receiver.default_script(Reply::ok().after(TAKES));
    trial.destination("d", SLOTS[0].0, "bench.one").await?;
    for round in 0..args.rounds {
        told.round(Scenario::Slots, round, args.rounds);
        for (slots, name, part) in SLOTS {
            trial.set_slots(slots).await?;
            let ideal = f64::from(slots) / TAKES.as_secs_f64();
            let (per_second, lost) = told.during(one_limit(args, &mut trial, ideal)).await?;
            figures.add([
                Measured::new(name, "deliveries/s", Higher, per_second),
                Measured::new(part, "%", Higher, per_second / ideal * 100.0),
                Measured::new("lost", "deliveries", Zero, lost as f64),
            ]);
        }
    }
    trial.end().await
}

/// Deliveries a second once the slots are full, and what is missing at the end.
async fn one_limit(args: &BenchArgs, trial: &mut Trial, ideal: f64) -> Result<(f64, u64), Failure> {
    trial.receiver.clear();
    let mut config = trial.pump(Until::Stopped, 16, &["bench.one".to_owned()]);
    config.load = Load::Open { per_second: ideal * BEYOND };
    let pump = Pump::start(config).map_err(Failure::failed)?;
    // Half a second until something waits, then whole turns of the slots.
    tokio::time::sleep(Duration::from_millis(500) + TAKES * 2).await;
    let (first, began) = (trial.receiver.succeeded(), trial.receiver.now_us());
    tokio::time::sleep(TAKES * (args.time.as_millis() / TAKES.as_millis()).max(4) as u32).await;
    let (last, ended) = (trial.receiver.succeeded(), trial.receiver.now_us());
    let sent = pump.finish().await;
    trial.took(sent.offered);
    // What waits is not what is measured: it goes out by as many slots as there may be.
    trial.set_slots(1_000).await?;
    trial.receiver.wait_for_succeeded(sent.accepted, DRAINS_WITHIN).await;
    let lost = sent.accepted.saturating_sub(trial.receiver.distinct());
    Ok(((last - first) as f64 / (ended - began).max(1) as f64 * 1e6, lost))
}
