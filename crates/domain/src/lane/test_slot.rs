//! Tests of a destination: single requests that a person asks for. Each takes a slot as a delivery does, and leaves nothing
//! behind: the gate learns nothing of it, and no row waits for its end.

use super::{
    Binding, DeliveryStage, Explanation, KnownDelivery, Lane, LaneMode, WaitingFor, pace::StartInterval,
};
use crate::{delivery::Delivery, id::DeliveryId, time::Timestamp};

/// A slot that a test has taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TestSlot {
    /// It is one of those that come back one by one after a hold.
    ramps: bool,
}

impl<C> Lane<C> {
    /// A test takes a slot, if there is one and rate, gate and switches permit it. One that is forced asks for the slot
    /// alone. `share` is what the node's capacity leaves to this lane.
    pub fn start_test(
        &mut self,
        id: DeliveryId,
        forced: bool,
        share: u32,
        now: Timestamp,
    ) -> Option<TestSlot> {
        let limit = self.settings.as_ref()?.max_concurrency;
        if self.in_flight >= limit.min(share) {
            self.full_since.get_or_insert(now);
            return None;
        }
        let ramps = self.gate.permits(now);
        if !forced && (!ramps || self.test_not_before(now).is_some()) {
            return None;
        }
        if let Some(limit) = self.rate_limit {
            self.pace.started(StartInterval::of(limit), now);
        }
        self.known.insert(id, DeliveryStage::Open { since: now }.into());
        self.in_flight += 1;
        if ramps {
            self.gate.started();
        }
        Some(TestSlot { ramps })
    }

    /// Its request has ended, however it went. After a word about a test of another life of this lane nothing changes.
    pub fn test_ended(&mut self, id: DeliveryId, slot: TestSlot) {
        if let Some(KnownDelivery { stage: DeliveryStage::Open { since }, .. }) = self.known.remove(&id) {
            self.in_flight -= 1;
            self.full_since = None;
            if slot.ramps {
                self.gate.abandoned(since);
            }
        }
    }

    /// Until when no test can start that is not forced, whatever slots there are; None if one could now.
    pub fn test_not_before(&self, now: Timestamp) -> Option<Timestamp> {
        match self.settings.as_ref()?.mode {
            LaneMode::Deliver => self.gate.held_until(now).max(self.paced_until(now)),
            LaneMode::Paused { .. } | LaneMode::End { .. } => Some(Timestamp::MAX),
        }
    }

    /// What a test waits for that has not started, in the words of a delivery.
    pub fn test_waits_for(&self, test: &Delivery, forced: bool, now: Timestamp) -> WaitingFor {
        let binding = match self.explain(test, now) {
            Explanation::Waits(waits) if !forced => return waits,
            _ => Binding { full: self.slots(now).full, ..Binding::default() },
        };
        binding.waiting_for(test, || "its turn on this node".into())
    }
}
