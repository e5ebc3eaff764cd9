//! A chore that one node does at a time, as the node that would like to do it sees it.

use crate::ownership_view::OwnershipView;
use domain::time::{Clock, Timestamp};
use std::{sync::Arc, time::Duration};
use store::{Chore, Store, StoreError, Term};

pub(super) struct ChoreTerm {
    chore: Chore,
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<dyn Clock>,
    ownership_view: Arc<OwnershipView>,
    lease: Duration,
    /// With when it was last said.
    term: Option<(Term, Timestamp)>,
}

/// Why a pass ended early.
pub(super) enum Stopped {
    /// Another node has the chore.
    TermOver,
    Trouble(StoreError),
}

impl From<StoreError> for Stopped {
    fn from(error: StoreError) -> Self {
        Self::Trouble(error)
    }
}

impl ChoreTerm {
    pub(super) fn new(
        chore: Chore,
        store: &Arc<dyn Store>,
        clock: &Arc<dyn Clock>,
        ownership_view: &Arc<OwnershipView>,
        lease: Duration,
    ) -> Self {
        let (store, clock, ownership_view) =
            (Arc::clone(store), Arc::clone(clock), Arc::clone(ownership_view));
        Self { chore, store, clock, ownership_view, lease, term: None }
    }

    /// The term to work under for a step. Said again in good time: a step takes less than two thirds of the lease.
    pub(super) async fn term(&mut self) -> Result<Term, Stopped> {
        let (node, now) = (self.ownership_view.membership().node, self.clock.now());
        if let Some((term, said_at)) = self.term
            && term.node == node
            && said_at <= now
            && now.since(said_at) < self.lease / 3
        {
            return Ok(term);
        }
        self.term = None;
        let term = self.store.take_chore(self.chore, node, now, self.lease).await?;
        let term = term.ok_or(Stopped::TermOver)?;
        self.term = Some((term, now));
        Ok(term)
    }
}
