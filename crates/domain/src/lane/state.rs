//! What a lane is like at the moment.

use super::{DeliveryStage, KnownDelivery, Lane, LaneMode};
use crate::{
    destination::Ordering,
    gate::{GateRecord, GateSettings, Hold, HoldReason},
    id::DeliveryId,
    time::Timestamp,
};
use std::time::Duration;

impl<C> Lane<C> {
    /// A scheduled delivery is to be numbered.
    pub fn has_to_number(&self) -> bool {
        self.order.as_ref().is_some_and(|order| order.has_to_number())
    }

    pub fn ordering(&self) -> Ordering {
        self.ordering
    }

    pub fn is_configured(&self) -> bool {
        self.settings.is_some()
    }

    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Deliveries that were due and found every slot taken, each time they fell due: those since this was last asked.
    pub fn take_denied(&mut self) -> u64 {
        self.denied.take()
    }

    /// Since when the first of those that wait has been due, as far as is known here. None if none is, and while the
    /// destination is paused or being ended: then it is not expected to be sent.
    pub fn due_since(&self, now: Timestamp) -> Option<Timestamp> {
        if self.settings.as_ref().is_some_and(|settings| settings.mode != LaneMode::Deliver) {
            return None;
        }
        let loaded = self.loaded.values().next().map(|loaded| loaded.delivery.due_at);
        let reading = self.fetching_from.filter(|_| self.fetching);
        // A mark at the beginning of everything says nothing about when.
        let marks =
            [self.unseen, reading].into_iter().flatten().map(|mark| mark.rank).filter(|rank| *rank > 0);
        let ordered = self.order.iter().flat_map(|order| order.heads_due());
        let due = loaded.into_iter().chain(marks.map(Timestamp::from_micros)).chain(ordered);
        due.min().filter(|at| *at <= now)
    }

    /// How many deliveries have not ended, if all of them are here; what is about to be committed is not among them.
    pub fn waiting_here(&self) -> Option<usize> {
        let is_elsewhere = self.unseen.is_some() || self.left_over.is_some() || self.fetching;
        let committed = |known: &&KnownDelivery| known.stage != DeliveryStage::Expected;
        (!is_elsewhere && self.order.is_none()).then(|| self.known.values().filter(committed).count())
    }

    /// Deliveries in memory that have not started.
    pub fn loaded(&self) -> usize {
        self.loaded.len() + self.order.as_ref().map_or(0, |order| order.loaded())
    }

    /// Back-pressure: what has ended and is not durable yet counts against the lane, twice its limit in all.
    pub fn awaits_flush(&self) -> bool {
        let limit = self.settings.as_ref().map_or(0, |settings| settings.max_concurrency);
        self.in_flight + self.unflushed >= limit.saturating_mul(2)
    }

    /// Whether something waits for the next flush: in an ordered lane always the delivery behind.
    pub fn hurries(&self) -> bool {
        self.order.is_some() || self.awaits_flush()
    }

    /// Nothing to do, nothing to remember: the lane can be forgotten.
    pub fn is_idle(&self, settings: &GateSettings, now: Timestamp) -> bool {
        self.is_quiet(now) && self.gate.at_rest(settings, now)
    }

    /// Nothing to do, and nothing to remember but what its gate has met.
    pub fn is_quiet(&self, now: Timestamp) -> bool {
        let ordered = self.order.as_ref().is_none_or(|order| order.is_idle());
        let unseen = self.unseen.is_some() || self.left_over.is_some();
        let nothing_to_do = self.known.is_empty() && !unseen && !self.fetching;
        nothing_to_do && ordered && self.pace_at_rest(now)
    }

    /// Has something due and a slot of its own for it, but the node's capacity leaves it none.
    pub fn is_starved(&self, share: u32, now: Timestamp) -> bool {
        let limit = self.settings.as_ref().map_or(0, |settings| settings.max_concurrency);
        let due = match &self.order {
            Some(order) => order.has_ready(now),
            None => self.loaded.values().next().is_some_and(|loaded| loaded.delivery.due_at <= now),
        };
        due && self.in_flight >= share && self.in_flight < limit
    }

    /// Has a request of this delivery open, and since when.
    pub fn delivering_since(&self, id: DeliveryId) -> Option<Timestamp> {
        match self.known.get(&id)?.stage {
            DeliveryStage::Open { since } => Some(since),
            _ => None,
        }
    }

    /// Deliveries whose request has been open for at least so long, in order.
    pub fn open_for(&self, pause: Duration, now: Timestamp) -> Vec<DeliveryId> {
        let long = |known: &KnownDelivery| matches!(known.stage, DeliveryStage::Open { since } if now.since(since) >= pause);
        let mut open: Vec<DeliveryId> =
            self.known.iter().filter(|(_, known)| long(known)).map(|(id, _)| *id).collect();
        open.sort_unstable();
        open
    }

    /// What the next owner must know of the gate.
    pub fn gate_record(&self) -> Option<GateRecord> {
        self.gate.record()
    }

    /// Why the destination waits, if it does.
    pub fn destination_hold(&self, now: Timestamp) -> Option<Hold> {
        match self.settings.as_ref().map(|settings| settings.mode) {
            Some(LaneMode::End { since, .. }) => Some(switched(HoldReason::Disabled, since)),
            Some(LaneMode::Paused { since }) => Some(switched(HoldReason::Paused, since)),
            _ => self.gate.hold(now),
        }
    }

    /// Why its gate keeps it from being tried now, or lets one probe through; what is over is only remembered.
    pub fn held_by_gate(&self, now: Timestamp) -> Option<HoldReason> {
        let hold = self.gate.hold(now)?;
        (hold.probing || hold.until.is_none_or(|until| until > now)).then_some(hold.reason)
    }

    /// A limit of one an hour is remembered for an hour.
    fn pace_at_rest(&self, now: Timestamp) -> bool {
        self.rate_limit.is_none() || (self.pace.is_over(now) && self.paced_until(now).is_none())
    }

    /// Disabled or deleted: its deliveries are being ended.
    pub fn is_ending(&self) -> bool {
        self.ending
    }
}

fn switched(reason: HoldReason, since: Timestamp) -> Hold {
    Hold { reason, since, until: None, detail: String::new(), step: None, probing: false }
}
