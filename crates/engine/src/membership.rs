//! This node's membership and the lease it rests on, measured by its own monotonic clock.
//!
//! The deadline counts from before the renewal was sent, so a node that was frozen or cut off knows by itself that its
//! time is up, and clocks need not agree. Nothing starts in the last part of a lease, the check is repeated before the
//! first byte, and what is open when it ends is aborted.

use domain::{id::NodeId, limits};
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

/// Until when this process may act for the node it is. One for the life of the engine, under whichever id.
#[derive(Debug)]
pub(crate) struct Lease {
    epoch: Instant,
    /// Microseconds after `epoch`; 0: it has none.
    ends_at: AtomicU64,
    renewed: Notify,
}

impl Lease {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { epoch: Instant::now(), ends_at: AtomicU64::new(0), renewed: Notify::new() })
    }

    /// Monotonic time since the engine was made.
    pub(crate) fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    /// Whether something may start now. Not in the last part: a request must not outlive the lease by surprise.
    fn is_good(&self) -> bool {
        self.left() > limits::LEASE_MARGIN
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.left() == Duration::ZERO
    }

    fn left(&self) -> Duration {
        Duration::from_micros(self.ends_at.load(Ordering::Relaxed)).saturating_sub(self.now())
    }

    pub(crate) fn renewed(&self, asked_at: Instant, length: Duration) {
        let until = asked_at.duration_since(self.epoch) + length;
        self.ends_at.store(until.as_micros() as u64, Ordering::Relaxed);
        self.renewed.notify_waiters();
    }

    fn end(&self) {
        self.ends_at.store(0, Ordering::Relaxed);
    }
}

/// One membership: a node's id, from joining until its row is gone.
#[derive(Debug)]
pub(crate) struct Membership {
    pub(crate) node: NodeId,
    lease: Arc<Lease>,
    lost: AtomicBool,
    /// Aborts what is open; a new one for what starts after the lease had ended and was renewed.
    open: Mutex<CancellationToken>,
}

impl Membership {
    pub(crate) fn new(node: NodeId, lease: Arc<Lease>) -> Arc<Self> {
        Arc::new(Self { node, lease, lost: AtomicBool::new(false), open: Mutex::default() })
    }

    /// Whether something may start now.
    pub(crate) fn may_start(&self) -> bool {
        !self.lost.load(Ordering::Relaxed) && self.lease.is_good()
    }

    /// Whether what is open may go on.
    pub(crate) fn stands(&self) -> bool {
        !self.lost.load(Ordering::Relaxed) && !self.lease.has_ended()
    }

    /// What aborts a request that starts now.
    pub(crate) fn abort_token(&self) -> CancellationToken {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.is_cancelled() && self.stands() {
            *open = CancellationToken::new();
        }
        open.clone()
    }

    pub(crate) fn abort_open(&self) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).cancel();
    }

    /// The row is gone: others own what was ours.
    pub(crate) fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
        self.lease.end();
        self.abort_open();
    }

    /// Aborts what is open whenever the lease ends, for ever.
    pub(crate) async fn guard(&self) {
        loop {
            let renewed = self.lease.renewed.notified();
            if self.lease.has_ended() {
                self.abort_open();
                renewed.await;
            } else {
                let left = self.lease.left().max(Duration::from_millis(1));
                tokio::time::sleep(left).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::id::NodeId;

    #[tokio::test(start_paused = true)]
    async fn nothing_starts_in_the_last_part_of_a_lease_and_what_is_open_ends_with_it() {
        let lease = Lease::new();
        let membership = Membership::new(NodeId::MIN, Arc::clone(&lease));
        assert!(!membership.may_start() && !membership.stands(), "it has never been renewed");
        lease.renewed(Instant::now(), Duration::from_secs(10));
        let guarded = Arc::clone(&membership);
        let guard = tokio::spawn(async move { guarded.guard().await });
        let open = membership.abort_token();
        tokio::time::sleep(Duration::from_millis(7_999)).await;
        assert!(membership.may_start());
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert!(!membership.may_start() && membership.stands() && !open.is_cancelled());
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(!membership.stands() && open.is_cancelled());

        lease.renewed(Instant::now(), Duration::from_secs(10));
        let later = membership.abort_token();
        assert!(membership.may_start() && !later.is_cancelled(), "expired is not lost");
        membership.lose();
        assert!(!membership.stands() && later.is_cancelled());
        lease.renewed(Instant::now(), Duration::from_secs(10));
        assert!(
            !membership.may_start() && membership.abort_token().is_cancelled(),
            "what is lost does not come back, under whichever id we join again"
        );
        guard.abort();
    }
}
