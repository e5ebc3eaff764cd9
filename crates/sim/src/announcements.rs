//! What the committer announces, on its way to the engine: where bugs of the order around a flush are planted.

use crate::{plant::Plant, scene::Scene};
use async_trait::async_trait;
use domain::{
    delivery::Position,
    id::{DeliveryId, DestinationId},
};
use std::sync::{Arc, Mutex};
use store::{Announce, Arrival, Change, Expansion};

pub(crate) struct Announcements {
    engine: Arc<dyn Announce>,
    scene: Arc<Scene>,
    /// With the bug planted: what the lanes should have been told before the flush.
    kept_back: Mutex<Vec<(DestinationId, DeliveryId)>>,
}

impl Announcements {
    pub(crate) fn new(engine: Arc<dyn Announce>, scene: Arc<Scene>) -> Self {
        Self { engine, scene, kept_back: Mutex::default() }
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
        if self.scene.has(Plant::ExpectedLate) {
            return self.kept_back.lock().expect("never poisoned").extend_from_slice(deliveries);
        }
        self.engine.expected(deliveries).await;
    }

    async fn arrived(&self, arrivals: Vec<Arrival>) {
        self.tell_late().await;
        if self.scene.has(Plant::LostWakeUp) && !self.scene.chance.happens(0.7) {
            return;
        }
        self.engine.arrived(arrivals).await;
    }

    async fn forgotten(&self, deliveries: &[(DestinationId, DeliveryId)]) {
        self.tell_late().await;
        self.engine.forgotten(deliveries).await;
    }

    async fn look(&self, places: &[(DestinationId, DeliveryId, Position)]) {
        self.tell_late().await;
        if self.scene.has(Plant::ForgottenAfterUnknown) {
            let deliveries: Vec<_> = places.iter().map(|(destination, id, _)| (*destination, *id)).collect();
            return self.engine.forgotten(&deliveries).await;
        }
        self.engine.look(places).await;
    }

    async fn expanding(&self, expansions: Vec<Expansion>) {
        self.tell_late().await;
        self.engine.expanding(expansions).await;
    }

    async fn changed(&self, change: Change) {
        self.engine.changed(change).await;
    }
}
