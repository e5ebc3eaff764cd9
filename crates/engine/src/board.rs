//! What every part of the engine knows of this node's place among the others. Written by the owner alone.

use crate::claim::Claim;
use domain::id::NodeId;
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};
use store::Roll;

#[derive(Debug)]
pub(crate) struct Board {
    /// The only member, and owner of everything: nobody to tell anything, nothing to look up elsewhere.
    alone: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    claim: Arc<Claim>,
    owned: Arc<[u16]>,
    roll: Option<Arc<Roll>>,
}

/// Who runs the lanes of a shard, as far as the last roll says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunBy {
    Nobody,
    Node(NodeId),
}

impl Board {
    pub(crate) fn new(claim: Arc<Claim>) -> Arc<Self> {
        let state = State { claim, owned: Arc::new([]), roll: None };
        Arc::new(Self { alone: AtomicBool::new(false), state: Mutex::new(state) })
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.alone.load(Ordering::Relaxed)
    }

    pub(crate) fn claim(&self) -> Arc<Claim> {
        self.with(|state| Arc::clone(&state.claim))
    }

    /// The shards this node owns, in order.
    pub(crate) fn owned(&self) -> Arc<[u16]> {
        self.with(|state| Arc::clone(&state.owned))
    }

    /// A node whose lease has ended runs nothing.
    pub(crate) fn run_by(&self, shard: u16) -> RunBy {
        let Some(roll) = self.with(|state| state.roll.clone()) else { return RunBy::Nobody };
        let owner = roll.shards.get(usize::from(shard)).and_then(|row| row.owner);
        let alive = |id: &NodeId| roll.members.iter().any(|it| it.record.id == *id && !it.expired);
        owner.filter(alive).map_or(RunBy::Nobody, RunBy::Node)
    }

    pub(crate) fn joined(&self, claim: Arc<Claim>) {
        self.with(|state| *state = State { claim, owned: Arc::new([]), roll: None });
    }

    pub(crate) fn lost(&self) {
        self.alone.store(false, Ordering::Relaxed);
        self.with(|state| state.owned = Arc::new([]));
    }

    pub(crate) fn owns(&self, shards: impl Iterator<Item = u16>, alone: bool) {
        let owned = shards.collect();
        self.with(|state| state.owned = owned);
        self.alone.store(alone, Ordering::Relaxed);
    }

    pub(crate) fn rolled(&self, roll: Arc<Roll>) {
        self.with(|state| state.roll = Some(roll));
    }

    fn with<T>(&self, read: impl FnOnce(&mut State) -> T) -> T {
        read(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
