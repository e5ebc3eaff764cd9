//! What the committer announces, on its way to the engine: where bugs of the order around a flush are planted.

use crate::{planted_bug::PlantedBug, shared_world::SharedWorld};
use async_trait::async_trait;
use domain::{
    delivery::Position,
    id::{DeliveryId, DestinationId},
};
use std::sync::{Arc, Mutex};
use store::{Announce, Arrival, Change, Expansion};

pub(crate) struct Announcements {
    engine: Arc<dyn Announce>,
    shared: Arc<SharedWorld>,
    /// With the bug planted: what the lanes should have been told before the flush.
    kept_back: Mutex<Vec<(DestinationId, DeliveryId)>>,
}

impl Announcements {
    pub(crate) fn new(engine: Arc<dyn Announce>, shared: Arc<SharedWorld>) -> Self {
        Self { engine, shared, kept_back: Mutex::default() }
    }

    async fn tell_late(&self) {
        let late = std::mem::take(&mut *self.kept_back.lock().expect("never poisoned"));
        if !late.is_empty() {
            self.engine.expected(&late).await;
        }
    }
}

#[async_trait]
impl Announce for Announcements {
    async fn expected(&self, deliveries: &[(DestinationId, DeliveryId)]) {
        if self.shared.has(PlantedBug::ExpectedLate) {
            return self.kept_back.lock().expect("never poisoned").extend_from_slice(deliveries);
        }
        self.engine.expected(deliveries).await;
    }

    async fn arrived(&self, arrivals: Vec<Arrival>) {
        self.tell_late().await;
        if self.shared.has(PlantedBug::LostWakeUp) && !self.shared.chance.happens(0.7) {
            return;
        }
        self.engine.arrived(arrivals).await;
    }

    async fn forgotten(&self, deliveries: &[(DestinationId, DeliveryId)]) {
        self.tell_late().await;
        self.engine.forgotten(deliveries).await;
    }

    async fn look(&self, positions: &[(DestinationId, DeliveryId, Position)]) {
        self.tell_late().await;
        if self.shared.has(PlantedBug::ForgottenAfterUnknown) {
            let deliveries: Vec<_> =
                positions.iter().map(|(destination, id, _)| (*destination, *id)).collect();
            return self.engine.forgotten(&deliveries).await;
        }
        self.engine.look(positions).await;
    }

    async fn expanding(&self, expansions: Vec<Expansion>) {
        self.tell_late().await;
        self.engine.expanding(expansions).await;
    }

    async fn changed(&self, change: Change) {
        self.engine.changed(change).await;
    }
}
