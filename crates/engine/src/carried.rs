//! One byte budget for everything that travels through this node: windows, hand-overs, open requests, results.
//!
//! A share is given back when it is dropped, so nothing that panics or is forgotten can leak it.

use domain::{event::Event, limits};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

#[derive(Debug)]
pub(crate) struct CarriedBytes {
    used: AtomicUsize,
    limit: usize,
}

/// What travels with a delivery: its event, one for all of its deliveries that come together, and its part of the budget.
#[derive(Debug)]
pub(crate) struct CarriedEvent {
    pub(crate) event: Option<Arc<Event>>,
    /// False: the payload is read when the delivery starts.
    pub(crate) has_payload: bool,
    bytes: usize,
    budget: Arc<CarriedBytes>,
}

impl CarriedBytes {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { used: AtomicUsize::new(0), limit })
    }

    pub(crate) fn has_room(&self) -> bool {
        self.used.load(Ordering::Relaxed) < self.limit
    }

    pub(crate) fn carry(self: &Arc<Self>, event: Option<Arc<Event>>, has_payload: bool) -> Arc<CarriedEvent> {
        let payload = event.as_ref().map_or(0, |event| event.payload.len());
        let bytes = limits::DELIVERY_OVERHEAD_BYTES + payload;
        self.used.fetch_add(bytes, Ordering::Relaxed);
        Arc::new(CarriedEvent { event, has_payload, bytes, budget: Arc::clone(self) })
    }
}

impl Drop for CarriedEvent {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_gives_its_share_back() {
        let budget = CarriedBytes::new(limits::DELIVERY_OVERHEAD_BYTES);
        let carried = budget.carry(None, false);
        assert!(!budget.has_room());
        drop(carried);
        assert!(budget.has_room());
    }
}
