//! Committing, as one node meets it.

use super::{FaultyStore, TrueStore, finish, pause};
use crate::{log::Occurrence, planted_bug::PlantedBug, shared_world::count, time::MILLISECOND};
use async_trait::async_trait;
use domain::{
    delivery::Position,
    event::Event,
    id::{DeliveryId, DestinationId, RouteId},
    route::{Candidate, RouteTable},
    time::Timestamp,
};
use std::{sync::Arc, time::Duration};
use store::{Committed, Ingest, NewDelivery, NewEvent, Store, StoreError};

#[async_trait]
impl Ingest for FaultyStore {
    async fn commit(&self, batch: &[NewEvent], now: Timestamp) -> Result<Vec<Committed>, StoreError> {
        let mut batch = batch.to_vec();
        for new in &mut batch {
            if self.has(PlantedBug::NoIdempotency) {
                new.key = None;
            }
            if self.has(PlantedBug::PartialFanOut) && new.deliveries.len() > 1 {
                new.deliveries.pop();
            }
            if self.has(PlantedBug::DeliveryPerRoute) {
                self.deliver_by_every_route(new, now);
            }
        }
        let made = batch.clone();
        let commit = move |true_store: &TrueStore| {
            let TrueStore { store, shared, node, .. } = true_store;
            let committed = finish(store.commit(&made, now))?;
            let known = shared.observed().known(&made);
            let (at, mut observed) = (shared.time.now(), shared.observed());
            for (new, outcome) in made.iter().zip(&committed) {
                if *outcome == Committed::Stale {
                    count(&shared.counts.stale);
                }
                if *outcome == Committed::New {
                    observed.committed(new, || matched(store.as_ref(), &new.event));
                    count(&shared.counts.events);
                    shared
                        .counts
                        .deliveries
                        .fetch_add(new.deliveries.len() as u64, std::sync::atomic::Ordering::Relaxed);
                }
                let (event, deliveries) = (new.event.id, new.deliveries.len());
                observed.log.note(
                    at,
                    Occurrence::Committed { node: *node, event, deliveries, new: *outcome == Committed::New },
                );
            }
            drop(observed);
            for (new, _) in made.iter().zip(&committed).filter(|(_, outcome)| **outcome == Committed::New) {
                for delivery in new.deliveries.iter().filter(|it| it.sequenced && !known.contains(&it.id)) {
                    true_store.note_number(new.event.account_id, delivery.id);
                }
            }
            Ok(committed)
        };
        if self.has(PlantedBug::AckBeforeCommit) {
            // Written a little later, by a process that may be dead by then.
            let true_store = self.true_store();
            tokio::spawn(async move {
                pause(Duration::from_micros(20 * MILLISECOND as u64)).await;
                let _ = commit(&true_store);
            });
            return Ok(vec![Committed::New; batch.len()]);
        }
        self.write("commit", commit).await
    }

    async fn prune_idempotency(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.read("prune_idempotency", self.inner.prune_idempotency(before, limit)).await
    }
}

impl FaultyStore {
    /// The bug: the routes that match too deliver too.
    fn deliver_by_every_route(&self, new: &mut NewEvent, now: Timestamp) {
        for route_id in std::mem::take(&mut new.other_routes) {
            let Ok(route) = finish(self.inner.route(new.event.account_id, route_id)) else { continue };
            let same = new.deliveries.iter().find(|it| it.destination_id == route.destination_id).cloned();
            new.deliveries.extend(same.map(|same| {
                let id = DeliveryId::at(now, route_id.uuid().as_u128() ^ same.id.uuid().as_u128());
                let position = Position { delivery_id: id, ..same.position };
                NewDelivery { id, route_id, position, ..same }
            }));
        }
    }
}

/// The routes that take this event, by what is in the store and by nothing that a node remembers.
fn matched(store: &dyn Store, event: &Event) -> Vec<(RouteId, DestinationId)> {
    let changes = finish(store.changes(event.account_id, 0)).expect("the store itself does not fail");
    let table = RouteTable::new(changes.routes.into_iter().map(Arc::new));
    let candidate = Candidate::of(event, &table);
    let taken = table.of_source(event.source_id).filter(|route| route.takes(&candidate));
    taken.map(|route| (route.id, route.destination_id)).collect()
}
