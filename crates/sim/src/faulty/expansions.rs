//! Expansions, as one node meets them.

use super::{FaultyStore, TrueStore, finish};
use crate::{log::Occurrence, planted_bug::PlantedBug, shared_world::count};
use async_trait::async_trait;
use domain::id::EventId;
use store::{Chunk, Expansion, Expansions, RoutePage, RouteWalk, StoreError};

/// Routes of one chunk: few, so that expansions of a few deliveries have several chunks.
const CHUNK_ROUTES: usize = 2;

#[async_trait]
impl Expansions for FaultyStore {
    async fn open_expansions(
        &self,
        after: Option<EventId>,
        limit: usize,
    ) -> Result<Vec<Expansion>, StoreError> {
        self.read("open_expansions", self.inner.open_expansions(after, limit)).await
    }

    fn chunk_routes(&self) -> usize {
        CHUNK_ROUTES
    }

    async fn expansion(&self, event: EventId) -> Result<Option<Expansion>, StoreError> {
        self.read("expansion", self.inner.expansion(event)).await
    }

    async fn take_over_expansion(&self) -> Result<bool, StoreError> {
        self.read("take_over_expansion", self.inner.take_over_expansion()).await
    }

    async fn routes_after(&self, walk: &RouteWalk) -> Result<RoutePage, StoreError> {
        self.read("routes_after", self.inner.routes_after(walk)).await
    }

    async fn expand(&self, chunk: &Chunk) -> Result<bool, StoreError> {
        let mut chunk = chunk.clone();
        if self.has(PlantedBug::PartialExpansion) {
            chunk.deliveries.pop();
        }
        self.write("expand", move |true_store| true_store.expand(&chunk)).await
    }
}

impl TrueStore {
    fn expand(&self, chunk: &Chunk) -> Result<bool, StoreError> {
        let Self { store, shared, node, .. } = self;
        let written = finish(store.expand(chunk))?;
        if !written {
            return Ok(false);
        }
        let (event, deliveries) = (chunk.event_id, chunk.deliveries.len());
        shared.note(Occurrence::Expanded { node: *node, event, deliveries, done: chunk.done });
        for delivery in &chunk.deliveries {
            let account = shared.observed().account_of(delivery.destination_id);
            count(&shared.counts.deliveries);
            self.promised(account, delivery);
        }
        if chunk.done {
            count(&shared.counts.expansions);
            shared.observed().expanded(event);
        }
        Ok(true)
    }
}
