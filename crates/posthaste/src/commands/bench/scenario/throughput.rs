//! As much as goes through: a closed loop, between two measurements of the relay. A round ends when everything has arrived.

use super::{ACKNOWLEDGED, ARRIVED, Scenario, latency};
use crate::{
    commands::bench::{
        BenchArgs, Figures, Measured, Told,
        figures::Better::{Higher, Lower, Neither, Zero},
        reference::{self, Reference},
        trial::Trial,
    },
    failure::Failure,
};
use lab::{PumpReport, Reply, Until};
use std::time::Duration;

/// Of the relay too.
const CONNECTIONS: usize = 64;
const ENOUGH_SLOTS: u32 = 1_000;
const FANOUT: u64 = 50;
/// Each event makes fifty deliveries, and producers that wait would only make a longer queue.
const FANOUT_CONNECTIONS: usize = 8;
const SLOW: usize = 200;
const SLOW_TAKES: Duration = Duration::from_millis(50);
const SLOW_SLOTS: u32 = 50;
const DRAINS_WITHIN: Duration = Duration::from_secs(120);

pub(super) async fn measure(
    scenario: Scenario,
    args: &BenchArgs,
    mut trial: Trial,
    told: &mut Told,
    figures: &mut Figures,
) -> Result<(), Failure> {
    let load = Load::of(scenario, &mut trial).await?;
    let warm = trial.pump(Until::Elapsed(args.time / 4), load.connections, &load.types);
    let warm = told.during(trial.send(warm)).await?;
    trial.receiver.wait_for_succeeded(warm.accepted * load.copies, DRAINS_WITHIN).await;
    let mut before = told.during(relay(args, &trial, load.takes)).await?;
    for round in 0..args.rounds {
        told.round(scenario, round, args.rounds);
        let (measured, own) = told.during(one_round(args, &mut trial, &load)).await?;
        let after = told.during(relay(args, &trial, load.takes)).await?;
        figures.add(measured);
        figures.add(own.beside(before.between(after), &load));
        before = after;
    }
    trial.end().await
}

/// The relay's destination is another: what this one answers slowly is not its matter.
async fn relay(args: &BenchArgs, trial: &Trial, slow: Duration) -> Result<Reference, Failure> {
    trial.receiver.default_script(Reply::ok());
    let measured = reference::measure(args, &trial.receiver, CONNECTIONS).await;
    trial.receiver.default_script(Reply::ok().after(slow));
    measured
}

struct Load {
    types: Vec<String>,
    connections: usize,
    /// Deliveries of an event.
    copies: u64,
    takes: Duration,
}

impl Load {
    async fn of(scenario: Scenario, trial: &mut Trial) -> Result<Self, Failure> {
        let load = match scenario {
            Scenario::Fanout => {
                for number in 0..FANOUT {
                    trial.destination(&format!("d{number}"), ENOUGH_SLOTS, "bench.all").await?;
                }
                Self { connections: FANOUT_CONNECTIONS, copies: FANOUT, ..Self::plain("bench.all") }
            }
            Scenario::Slow => {
                let types: Vec<String> = (0..SLOW).map(|number| format!("bench.d{number}")).collect();
                for (number, event_type) in types.iter().enumerate() {
                    trial.destination(&format!("d{number}"), SLOW_SLOTS, event_type).await?;
                }
                Self { types, takes: SLOW_TAKES, ..Self::plain("") }
            }
            _ => {
                trial.destination("d", ENOUGH_SLOTS, "bench.one").await?;
                Self::plain("bench.one")
            }
        };
        trial.receiver.default_script(Reply::ok().after(load.takes));
        Ok(load)
    }

    fn plain(event_type: &str) -> Self {
        Self {
            types: vec![event_type.to_owned()],
            connections: CONNECTIONS,
            copies: 1,
            takes: Duration::ZERO,
        }
    }
}

/// What is compared with the relay.
struct Own {
    events_per_second: f64,
    deliveries_per_second: f64,
    /// Of nodes and database together, for each delivery.
    cpu_us: Option<f64>,
}

impl Own {
    fn beside(&self, relay: Reference, load: &Load) -> Vec<Measured> {
        let mut all = vec![
            Measured::new("relay", "events/s", Neither, relay.per_second),
            Measured::new("CPU of the relay an event", "µs", Neither, relay.cpu_us),
            match load.copies {
                1 => Measured::new(
                    "of the relay's events/s",
                    "%",
                    Higher,
                    self.events_per_second / relay.per_second * 100.0,
                ),
                _ => Measured::new(
                    "deliveries, of the relay's events/s",
                    "%",
                    Higher,
                    self.deliveries_per_second / relay.per_second * 100.0,
                ),
            },
        ];
        if let Some(cpu_us) = self.cpu_us {
            all.push(Measured::new("CPU a delivery, of the relay's", "×", Lower, cpu_us / relay.cpu_us));
        }
        all
    }
}

async fn one_round(
    args: &BenchArgs,
    trial: &mut Trial,
    load: &Load,
) -> Result<(Vec<Measured>, Own), Failure> {
    trial.receiver.clear();
    let (before, began_us) = (trial.spent(), trial.receiver.now_us());
    let config = trial.pump(Until::Elapsed(args.time), load.connections, &load.types);
    let sent = trial.send(config).await?;
    let wanted = sent.accepted * load.copies;
    trial.receiver.wait_for_succeeded(wanted, DRAINS_WITHIN).await;
    let spent = trial.spent();
    let last_us = trial.receiver.span_us().map_or(began_us, |span| span.end);
    let seconds = (last_us - began_us).max(1) as f64 / 1e6;
    let own = Own {
        events_per_second: sent.accepted as f64 / seconds,
        deliveries_per_second: trial.receiver.distinct() as f64 / seconds,
        cpu_us: match spent.since(before, wanted) {
            (None, _) => None,
            (Some(nodes), database) => Some(nodes + database.unwrap_or(0.0)),
        },
    };
    Ok((measured(trial, &sent, load, &own, spent.since(before, wanted)), own))
}

fn measured(
    trial: &Trial,
    sent: &PumpReport,
    load: &Load,
    own: &Own,
    (nodes, database): (Option<f64>, Option<f64>),
) -> Vec<Measured> {
    let (receiver, wanted) = (&trial.receiver, sent.accepted * load.copies);
    let not_taken = sent.offered - sent.accepted - sent.duplicates;
    let mut all = vec![
        Measured::new("events", "/s", Higher, own.events_per_second),
        Measured::new("deliveries", "/s", Higher, own.deliveries_per_second),
    ];
    all.extend(latency(ACKNOWLEDGED, &sent.latency));
    all.extend(latency(ARRIVED, &receiver.end_to_end()));
    if let Some(nodes) = nodes {
        all.push(Measured::new("CPU of the node a delivery", "µs", Lower, nodes));
    }
    if let Some(database) = database {
        all.push(Measured::new("CPU of the database a delivery", "µs", Lower, database));
    }
    if let Some(bytes) = trial.memory() {
        all.push(Measured::new("memory of the node", "MiB", Lower, bytes as f64 / f64::from(1 << 20)));
    }
    all.extend([
        Measured::new("not accepted", "events", Zero, not_taken as f64),
        Measured::new("lost", "deliveries", Zero, wanted.saturating_sub(receiver.distinct()) as f64),
        Measured::new("twice", "deliveries", Zero, receiver.repeated() as f64),
    ]);
    all
}
