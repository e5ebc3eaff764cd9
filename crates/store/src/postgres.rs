//! The store on PostgreSQL: many nodes, one database.
//!
//! `pool` has the connections and their deadlines, `open` makes the schema, `durability` checks that the server keeps
//! what it acknowledges, `rights` that our role may make tables, `statement` gives parameters their numbers and `rows` reads the answers, `planned` has the hot
//! statements planned once, `partitions` keeps a day ahead of the clock; the rest is the traits, one file each, with
//! their statements in `sql/`. A statement says what it is guarded by; none relies on a session.

mod audit;
mod audit_log;
mod backfill;
mod backlog;
mod catalog;
mod chores;
mod dead_letters;
mod durability;
mod erasure;
mod expand;
mod feed;
mod gates;
mod history;
mod ingest;
mod lane_rollups;
mod lanes;
mod membership;
mod new_deliveries;
mod open;
mod operational_events;
mod order;
mod partitions;
mod planned;
mod pool;
mod portal_links;
mod queue;
mod read_only;
mod refused_requests;
mod replay;
mod retention;
mod rights;
mod rollup;
mod rows;
mod scratch;
mod seals;
mod sessions;
mod settle;
mod statement;
mod test_sends;
#[cfg(test)]
mod tests;
mod tls;
mod trouble;
mod url;
mod wakes;

use crate::{Membership as _, OpenError, OpenOptions, feed::FeedSignal};
use pool::Pools;
pub use scratch::{SCRATCH, drop_scratch};
use std::sync::{Arc, atomic::AtomicU32};
use wakes::WakeChannel;

pub struct PostgresStore {
    pools: Arc<Pools>,
    wakes: WakeChannel,
    feed_signal: FeedSignal,
    /// A note of what is to be told was written.
    note_signal: FeedSignal,
    /// How many commits more take the long statement at once: a key was repeated lately.
    wary_commits: AtomicU32,
}

impl PostgresStore {
    /// Connects, checks the server, brings the schema up to date.
    pub async fn open(options: &OpenOptions) -> Result<Self, OpenError> {
        let address = url::Address::parse(&options.url)?;
        let listen = options.listen_url.as_deref().map(url::Address::parse).transpose()?;
        open::check_and_migrate(&address, options.accept_data_loss).await?;
        let store = Self::at(&address, listen, options.pool)?;
        let now = store.now().await.map_err(OpenError::Unavailable)?;
        store.ensure_partitions(now).await.map_err(OpenError::Unavailable)?;
        Ok(store)
    }

    /// As it is found.
    fn at(address: &url::Address, listen: Option<url::Address>, pool: usize) -> Result<Self, OpenError> {
        let pools = Arc::new(Pools::new(address, pool)?);
        let wakes = WakeChannel::new(address, listen, pools.clone())?;
        Ok(Self {
            pools,
            wakes,
            feed_signal: FeedSignal::default(),
            note_signal: FeedSignal::default(),
            wary_commits: AtomicU32::new(0),
        })
    }
}
