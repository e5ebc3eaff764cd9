//! Expansions.

use super::{MemoryStore, Tables};
use crate::{Chunk, Expansion, Expansions, RoutePage, RouteWalk, StoreError};
use async_trait::async_trait;
use domain::{
    destination::Numbering,
    id::{DestinationId, EventId},
    route::Route,
};
use std::{
    collections::BTreeSet,
    ops::Bound::{Excluded, Unbounded},
};

#[async_trait]
impl Expansions for MemoryStore {
    async fn open_expansions(
        &self,
        after: Option<EventId>,
        limit: usize,
    ) -> Result<Vec<Expansion>, StoreError> {
        let tables = self.tables();
        let open = tables.expansions.range((after.map_or(Unbounded, Excluded), Unbounded));
        Ok(open.take(limit).map(|(_, expansion)| expansion.clone()).collect())
    }

    async fn expansion(&self, event: EventId) -> Result<Option<Expansion>, StoreError> {
        Ok(self.tables().expansions.get(&event).cloned())
    }

    /// There is no version before.
    async fn take_over_expansion(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    async fn routes_after(&self, walk: &RouteWalk) -> Result<RoutePage, StoreError> {
        let tables = self.tables();
        let version = tables.accounts.get(&walk.account_id).map(|account| account.version);
        if version.is_none() {
            return Ok(RoutePage::Read { version: 0, routes: Vec::new(), numberings: Vec::new() });
        }
        if version == walk.known {
            return Ok(RoutePage::Unchanged);
        }
        let live = tables.routes.0.values().filter_map(|kept| kept.live());
        let of_door =
            live.filter(|route| route.account_id == walk.account_id && route.source_id == walk.source_id);
        let place = |route: &&Route| (route.destination_id, route.id);
        let mut above: Vec<&Route> = of_door.filter(|route| Some(place(route)) > walk.after).collect();
        above.sort_by_key(place);
        let routes: Vec<Route> = above.into_iter().take(walk.limit).cloned().collect();
        let destinations: BTreeSet<DestinationId> = routes.iter().map(|route| route.destination_id).collect();
        let numbering = |id: &DestinationId| Some((*id, tables.destinations.0.get(id)?.row.numbering()));
        let numberings = destinations.iter().filter_map(numbering);
        let numberings = numberings.filter(|(_, numbering)| *numbering != Numbering::None).collect();
        Ok(RoutePage::Read { version: version.unwrap_or_default(), routes, numberings })
    }

    async fn expand(&self, chunk: &Chunk) -> Result<bool, StoreError> {
        Ok(self.tables().expand(chunk))
    }
}

impl Tables {
    fn expand(&mut self, chunk: &Chunk) -> bool {
        let Some(expansion) =
            self.expansions.get_mut(&chunk.event_id).filter(|expansion| expansion.cursor == chunk.from)
        else {
            return false;
        };
        expansion.cursor = chunk.to;
        expansion.deliveries += chunk.deliveries.len() as u32;
        expansion.other_routes.clone_from(&chunk.other_routes);
        if chunk.done {
            self.expansions.remove(&chunk.event_id);
        }
        let kept = self.events.get_mut(&chunk.event_id).expect("events stay");
        if chunk.done {
            kept.other_routes.clone_from(&chunk.other_routes);
        }
        kept.deliveries.extend(chunk.deliveries.iter().map(|promise| promise.id));
        let event = kept.event.clone();
        for promise in &chunk.deliveries {
            self.promise(&event, promise);
        }
        true
    }
}
