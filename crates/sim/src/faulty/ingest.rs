//! Committing, as one node meets it.

use super::{Faulty, finish, pause, queue::number};
use crate::{log::What, plant::Plant, scene::count, time::MILLISECOND};
use async_trait::async_trait;
use domain::{
    event::Event,
    id::{DestinationId, RouteId},
    route::{RouteTable, fan_out},
    time::Timestamp,
};
use std::{sync::Arc, time::Duration};
use store::{Committed, Ingest, NewEvent, Store, StoreError};

#[async_trait]
impl Ingest for Faulty {
    async fn commit(&self, batch: &[NewEvent], now: Timestamp) -> Result<Vec<Committed>, StoreError> {
        let mut batch = batch.to_vec();
        for new in &mut batch {
            if self.has(Plant::NoIdempotency) {
                new.key = None;
            }
            if self.has(Plant::PartialFanOut) && new.deliveries.len() > 1 {
                new.deliveries.pop();
            }
        }
        let (inner, scene, node) = (Arc::clone(&self.inner), Arc::clone(&self.scene), self.node);
        let made = batch.clone();
        let commit = move || {
            let committed = finish(inner.commit(&made, now))?;
            let known = scene.book().known(&made);
            let (at, mut book) = (scene.time.now(), scene.book());
            for (new, outcome) in made.iter().zip(&committed) {
                if *outcome == Committed::Stale {
                    count(&scene.counts.stale);
                }
                if *outcome == Committed::New {
                    book.committed(new, || matched(inner.as_ref(), &new.event), at);
                    count(&scene.counts.events);
                    scene
                        .counts
                        .deliveries
                        .fetch_add(new.deliveries.len() as u64, std::sync::atomic::Ordering::Relaxed);
                }
                let (event, deliveries) = (new.event.id, new.deliveries.len());
                book.log
                    .note(at, What::Committed { node, event, deliveries, new: *outcome == Committed::New });
            }
            drop(book);
            for (new, _) in made.iter().zip(&committed).filter(|(_, outcome)| **outcome == Committed::New) {
                for delivery in new.deliveries.iter().filter(|it| it.sequenced && !known.contains(&it.id)) {
                    number(&inner, &scene, new.event.account_id, delivery.id);
                }
            }
            Ok(committed)
        };
        if self.has(Plant::AckBeforeCommit) {
            // Written a little later, by somebody who may be dead by then.
            tokio::spawn(async move {
                pause(Duration::from_micros(20 * MILLISECOND as u64)).await;
                let _ = commit();
            });
            return Ok(vec![Committed::New; batch.len()]);
        }
        self.write("commit", commit).await
    }

    async fn prune_idempotency(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.read("prune_idempotency", self.inner.prune_idempotency(before, limit)).await
    }
}

/// The routes that take this event, by what is in the store and by nothing that a node remembers.
fn matched(store: &dyn Store, event: &Event) -> Vec<(RouteId, DestinationId)> {
    let changes = finish(store.changes(event.account_id, 0)).expect("the store itself does not fail");
    let table = RouteTable::new(changes.routes.into_iter().map(Arc::new));
    fan_out(event, &table).into_iter().map(|route| (route.id, route.destination_id)).collect()
}
