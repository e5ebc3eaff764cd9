//! What nodes tell each other: notifications, sent and heard on connections of their own, and a small table where they
//! do not pass. The table is written only as long as a node reads it, so a node that can listen and one that cannot
//! hear each other.

mod listener;
mod note;
mod table;

use super::{
    PostgresStore,
    pool::Pools,
    statement::{Statement, params, sql},
    tls,
    url::Address,
};
use crate::{News, OpenError, StoreError, Wakes};
use async_trait::async_trait;
use domain::limits;
use listener::{Listener, Subscription};
use std::{
    hash::{BuildHasher as _, Hasher as _, RandomState},
    panic::resume_unwind,
    sync::{Arc, LazyLock},
};
use table::ToldRounds;
use tokio::sync::Mutex;

static TELL: LazyLock<Statement> = sql!("tell");

/// What this node tells all others, and hears from them.
pub(super) struct WakeChannel {
    /// Ours alone: what comes back with it was told by ourselves.
    sender: u64,
    channel: String,
    rounds: Arc<ToldRounds>,
    listener: Listener,
    /// Begins when news are first asked for.
    subscription: Mutex<Option<Subscription>>,
}

impl WakeChannel {
    pub(super) fn new(
        address: &Address,
        listen: Option<Address>,
        pools: Arc<Pools>,
    ) -> Result<Self, OpenError> {
        // One database may hold many schemas. A channel's name is shorter than an identifier may be.
        let place = address.schema.as_deref().unwrap_or_default();
        let channel = format!("posthaste_{}", &place[..place.len().min(50)]);
        let (sender, rounds) = (chance(), Arc::<ToldRounds>::default());
        let address = listen.unwrap_or_else(|| address.clone());
        let listener = Listener {
            config: address.config,
            tls: tls::connector(address.verify)?,
            pools,
            sender,
            channel: channel.clone(),
            rounds: rounds.clone(),
        };
        Ok(Self { sender, channel, rounds, listener, subscription: Mutex::default() })
    }
}

#[async_trait]
impl Wakes for PostgresStore {
    async fn tell(&self, news: &[News]) -> Result<(), StoreError> {
        if news.is_empty() {
            return Ok(());
        }
        let WakeChannel { sender, channel, rounds, .. } = &self.wakes;
        let connection = self.pools.nodes().await?;
        // No doubt: news that was told twice, or never, is news that may be missed anyway.
        let params = params![
            channel: channel => TEXT, payloads: note::write(*sender, news) => TEXT_ARRAY,
            reader_gone_us: limits::WAKES_READER_GONE.as_micros() as i64 => INT8,
        ];
        if connection.read(&TELL, params).await?.value("table_is_read")? {
            rounds.tell(&connection, news).await?;
        }
        Ok(())
    }

    async fn hear(&self) -> Result<Vec<News>, StoreError> {
        let mut subscription = self.wakes.subscription.lock().await;
        loop {
            let open = subscription.get_or_insert_with(|| Subscription::begin(self.wakes.listener.clone()));
            let ended = match open.next().await {
                Ok(news) => return Ok(news),
                Err(ended) => ended,
            };
            *subscription = None;
            // A panic of the task that listens is the caller's: it is counted, and followed by a pause, there.
            if let Ok(panic) = ended.try_into_panic() {
                resume_unwind(panic);
            }
        }
    }
}

/// Enough chance to tell ourselves from others, and for jitter: what the standard library seeds its maps with.
fn chance() -> u64 {
    RandomState::new().build_hasher().finish()
}
