//! This node among the others: it joins, renews its lease, and keeps to its share of the shards.
//!
//! One membership at a time: a node whose row is gone drops everything, waits until its results are written (they are
//! late), and joins again under another id; the process goes on. Renewals run beside everything else, so that a slow
//! read of the roster costs no lease. What to do about shards is decided by [`domain::ownership`]; here it is done, and the
//! dispatcher is told.

mod renewal;
mod shard_exchange;

use crate::{
    backoff::Backoff,
    chores::Rescans,
    dispatcher::{Message, ShardReport},
    membership::{Lease, Membership},
    ownership_view::OwnershipView,
    wakes::Outbox,
};
use domain::{
    dice::Dice,
    id::{NodeId, SHARDS},
    time::{Clock, Timestamp},
};
use renewal::{MembershipEnd, Renewal};
use std::{sync::Arc, time::Duration};
use store::{NodeRecord, Store, StoreError};
use supervisor::Supervisor;
use tokio::{
    sync::{Notify, mpsc},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// Why a node could not begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Enters nodes as members, and has what their renewals need.
#[derive(Clone)]
pub(crate) struct Joiner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) dice: Arc<dyn Dice>,
    pub(crate) lease: Arc<Lease>,
    pub(crate) length: Duration,
}

impl Joiner {
    /// Enters this node, however long the store is away.
    pub(crate) async fn join(&self, node: &NodeRecord) -> Result<Arc<Membership>, StoreError> {
        let mut backoff = Backoff::default();
        loop {
            let asked_at = Instant::now();
            match self.store.join(node, self.length).await {
                Ok(now) => {
                    self.synchronise(now, asked_at);
                    return Ok(Membership::new(node.id, Arc::clone(&self.lease)));
                }
                Err(StoreError::Unavailable(error) | StoreError::OutcomeUnknown(error)) => {
                    if backoff.worth_telling() {
                        tracing::warn!(%error, "the store is away; waiting for it");
                    }
                    tokio::time::sleep(backoff.pause(self.dice.as_ref())).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The store has answered: our time goes on from its, our lease from before we asked.
    fn synchronise(&self, store_now: Timestamp, asked_at: Instant) {
        self.lease.renewed(asked_at, self.length);
        self.clock.sync(store_now.plus(asked_at.elapsed() / 2));
    }
}

pub(crate) struct Owner {
    pub(crate) joiner: Joiner,
    /// As it joined last.
    pub(crate) node: NodeRecord,
    pub(crate) membership: Arc<Membership>,
    pub(crate) ownership_view: Arc<OwnershipView>,
    pub(crate) dispatcher: mpsc::Sender<Message>,
    pub(crate) reports: mpsc::UnboundedReceiver<ShardReport>,
    pub(crate) rescans: Arc<Rescans>,
    pub(crate) outbox: Arc<Outbox>,
    /// Rung when another node says that membership or ownership has moved.
    pub(crate) membership_moved: Arc<Notify>,
    /// Told when the node must end.
    pub(crate) supervisor: Supervisor,
}

/// How the owner is told to go: first everything drains and is given away, then the row is removed.
#[derive(Clone)]
pub(crate) struct Stops {
    pub(crate) drain: CancellationToken,
    pub(crate) leave: CancellationToken,
}

impl Owner {
    /// Runs one membership after the other until told to leave.
    pub(crate) async fn run(mut self, stops: Stops) {
        loop {
            let (renewal, status) = Renewal::new(&self.joiner, Arc::clone(&self.membership));
            let membership = Arc::clone(&self.membership);
            let ended = tokio::select! {
                biased;
                ended = renewal.run() => ended,
                ended = shard_exchange::run(&mut self, status, &stops) => ended,
                () = membership.guard() => MembershipEnd::Left,
            };
            match ended {
                MembershipEnd::Left => return,
                MembershipEnd::Failed(error) => {
                    self.supervisor.end_node(error.to_string());
                    return;
                }
                MembershipEnd::Lost => {}
            }
            tracing::warn!(node_id = %self.node.id, "this node was taken for dead and replaced; joining again");
            self.membership.lose();
            self.ownership_view.lost();
            self.tell(Message::Lost((0..SHARDS).collect())).await;
            if stops.drain.is_cancelled() {
                return;
            }
            let again = async {
                self.quiet().await;
                self.join_again().await
            };
            match stops.leave.run_until_cancelled(again).await {
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    self.supervisor.end_node(format!("it could not join again: {error}"));
                    return;
                }
                None => return,
            }
        }
    }

    /// Waits until nothing of the old membership is open and its results are written.
    async fn quiet(&mut self) {
        self.tell(Message::Quiet).await;
        while let Some(report) = self.reports.recv().await {
            if matches!(report, ShardReport::Quiet) {
                return;
            }
        }
    }

    async fn join_again(&mut self) -> Result<(), StoreError> {
        let Joiner { clock, dice, .. } = &self.joiner;
        self.node.id = NodeId::at(clock.now(), dice.bits());
        self.membership = self.joiner.join(&self.node).await?;
        self.ownership_view.joined(Arc::clone(&self.membership));
        self.tell(Message::Joined(Arc::clone(&self.membership))).await;
        tracing::info!(node_id = %self.node.id, "joined again");
        Ok(())
    }

    /// A dispatcher that has stopped owns nothing any more.
    async fn tell(&self, message: Message) {
        let _ = self.dispatcher.send(message).await;
    }
}
