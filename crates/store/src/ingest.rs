//! Committing events: the one promise everything rests on.

use crate::{PreparedEvent, StoreError};
use async_trait::async_trait;
use domain::{
    delivery::{Delivery, Position},
    destination::{Numbering, Ordering},
    event::Event,
    id::{AccountId, DeliveryId, DestinationId, EventId, RouteId},
    route::Route,
    time::Timestamp,
};
use std::sync::Arc;

#[async_trait]
pub trait Ingest: Send + Sync {
    /// Writes events, their deliveries and their idempotency keys in one transaction and flushes it: when this
    /// returns, everything reported as [`Committed::New`] survives a power cut. One result per event, in order.
    /// Several may be under way at once; which of them is first decides who has a key and which numbers are given.
    ///
    /// Two events of one batch may carry the same key: the first wins. `Err(OutcomeUnknown)` means that the whole
    /// batch may or may not be there; committing the very same batch again is safe (an event whose own id is found
    /// under its key counts as new).
    ///
    /// What is asked of an event, in this order: is it there already, by its own id (then it is new, and nothing is
    /// written again)? Is its account there? Has the account still the version it was matched at? Is its key unused?
    ///
    /// Of what is written, sequenced deliveries take the next numbers of their destinations, in the order of the batch;
    /// what is not written takes none. A reader that sees a number sees all below it that have not ended.
    async fn commit(&self, batch: &[NewEvent], now: Timestamp) -> Result<Vec<Committed>, StoreError>;

    /// Forgets idempotency keys that were committed before `before` (by the commit's `now`), oldest first, at most
    /// `limit` of them; says how many.
    async fn prune_idempotency(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError>;
}

#[derive(Debug, Clone)]
pub struct NewEvent {
    pub event: Arc<PreparedEvent>,
    /// The account's version its deliveries were matched at.
    pub account_version: i64,
    /// One for each destination.
    pub deliveries: Vec<NewDelivery>,
    /// Routes that match too and deliver nothing: at most [`domain::limits::OTHER_ROUTES`]. Kept with the event, if any.
    pub other_routes: Vec<RouteId>,
    /// It is for more destinations than one commit takes: an expansion makes its deliveries, but for those that are here
    /// already because their destination is ordered.
    pub expands: bool,
    pub key: Option<IdempotencyKey>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NewDelivery {
    pub id: DeliveryId,
    pub route_id: RouteId,
    pub destination_id: DestinationId,
    pub shard: u16,
    pub position: Position,
    pub due_at: Timestamp,
    /// The commit gives it the destination's next number; where there is an order the rank that is given here counts for
    /// nothing.
    pub sequenced: bool,
}

impl NewDelivery {
    /// What a route, or a replay of what it made, brings to a destination that numbers like this.
    pub fn new(
        id: DeliveryId,
        route_id: RouteId,
        (destination_id, numbering): (DestinationId, impl Into<Numbering>),
        ordering_key: Option<&str>,
        due_at: Timestamp,
        now: Timestamp,
    ) -> Self {
        let (position, sequenced) = Position::new(numbering, ordering_key, due_at, now, id);
        let shard = destination_id.shard();
        Self { id, route_id, destination_id, shard, position, due_at, sequenced }
    }

    /// The same to a destination without order.
    pub fn unordered(id: DeliveryId, route_id: RouteId, to: DestinationId, due_at: Timestamp) -> Self {
        Self::new(id, route_id, (to, Ordering::None), None, due_at, due_at)
    }

    /// The first delivery of an event by a route.
    pub fn of_route(
        event: &Event,
        route: &Route,
        numbering: Numbering,
        id: DeliveryId,
        now: Timestamp,
    ) -> Self {
        let due_at = event.deliver_at.map_or(now, |at| at.max(now));
        let destination = (route.destination_id, numbering);
        Self::new(id, route.id, destination, event.ordering_key.as_deref(), due_at, now)
    }

    /// The delivery as it waits for its first attempt; the commit gives it its number if it takes one.
    pub fn of(&self, event: &Event) -> Delivery {
        Delivery::new(self.id, event, self.destination_id, self.route_id, self.position, self.due_at)
    }
}

/// Unique within its scope: the source, or the account for what is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IdempotencyKey {
    /// The id of the source or of the account.
    pub scope: uuid::Uuid,
    /// SHA-256 of the key as given.
    pub hash: [u8; 32],
    /// SHA-256 of what the key stands for: the same key with another body is a conflict.
    pub body_hash: [u8; 32],
}

#[derive(Debug, Clone, PartialEq)]
pub enum Committed {
    New,
    /// The key was used before, by this event, which was committed with so many deliveries; None while an expansion
    /// makes them.
    Duplicate {
        of: EventId,
        deliveries: Option<u32>,
        body_hash: [u8; 32],
    },
    /// The account's configuration has changed since the event was matched: match it again. Nothing was written.
    Stale,
    /// The account is gone.
    NoAccount(AccountId),
    /// This one event cannot be stored; its neighbours are.
    Refused(String),
}
