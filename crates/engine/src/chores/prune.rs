//! Forgets what has had its time, in small steps, and prepares the store for the days to come.

mod history;

use domain::{limits, time::Clock};
use std::{future::Future, sync::Arc, time::Duration};
use store::{Store, StoreError};

pub(super) use history::{Retention, RetentionSettings};

/// For how long.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept {
    pub(super) idempotency_keys: Duration,
    pub(super) audit_entries: Duration,
}

/// What every node does: any number may do it at once.
pub(super) async fn run(store: Arc<dyn Store>, clock: Arc<dyn Clock>, kept: Kept) {
    loop {
        supervisor::failpoint();
        tokio::time::sleep(limits::PRUNE_EVERY).await;
        let now = clock.now();
        if let Err(error) = store.ensure_partitions(now).await {
            tracing::error!(%error, "the store is not prepared for the days to come; trying again");
        }
        let unused = now.minus(kept.idempotency_keys);
        prune("idempotency keys", || store.prune_idempotency(unused, limits::PRUNE_STEP)).await;
        let ended = now.minus(limits::HOLDS_KEPT);
        prune("holds", || store.prune_holds(ended, limits::PRUNE_STEP)).await;
        let told = now.minus(kept.audit_entries);
        prune("audit entries", || store.prune_audit(told, limits::PRUNE_STEP)).await;
        // One that was over by its length has not been seen since, and so rests by now.
        let seen = now.minus(limits::SESSION_IDLE);
        prune("sessions", || store.prune_sessions(seen, now, limits::PRUNE_STEP)).await;
    }
}

/// Step by step until one finds less than it may take.
async fn prune<F: Future<Output = Result<usize, StoreError>>>(what: &str, step: impl Fn() -> F) {
    loop {
        match step().await {
            Ok(pruned) if pruned == limits::PRUNE_STEP => tokio::time::sleep(limits::PRUNE_BREATH).await,
            Ok(_) => return,
            Err(error) => {
                tracing::warn!(%error, "old {what} could not be pruned; trying again later");
                return;
            }
        }
    }
}
