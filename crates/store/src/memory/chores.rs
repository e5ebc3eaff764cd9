//! Which node does a chore.

use super::{KeptChore, MemoryStore, Tables};
use crate::{Chore, Chores, StoreError, Term};
use async_trait::async_trait;
use domain::{id::NodeId, time::Timestamp};
use std::time::Duration;

#[async_trait]
impl Chores for MemoryStore {
    async fn take_chore(
        &self,
        chore: Chore,
        node: NodeId,
        now: Timestamp,
        lease: Duration,
    ) -> Result<Option<Term>, StoreError> {
        let mut tables = self.tables();
        let number = match tables.chores.get(&chore) {
            None => 1,
            Some(kept) if kept.term.node == node => kept.term.number,
            Some(kept) if kept.until <= now => kept.term.number + 1,
            Some(_) => return Ok(None),
        };
        let term = Term { chore, node, number };
        tables.chores.insert(chore, KeptChore { term, until: now.plus(lease) });
        Ok(Some(term))
    }
}

impl Tables {
    /// Whether no other node has taken the chore over.
    pub(super) fn stands(&self, term: Term) -> bool {
        self.chores.get(&term.chore).is_some_and(|kept| kept.term == term)
    }
}
