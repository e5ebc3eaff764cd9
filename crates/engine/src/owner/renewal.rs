//! Renews the lease, and brings back what time it is and whether the roster has changed.

use super::Joiner;
use crate::{backoff::Backoff, membership::Membership};
use domain::{limits, ownership::Steadiness};
use std::sync::Arc;
use store::{RosterStamp, StoreError};
use tokio::{sync::watch, time::Instant};

/// What the last renewal said.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RenewalStatus {
    pub(super) steadiness: Steadiness,
    pub(super) stamp: Option<RosterStamp>,
}

/// How a membership ended.
pub(super) enum MembershipEnd {
    /// Our row is gone.
    Lost,
    /// The store can no longer be trusted.
    Failed(StoreError),
    Left,
}

pub(super) struct Renewal {
    joiner: Joiner,
    membership: Arc<Membership>,
    status: watch::Sender<RenewalStatus>,
}

impl Renewal {
    /// For a node that has just joined, which counts as its first renewal.
    pub(super) fn new(
        joiner: &Joiner,
        membership: Arc<Membership>,
    ) -> (Self, watch::Receiver<RenewalStatus>) {
        let mut first = RenewalStatus::default();
        first.steadiness.renewed(joiner.lease.now());
        let (status, seen) = watch::channel(first);
        (Self { joiner: joiner.clone(), membership, status }, seen)
    }

    /// Renews until there is nothing to renew.
    pub(super) async fn run(self) -> MembershipEnd {
        let Self { joiner, membership, status } = self;
        let mut backoff = Backoff::default();
        let usual = limits::LEASE_RENEWAL.min(joiner.length / 3);
        let mut pause = usual;
        let mut renewed_at = Instant::now();
        loop {
            tokio::time::sleep(pause).await;
            let asked_at = Instant::now();
            match joiner.store.renew(membership.node, joiner.length).await {
                Ok(renewed) => {
                    backoff.reset();
                    joiner.synchronise(renewed.now, asked_at);
                    let late = renewed_at.elapsed() > usual * 2;
                    status.send_modify(|status| {
                        if late {
                            status.steadiness.interrupted();
                        }
                        status.steadiness.renewed(joiner.lease.now());
                        status.stamp = Some(renewed.stamp);
                    });
                    renewed_at = Instant::now();
                    pause = usual;
                }
                Err(StoreError::NodeLost) => return MembershipEnd::Lost,
                Err(error @ StoreError::Failed(_)) => return MembershipEnd::Failed(error),
                Err(error) => {
                    if backoff.worth_telling() {
                        tracing::warn!(%error, "the lease could not be renewed; trying again");
                    }
                    status.send_modify(|status| status.steadiness.interrupted());
                    pause = backoff.pause(joiner.dice.as_ref()).min(limits::RENEWAL_RETRY);
                }
            }
        }
    }
}
