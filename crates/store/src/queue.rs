//! The queue: deliveries that have not ended. Only their owner moves them.

use crate::{SealedEvent, StoreError, StoredEvent};
use async_trait::async_trait;
use domain::{
    attempt::Attempt,
    audit::AuditEntry,
    delivery::{Delivery, Ending, Position, Settled},
    event::Event,
    id::{AccountId, AttemptId, DeliveryId, DestinationId, NodeId},
    time::Timestamp,
};
use std::sync::Arc;

pub use domain::lane::TrackHead;

#[async_trait]
pub trait Queue: Send + Sync {
    /// Reads the next deliveries of many lanes, each from its own position, in one round trip. Rows come by window
    /// and in the order of their position; due or not due is the lane's business. Payloads above
    /// [`domain::limits::CARRIED_BYTES`] are left out, and so are those that are not what was accepted; those that are sealed
    /// come sealed. A window never
    /// returns more than its limit. A row that does not read back is left out, and those behind it are not.
    async fn fetch(&self, windows: &[Window]) -> Result<Vec<Vec<FetchedDelivery>>, StoreError>;

    /// The event with its payload, for a delivery whose payload was left out. None: it is gone, or was
    /// erased. [`StoreError::Altered`]: its payload is not what was accepted, and must not be sent.
    async fn payload(&self, event: domain::id::EventId) -> Result<Option<StoredEvent>, StoreError>;

    /// Records facts and moves their deliveries, all in one transaction, flushed. The row decides: a settlement
    /// whose delivery has moved on since (cancelled, settled by another owner) moves nothing, and its attempt is
    /// written as `late`; not where its account was deleted or its payload erased. Can be run again: a fact is written once, whatever happens. One answer per settlement, in
    /// order: whether it moved its delivery. On PostgreSQL nothing moves once `node`'s row is gone ([`StoreError::NodeLost`] is
    /// NOT returned: the facts are written as late and all answers are false).
    ///
    /// A repeated settlement answers as the first one did (its fact is there: true unless it is `late`), because a
    /// settler that lost the answer must still learn where its delivery waits now.
    ///
    /// A delivery that waits again takes the attempt's number, outcome, status and (on `tls_error`) one more of those
    /// with it. One that ends keeps `spent` as it was, and ended when its attempt was over (`started_at` + `duration`,
    /// to the microsecond), or at the fact's `at`, with the `sequence` it is settled with. Only when the delivery is moved
    /// is its destination disabled (`reason: gone, at: now`, unless it is disabled already) or paused (at `now`, unless it
    /// is paused, disabled or deleted already), not when the settlement is repeated; and that is a change of
    /// configuration as any other: it takes the account's next version.
    ///
    /// A delivery of a replay that is delivered resolves its chain: every dead letter of the same origin, the origin
    /// included, is settled by it in this transaction, as of its end; one that was dismissed too. Of several that are
    /// delivered it is the first that counts. One that
    /// ends as a dead letter when another of its chain was delivered after it was made is settled by that one at once.
    ///
    /// A settlement that the database will not take, whatever is left out of it, ends its delivery as `undeliverable`
    /// without an attempt (true): the delivery would be sent again for ever.
    async fn settle(
        &self,
        node: NodeId,
        settlements: &[Settlement],
        now: Timestamp,
    ) -> Result<Vec<bool>, StoreError>;

    /// The lanes of these shards (in order, each once) that have something waiting, with their first position, in order
    /// of (shard, destination) after the given one; at most `limit`. The net under every wake-up.
    async fn lanes(
        &self,
        shards: &[u16],
        after: Option<(u16, DestinationId)>,
        limit: usize,
    ) -> Result<Vec<LaneHead>, StoreError>;

    /// The tracks of a lane that have something waiting, in order after the given one, each with its first row; at most
    /// `limit`. What waits behind a track's first row costs nothing.
    async fn tracks(
        &self,
        shard: u16,
        destination: DestinationId,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Vec<TrackHead>, StoreError>;

    /// Deliveries whose time has come take the next numbers of their destinations, in the order given, and stand there
    /// in the track given; `due_at` stays. All in one transaction, flushed. The row decides: only one that waits in
    /// [`Position::AWAITS_TIME`] and is due at `now` moves. One answer each, in order: moved or not. Can be run again,
    /// and then moves nothing. On PostgreSQL nothing moves once `node`'s row is gone.
    async fn take_turns(
        &self,
        node: NodeId,
        turns: &[DueDelivery],
        now: Timestamp,
    ) -> Result<Vec<bool>, StoreError>;

    /// "Retry now": the delivery becomes due at `now` and stands there in its track; one that is due already keeps its
    /// place, and so does one that has a number. Gives the delivery as it waits now, and its entry
    /// is written down with it. None if it has ended or is not this account's.
    async fn retry_now(
        &self,
        account: AccountId,
        id: DeliveryId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<Option<Delivery>, StoreError>;

    /// Ends a waiting delivery as cancelled, if it has not ended. None if it has, or is not this account's. The
    /// fact that records it has the id given, and its entry is written down with it. Gives the delivery as it waited.
    async fn cancel(
        &self,
        account: AccountId,
        id: DeliveryId,
        fact: AttemptId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<Option<Delivery>, StoreError>;

    /// How many deliveries wait for each destination, counted up to `limit` in the order of their position, and when
    /// the oldest of those counted was created.
    async fn backlog(
        &self,
        destinations: &[DestinationId],
        limit: i64,
    ) -> Result<Vec<(i64, Option<Timestamp>)>, StoreError>;
}

/// Where to go on after a track; None after the last there can be.
pub(crate) fn first_track(after: Option<i64>) -> Option<i64> {
    after.map_or(Some(i64::MIN), |after| after.checked_add(1))
}

/// A part of one lane to read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    pub shard: u16,
    pub destination_id: DestinationId,
    pub from: Position,
    /// Not beyond this track; `i64::MAX` for all.
    pub last_track: i64,
    pub limit: usize,
}

#[derive(Debug, Clone)]
pub struct FetchedDelivery {
    pub shard: u16,
    pub delivery: Delivery,
    /// One per event and fetch, however many lanes have it; complete but for a payload that was left out, which is
    /// empty here. None: the event is missing (damaged by hand).
    pub event: Option<Arc<Event>>,
    /// False where the payload was left out and must be read at the start.
    pub has_payload: bool,
    /// Where it was left out because it is sealed: the whole of the event, for whoever has the key. One per event and fetch.
    pub sealed: Option<Arc<SealedEvent>>,
}

/// The first waiting row of a lane.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LaneHead {
    pub shard: u16,
    pub destination_id: DestinationId,
    pub first: Position,
}

/// A delivery of an ordered lane whose time has come, and the track it belongs to.
#[derive(Debug, Clone, PartialEq)]
pub struct DueDelivery {
    pub delivery: Delivery,
    pub track: i64,
}

/// A fact about a delivery, and where it goes from here. Boxed detail: batches are moved around.
#[derive(Debug, Clone)]
pub struct Settlement {
    /// As it was when it started: `delivery.attempts` is the guard.
    pub delivery: Delivery,
    pub shard: u16,
    pub fact: Fact,
    pub settled: Settled,
    /// What becomes of the destination, in the same transaction.
    pub consequence: Option<Consequence>,
}

/// What the end of a delivery does to its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Consequence {
    /// It is gone.
    Disables,
    /// It is to wait until a person has looked.
    Pauses,
}

#[derive(Debug, Clone)]
pub enum Fact {
    /// An attempt was made. Its number is `delivery.attempts + 1`.
    Attempted(Box<Attempt>),
    /// The delivery ended without one (expired, disabled, deleted).
    EndedWithout { id: AttemptId, at: Timestamp, node: NodeId, ending: Ending },
}
