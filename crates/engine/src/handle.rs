//! The engine as the rest of the process sees it.

use crate::{
    budget::Budget,
    dispatcher::Message,
    sender::{Sender, Sent},
    target::Prepared,
};
use async_trait::async_trait;
use domain::{
    attempt::Attempt,
    delivery::{Delivery, Position},
    event::Event,
    id::{DeliveryId, DestinationId, RouteId},
    lane::WaitingFor,
    seal::MasterKeys,
};
use std::sync::Arc;
use store::{Announce, Arrival, Change, Expansion, Fact, LaneView, Lanes, StoreError};
use tokio::sync::{mpsc, oneshot};

pub struct EngineHandle {
    pub(crate) inbox: mpsc::Sender<Message>,
    /// For the expander.
    pub(crate) expansions: mpsc::Sender<Vec<Expansion>>,
    pub(crate) sender: Arc<Sender>,
    pub(crate) master_keys: Arc<MasterKeys>,
}

#[derive(Debug, thiserror::Error)]
pub enum TestSendError {
    #[error("no such destination")]
    NotFound,
    #[error("the attempt was given up")]
    Abandoned,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl EngineHandle {
    /// One attempt to a destination, outside its lane and without a trace in the store.
    pub async fn test_send(
        &self,
        destination: DestinationId,
        event: Event,
    ) -> Result<Attempt, TestSendError> {
        let target = self
            .sender
            .store
            .targets(&[destination])
            .await?
            .pop()
            .flatten()
            .ok_or(TestSendError::NotFound)?;
        let target = Prepared::new(target, &self.master_keys);
        let now = self.sender.clock.now();
        let id = DeliveryId::at(now, self.sender.dice.bits());
        let delivery = Delivery {
            id,
            account_id: event.account_id,
            event_id: event.id,
            destination_id: destination,
            route_id: RouteId::MIN,
            replay_id: None,
            origin: id,
            position: Position::due(now, id),
            due_at: now,
            attempts: 0,
            spent: 0,
            tls_errors: 0,
            last_outcome: None,
            last_http_status: None,
            created_at: now,
            available_at: now,
            payload_bytes: u32::try_from(event.payload.len()).unwrap_or(u32::MAX),
        };
        let cargo = Budget::new(usize::MAX).load(Some(Arc::new(event)), true);
        match self.sender.deliver(&target, delivery, cargo).await {
            Sent::Attempted { settlement, .. } => match settlement.fact {
                Fact::Attempted(attempt) => Ok(*attempt),
                Fact::EndedWithout { .. } => Err(TestSendError::Abandoned),
            },
            Sent::Abandoned(_) => Err(TestSendError::Abandoned),
        }
    }

    /// A dispatcher that has stopped hears nothing: the node is ending, and the rows are durable.
    async fn tell(&self, message: Message) {
        let _ = self.inbox.send(message).await;
    }

    async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Message) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        self.tell(question(answer)).await;
        answered.await.ok()
    }
}

#[async_trait]
impl Announce for EngineHandle {
    async fn expected(&self, deliveries: &[(DestinationId, DeliveryId)]) {
        self.tell(Message::Expected(deliveries.to_vec())).await;
    }

    async fn arrived(&self, arrivals: Vec<Arrival>) {
        self.tell(Message::Arrived(arrivals)).await;
    }

    async fn forgotten(&self, deliveries: &[(DestinationId, DeliveryId)]) {
        self.tell(Message::Forgotten(deliveries.to_vec())).await;
    }

    async fn look(&self, places: &[(DestinationId, DeliveryId, Position)]) {
        self.tell(Message::Look(places.to_vec())).await;
    }

    async fn expanding(&self, expansions: Vec<Expansion>) {
        // One that does not fit is found when the expander looks for what nobody goes on with.
        let _ = self.expansions.try_send(expansions);
    }

    async fn changed(&self, change: Change) {
        self.tell(Message::Changed(change)).await;
    }
}

#[async_trait]
impl Lanes for EngineHandle {
    async fn views(&self, destinations: &[DestinationId]) -> Vec<Option<LaneView>> {
        let wanted = destinations.to_vec();
        self.ask(|answer| Message::Views(wanted, answer))
            .await
            .unwrap_or_else(|| vec![None; destinations.len()])
    }

    async fn waiting_for(&self, deliveries: Vec<Delivery>) -> Vec<Option<WaitingFor>> {
        let count = deliveries.len();
        self.ask(|answer| Message::WaitingFor(deliveries, answer)).await.unwrap_or_else(|| vec![None; count])
    }
}
