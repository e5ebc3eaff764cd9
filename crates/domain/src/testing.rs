//! Samples for tests: the one event and the one delivery that all others are made of, by naming what is different.

use crate::{
    delivery::{Delivery, Position},
    event::Event,
    id::{AccountId, DeliveryId, DestinationId, EventId, RouteId},
    time::Timestamp,
};
use bytes::Bytes;

/// An event of type `test.sent` with an empty JSON object in it.
pub fn event(account_id: AccountId, received_at: Timestamp, chance: u128) -> Event {
    let event_type = "test.sent".parse().expect("an event type");
    Event::new(
        EventId::at(received_at, chance),
        account_id,
        event_type,
        Bytes::from_static(b"{}"),
        received_at,
    )
}

/// A delivery to an unordered destination, due when its event was received and not tried yet.
pub fn delivery(id: DeliveryId, event: &Event, destination_id: DestinationId) -> Delivery {
    let due_at = event.received_at;
    Delivery::new(id, event, destination_id, RouteId::MIN, Position::due(due_at, id), due_at)
}
