//! What nodes tell each other: where something waits, whose configuration changed, that ownership moved. Told after the
//! commit and never inside it; heard soon, or missed, which is why the rescan looks from time to time.

use crate::StoreError;
use async_trait::async_trait;
use domain::{
    delivery::Position,
    id::{AccountId, DestinationId},
};

#[async_trait]
pub trait Wakes: Send + Sync {
    /// Tells all other nodes. To be coalesced by the caller. Wakes that are too many to be named may arrive as
    /// [`News::Shards`].
    async fn tell(&self, news: &[News]) -> Result<(), StoreError>;

    /// Waits for the next news from other nodes; one listener per node. [`News::Missed`] comes first after every
    /// (re)connection. Trouble with the line is this method's own: it tries again for ever. With SQLite there are no
    /// others, and it never answers. Can be dropped at any time without losing news.
    async fn hear(&self) -> Result<Vec<News>, StoreError>;
}

#[derive(Debug, Clone, PartialEq)]
pub enum News {
    /// Look at these lanes, each from a position on.
    Wakes(Vec<Wake>),
    /// Look at all lanes of these shards: they were too many to name.
    Shards(Vec<u16>),
    /// This account's configuration has changed. May be left out where its version is polled as often anyway.
    Changed(AccountId),
    /// Membership or ownership moved.
    Roster,
    /// The line was down: look at everything.
    Missed,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wake {
    pub destination_id: DestinationId,
    pub shard: u16,
    pub from: Position,
}
