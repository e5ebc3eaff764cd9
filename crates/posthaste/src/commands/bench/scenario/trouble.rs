//! What must not show: a dead destination to the others, an overload to what was accepted, a crash to anybody.

use super::{ACKNOWLEDGED, ARRIVED, Scenario, latency};
use crate::{
    commands::bench::{
        BenchArgs, Figures, Measured, Told,
        figures::Better::{Higher, Lower, Neither, Zero},
        trial::Trial,
    },
    failure::Failure,
};
use anyhow::Context;
use lab::{BlackHole, Load, Pump, PumpReport, Until};
use std::time::Duration;

/// Of those that are well, together.
const WELL_PER_SECOND: f64 = 100.0;
const WELL: usize = 10;
const SLOTS: u32 = 10;
const CONNECTIONS: usize = 64;
const DRAINS_WITHIN: Duration = Duration::from_secs(120);

/// The others' latency alone and beside it, in turn.
pub(super) async fn black_hole(
    args: &BenchArgs,
    mut trial: Trial,
    told: &mut Told,
    figures: &mut Figures,
) -> Result<(), Failure> {
    let hole = BlackHole::open().await.context("a port that takes no connection")?;
    let url = format!("http://{}/hook", hole.addr().context("a port that takes no connection")?);
    let types: Vec<String> = (0..WELL).map(|number| format!("bench.d{number}")).collect();
    for (number, event_type) in types.iter().enumerate() {
        trial.destination(&format!("d{number}"), SLOTS, event_type).await?;
    }
    trial.destination_at("hole", &url, SLOTS, "bench.hole").await?;
    let warm = trial.pump(Until::Elapsed(args.time / 8), 16, &types);
    trial.send(warm).await?;
    for round in 0..args.rounds {
        told.round(Scenario::BlackHole, round, args.rounds);
        // Nothing of an earlier round is tried meanwhile.
        trial.hold_newest(true).await?;
        let alone = told.during(well(args, &mut trial, &types)).await?;
        trial.hold_newest(false).await?;
        let mut config = trial.pump(Until::Stopped, 64, &["bench.hole".to_owned()]);
        config.load = Load::Open { per_second: WELL_PER_SECOND * 9.0 };
        // Numbers that no other load has.
        config.first_n = HOLE_NUMBERS;
        let beside = Pump::start(config).map_err(Failure::failed)?;
        let with_it = told.during(well(args, &mut trial, &types)).await?;
        let swallowed = beside.finish().await;
        figures.add([
            Measured::new("others alone p50", "ms", Lower, alone.arrived.percentile_ms(50.0)),
            Measured::new("others alone p99", "ms", Lower, alone.arrived.percentile_ms(99.0)),
            Measured::new("others beside it p50", "ms", Lower, with_it.arrived.percentile_ms(50.0)),
            Measured::new("others beside it p99", "ms", Lower, with_it.arrived.percentile_ms(99.0)),
            Measured::new(
                "others beside it, of alone p99",
                "×",
                Lower,
                with_it.arrived.percentile_ms(99.0) / alone.arrived.percentile_ms(99.0).max(0.001),
            ),
            Measured::new("events for the black hole", "", Neither, swallowed.accepted as f64),
            Measured::new("lost", "deliveries", Zero, (alone.lost + with_it.lost) as f64),
        ]);
    }
    trial.end().await
}

/// Beyond what is remembered of events that have come: nothing of it ever comes.
const HOLE_NUMBERS: u64 = 1 << 32;

struct Well {
    arrived: lab::Histogram,
    lost: u64,
}

async fn well(args: &BenchArgs, trial: &mut Trial, types: &[String]) -> Result<Well, Failure> {
    trial.receiver.clear();
    let mut config = trial.pump(Until::Elapsed(args.time), 16, types);
    config.load = Load::Open { per_second: WELL_PER_SECOND };
    let sent = trial.send(config).await?;
    trial.receiver.wait_for_succeeded(sent.accepted, DRAINS_WITHIN).await;
    let lost = sent.accepted.saturating_sub(trial.receiver.distinct());
    Ok(Well { arrived: trial.receiver.end_to_end(), lost })
}

/// First what can be taken, then three times that, each event sent once.
pub(super) async fn overload(
    args: &BenchArgs,
    mut trial: Trial,
    told: &mut Told,
    figures: &mut Figures,
) -> Result<(), Failure> {
    const TIMES: f64 = 3.0;
    trial.destination("d", 1_000, "bench.one").await?;
    let types = ["bench.one".to_owned()];
    for round in 0..args.rounds {
        told.round(Scenario::Overload, round, args.rounds);
        trial.receiver.clear();
        let config = trial.pump(Until::Elapsed(args.time / 2), CONNECTIONS, &types);
        let usual = told.during(trial.send(config)).await?;
        trial.receiver.wait_for_succeeded(usual.accepted, DRAINS_WITHIN).await;
        trial.receiver.clear();
        let mut config = trial.pump(Until::Elapsed(args.time), 1_024, &types);
        config.load = Load::Open { per_second: usual.rate * TIMES };
        (config.retry_for, config.keep_log) = (Duration::ZERO, true);
        let sent = told.during(trial.send(config)).await?;
        trial.receiver.wait_for_succeeded(sent.accepted, DRAINS_WITHIN).await;
        let refused: u64 =
            sent.refused.iter().filter(|(status, _)| matches!(status, 429 | 503)).map(|(_, n)| n).sum();
        let others: u64 = sent.refused.values().sum::<u64>() - refused;
        figures.add([
            Measured::new("events, without an overload", "/s", Higher, usual.rate),
            Measured::new("events, under it", "/s", Higher, sent.rate),
            Measured::new("refused with 429 or 503", "events", Neither, refused as f64),
            Measured::new("answered otherwise", "events", Zero, others as f64),
        ]);
        figures.add(latency(ACKNOWLEDGED, &sent.latency));
        figures.add(latency(ARRIVED, &trial.receiver.end_to_end()));
        figures.add(trial.memory().map(|bytes| {
            Measured::new("memory of the node", "MiB", Lower, bytes as f64 / f64::from(1 << 20))
        }));
        figures.add([Measured::new("lost", "deliveries", Zero, lost(&trial, &sent) as f64)]);
    }
    trial.end().await
}

/// The producer repeats what got no answer; what was answered must arrive.
pub(super) async fn crash(
    args: &BenchArgs,
    mut trial: Trial,
    told: &mut Told,
    figures: &mut Figures,
) -> Result<(), Failure> {
    trial.destination("d", 100, "bench.one").await?;
    let types = ["bench.one".to_owned()];
    for round in 0..args.rounds {
        told.round(Scenario::Crash, round, args.rounds);
        trial.receiver.clear();
        let mut config = trial.pump(Until::Stopped, CONNECTIONS, &types);
        config.keep_log = true;
        let pump = Pump::start(config).map_err(Failure::failed)?;
        told.during(tokio::time::sleep(args.time / 2)).await;
        let ready = trial.crash().await?;
        let (known, came_back) = (trial.receiver.succeeded(), trial.receiver.now_us());
        trial.receiver.wait_for_succeeded(known + 1, DRAINS_WITHIN).await;
        let first = trial.receiver.now_us() - came_back;
        told.during(tokio::time::sleep(args.time / 2)).await;
        let sent = told.during(pump.finish()).await;
        trial.took(sent.offered);
        let answered = sent.accepted + sent.duplicates;
        wait_for_distinct(&trial, answered).await;
        figures.add([
            Measured::new("ready after", "ms", Lower, ready.as_secs_f64() * 1e3),
            Measured::new("first delivery after it was ready", "ms", Lower, first as f64 / 1e3),
            Measured::new("events answered with 2xx", "", Neither, answered as f64),
            Measured::new("lost", "deliveries", Zero, lost(&trial, &sent) as f64),
            Measured::new("twice", "deliveries", Neither, trial.receiver.repeated() as f64),
        ]);
    }
    trial.end().await
}

/// Events that were answered with 2xx and have not come.
fn lost(trial: &Trial, sent: &PumpReport) -> u64 {
    sent.acked().filter(|sent| !trial.receiver.has_seen("d", sent.n)).count() as u64
}

/// Some come twice, so that counting requests is not enough.
async fn wait_for_distinct(trial: &Trial, wanted: u64) {
    let began = std::time::Instant::now();
    while trial.receiver.distinct() < wanted && began.elapsed() < DRAINS_WITHIN {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
