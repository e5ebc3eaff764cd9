//! Erasing what was an account's: which things go, and in which order.

use crate::word::words;

words! {
    "what is being erased",
    /// What is being erased, in this order: what makes something comes before what it makes, and what names something
    /// before what is named.
    ErasurePhase {
        /// What waits, and what is yet to be made of events.
        Waiting = "waiting",
        /// Replays, with what they say of their deliveries.
        Replays = "replays",
        /// Events with their payloads and tags.
        Events = "events",
        Routes = "routes",
        /// Destinations with all attempts, holds and gates.
        Destinations = "destinations",
        IdempotencyKeys = "idempotency_keys",
        /// Sources and API keys.
        Sources = "sources",
        /// Statistics, counts and notes.
        Sums = "sums",
    }
}

impl ErasurePhase {
    pub const FIRST: Self = Self::ALL[0];

    /// The one that follows; None behind the last.
    pub fn next(self) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| *phase > self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phase_comes_once() {
        let phases: Vec<_> = std::iter::successors(Some(ErasurePhase::FIRST), |phase| phase.next()).collect();
        assert_eq!(phases, ErasurePhase::ALL);
    }
}
