//! Which node does what: one row a chore.

use super::{
    PostgresStore,
    pool::Transaction,
    statement::{Statement, params, sql},
    trouble::Trouble,
};
use crate::{Chore, Chores, StoreError, Term};
use async_trait::async_trait;
use domain::{id::NodeId, time::Timestamp};
use std::{sync::LazyLock, time::Duration};

static TAKE_CHORE: LazyLock<Statement> = sql!("take_chore");
static LOCK_TERM: LazyLock<Statement> = sql!("lock_term");

#[async_trait]
impl Chores for PostgresStore {
    async fn take_chore(
        &self,
        chore: Chore,
        node: NodeId,
        now: Timestamp,
        lease: Duration,
    ) -> Result<Option<Term>, StoreError> {
        let connection = self.pools.nodes().await?;
        let params = params![
            chore: chore.as_str() => TEXT, node_id: node.uuid() => UUID, now: now.micros() => INT8,
            expires_at: now.plus(lease).micros() => INT8,
        ];
        let taken = connection.write(&TAKE_CHORE, params).await?;
        Ok(taken.first_value("term")?.map(|number| Term { chore, node, number }))
    }
}

/// Whether the chore is still this node's; no other can take it over before the transaction ends.
pub(super) async fn stands(transaction: &Transaction<'_>, term: Term) -> Result<bool, Trouble> {
    let params = params![
        chore: term.chore.as_str() => TEXT, node_id: term.node.uuid() => UUID, term: term.number => INT8,
    ];
    Ok(!transaction.run(&LOCK_TERM, params).await?.is_empty())
}
