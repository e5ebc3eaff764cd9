//! Expansions, as one node meets them.

use super::{Faulty, Site, finish, queue::number};
use crate::{log::What, plant::Plant, scene::count};
use async_trait::async_trait;
use domain::id::EventId;
use store::{Chunk, Expansion, Expansions, RoutePage, RouteWalk, StoreError};

/// Routes of one chunk: few, so that expansions of a few deliveries have several chunks.
const CHUNK_ROUTES: usize = 2;

#[async_trait]
impl Expansions for Faulty {
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

    async fn routes_after(&self, walk: &RouteWalk) -> Result<RoutePage, StoreError> {
        self.read("routes_after", self.inner.routes_after(walk)).await
    }

    async fn expand(&self, chunk: &Chunk) -> Result<bool, StoreError> {
        let (site, mut chunk) = (self.site(), chunk.clone());
        if self.has(Plant::PartialExpansion) {
            chunk.deliveries.pop();
        }
        self.write("expand", move || site.expand(&chunk)).await
    }
}

impl Site {
    fn expand(&self, chunk: &Chunk) -> Result<bool, StoreError> {
        let Self { store, scene, node } = self;
        let written = finish(store.expand(chunk))?;
        if !written {
            return Ok(false);
        }
        let (event, deliveries) = (chunk.event_id, chunk.deliveries.len());
        scene.note(What::Expanded { node: *node, event, deliveries, done: chunk.done });
        for delivery in &chunk.deliveries {
            let account = scene.book().account_of(delivery.destination_id);
            count(&scene.counts.deliveries);
            scene.book().promised(account, delivery);
            if delivery.sequenced {
                number(store, scene, account, delivery.id);
            }
        }
        if chunk.done {
            count(&scene.counts.expansions);
            scene.book().expanded(event, scene.time.now());
        }
        Ok(true)
    }
}
