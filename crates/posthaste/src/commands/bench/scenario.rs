//! What is tried. Each scenario has nodes and a store of its own, and says itself what one round of it measures.

mod large_fanout;
mod pace;
mod quiet;
mod throughput;
mod trouble;

use super::{BenchArgs, Figures, Measured, Told, figures::Figure, trial::Trial};
use crate::failure::Failure;
use clap::ValueEnum;
use std::{fmt, time::Duration};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Scenario {
    /// One destination that answers at once: as many events as go through
    One,
    /// Every event goes to fifty destinations
    Fanout,
    /// Every event goes to five thousand destinations: how many such events are kept up
    LargeFanout,
    /// Two hundred destinations, each of which takes 50 ms
    Slow,
    /// One destination never takes a connection, and nine tenths of all events are for it: what the others notice
    BlackHole,
    /// A destination that takes 300 ms, with 10, 20, 50 and 100 slots: how much of them is used
    Slots,
    /// Twenty events a second, and nothing else: how long one takes
    Idle,
    /// A hundred events a second, and nothing else: what one costs when there is little to do
    Low,
    /// Three times as many events as can be taken
    Overload,
    /// kill -9 under load: what is lost, what comes twice, how long it takes
    Crash,
}

impl Scenario {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Fanout => "fanout",
            Self::LargeFanout => "large-fanout",
            Self::Slow => "slow",
            Self::BlackHole => "black-hole",
            Self::Slots => "slots",
            Self::Idle => "idle",
            Self::Low => "low",
            Self::Overload => "overload",
            Self::Crash => "crash",
        }
    }

    /// A sentence for a table.
    pub(super) fn says(self) -> &'static str {
        match self {
            Self::One => "one destination that answers at once",
            Self::Fanout => "every event goes to fifty destinations",
            Self::LargeFanout => "every event goes to five thousand destinations",
            Self::Slow => "two hundred destinations that take 50 ms each",
            Self::BlackHole => {
                "nine tenths of all events are for a destination that never takes a connection"
            }
            Self::Slots => "a destination that takes 300 ms",
            Self::Idle => "twenty events a second and nothing else",
            Self::Low => "a hundred events a second and nothing else",
            Self::Overload => "three times as many events as can be taken",
            Self::Crash => "kill -9 under load",
        }
    }

    pub(super) fn can_be_tried(self, args: &BenchArgs) -> bool {
        self != Self::Crash || args.url.is_none()
    }

    /// Beside those of every trial.
    pub(super) fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            // What waits for the black hole is to be due all the time.
            Self::BlackHole => &[("POSTHASTE_BREAKER_ENABLED", "false")],
            _ => &[],
        }
    }

    /// About, and without the time a trial takes to begin.
    pub(super) fn takes(self, args: &BenchArgs) -> Duration {
        let rounds = u32::from(args.rounds);
        match self {
            Self::One | Self::Fanout | Self::Slow => args.time * 2 * rounds + args.time,
            Self::BlackHole => args.time * 2 * rounds,
            Self::Slots => args.time * 4 * rounds,
            Self::LargeFanout => args.time * rounds + args.time,
            Self::Idle | Self::Low | Self::Crash => args.time * rounds,
            Self::Overload => args.time * 2 * rounds,
        }
    }

    pub(super) async fn measure(
        self,
        args: &BenchArgs,
        trial: Trial,
        told: &mut Told,
    ) -> Result<Vec<Figure>, Failure> {
        let mut figures = Figures::default();
        match self {
            Self::One | Self::Fanout | Self::Slow => {
                throughput::measure(self, args, trial, told, &mut figures).await?;
            }
            Self::BlackHole => trouble::black_hole(args, trial, told, &mut figures).await?,
            Self::Slots => pace::slots(args, trial, told, &mut figures).await?,
            Self::LargeFanout => large_fanout::measure(args, trial, told, &mut figures).await?,
            Self::Idle | Self::Low => quiet::measure(self, args, trial, told, &mut figures).await?,
            Self::Overload => trouble::overload(args, trial, told, &mut figures).await?,
            Self::Crash => trouble::crash(args, trial, told, &mut figures).await?,
        }
        Ok(figures.summed_up())
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Percentiles of a latency, in milliseconds.
fn latency(names: [&'static str; 3], of: &lab::Histogram) -> [Measured; 3] {
    use super::figures::Better::Lower;
    let of = |percent| of.percentile_ms(percent);
    [
        Measured::new(names[0], "ms", Lower, of(50.0)),
        Measured::new(names[1], "ms", Lower, of(99.0)),
        Measured::new(names[2], "ms", Lower, of(99.9)),
    ]
}

const ACKNOWLEDGED: [&str; 3] = ["acknowledged p50", "acknowledged p99", "acknowledged p99.9"];
const ARRIVED: [&str; 3] = ["arrived p50", "arrived p99", "arrived p99.9"];
