//! The heartbeat: renews the lease, and brings back what time it is and whether the roll has changed.

use super::Registrar;
use crate::{backoff::Backoff, claim::Claim};
use domain::{limits, ownership::Steadiness};
use std::{sync::Arc, time::Duration};
use store::{RollStamp, StoreError};
use tokio::{sync::watch, time::Instant};

/// What the last renewal said.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pulse {
    pub(super) steadiness: Steadiness,
    pub(super) stamp: Option<RollStamp>,
}

/// How a membership ended.
pub(super) enum Ended {
    /// Our row is gone.
    Lost,
    /// The store can no longer be trusted.
    Failed(StoreError),
    Left,
}

pub(super) struct Renewal {
    store: Arc<dyn store::Store>,
    clock: Arc<dyn domain::time::Clock>,
    dice: Arc<dyn domain::dice::Dice>,
    lease: Arc<crate::claim::Lease>,
    length: Duration,
    claim: Arc<Claim>,
    pulse: watch::Sender<Pulse>,
}

impl Renewal {
    /// For a node that has just joined, which counts as its first renewal.
    pub(super) fn new(registrar: &Registrar, claim: Arc<Claim>) -> (Self, watch::Receiver<Pulse>) {
        let mut first = Pulse::default();
        first.steadiness.renewed(registrar.lease.now());
        let (pulse, felt) = watch::channel(first);
        let Registrar { store, clock, dice, lease, length } = registrar;
        let renewal = Self {
            store: Arc::clone(store),
            clock: Arc::clone(clock),
            dice: Arc::clone(dice),
            lease: Arc::clone(lease),
            length: *length,
            claim,
            pulse,
        };
        (renewal, felt)
    }

    /// Renews until there is nothing to renew.
    pub(super) async fn run(self) -> Ended {
        let mut backoff = Backoff::default();
        let usual = limits::LEASE_RENEWAL.min(self.length / 3);
        let mut pause = usual;
        let mut renewed_at = Instant::now();
        loop {
            tokio::time::sleep(pause).await;
            let asked_at = Instant::now();
            match self.store.renew(self.claim.node, self.length).await {
                Ok(renewed) => {
                    backoff.reset();
                    self.lease.renewed(asked_at, self.length);
                    self.clock.sync(renewed.now.plus(asked_at.elapsed() / 2));
                    let late = renewed_at.elapsed() > usual * 2;
                    self.pulse.send_modify(|pulse| {
                        if late {
                            pulse.steadiness.interrupted();
                        }
                        pulse.steadiness.renewed(self.lease.now());
                        pulse.stamp = Some(renewed.stamp);
                    });
                    renewed_at = Instant::now();
                    pause = usual;
                }
                Err(StoreError::NodeLost) => return Ended::Lost,
                Err(error @ StoreError::Failed(_)) => return Ended::Failed(error),
                Err(error) => {
                    if backoff.worth_telling() {
                        tracing::warn!(%error, "the lease could not be renewed; trying again");
                    }
                    self.pulse.send_modify(|pulse| pulse.steadiness.interrupted());
                    pause = backoff.pause(self.dice.as_ref()).min(limits::RENEWAL_RETRY);
                }
            }
        }
    }
}
