//! Forgetting what has had its time: only work that has ended, and all of it.
//!
//! An event goes with everything that came of it: its deliveries, their attempts, its payload. It stays, whole, as long
//! as anything of it waits or is yet to be made, however old it is. A replay that has ended goes with what it says of its
//! deliveries, and stays as long as one of those waits; one that has not ended is not touched, and counts what was gone
//! when its turn came as skipped. What goes is decided by the time an id was made.
//! Every step is small, says how far it came, and is run under a [`Term`].

use crate::{StoreError, Term};
use async_trait::async_trait;
use domain::{
    id::{AccountId, DeliveryId, EventId, ReplayId},
    limits,
    time::Timestamp,
};

/// Every method gives None, and removes nothing, once the term is over.
#[async_trait]
pub trait Retention: Send + Sync {
    /// Looks at some of an account's events and removes those of which nothing waits. One with more deliveries than a
    /// step takes goes in several steps, itself last.
    async fn prune_events(&self, term: Term, walk: EventWalk) -> Result<Option<Pruned<EventId>>, StoreError>;

    /// Looks at some deliveries and removes what is known of those whose event is gone: the word of a node that spoke
    /// up when everything was over.
    async fn prune_facts(&self, term: Term, walk: FactWalk)
    -> Result<Option<Pruned<DeliveryId>>, StoreError>;

    /// Looks at some of an account's replays that have ended and removes what they made of which nothing waits, and
    /// those that have nothing left. One with more deliveries than a step takes goes in several steps, itself last.
    async fn prune_replays(
        &self,
        term: Term,
        walk: ReplayWalk,
    ) -> Result<Option<Pruned<ReplayPlace>>, StoreError>;

    /// Removes whole days that ended before then, where the store divides its tables by day and nothing needs them, one
    /// step at a time; says how much this one removed.
    async fn prune_days(&self, _term: Term, _before: Timestamp) -> Result<Option<usize>, StoreError> {
        Ok(Some(0))
    }

    /// Whether it does.
    fn has_days(&self) -> bool {
        false
    }

    /// Gives some of the room that was freed back to the system; whether there is more to give.
    async fn give_room_back(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Events that a step should look at, and rows it may remove: as many as do not keep others waiting.
    fn prune_step(&self) -> (usize, usize) {
        (limits::PRUNE_EVENTS, limits::PRUNE_ROWS)
    }
}

/// An account's events with ids from `from` on and made before `before`, oldest first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EventWalk {
    pub account_id: AccountId,
    pub from: EventId,
    pub before: Timestamp,
    /// Events to look at, and rows to remove at most (but for one delivery, whose facts go together).
    pub events: usize,
    pub rows: usize,
}

/// Deliveries of all accounts with ids from `from` on and made before `before`, oldest first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FactWalk {
    pub from: DeliveryId,
    pub before: Timestamp,
    pub deliveries: usize,
}

/// An account's replays with ids from `from` on that ended before `before`, oldest first, and in each its deliveries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReplayWalk {
    pub account_id: AccountId,
    pub from: ReplayPlace,
    pub before: Timestamp,
    /// Replays to look at, and their deliveries.
    pub replays: usize,
    pub rows: usize,
}

/// A replay, and the first of its deliveries that was not looked at.
pub type ReplayPlace = (ReplayId, DeliveryId);
pub const FIRST_REPLAY: ReplayPlace = (ReplayId::MIN, DeliveryId::MIN);

/// What a step of a walk did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pruned<K> {
    /// Rows that were removed, of whatever table.
    pub rows: usize,
    /// Where to go on; None at the end.
    pub next: Option<K>,
}
