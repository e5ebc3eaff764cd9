//! The store on PostgreSQL: many nodes, one database.
//!
//! `pool` has the connections and their deadlines, `start` makes the schema and checks that the server keeps what it
//! acknowledges, `partitions` keeps a day ahead of the clock; the rest is the traits, one file each, with their
//! statements in `sql/`. A statement says what it is guarded by; none relies on a session.

mod backlog;
mod catalog;
mod expand;
mod history;
mod ingest;
mod membership;
mod partitions;
mod pool;
mod queue;
mod rows;
mod settle;
mod start;
#[cfg(test)]
mod tests;
mod tls;
mod trouble;
mod url;

use crate::{Membership as _, OpenError, OpenOptions};
use pool::Pools;

pub struct PostgresStore {
    pools: Pools,
}

impl PostgresStore {
    /// Connects, checks the server, brings the schema up to date.
    pub async fn open(options: &OpenOptions) -> Result<Self, OpenError> {
        let address = url::Address::parse(&options.url)?;
        start::check_and_migrate(&address, options.accept_data_loss).await?;
        let store = Self { pools: Pools::new(&address, options.pool)? };
        let now = store.now().await.map_err(OpenError::Unavailable)?;
        store.ensure_partitions(now).await.map_err(OpenError::Unavailable)?;
        Ok(store)
    }
}
