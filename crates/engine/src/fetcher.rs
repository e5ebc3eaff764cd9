//! Reads for the dispatcher: windows for many lanes in one round trip, and destinations made ready. Each read is a
//! task of its own whose answer comes back as a message; there is never more than one of a kind under way.

use crate::{dispatcher::Message, target::Prepared};
use domain::{id::DestinationId, lane::Wish, seal::MasterKeys};
use futures_util::FutureExt;
use std::{panic::AssertUnwindSafe, sync::Arc};
use store::{Store, StoreError, Window};
use tokio::sync::mpsc;

#[derive(Clone)]
pub(crate) struct Fetcher {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) master_keys: Arc<MasterKeys>,
    pub(crate) dispatcher: mpsc::WeakSender<Message>,
}

/// What a lane asks for, and at which epoch its shard was ours then.
#[derive(Debug)]
pub(crate) struct LaneWish {
    pub(crate) destination: DestinationId,
    pub(crate) epoch: i64,
    pub(crate) wish: Wish,
}

impl Fetcher {
    /// The windows that lanes asked for.
    pub(crate) fn fetch(&self, wishes: Vec<LaneWish>) {
        let this = self.clone();
        tokio::spawn(async move {
            let windows: Vec<Window> = wishes.iter().map(window).collect();
            let result = unharmed(this.store.fetch(&windows)).await;
            store::failpoint::hit("fetch.after");
            this.answer(Message::Fetched { wishes, result }).await;
        });
    }

    /// Destinations that lanes must know before they start anything; each with the number of its change.
    pub(crate) fn read_targets(&self, wanted: Vec<(DestinationId, u64)>) {
        let this = self.clone();
        tokio::spawn(async move {
            let ids: Vec<DestinationId> = wanted.iter().map(|(id, _)| *id).collect();
            let result = unharmed(this.targets(&ids)).await;
            this.answer(Message::TargetsRead { wanted, result }).await;
        });
    }

    /// Nothing starts before what is known of a destination has been read, what its last owner kept included.
    async fn targets(&self, ids: &[DestinationId]) -> Result<Vec<Arc<Prepared>>, StoreError> {
        let targets = self.store.targets(ids).await?;
        let read = |(id, target): (&DestinationId, Option<store::Target>)| {
            Arc::new(match target {
                Some(target) => Prepared::new(target, &self.master_keys),
                None => Prepared::missing(*id),
            })
        };
        Ok(ids.iter().zip(targets).map(read).collect())
    }

    async fn answer(&self, message: Message) {
        if let Some(dispatcher) = self.dispatcher.upgrade() {
            // A dispatcher that has stopped needs no answer.
            let _ = dispatcher.send(message).await;
        }
    }
}

/// A read that panics is a read that failed: the dispatcher waits for an answer.
async fn unharmed<T>(read: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let panicked = || StoreError::Unavailable("the read panicked".into());
    AssertUnwindSafe(read).catch_unwind().await.unwrap_or_else(|_| Err(panicked()))
}

fn window(LaneWish { destination, wish, .. }: &LaneWish) -> Window {
    Window {
        shard: destination.shard(),
        destination_id: *destination,
        from: wish.from,
        last_track: i64::MAX,
        limit: wish.limit,
    }
}
