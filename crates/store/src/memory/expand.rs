//! Expansions.

use super::{MemoryStore, Tables};
use crate::{Chunk, Expansion, Expansions, RoutePage, RouteWalk, StoreError};
use async_trait::async_trait;
use domain::{
    destination::Ordering,
    id::{DestinationId, EventId, RouteId},
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

    async fn routes_after(&self, walk: &RouteWalk) -> Result<RoutePage, StoreError> {
        let tables = self.tables();
        let version = tables.accounts.get(&walk.account_id).map(|account| account.version);
        if version.is_some() && version == walk.known {
            return Ok(RoutePage::Unchanged);
        }
        let above = (walk.after.map_or(Unbounded, Excluded), Unbounded);
        let live = tables.routes.0.range::<RouteId, _>(above).filter_map(|(_, kept)| kept.live());
        let of_door =
            live.filter(|route| route.account_id == walk.account_id && route.source_id == walk.source_id);
        let routes: Vec<Route> = of_door.take(walk.limit).cloned().collect();
        let destinations: BTreeSet<DestinationId> = routes.iter().map(|route| route.destination_id).collect();
        let ordering = |id: &DestinationId| Some((*id, tables.destinations.0.get(id)?.row.ordering));
        let orderings = destinations.iter().filter_map(ordering);
        let orderings = orderings.filter(|(_, ordering)| *ordering != Ordering::None).collect();
        Ok(RoutePage::Read { version: version.unwrap_or_default(), routes, orderings })
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
        if chunk.done {
            self.expansions.remove(&chunk.event_id);
        }
        let kept = self.events.get_mut(&chunk.event_id).expect("events stay");
        kept.deliveries.extend(chunk.deliveries.iter().map(|promise| promise.id));
        let event = kept.event.clone();
        for promise in &chunk.deliveries {
            self.promise(&event, promise);
        }
        true
    }
}
