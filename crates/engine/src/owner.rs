//! This node's claim on its lanes: entered at the start, renewed, measured by our own monotonic clock.
//!
//! One node owns all shards for now. The deadline counts from before the renewal was sent, so a node that was frozen
//! or cut off knows by itself that its time is up, and clocks need not agree.

use crate::backoff::Backoff;
use domain::{
    dice::Dice,
    limits,
    time::{Clock, Timestamp},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use store::{Member, NodeRecord, Store, StoreError};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

/// Why a node could not begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(
        "node `{by}` is serving this database already; stop it first, or give this one a database of its own"
    )]
    Occupied { by: String },
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Until when this node may start requests.
#[derive(Debug)]
pub(crate) struct Lease {
    epoch: Instant,
    /// Microseconds after `epoch`.
    good_until: AtomicU64,
}

impl Lease {
    fn new() -> Self {
        Self { epoch: Instant::now(), good_until: AtomicU64::new(0) }
    }

    /// Whether something may start now. Not in the last part of the lease: a request must not outlive it by surprise.
    pub(crate) fn is_good(&self) -> bool {
        (self.epoch.elapsed().as_micros() as u64) < self.good_until.load(Ordering::Relaxed)
    }

    fn renewed(&self, asked_at: Instant, lease: Duration) {
        let until = asked_at.duration_since(self.epoch) + lease.saturating_sub(limits::LEASE_MARGIN);
        self.good_until.store(until.as_micros() as u64, Ordering::Relaxed);
    }
}

pub(crate) struct Owner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) dice: Arc<dyn Dice>,
    pub(crate) node: NodeRecord,
    pub(crate) length: Duration,
    pub(crate) lease: Arc<Lease>,
    /// Says why, when the node must end.
    pub(crate) failed: Arc<watch::Sender<Option<String>>>,
}

impl Owner {
    /// Enters this node, waiting for a predecessor's lease to end. Somebody who keeps renewing is alive.
    pub(crate) async fn join(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        dice: Arc<dyn Dice>,
        node: NodeRecord,
        length: Duration,
        failed: Arc<watch::Sender<Option<String>>>,
    ) -> Result<Self, StartError> {
        let owner = Self { store, clock, dice, node, length, lease: Arc::new(Lease::new()), failed };
        let mut backoff = Backoff::default();
        let patience = Instant::now() + length + limits::LEASE_MARGIN;
        loop {
            let asked_at = Instant::now();
            match owner.enter().await {
                Ok(Ok(now)) => {
                    owner.synchronise(now, asked_at);
                    return Ok(owner);
                }
                Ok(Err((by, for_another))) => {
                    if Instant::now() > patience {
                        return Err(StartError::Occupied { by });
                    }
                    tracing::info!(node = by, seconds = for_another.as_secs(), "waiting for a lease to end");
                    tokio::time::sleep(for_another.clamp(limits::BACKOFF_MIN, limits::LEASE_RENEWAL)).await;
                }
                Err(StoreError::Unavailable(error) | StoreError::OutcomeUnknown(error)) => {
                    if backoff.worth_telling() {
                        tracing::warn!(%error, "the store is away; waiting for it");
                    }
                    tokio::time::sleep(backoff.pause(owner.dice.as_ref())).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Joins, if nobody else is there; else says who, and for how long.
    async fn enter(&self) -> Result<Result<Timestamp, (String, Duration)>, StoreError> {
        self.store.reap(self.node.id).await?;
        let roll = self.store.roll().await?;
        let stays = |member: &&Member| member.record.proof != self.node.proof;
        match roll.members.iter().find(stays) {
            Some(other) => Ok(Err((other.record.label.clone(), other.expires_at.since(roll.now)))),
            None => self.store.join(&self.node, self.length).await.map(Ok),
        }
    }

    /// Renews until stopped, then leaves.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let mut backoff = Backoff::default();
        let mut pause = limits::LEASE_RENEWAL.min(self.length / 3);
        while stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
            let asked_at = Instant::now();
            match self.store.renew(self.node.id, self.length).await {
                Ok(renewed) => {
                    backoff.reset();
                    self.synchronise(renewed.now, asked_at);
                    pause = limits::LEASE_RENEWAL.min(self.length / 3);
                }
                Err(error @ (StoreError::NodeLost | StoreError::Failed(_))) => {
                    tracing::error!(%error, "this node must end");
                    self.failed.send_replace(Some(error.to_string()));
                    return;
                }
                Err(error) => {
                    if backoff.worth_telling() {
                        tracing::warn!(%error, "the lease could not be renewed; trying again");
                    }
                    pause = backoff.pause(self.dice.as_ref());
                }
            }
        }
        if let Err(error) = self.store.leave(self.node.id).await {
            tracing::warn!(%error, "this node's row stays behind until its lease ends");
        }
    }

    fn synchronise(&self, store_now: Timestamp, asked_at: Instant) {
        self.lease.renewed(asked_at, self.length);
        self.clock.sync(store_now.plus(asked_at.elapsed() / 2));
    }
}
