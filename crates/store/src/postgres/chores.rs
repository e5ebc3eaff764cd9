//! Who does what: one row a chore.

use super::{
    PostgresStore,
    pool::{Transaction, params},
    trouble::Trouble,
};
use crate::{Chore, Chores, StoreError, Term};
use async_trait::async_trait;
use domain::{id::NodeId, time::Timestamp};
use std::time::Duration;

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
        let (name, until) = (chore.as_str(), now.plus(lease).micros());
        let params = params![name => TEXT, node.uuid() => UUID, now.micros() => INT8, until => INT8];
        let rows = connection.write(include_str!("sql/take_chore.sql"), params).await?;
        Ok(rows.first().map(|row| Term { chore, node, number: row.get(0) }))
    }
}

/// Whether nobody has taken the chore over; nobody will before the transaction ends.
pub(super) async fn stands(transaction: &Transaction<'_>, term: Term) -> Result<bool, Trouble> {
    let sql = "select from chores where name = $1 and node_id = $2 and term = $3 for share";
    let name = term.chore.as_str();
    let params = params![name => TEXT, term.node.uuid() => UUID, term.number => INT8];
    Ok(transaction.run_opt(sql, params).await?.is_some())
}
