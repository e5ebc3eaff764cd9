//! Memory for payloads that are too large to travel with their delivery: shared out between accounts, and waited for in a
//! delivery's own slot.

use domain::{
    delivery::Delivery,
    id::DeliveryId,
    lane::{Explanation, WaitKind, WaitingFor},
    limits,
    metrics::{MetricKind, Text},
    time::Timestamp,
};
use sharing::{Share, SharedResource};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

pub(crate) struct LargePayloads {
    /// In kibibytes.
    memory: Arc<SharedResource>,
    /// Deliveries that wait for their share, and since when.
    waiting: Mutex<HashMap<DeliveryId, Timestamp>>,
}

impl LargePayloads {
    pub(crate) fn new() -> Self {
        Self { memory: SharedResource::new(limits::LARGE_PAYLOADS_BYTES / 1024), waiting: Mutex::default() }
    }

    /// Waits until there is so much memory for the payload of this delivery.
    pub(crate) async fn room_for(&self, delivery: &Delivery, bytes: usize, now: Timestamp) -> Share {
        let kibibytes = bytes.div_ceil(1024);
        if let Some(share) = self.memory.try_take(delivery.account_id, kibibytes) {
            return share;
        }
        self.waiting().insert(delivery.id, now);
        let _waits = Waits { of: self, delivery: delivery.id };
        self.memory.take(delivery.account_id, kibibytes).await
    }

    /// What is said of a delivery that has its slot: that it waits, if it is for this memory.
    pub(crate) fn explain(&self, delivery: &Delivery, explanation: Explanation) -> Explanation {
        let since = match explanation {
            Explanation::Delivering => self.waiting().get(&delivery.id).copied(),
            _ => None,
        };
        let Some(since) = since else { return explanation };
        let detail = "memory for large payloads, which all requests of this node share".into();
        Explanation::Waits(WaitingFor { kind: WaitKind::Capacity, since, until: None, behind: None, detail })
    }

    pub(crate) fn is_waiting(&self, delivery: DeliveryId) -> bool {
        self.waiting().contains_key(&delivery)
    }

    pub(crate) fn write(&self, text: &mut Text) {
        let help = "Bytes of payloads above 16 KiB in memory for requests that carry them.";
        text.single("posthaste_large_payloads_bytes", MetricKind::Gauge, help, self.memory.used() * 1024);
        let help = "Deliveries that wait, in their slot, for memory for a large payload.";
        text.single("posthaste_large_payloads_waiting", MetricKind::Gauge, help, self.memory.waiting());
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<DeliveryId, Timestamp>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// For as long as a delivery waits, however that ends.
struct Waits<'a> {
    of: &'a LargePayloads,
    delivery: DeliveryId,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.of.waiting().remove(&self.delivery);
    }
}
