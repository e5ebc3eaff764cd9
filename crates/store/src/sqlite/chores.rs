//! Which node does a chore. One process has the lock, so the node that asks is alone, and every term is the first.

use super::SqliteStore;
use crate::{Chore, Chores, StoreError, Term};
use async_trait::async_trait;
use domain::{id::NodeId, time::Timestamp};
use std::time::Duration;

#[async_trait]
impl Chores for SqliteStore {
    async fn take_chore(
        &self,
        chore: Chore,
        node: NodeId,
        _now: Timestamp,
        _lease: Duration,
    ) -> Result<Option<Term>, StoreError> {
        Ok(Some(Term { chore, node, number: 1 }))
    }
}
