//! A chunk's deliveries are handed over to their lanes as those of a commit are: *expected* before they are written, *arrived*
//! or *forgotten* once it is known. So a lane that keeps up with a backfill reads nothing again.
//!
//! A chunk for many destinations is a crowd, which only says where its deliveries wait: their lanes are entered as there is room.
//! Whatever ends a chunk before its outcome is known, a panic too, has its lanes look for it: what they expect they would
//! overlook for ever.

use crate::dispatcher::Message;
use domain::{
    delivery::Position,
    id::{DeliveryId, DestinationId},
    limits,
};
use std::collections::BTreeSet;
use store::{Arrival, NewDelivery, StoreError};
use tokio::{runtime::Handle, sync::mpsc};

type Place = (DestinationId, DeliveryId, Position);

/// A delivery that is about to be written.
pub(super) struct Promised {
    pub(super) arrival: Arrival,
    /// It takes its number with the write, which only the store knows: its lane looks for it, and expects nothing.
    pub(super) numbered: bool,
}

impl Promised {
    pub(super) fn new(arrival: Arrival, delivery: &NewDelivery) -> Self {
        Self { arrival, numbered: delivery.sequenced && delivery.position.track == Position::UNORDERED }
    }

    fn id(&self) -> (DestinationId, DeliveryId) {
        (self.arrival.delivery.destination_id, self.arrival.delivery.id)
    }

    fn place(&self) -> Place {
        let (destination, delivery) = self.id();
        (destination, delivery, self.arrival.delivery.position)
    }
}

/// Deliveries on their way into the store.
pub(super) struct HandOver {
    dispatcher: mpsc::Sender<Message>,
    /// None that has been told of.
    promised: Vec<Promised>,
    is_crowd: bool,
}

impl HandOver {
    /// Their lanes expect them from now on. A dispatcher that has stopped hears nothing: the rows are durable.
    pub(super) async fn begin(dispatcher: &mpsc::Sender<Message>, promised: Vec<Promised>) -> Self {
        let destinations: BTreeSet<DestinationId> = promised.iter().map(|it| it.id().0).collect();
        let is_crowd = destinations.len() > limits::LANES_AT_ONCE;
        let this = Self { dispatcher: dispatcher.clone(), promised, is_crowd };
        let expected: Vec<_> = this.promised.iter().filter(|it| !it.numbered).map(Promised::id).collect();
        if !is_crowd && !expected.is_empty() {
            this.say(Message::Expected(expected)).await;
        }
        this
    }

    /// What was made of them, or what is known of it.
    pub(super) async fn end(mut self, written: &Result<Option<Vec<DeliveryId>>, StoreError>) {
        let made: BTreeSet<DeliveryId> = match written {
            Ok(made) => made.iter().flatten().copied().collect(),
            Err(StoreError::Unavailable(_)) => BTreeSet::new(),
            // They may be there.
            Err(_) => return self.look().await,
        };
        let (made, not_made): (Vec<Promised>, Vec<Promised>) =
            std::mem::take(&mut self.promised).into_iter().partition(|it| made.contains(&it.id().1));
        if self.is_crowd {
            if !made.is_empty() {
                self.say(Message::Made(made.iter().map(Promised::place).collect())).await;
            }
            return;
        }
        let (numbered, arrived): (Vec<Promised>, Vec<Promised>) =
            made.into_iter().partition(|it| it.numbered);
        if !arrived.is_empty() {
            self.say(Message::Arrived(arrived.into_iter().map(|it| it.arrival).collect())).await;
        }
        let forgotten: Vec<_> = not_made.iter().filter(|it| !it.numbered).map(Promised::id).collect();
        if !forgotten.is_empty() {
            self.say(Message::Forgotten(forgotten)).await;
        }
        if !numbered.is_empty() {
            self.say(Message::Look(numbered.iter().map(Promised::place).collect())).await;
        }
    }

    async fn look(mut self) {
        let promised = std::mem::take(&mut self.promised);
        if !promised.is_empty() {
            self.say(Message::Made(promised.iter().map(Promised::place).collect())).await;
        }
    }

    async fn say(&self, message: Message) {
        let _ = self.dispatcher.send(message).await;
    }
}

impl Drop for HandOver {
    fn drop(&mut self) {
        if self.promised.is_empty() {
            return;
        }
        let places: Vec<Place> = self.promised.iter().map(Promised::place).collect();
        let dispatcher = self.dispatcher.clone();
        // Without a runtime the process is ending.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                let _ = dispatcher.send(Message::Made(places)).await;
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::{id::RouteId, testing, time::Timestamp};
    use std::sync::Arc;

    const NOW: Timestamp = Timestamp::from_seconds(1_790_000_000);

    fn promised(n: u128, to: u128) -> Promised {
        let event = testing::event(domain::id::AccountId::MIN, NOW, n);
        let destination = DestinationId::at(NOW, to);
        let delivery = NewDelivery::unordered(DeliveryId::at(NOW, n), RouteId::at(NOW, 1), destination, NOW);
        let arrival = Arrival {
            shard: delivery.shard,
            delivery: delivery.of(&event),
            event: Some(Arc::new(event)),
            has_payload: true,
            sealed: None,
        };
        Promised::new(arrival, &delivery)
    }

    fn ids(promised: &[Promised]) -> Vec<DeliveryId> {
        promised.iter().map(|it| it.id().1).collect()
    }

    async fn told(
        promised: Vec<Promised>,
        written: Result<Option<Vec<DeliveryId>>, StoreError>,
    ) -> Vec<String> {
        let (dispatcher, mut inbox) = mpsc::channel(100);
        HandOver::begin(&dispatcher, promised).await.end(&written).await;
        drop(dispatcher);
        let mut told = Vec::new();
        while let Some(message) = inbox.recv().await {
            told.push(word(&message));
        }
        told
    }

    fn word(message: &Message) -> String {
        match message {
            Message::Expected(of) => format!("expected {}", of.len()),
            Message::Arrived(of) => format!("arrived {}", of.len()),
            Message::Forgotten(of) => format!("forgotten {}", of.len()),
            Message::Look(of) => format!("look {}", of.len()),
            Message::Made(of) => format!("made {}", of.len()),
            _ => "something else".into(),
        }
    }

    #[tokio::test]
    async fn what_was_made_arrives_and_the_rest_is_forgotten() {
        let some: Vec<_> = (1..=3).map(|n| promised(n, 1)).collect();
        let made = ids(&some)[..2].to_vec();
        assert_eq!(told(some, Ok(Some(made))).await, ["expected 3", "arrived 2", "forgotten 1"]);
    }

    #[tokio::test]
    async fn what_was_not_written_is_forgotten() {
        for written in [Ok(None), Err(StoreError::Unavailable("away".into()))] {
            let told = told(vec![promised(1, 1)], written).await;
            assert_eq!(told, ["expected 1", "forgotten 1"]);
        }
    }

    #[tokio::test]
    async fn what_may_be_there_is_looked_for() {
        let unknown = Err(StoreError::OutcomeUnknown("cut".into()));
        assert_eq!(told(vec![promised(1, 1)], unknown).await, ["expected 1", "made 1"]);
    }

    #[tokio::test]
    async fn what_takes_its_number_with_the_write_is_looked_for() {
        let mut one = promised(1, 1);
        one.numbered = true;
        let made = ids(std::slice::from_ref(&one));
        assert_eq!(told(vec![one], Ok(Some(made))).await, ["look 1"]);
    }

    #[tokio::test]
    async fn a_crowd_is_told_where_it_waits() {
        let crowd: Vec<_> = (0..=limits::LANES_AT_ONCE as u128).map(|n| promised(n, n)).collect();
        let made = ids(&crowd);
        assert_eq!(told(crowd, Ok(Some(made.clone()))).await, [format!("made {}", made.len())]);
    }

    #[tokio::test]
    async fn what_is_given_up_is_looked_for() {
        let (dispatcher, mut inbox) = mpsc::channel(100);
        let under_way = HandOver::begin(&dispatcher, vec![promised(1, 1)]).await;
        assert_eq!(word(&inbox.recv().await.unwrap()), "expected 1");
        let panicked = tokio::spawn(async move {
            let _under_way = under_way;
            panic!("a failpoint");
        });
        assert!(panicked.await.is_err());
        assert_eq!(word(&inbox.recv().await.unwrap()), "made 1");
    }
}
