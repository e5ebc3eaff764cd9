//! Large fan-outs: an event that matches more routes than one commit takes is committed with an expansion, and its
//! deliveries are made route by route, in chunks. A chunk is guarded by the cursor it starts from, so any number of
//! nodes may work on one expansion and none of its deliveries is made twice, or forgotten.

use crate::{NewDelivery, StoreError};
use async_trait::async_trait;
use domain::{
    destination::Ordering,
    id::{AccountId, DestinationId, EventId, RouteId, SourceId},
    limits,
    route::Route,
    time::Timestamp,
};

#[async_trait]
pub trait Expansions: Send + Sync {
    /// Those under way whose event is above `after`, oldest event first.
    async fn open_expansions(
        &self,
        after: Option<EventId>,
        limit: usize,
    ) -> Result<Vec<Expansion>, StoreError>;

    /// Routes a chunk should walk: as many as do not keep others waiting.
    fn chunk_routes(&self) -> usize {
        limits::EXPANSION_CHUNK
    }

    /// How far one is; None once it is done.
    async fn expansion(&self, event: EventId) -> Result<Option<Expansion>, StoreError>;

    /// The next routes of a walk by id, disabled ones too, with the account's version of the same moment. An account
    /// that is not there has none.
    async fn routes_after(&self, walk: &RouteWalk) -> Result<RoutePage, StoreError>;

    /// Writes a chunk's deliveries and moves the cursor behind their routes, in one transaction and only if it still
    /// stands where the chunk begins: false otherwise, and nothing is written. Sequenced deliveries take their numbers as
    /// in a commit. The last chunk ends the expansion and writes the event's number of deliveries, with those that were
    /// committed with it.
    async fn expand(&self, chunk: &Chunk) -> Result<bool, StoreError>;
}

/// An event whose deliveries are being made.
#[derive(Debug, Clone, PartialEq)]
pub struct Expansion {
    pub event_id: EventId,
    pub account_id: AccountId,
    /// The account's version when the event was committed: a route that has not changed since was there.
    pub account_version: i64,
    /// The last route that is done.
    pub cursor: Option<RouteId>,
    /// Deliveries made so far.
    pub deliveries: u32,
    /// Routes whose deliveries were committed with the event: no chunk makes them.
    pub inline_routes: Vec<RouteId>,
    pub created_at: Timestamp,
}

/// Where a walk over the routes of one source, or of what is published, stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RouteWalk {
    pub account_id: AccountId,
    pub source_id: Option<SourceId>,
    pub after: Option<RouteId>,
    pub limit: usize,
    /// At this version of the account the page is known already.
    pub known: Option<i64>,
}

#[derive(Debug, Clone)]
pub enum RoutePage {
    /// The account has still the version that was named.
    Unchanged,
    Read {
        version: i64,
        /// By id. Fewer than asked for: there are no more.
        routes: Vec<Route>,
        /// Of the ordered destinations among those they lead to.
        orderings: Vec<(DestinationId, Ordering)>,
    },
}

/// The next deliveries of an expansion.
#[derive(Debug, Clone, PartialEq)]
pub struct Chunk {
    pub event_id: EventId,
    /// The cursor as it was read.
    pub from: Option<RouteId>,
    pub to: Option<RouteId>,
    pub deliveries: Vec<NewDelivery>,
    /// There is no route left.
    pub done: bool,
}
