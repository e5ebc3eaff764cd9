//! Reads for the dispatcher: windows for many lanes in one round trip, and destinations made ready. Each read is a
//! task of its own whose answer comes back as a message. There is never more than one fetch, one reading of destinations and
//! one batch of numbers under way, and a few looks for the tracks of ordered lanes.

use crate::{data_keys::DataKeys, destination::PreparedDestination, dispatcher::Message, sink::Sinks};
use domain::{
    delivery_settings::DeliverySettings,
    event::Event,
    id::{AccountId, DestinationId, EventId, NodeId},
    lane::{TrackQuery, WindowQuery},
    limits,
    seal::MasterKeys,
    time::Timestamp,
};
use futures_util::FutureExt;
use std::{
    collections::{HashMap, HashSet},
    panic::AssertUnwindSafe,
    sync::Arc,
};
use store::{DueDelivery, FetchedDelivery, Store, StoreError, StoredEvent, Window};
use tokio::sync::mpsc;

#[derive(Clone)]
pub(crate) struct Fetcher {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) data_keys: Arc<DataKeys>,
    pub(crate) master_keys: Arc<MasterKeys>,
    pub(crate) sinks: Arc<Sinks>,
    /// The installation's.
    pub(crate) defaults: Arc<DeliverySettings>,
    pub(crate) dispatcher: mpsc::WeakSender<Message>,
}

/// What a lane asks for, and at which epoch its shard was ours then.
#[derive(Debug)]
pub(crate) struct LaneQuery {
    pub(crate) destination: DestinationId,
    pub(crate) epoch: i64,
    pub(crate) query: WindowQuery,
}

/// A look for the tracks of an ordered lane.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LaneSweep {
    pub(crate) destination: DestinationId,
    pub(crate) epoch: i64,
    pub(crate) query: TrackQuery,
}

impl Fetcher {
    /// The windows that lanes asked for.
    pub(crate) fn fetch(&self, queries: Vec<LaneQuery>) {
        let this = self.clone();
        tokio::spawn(async move {
            let windows: Vec<Window> = queries.iter().map(window).collect();
            let read = async {
                let mut fetched = this.store.fetch(&windows).await?;
                store::failpoint::hit("fetch.after");
                this.open(&mut fetched).await;
                Ok(fetched)
            };
            let result = unharmed(read).await;
            this.answer(Message::Fetched { queries, result }).await;
        });
    }

    /// Events that are sealed, each once however many deliveries have it. What does not open now is read again when its
    /// delivery starts, and then it is said why; of its account nothing more is tried here.
    async fn open(&self, fetched: &mut [Vec<FetchedDelivery>]) {
        let mut opened: HashMap<EventId, Arc<Event>> = HashMap::new();
        let mut shut: HashSet<AccountId> = HashSet::new();
        for row in fetched.iter_mut().flatten() {
            let Some(sealed) = row.sealed.take() else { continue };
            let (id, account) = (row.delivery.event_id, row.delivery.account_id);
            if !opened.contains_key(&id) && !shut.contains(&account) {
                let stored = StoredEvent::Sealed(Box::new(Arc::unwrap_or_clone(sealed)));
                match self.data_keys.open(stored).await {
                    Ok(event) => drop(opened.insert(id, event)),
                    Err(_) => drop(shut.insert(account)),
                }
            }
            if let Some(event) = opened.get(&id) {
                (row.event, row.has_payload) = (Some(Arc::clone(event)), true);
            }
        }
    }

    pub(crate) fn sweep(&self, sweep: LaneSweep) {
        let this = self.clone();
        tokio::spawn(async move {
            let LaneSweep { destination, query, .. } = sweep;
            let after = query.from.checked_sub(1);
            let read = this.store.tracks(destination.shard(), destination, after, limits::TRACKS_LISTED);
            let result = unharmed(read).await;
            this.answer(Message::Swept { sweep, result }).await;
        });
    }

    /// Has the store number scheduled deliveries of ordered lanes whose time has come.
    pub(crate) fn number_due(&self, node: NodeId, due: Vec<DueDelivery>, now: Timestamp) {
        let this = self.clone();
        tokio::spawn(async move {
            let result = unharmed(this.store.take_turns(node, &due, now)).await;
            this.answer(Message::Numbered { due, result }).await;
        });
    }

    /// Destinations that lanes must know before they start anything; each with the number of its change.
    pub(crate) fn read_targets(&self, wanted: Vec<(DestinationId, u64)>) {
        let this = self.clone();
        tokio::spawn(async move {
            let ids: Vec<DestinationId> = wanted.iter().map(|(id, _)| *id).collect();
            let result = unharmed(this.destinations(&ids)).await;
            this.answer(Message::TargetsRead { wanted, result }).await;
        });
    }

    /// Nothing starts before what is known of a destination has been read, what its last owner kept included.
    async fn destinations(&self, ids: &[DestinationId]) -> Result<Vec<Arc<PreparedDestination>>, StoreError> {
        let records = self.store.destination_records(ids).await?;
        let read = |(id, record): (&DestinationId, Option<store::DestinationRecord>)| {
            Arc::new(match record {
                Some(record) => {
                    PreparedDestination::new(record, &self.defaults, &self.master_keys, &self.sinks)
                }
                None => PreparedDestination::missing(*id),
            })
        };
        Ok(ids.iter().zip(records).map(read).collect())
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

fn window(LaneQuery { destination, query, .. }: &LaneQuery) -> Window {
    let WindowQuery { from, last_track, limit, .. } = *query;
    Window { shard: destination.shard(), destination_id: *destination, from, last_track, limit }
}
