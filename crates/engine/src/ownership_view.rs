//! Which shards this node owns, and which nodes own the others, as every part of the engine may see it. Written by the
//! owner alone.

use crate::membership::Membership;
use domain::id::NodeId;
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};
use store::Roster;

#[derive(Debug)]
pub(crate) struct OwnershipView {
    /// The only member, and owner of every shard: no other node has to be told or asked anything.
    alone: AtomicBool,
    current: Mutex<CurrentOwnership>,
}

#[derive(Debug)]
struct CurrentOwnership {
    membership: Arc<Membership>,
    owned: Arc<[u16]>,
    roster: Option<Arc<Roster>>,
}

impl OwnershipView {
    pub(crate) fn new(membership: Arc<Membership>) -> Arc<Self> {
        let current = CurrentOwnership { membership, owned: Arc::new([]), roster: None };
        Arc::new(Self { alone: AtomicBool::new(false), current: Mutex::new(current) })
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.alone.load(Ordering::Relaxed)
    }

    pub(crate) fn membership(&self) -> Arc<Membership> {
        self.with(|current| Arc::clone(&current.membership))
    }

    /// The shards this node owns, in order.
    pub(crate) fn owned(&self) -> Arc<[u16]> {
        self.with(|current| Arc::clone(&current.owned))
    }

    /// The node that runs the lanes of a shard, as far as the last roster says. One whose lease has ended runs nothing.
    pub(crate) fn runs(&self, shard: u16) -> Option<NodeId> {
        let roster = self.with(|current| current.roster.clone())?;
        let owner = roster.shards.get(usize::from(shard)).and_then(|row| row.owner);
        let alive = |id: &NodeId| roster.members.iter().any(|it| it.record.id == *id && !it.expired);
        owner.filter(alive)
    }

    pub(crate) fn joined(&self, membership: Arc<Membership>) {
        self.with(|current| *current = CurrentOwnership { membership, owned: Arc::new([]), roster: None });
    }

    pub(crate) fn lost(&self) {
        self.alone.store(false, Ordering::Relaxed);
        self.with(|current| current.owned = Arc::new([]));
    }

    pub(crate) fn owns(&self, shards: impl Iterator<Item = u16>, alone: bool) {
        let owned = shards.collect();
        self.with(|current| current.owned = owned);
        self.alone.store(alone, Ordering::Relaxed);
    }

    pub(crate) fn roster_read(&self, roster: Arc<Roster>) {
        self.with(|current| current.roster = Some(roster));
    }

    fn with<T>(&self, act: impl FnOnce(&mut CurrentOwnership) -> T) -> T {
        act(&mut self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
