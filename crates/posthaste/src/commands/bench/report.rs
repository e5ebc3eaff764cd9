//! What a bench has to say: a table for people, JSON for whoever compares.

use super::{
    BenchArgs,
    figures::{Better, Figure},
    machine::Machine,
    scenario::Scenario,
};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct BenchReport {
    pub(super) machine: Machine,
    pub(super) setting: Setting,
    pub(super) scenarios: Vec<ScenarioReport>,
}

/// How it was asked for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Setting {
    /// `sqlite`, `postgres`, or `running` for a server that was there.
    pub(super) store: String,
    pub(super) nodes: u8,
    pub(super) rounds: u8,
    pub(super) seconds: f64,
    pub(super) payload_bytes: u32,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ScenarioReport {
    pub(super) name: String,
    pub(super) says: String,
    pub(super) figures: Vec<Figure>,
}

impl From<&BenchArgs> for Setting {
    fn from(args: &BenchArgs) -> Self {
        let store = match (&args.url, &args.database) {
            (Some(_), _) => "running",
            (None, Some(_)) => "postgres",
            (None, None) => "sqlite",
        };
        Self {
            store: store.to_owned(),
            nodes: args.nodes,
            rounds: args.rounds,
            seconds: args.time.as_secs_f64(),
            payload_bytes: args.size,
        }
    }
}

impl ScenarioReport {
    pub(super) fn new(scenario: Scenario, figures: Vec<Figure>) -> Self {
        Self { name: scenario.name().to_owned(), says: scenario.says().to_owned(), figures }
    }
}

impl BenchReport {
    pub(super) fn table(&self) -> String {
        let Self { machine, setting, scenarios } = self;
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{}, {} cores, {} MiB, Linux {}; posthaste {}",
            machine.processor, machine.cores, machine.memory_mib, machine.kernel, machine.version
        );
        let _ = writeln!(
            text,
            "store: {}, nodes: {}, payload: {} bytes; median of {} rounds of {} s (least … most)",
            setting.store, setting.nodes, setting.payload_bytes, setting.rounds, setting.seconds
        );
        for scenario in scenarios {
            let _ = writeln!(text, "\n{}: {}", scenario.name, scenario.says);
            for figure in &scenario.figures {
                let _ = writeln!(
                    text,
                    "  {:<40} {:>10} {:<13} ({} … {})",
                    figure.name,
                    shown(figure.median),
                    figure.unit,
                    shown(figure.least),
                    shown(figure.most)
                );
            }
        }
        text
    }

    /// What would be a fault of the product, if there is any.
    pub(super) fn broken(&self) -> Option<String> {
        let figures =
            self.scenarios.iter().flat_map(|one| one.figures.iter().map(move |figure| (one, figure)));
        let mut broken = figures.filter(|(_, figure)| figure.better == Better::Zero && figure.most > 0.0);
        broken.next().map(|(one, figure)| {
            format!("{}: {} {} {}, and there should be none", one.name, figure.most, figure.unit, figure.name)
        })
    }
}

/// Three digits that matter, and no more than two behind the point.
pub(super) fn shown(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || size == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::bench::figures::{Figures, Measured};

    #[test]
    fn what_is_lost_is_a_fault_and_what_is_slow_is_not() {
        let report = |lost: f64| {
            let mut figures = Figures::default();
            figures.add([
                Measured::new("events", "/s", Better::Higher, 1234.5),
                Measured::new("lost", "deliveries", Better::Zero, lost),
            ]);
            let setting =
                Setting { store: "sqlite".into(), nodes: 1, rounds: 1, seconds: 1.0, payload_bytes: 512 };
            let scenarios = vec![ScenarioReport::new(Scenario::One, figures.summed_up())];
            BenchReport { machine: Machine::here(), setting, scenarios }
        };
        assert_eq!(report(0.0).broken(), None);
        assert_eq!(report(2.0).broken().unwrap(), "one: 2 deliveries lost, and there should be none");
        assert!(report(0.0).table().contains("      1234 /s"), "{}", report(0.0).table());
    }
}
