//! Backfills: stored events go through the routes of now, and get the deliveries that they never had.
//!
//! A backfill is a replay that is given events instead of deliveries, and is kept, held, paused and counted as one. What it
//! makes is part of the event's fan-out: the first delivery to its destination, its own origin, with the replay that made
//! it. *Had* is a destination that any delivery of the event is for, waiting or ended, whoever made it.
//!
//! Once for each event and destination, whoever else makes deliveries of it at the same time: a chunk takes the rows of its
//! events for itself and looks for what they had afterwards, in the same transaction. On SQLite there is one writer.

use crate::{EventFilter, NewDelivery, StoreError};
use async_trait::async_trait;
use domain::{
    event::Event,
    id::{AccountId, DeliveryId, DestinationId, EventId, NodeId, ReplayId},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use std::{sync::Arc, time::Duration};

#[async_trait]
pub trait Backfills: Send + Sync {
    /// The next events, oldest first, having looked at no more than [`domain::limits::PAGE_SCAN`].
    async fn backfill_events(&self, walk: &BackfillWalk) -> Result<BackfillEvents, StoreError>;

    /// Of these pairs, those of which the destination had the event. In their order.
    async fn had(&self, pairs: &[(EventId, DestinationId)]) -> Result<Vec<bool>, StoreError>;

    /// Writes a chunk's deliveries and moves the cursor, in one transaction, only if the backfill runs, is held by this
    /// node and its cursor stands where the chunk begins: None otherwise, and nothing is written. No delivery is made to a
    /// destination that had the event, nor of an event that has had its time, is still expanding, or whose payload was erased. With the last chunk,
    /// what was counted at the start and was not made is skipped. Gives those that were made.
    async fn write_backfill(&self, chunk: &BackfillChunk) -> Result<Option<Vec<DeliveryId>>, StoreError>;
}

/// Which events, and to which destinations. Kept as this document.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BackfillSelection {
    /// This one alone.
    pub event_id: Option<EventId>,
    pub filter: EventFilter,
    /// Sorted, each once; none: wherever the routes lead.
    pub destination_ids: Vec<DestinationId>,
}

impl BackfillSelection {
    /// What statements leave to be decided. That an event is unmatched is for them, by what was committed with it: what a
    /// backfill makes of it must not end its turn.
    pub(crate) fn wants(&self, event: &Event) -> bool {
        let tags = &self.filter.tags;
        tags.is_empty() || tags.iter().any(|tag| event.tags.contains(tag))
    }
}

/// How far a backfill is: behind an event, or in the middle of one, behind a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackfillCursor {
    pub event_id: EventId,
    /// None: the event is done.
    pub destination_id: Option<DestinationId>,
}

/// What a running backfill has beside what every replay has.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenBackfill {
    pub selection: BackfillSelection,
    pub cursor: Option<BackfillCursor>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct BackfillWalk {
    pub account_id: AccountId,
    pub selection: BackfillSelection,
    pub cursor: Option<BackfillCursor>,
    /// Events that came later are not taken.
    pub as_of: Timestamp,
    pub limit: usize,
    /// With their payloads, as far as [`crate::Queue::fetch`] would read them: they are handed over to lanes.
    pub payloads: bool,
}

impl BackfillWalk {
    /// From the first event that may be wanted to the one behind the last.
    pub(crate) fn range(&self) -> (EventId, EventId) {
        let Self { selection, cursor, .. } = self;
        let slack = domain::limits::ID_SLACK;
        let mut from = selection.filter.since.map_or(EventId::MIN, |at| EventId::at(at.minus(slack), 0));
        let mut below = EventId::at(self.as_of.plus(Duration::from_micros(1)), 0);
        if let Some(until) = selection.filter.until {
            below = below.min(EventId::at(until.plus(slack), 0));
        }
        if let Some(id) = selection.event_id {
            (from, below) = (from.max(id), below.min(after(id)));
        }
        if let Some(BackfillCursor { event_id, destination_id }) = *cursor {
            from = from.max(if destination_id.is_some() { event_id } else { after(event_id) });
        }
        (from, below)
    }
}

fn after(id: EventId) -> EventId {
    EventId::from_uuid(uuid::Uuid::from_u128(id.uuid().as_u128().saturating_add(1)))
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct BackfillEvents {
    pub events: Vec<BackfillEvent>,
    /// The last that was looked at; None: there is nothing behind.
    pub next: Option<EventId>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct BackfillEvent {
    pub event: Arc<Event>,
    /// False where it was not asked for, or left out as for a fetch: it is empty then.
    pub has_payload: bool,
    pub payload_bytes: u32,
    /// Its expansion makes its deliveries.
    pub expanding: bool,
    /// Its payload was erased: nothing more is made of it.
    pub erased: bool,
}

/// A delivery that an event never had.
#[derive(Debug, Clone, PartialEq)]
pub struct Backfilled {
    pub event_id: EventId,
    pub delivery: NewDelivery,
}

/// The next deliveries of a backfill.
#[derive(Debug, Clone, PartialEq)]
pub struct BackfillChunk {
    pub replay_id: ReplayId,
    pub account_id: AccountId,
    pub node: NodeId,
    /// The cursor as it was read.
    pub from: Option<BackfillCursor>,
    pub to: Option<BackfillCursor>,
    /// By event, and of one event by destination.
    pub deliveries: Vec<Backfilled>,
    /// Events of which nothing can be made.
    pub skipped: u32,
    /// There is no event left.
    pub done: bool,
    pub now: Timestamp,
    /// It is held until then.
    pub until: Timestamp,
}
