//! Large fan-outs: an event for more destinations than one commit takes is committed with an expansion, and its
//! deliveries are made destination by destination, in chunks. A chunk is guarded by the cursor it starts from, so any
//! number of nodes may work on one expansion and none of its deliveries is made twice, or forgotten. A destination is
//! come to once, with all routes that lead there, so it has one delivery, whatever becomes of its routes meanwhile.

use crate::{NewDelivery, StoreError};
use async_trait::async_trait;
use domain::{
    destination::Numbering,
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

    /// Takes over the oldest of those that a node of the version before has begun, and walks by route: what has a
    /// delivery by now counts as written inline, and the walk over destinations begins. False if there is none. Only if
    /// the node of before has not moved it meanwhile; otherwise this is to be asked again.
    async fn take_over_expansion(&self) -> Result<bool, StoreError>;

    /// The next routes of a walk by destination, and of one destination by id; disabled ones too, with the account's
    /// version of the same moment. An account that is not there has none.
    async fn routes_after(&self, walk: &RouteWalk) -> Result<RoutePage, StoreError>;

    /// Writes a chunk's deliveries and moves the cursor behind their destinations, in one transaction and only if it
    /// still stands where the chunk begins: false otherwise, and nothing is written. Sequenced deliveries take their
    /// numbers as in a commit. The last chunk ends the expansion and writes the event's number of deliveries, with those
    /// that were committed with it, and the other routes.
    async fn expand(&self, chunk: &Chunk) -> Result<bool, StoreError>;
}

/// An event whose deliveries are being made.
#[derive(Debug, Clone, PartialEq)]
pub struct Expansion {
    pub event_id: EventId,
    pub account_id: AccountId,
    /// The account's version when the event was committed: a route that has not changed since was there.
    pub account_version: i64,
    /// The last destination that is done.
    pub cursor: Option<DestinationId>,
    /// Deliveries made so far.
    pub deliveries: u32,
    /// Destinations whose deliveries were committed with the event: no chunk makes them.
    pub inline_destinations: Vec<DestinationId>,
    /// Routes found so far that match too and deliver nothing: at most [`limits::OTHER_ROUTES`].
    pub other_routes: Vec<RouteId>,
    pub created_at: Timestamp,
}

/// Where a walk over the routes of one source, or of what is published, stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RouteWalk {
    pub account_id: AccountId,
    pub source_id: Option<SourceId>,
    /// None: from the beginning. All routes of a destination are behind [`RouteId::MAX`] of it.
    pub after: Option<(DestinationId, RouteId)>,
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
        /// By destination and id. Fewer than asked for: there are no more.
        routes: Vec<Route>,
        /// Of the destinations among those they lead to that number.
        numberings: Vec<(DestinationId, Numbering)>,
    },
}

/// The next deliveries of an expansion.
#[derive(Debug, Clone, PartialEq)]
pub struct Chunk {
    pub event_id: EventId,
    /// The cursor as it was read.
    pub from: Option<DestinationId>,
    pub to: Option<DestinationId>,
    pub deliveries: Vec<NewDelivery>,
    /// As the expansion is to have them, with those that were found before.
    pub other_routes: Vec<RouteId>,
    /// There is no destination left.
    pub done: bool,
}
