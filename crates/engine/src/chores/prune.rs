//! Forgets what has had its time, in small steps, and prepares the store for the days to come.

use domain::{limits, time::Clock};
use std::{sync::Arc, time::Duration};
use store::Store;

pub(super) async fn run(store: Arc<dyn Store>, clock: Arc<dyn Clock>, idempotency_window: Duration) {
    loop {
        tokio::time::sleep(limits::PRUNE_EVERY).await;
        let now = clock.now();
        if let Err(error) = store.ensure_partitions(now).await {
            tracing::error!(%error, "the store is not prepared for the days to come; trying again");
        }
        prune_keys(store.as_ref(), now.minus(idempotency_window)).await;
        prune_holds(store.as_ref(), now.minus(limits::HOLDS_KEPT)).await;
    }
}

async fn prune_keys(store: &dyn Store, before: domain::time::Timestamp) {
    loop {
        match store.prune_idempotency(before, limits::PRUNE_STEP).await {
            Ok(pruned) if pruned == limits::PRUNE_STEP => tokio::time::sleep(limits::PRUNE_BREATH).await,
            Ok(_) => return,
            Err(error) => {
                tracing::warn!(%error, "old idempotency keys could not be pruned; trying again later");
                return;
            }
        }
    }
}

async fn prune_holds(store: &dyn Store, before: domain::time::Timestamp) {
    loop {
        match store.prune_holds(before, limits::PRUNE_STEP).await {
            Ok(pruned) if pruned == limits::PRUNE_STEP => tokio::time::sleep(limits::PRUNE_BREATH).await,
            Ok(_) => return,
            Err(error) => {
                tracing::warn!(%error, "old holds could not be pruned; trying again later");
                return;
            }
        }
    }
}
