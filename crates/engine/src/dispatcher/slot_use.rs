//! What a lane's owner notes of its slots between two samples: counters in memory, and nothing else on the way of a delivery.

use domain::{
    id::{AccountId, DestinationId},
    time::Timestamp,
};

/// For how long slots were taken, and how often one was denied.
#[derive(Debug, Default)]
pub(super) struct SlotUse {
    in_flight: u32,
    since: Option<Timestamp>,
    busy_us: u64,
    denied: u64,
}

impl SlotUse {
    /// So many are taken from now on.
    pub(super) fn note(&mut self, in_flight: u32, now: Timestamp) {
        if let Some(since) = self.since {
            self.busy_us += u64::from(self.in_flight) * now.since(since).as_micros() as u64;
        }
        (self.in_flight, self.since) = (in_flight, Some(now));
    }

    /// Up to when that is known.
    pub(super) fn since(&self) -> Option<Timestamp> {
        self.since
    }

    pub(super) fn deny(&mut self, count: u64) {
        self.denied += count;
    }

    /// Microseconds in which a slot was taken, and how often one was denied, since this was last asked.
    pub(super) fn take(&mut self, in_flight: u32, now: Timestamp) -> (u64, u64) {
        self.note(in_flight, now);
        (std::mem::take(&mut self.busy_us), std::mem::take(&mut self.denied))
    }
}

/// A lane at which something happened since the last sample, or in which something waits or waited then.
#[derive(Debug)]
pub(crate) struct LaneSample {
    pub(crate) account_id: AccountId,
    pub(crate) destination_id: DestinationId,
    pub(crate) slots: u32,
    pub(crate) busy_us: u64,
    pub(crate) denied: u64,
    /// None where not everything that waits is in memory.
    pub(crate) waiting: Option<u64>,
}

impl LaneSample {
    pub(super) fn is_worth_noting(&self) -> bool {
        self.busy_us > 0 || self.denied > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_counts_for_as_long_as_it_is_taken() {
        let at = Timestamp::from_seconds;
        let mut slots = SlotUse::default();
        slots.note(2, at(10));
        slots.note(1, at(13));
        slots.deny(4);
        assert_eq!(slots.take(1, at(15)), (8_000_000, 4));
        assert_eq!(slots.take(0, at(16)), (1_000_000, 0), "the one that was open all the time");
        assert_eq!(slots.take(0, at(90)), (0, 0));
    }
}
