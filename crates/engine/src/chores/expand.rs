//! Makes the deliveries of large fan-outs, a chunk at a time: accounts one after the other, an account's events in their order.
//! The walk is over destinations, each with all its routes: of those that match the oldest delivers, and no other.
//!
//! The node that has committed an event begins at once; every node looks from time to time for expansions that have not
//! moved. Two that work on the same one do no harm: a chunk is written by the node that comes first, and the other
//! leaves it alone. What is held is bounded: ids, small events, a few pages of routes and one chunk.

mod pages;
mod rotation;
#[cfg(test)]
mod tests;

use crate::{
    backoff::Backoff,
    data_keys::{DataKeys, Shut},
    dispatcher::Message,
};
use domain::{
    delivery::Position,
    dice::Dice,
    event::Event,
    id::{AccountId, DeliveryId, DestinationId, EventId, RouteId},
    limits,
    route::{Candidate, Deliverers, Route},
    time::Clock,
};
pub(super) use pages::{Numberings, Pages};
use rotation::{AccountRotation, OpenExpansion};
use std::{collections::HashMap, sync::Arc, time::Duration};
use store::{Chunk, Expansion, NewDelivery, RouteWalk, Store, StoreError, StoredEvent, failpoint};
use tokio::{
    sync::mpsc,
    task::yield_now,
    time::{Instant, sleep, sleep_until},
};

/// Routes with filters that are matched before other tasks may run.
const FILTERED_STEP: usize = 64;

pub(super) struct Expander {
    store: Arc<dyn Store>,
    data_keys: Arc<DataKeys>,
    clock: Arc<dyn Clock>,
    dice: Arc<dyn Dice>,
    /// Told where new deliveries wait.
    dispatcher: mpsc::Sender<Message>,
    rotation: AccountRotation,
    pages: Pages,
    /// Where the expansions that are open stood when they were last looked at; None before the first look.
    seen: Option<HashMap<EventId, Option<DestinationId>>>,
    backoff: Backoff,
}

/// The event with its payload, for those who match it with routes. None: it is gone. One that was altered, or does not open,
/// is matched as it is now: each delivery ends by itself and says why, rather than not being there.
pub(super) async fn whole_event(
    store: &dyn Store,
    data_keys: &DataKeys,
    (account, id): (AccountId, EventId),
) -> Result<Option<Arc<Event>>, StoreError> {
    let stored = match store.payload(id).await {
        Ok(None) => return Ok(None),
        Ok(Some(stored)) => stored,
        Err(StoreError::Altered) => store.event_payload(account, id).await?,
        Err(error) => return Err(error),
    };
    let outside = matches!(stored, StoredEvent::Sealed(_)).then(|| Arc::new(stored.outside().clone()));
    match (data_keys.open(stored).await, outside) {
        (Ok(event), _) => Ok(Some(event)),
        (Err(Shut::ForGood(reason)), Some(outside)) => {
            tracing::error!(event_id = %id, reason, "payload.shut");
            Ok(Some(outside))
        }
        (Err(Shut::ForGood(reason)), None) => Err(StoreError::Unreadable(reason.into())),
        (Err(Shut::Store(error)), _) => Err(error),
    }
}

impl Expander {
    pub(super) fn new(
        store: Arc<dyn Store>,
        data_keys: Arc<DataKeys>,
        clock: Arc<dyn Clock>,
        dice: Arc<dyn Dice>,
        dispatcher: mpsc::Sender<Message>,
    ) -> Self {
        let (rotation, pages) = (AccountRotation::default(), Pages::default());
        let backoff = Backoff::default();
        Self { store, data_keys, clock, dice, dispatcher, rotation, pages, seen: None, backoff }
    }

    /// Makes deliveries for ever. What a life before had taken up is found by the first look.
    pub(super) async fn run(mut self, begun: &mut mpsc::Receiver<Vec<Expansion>>) {
        let mut next_look = Instant::now();
        loop {
            while let Ok(expansions) = begun.try_recv() {
                self.rotation.extend(expansions);
            }
            supervisor::failpoint();
            if next_look <= Instant::now() {
                let looked = self.look().await;
                self.after(looked).await;
                next_look = Instant::now() + limits::EXPANSION_LOOK;
            }
            if let Some(open) = self.rotation.next() {
                let begun = Instant::now();
                let gone_on = self.go_on(open).await;
                rest(begun.elapsed()).await;
                self.after(gone_on).await;
                continue;
            }
            tokio::select! {
                biased;
                Some(expansions) = begun.recv() => self.rotation.extend(expansions),
                () = sleep_until(next_look) => {}
            }
        }
    }

    /// Takes up what does not move: whatever is open at the start, later what has not moved since the last look.
    async fn look(&mut self) -> Result<(), StoreError> {
        while self.store.take_over_expansion().await? {
            // What a node of the version before has begun.
        }
        let mut open = Vec::new();
        // Not only the first: all of those may be one account's.
        while open.len() < limits::EXPANSIONS_LOOKED_AT {
            let after = open.last().map(|last: &Expansion| last.event_id);
            let page = self.store.open_expansions(after, limits::EXPANSIONS_HELD).await?;
            let is_last = page.len() < limits::EXPANSIONS_HELD;
            open.extend(page);
            if is_last {
                break;
            }
        }
        let now_seen = open.iter().map(|open| (open.event_id, open.cursor)).collect();
        let before = self.seen.replace(now_seen);
        let stands = |open: &Expansion| {
            before.as_ref().is_none_or(|before| before.get(&open.event_id) == Some(&open.cursor))
        };
        self.rotation.extend(open.into_iter().filter(stands));
        Ok(())
    }

    /// Trouble with the store is waited out.
    async fn after(&mut self, result: Result<(), StoreError>) {
        let Err(error) = result else { return self.backoff.reset() };
        if self.backoff.worth_telling() {
            tracing::warn!(%error, "an expansion could not go on; trying again");
        }
        sleep(self.backoff.pause(self.dice.as_ref())).await;
    }

    /// Writes the next chunk of one.
    async fn go_on(&mut self, mut open: OpenExpansion) -> Result<(), StoreError> {
        match self.write_chunk(&mut open).await {
            Ok(Moved::On) => self.rotation.put_back(open),
            Ok(Moved::ToTheEnd) => {
                let Expansion { event_id, deliveries, .. } = open.expansion;
                tracing::info!(%event_id, deliveries, "event.expanded");
            }
            // Another node works on it.
            Ok(Moved::ByOthers) => {}
            Err(error) => {
                // It may have been written all the same: the next chunk begins where the cursor really stands.
                open.unsure = true;
                self.rotation.put_back(open);
                return Err(error);
            }
        }
        Ok(())
    }

    async fn write_chunk(&mut self, open: &mut OpenExpansion) -> Result<Moved, StoreError> {
        if open.unsure {
            let Some(expansion) = self.store.expansion(open.expansion.event_id).await? else {
                return Ok(Moved::ToTheEnd);
            };
            open.renew(expansion);
        }
        let (chunk, places) = self.next_chunk(open).await?;
        failpoint::hit("expand.before");
        let written = self.store.expand(&chunk).await;
        failpoint::hit("expand.after");
        let maybe_there = !matches!(written, Ok(false) | Err(StoreError::Unavailable(_)));
        if maybe_there && !places.is_empty() {
            // One that has stopped hears nothing: the rows are durable.
            let _ = self.dispatcher.send(Message::Made(places)).await;
        }
        if !written? {
            return Ok(Moved::ByOthers);
        }
        open.expansion.cursor = chunk.to;
        open.expansion.deliveries += chunk.deliveries.len() as u32;
        open.expansion.other_routes = chunk.other_routes;
        Ok(if chunk.done { Moved::ToTheEnd } else { Moved::On })
    }

    /// The deliveries of the next page of routes, and where they will wait.
    async fn next_chunk(&mut self, open: &mut OpenExpansion) -> Result<(Chunk, Vec<Place>), StoreError> {
        let Expansion { event_id, account_id, cursor, .. } = open.expansion;
        let other_routes = open.expansion.other_routes.clone();
        let mut chunk =
            Chunk { event_id, from: cursor, to: cursor, deliveries: Vec::new(), other_routes, done: true };
        let event = match &open.event {
            Some(event) => Arc::clone(event),
            None => match whole_event(&*self.store, &self.data_keys, (account_id, event_id)).await? {
                Some(event) => event,
                // It has had its time; nothing is left to deliver.
                None => return Ok((chunk, Vec::new())),
            },
        };
        open.keep(&event);
        let (limit, mut deliverers) = (self.store.chunk_routes(), Deliverers::default());
        let (mut after, mut going_on) = (cursor.map(|destination| (destination, RouteId::MAX)), None);
        loop {
            let walk = RouteWalk { account_id, source_id: event.source_id, after, limit, known: None };
            let (routes, numberings) = self.pages.read(self.store.as_ref(), walk).await?;
            let (whole, is_last) = (whole_destinations(&routes, limit, going_on), routes.len() < limit);
            chunk.to = whole.last().map(|route| route.destination_id).or(chunk.to);
            chunk.done = is_last && whole.len() == routes.len();
            self.take(&mut chunk, open, &event, whole, &numberings, &mut deliverers).await;
            let Some(last) = whole.last().filter(|_| !is_last && whole.len() == routes.len()) else { break };
            (after, going_on) = (Some((last.destination_id, last.id)), Some(last.destination_id));
        }
        let places =
            chunk.deliveries.iter().map(|made| (made.destination_id, made.id, made.position)).collect();
        Ok((chunk, places))
    }

    /// Adds what these routes make of the event.
    async fn take(
        &self,
        chunk: &mut Chunk,
        open: &OpenExpansion,
        event: &Event,
        routes: &[Route],
        numberings: &Numberings,
        deliverers: &mut Deliverers,
    ) {
        let filtered = routes.iter().any(|route| route.filter.is_some());
        let candidate = Candidate::new(event, filtered);
        let taken = |route: &&Route| {
            let was_there = route.was_there(open.expansion.account_version, event.received_at);
            was_there && route.takes(&candidate) && !open.has_inline(route.destination_id)
        };
        for (place, some) in routes.chunks(FILTERED_STEP).enumerate() {
            if filtered && place > 0 {
                yield_now().await;
            }
            for route in some.iter().filter(taken) {
                if deliverers.includes(route) {
                    chunk.deliveries.push(self.new_delivery(event, route, numberings));
                } else if chunk.other_routes.len() < limits::OTHER_ROUTES {
                    chunk.other_routes.push(route.id);
                }
            }
        }
    }

    /// It takes its number now, at a destination that became ordered after the event too.
    fn new_delivery(&self, event: &Event, route: &Route, numberings: &Numberings) -> NewDelivery {
        let now = self.clock.now();
        let numbering = numberings.get(&route.destination_id).copied().unwrap_or_default();
        NewDelivery::of_route(event, route, numbering, DeliveryId::at(now, self.dice.bits()), now)
    }
}

/// The routes of a page that a chunk takes: of destinations that end in it. The last one may go on behind a full page, and
/// is left to the next chunk. One that has the page to itself is taken, and gone on with in the pages behind, alone.
pub(super) fn whole_destinations(
    routes: &[Route],
    limit: usize,
    going_on: Option<DestinationId>,
) -> &[Route] {
    let end = match (going_on, routes.last()) {
        (Some(destination), _) => routes.partition_point(|route| route.destination_id == destination),
        (None, Some(last)) if routes.len() >= limit => {
            let whole = routes.partition_point(|route| route.destination_id < last.destination_id);
            if whole > 0 { whole } else { routes.len() }
        }
        (None, _) => routes.len(),
    };
    &routes[..end]
}

/// Events that are committed meanwhile wait for the same processors and the same flush.
async fn rest(took: Duration) {
    let rest = took / limits::EXPANSION_REST_PART;
    if rest >= limits::EXPANSION_REST_MIN {
        sleep(rest).await;
    }
}

type Place = (DestinationId, DeliveryId, Position);

/// What became of an expansion's cursor.
enum Moved {
    On,
    ToTheEnd,
    ByOthers,
}
