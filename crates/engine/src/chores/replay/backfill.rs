//! What a backfill makes next: its events through the routes of now, oldest first, and of each event its destinations in
//! their order.
//!
//! A chunk ends after so many deliveries, in the middle of an event where that has more, or after so many routes were looked
//! at. Which of them the event had already is for the store to see, when it writes them. Routes are read once for a chunk,
//! by the page; payloads with their events where lanes of this node want them, else only where a route has a filter.

use super::hand_over::Promised;
use crate::{
    chores::expand::{Numberings, Pages, whole_destinations, whole_event},
    data_keys::DataKeys,
};
use domain::{
    delivery::Delivery,
    dice::Dice,
    event::Event,
    id::{DeliveryId, DestinationId, EventId, NodeId, RouteId, SourceId},
    limits,
    route::{Candidate, Deliverers, Route},
    time::Clock,
};
use std::{collections::HashMap, sync::Arc};
use store::{
    Arrival, BackfillChunk, BackfillCursor, BackfillEvent, BackfillWalk, Backfilled, NewDelivery,
    OpenBackfill, OpenReplay, RouteWalk, Store, StoreError,
};
use tokio::task::yield_now;

/// Routes with filters that are matched before other tasks may run.
const FILTERED_STEP: usize = 64;

/// Events that are read at a time, at least.
const BACKFILL_EVENTS_LEAST: usize = 20;

/// Makes the chunks of backfills; keeps pages of routes from one to the next.
#[derive(Default)]
pub(in crate::chores) struct Backfiller {
    pages: Pages,
}

/// A chunk that is to be written, and what its lanes are told of it.
pub(super) struct NextChunk {
    pub(super) chunk: BackfillChunk,
    pub(super) promised: Vec<Promised>,
}

/// How much of a backfill is made at a time.
pub(super) struct ChunkPlan {
    pub(super) deliveries: usize,
    /// With payloads: lanes of this node take them as they are.
    pub(super) payloads: bool,
}

/// What a chunk is made with.
pub(super) struct ChunkMaker<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) data_keys: &'a DataKeys,
    pub(super) clock: &'a dyn Clock,
    pub(super) dice: &'a dyn Dice,
}

/// Whose routes, and behind which.
type PageKey = (Option<SourceId>, Option<(DestinationId, RouteId)>);
type RoutesRead = (Arc<[Route]>, Arc<Numberings>);

/// A chunk on its way.
struct ChunkWork<'a> {
    with: &'a ChunkMaker<'a>,
    replay: &'a OpenReplay,
    wanted: &'a [DestinationId],
    /// Deliveries that it may have.
    limit: usize,
    deliveries: Vec<Backfilled>,
    promised: Vec<Promised>,
    skipped: u32,
    /// Routes looked at.
    looked_at: usize,
    read: HashMap<PageKey, RoutesRead>,
}

/// How an event's walk ended.
enum EventWalked {
    ToTheEnd,
    /// The chunk is full; the walk stands behind this destination. None: before the first.
    Behind(Option<DestinationId>),
    /// Its payload is gone.
    Gone,
}

impl Backfiller {
    pub(super) async fn next_chunk(
        &mut self,
        with: &ChunkMaker<'_>,
        node: NodeId,
        replay: &OpenReplay,
        OpenBackfill { selection, cursor }: &OpenBackfill,
        plan: ChunkPlan,
    ) -> Result<NextChunk, StoreError> {
        let limit = plan.deliveries;
        let mut work = ChunkWork {
            with,
            replay,
            wanted: &selection.destination_ids,
            limit,
            deliveries: Vec::new(),
            promised: Vec::new(),
            skipped: 0,
            looked_at: 0,
            read: HashMap::new(),
        };
        let (mut to, mut reads) = (*cursor, 0);
        // As many as fill a chunk if each has one delivery to be made, and again where they have none.
        let done = loop {
            let walk = BackfillWalk {
                account_id: replay.account_id,
                selection: selection.clone(),
                cursor: to,
                as_of: replay.created_at,
                limit: limit.clamp(BACKFILL_EVENTS_LEAST, limits::BACKFILL_EVENTS),
                payloads: plan.payloads,
            };
            let found = with.store.backfill_events(&walk).await?;
            reads += 1;
            let walked = work.events(&mut self.pages, &found.events, &mut to).await?;
            if !walked {
                break false;
            }
            let Some(next) = found.next else { break true };
            to = Some(done_with(next));
            if work.is_full() || reads == limits::BACKFILL_READS {
                break false;
            }
        };
        let now = with.clock.now();
        let chunk = BackfillChunk {
            replay_id: replay.id,
            account_id: replay.account_id,
            node,
            from: *cursor,
            to,
            deliveries: work.deliveries,
            skipped: work.skipped,
            done,
            now,
            until: now.plus(limits::REPLAY_HOLD),
        };
        Ok(NextChunk { chunk, promised: work.promised })
    }
}

fn done_with(event_id: EventId) -> BackfillCursor {
    BackfillCursor { event_id, destination_id: None }
}

impl ChunkWork<'_> {
    fn is_full(&self) -> bool {
        self.deliveries.len() >= self.limit || self.looked_at >= limits::BACKFILL_ROUTES
    }

    /// Moves the cursor behind those that are done; whether that is all of them.
    async fn events(
        &mut self,
        pages: &mut Pages,
        events: &[BackfillEvent],
        cursor: &mut Option<BackfillCursor>,
    ) -> Result<bool, StoreError> {
        for found in events {
            let BackfillEvent { event, expanding, erased, .. } = found;
            let behind = cursor.filter(|cursor| cursor.event_id == event.id);
            let behind = behind.and_then(|cursor| cursor.destination_id);
            // Its expansion makes what it is for; the rest is for another backfill. And without a payload nothing is sent.
            let walked = match *expanding || *erased {
                true => EventWalked::Gone,
                false => self.event(pages, found, behind).await?,
            };
            match walked {
                EventWalked::ToTheEnd => {}
                EventWalked::Gone => self.skipped += 1,
                EventWalked::Behind(None) => return Ok(false),
                EventWalked::Behind(destination_id) => {
                    *cursor = Some(BackfillCursor { event_id: event.id, destination_id });
                    return Ok(false);
                }
            }
            *cursor = Some(done_with(event.id));
        }
        Ok(true)
    }

    /// Adds what the routes make of an event, from behind a destination on.
    async fn event(
        &mut self,
        pages: &mut Pages,
        found: &BackfillEvent,
        mut behind: Option<DestinationId>,
    ) -> Result<EventWalked, StoreError> {
        let event = &*found.event;
        if self.is_full() {
            return Ok(EventWalked::Behind(behind));
        }
        let page = self.with.store.chunk_routes();
        let mut whole_event = found.has_payload.then(|| Arc::clone(&found.event));
        let mut deliverers = Deliverers::default();
        // A destination with more routes than a page, and its last route that was looked at.
        let mut going_on: Option<(DestinationId, RouteId)> = None;
        loop {
            let (after, only) = match (going_on, self.wanted) {
                (Some(place), _) => (Some(place), Some(place.0)),
                (None, []) => (behind.map(|destination| (destination, RouteId::MAX)), None),
                (None, wanted) => match wanted.iter().find(|id| behind.is_none_or(|done| **id > done)) {
                    None => return Ok(EventWalked::ToTheEnd),
                    Some(next) => (Some((*next, RouteId::MIN)), Some(*next)),
                },
            };
            let (routes, numberings) = self.routes(pages, event.source_id, after, page).await?;
            let (whole, is_last) = (whole_destinations(&routes, page, only), routes.len() < page);
            if whole_event.is_none() && whole.iter().any(|route| looks_inside(route, event)) {
                let Some(read) = self.payload(event).await? else { return Ok(EventWalked::Gone) };
                whole_event = Some(read);
            }
            let seen = whole_event.as_deref().unwrap_or(event);
            if let Some(before) = self.take(found, seen, whole, &numberings, &mut deliverers, behind).await {
                return Ok(EventWalked::Behind(before));
            }
            let fills = !is_last && whole.len() == routes.len();
            going_on = whole.last().filter(|_| fills).map(|last| (last.destination_id, last.id));
            if going_on.is_some() {
                continue;
            }
            if self.wanted.is_empty() && is_last && whole.len() == routes.len() {
                return Ok(EventWalked::ToTheEnd);
            }
            behind = only.or(whole.last().map(|last| last.destination_id)).or(behind);
            if self.is_full() {
                return Ok(EventWalked::Behind(behind));
            }
        }
    }

    /// Some: the chunk was full, and the walk stands behind this destination.
    async fn take(
        &mut self,
        found: &BackfillEvent,
        event: &Event,
        routes: &[Route],
        numberings: &Numberings,
        deliverers: &mut Deliverers,
        mut behind: Option<DestinationId>,
    ) -> Option<Option<DestinationId>> {
        let filtered = routes.iter().any(|route| looks_inside(route, event));
        let candidate = Candidate::new(event, filtered);
        let mut before = behind;
        for (place, route) in routes.iter().enumerate() {
            if filtered && place > 0 && place % FILTERED_STEP == 0 {
                yield_now().await;
            }
            if behind != Some(route.destination_id) {
                (before, behind) = (behind, Some(route.destination_id));
            }
            self.looked_at += 1;
            if !route.takes(&candidate) || !deliverers.includes(route) {
                continue;
            }
            if self.deliveries.len() >= self.limit {
                return Some(before);
            }
            let now = self.with.clock.now();
            let numbering = numberings.get(&route.destination_id).copied().unwrap_or_default();
            let id = DeliveryId::at(now, self.with.dice.bits());
            // Not before its own time either: nobody was promised it earlier.
            let delivery = NewDelivery::of_route(event, route, numbering, id, now);
            self.promised.push(Promised::new(self.arrival(found, &delivery), &delivery));
            self.deliveries.push(Backfilled { event_id: event.id, delivery });
        }
        None
    }

    /// The delivery as it will wait.
    fn arrival(&self, found: &BackfillEvent, delivery: &NewDelivery) -> Arrival {
        let BackfillEvent { event, has_payload, payload_bytes, .. } = found;
        let waiting =
            Delivery { replay_id: Some(self.replay.id), payload_bytes: *payload_bytes, ..delivery.of(event) };
        let event = has_payload.then(|| Arc::clone(event));
        Arrival { shard: delivery.shard, delivery: waiting, event, has_payload: *has_payload, sealed: None }
    }

    /// As they are now, and in one chunk the same for all events.
    async fn routes(
        &mut self,
        pages: &mut Pages,
        source_id: Option<SourceId>,
        after: Option<(DestinationId, RouteId)>,
        limit: usize,
    ) -> Result<RoutesRead, StoreError> {
        if let Some(read) = self.read.get(&(source_id, after)) {
            return Ok(read.clone());
        }
        let account_id = self.replay.account_id;
        let walk = RouteWalk { account_id, source_id, after, limit, known: None };
        let read = pages.read(self.with.store, walk).await?;
        // Reading costs about as much as looking at them.
        self.looked_at += read.0.len();
        self.read.insert((source_id, after), read.clone());
        Ok(read)
    }

    /// None: it is gone.
    async fn payload(&self, event: &Event) -> Result<Option<Arc<Event>>, StoreError> {
        whole_event(self.with.store, self.with.data_keys, (event.account_id, event.id)).await
    }
}

/// Whether it depends on the payload that this route takes the event.
fn looks_inside(route: &Route, event: &Event) -> bool {
    route.filter.is_some()
        && route.enabled
        && route.event_types.iter().any(|pattern| pattern.matches(event.event_type.as_str()))
}
