//! The nemesis: what is done to the nodes, when, and a log of it that the judge can reckon with.
//!
//! A [`Schedule`] is drawn from a seed and is only a list; the check that plays it does the killing (with
//! [`crate::ChildProcess`], [`crate::Proxy`] or the database's own commands) and writes each fault down as it happens. The
//! judge never learns what was planned, only what was done.

mod clock;

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

pub use clock::ShiftedClock;

/// What was done, and when it was in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// On the receiver's clock.
    pub at_us: u64,
    pub kind: FaultKind,
    /// The process it was done to; None: it concerned all of them.
    pub sender: Option<u32>,
    /// When it was over, if it lasted.
    pub until_us: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    Kill,
    Freeze,
    Terminate,
    /// The node was taken for dead and its row removed.
    LostOwnership,
    DatabaseAway,
    NetworkCut,
}

impl Fault {
    pub fn new(kind: FaultKind, at_us: u64, sender: Option<u32>) -> Fault {
        Fault { at_us, kind, sender, until_us: None }
    }

    /// One that struck all nodes, as a crash of the database does.
    pub fn of_all(kind: FaultKind, at_us: u64) -> Fault {
        Fault::new(kind, at_us, None)
    }
}

/// What to do to which node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// kill -9, and start again after a pause.
    Kill { down: Duration },
    /// SIGSTOP, and SIGCONT after a while.
    Freeze { still: Duration },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PlannedAct {
    /// From the beginning of the load.
    pub at: Duration,
    pub node: usize,
    pub act: Act,
}

/// Faults in the order of their time; the same for the same seed.
#[derive(Debug, Clone, Serialize)]
pub struct Schedule {
    pub seed: u64,
    pub acts: Vec<PlannedAct>,
}

impl Schedule {
    /// One act every `every`, each to a node drawn at random, none in the last `every` of the span.
    pub fn every(seed: u64, every: Duration, span: Duration, nodes: usize, act: Act) -> Schedule {
        let mut dice = StdRng::seed_from_u64(seed);
        let times = (1..).map(|n| every * n).take_while(|at| *at + every <= span);
        let acts = times.map(|at| PlannedAct { at, node: dice.random_range(0..nodes.max(1)), act }).collect();
        Schedule { seed, acts }
    }

    /// One act at each of these times.
    pub fn at(seed: u64, times: &[Duration], nodes: usize, act: Act) -> Schedule {
        let mut dice = StdRng::seed_from_u64(seed);
        let planned = |at: &Duration| PlannedAct { at: *at, node: dice.random_range(0..nodes.max(1)), act };
        Schedule { seed, acts: times.iter().map(planned).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_seed_is_a_schedule() {
        let act = Act::Kill { down: SECOND };
        let draw = |seed| Schedule::every(seed, 3 * SECOND, 60 * SECOND, 3, act).acts;
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        let acts = draw(7);
        assert_eq!(acts.len(), 19);
        assert_eq!((acts[0].at, acts[18].at), (3 * SECOND, 57 * SECOND));
        assert!((0..3).all(|node| acts.iter().any(|planned| planned.node == node)));
    }
}
