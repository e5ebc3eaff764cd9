//! What this node tells the others, and what it hears from them.
//!
//! Hand-overs for others' lanes, changed accounts and moved shards gather in the [`Outbox`] and are told together, at
//! most every few milliseconds and never inside a commit. Whatever is lost on the way is found by the rescan.

use crate::{
    backoff::Backoff, batch_interval::batch_interval, chores::Rescans, dispatcher::Message, watch::EarlyLooks,
};
use domain::{
    delivery::Position,
    dice::Dice,
    id::{AccountId, DestinationId},
    limits,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};
use store::{News, Store, Wake};
use supervisor::Life;
use tokio::{
    sync::{Notify, mpsc},
    time::Instant,
};

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    waiting: Mutex<PendingNews>,
    bell: Notify,
}

/// Bounded by itself: so many destinations by name, beyond that there are only so many shards.
#[derive(Debug, Default)]
struct PendingNews {
    /// By track: what waits in one says nothing of the others.
    lanes: BTreeMap<(DestinationId, i64), Position>,
    shards: BTreeSet<u16>,
    accounts: BTreeSet<AccountId>,
    /// Nodes have come or gone, or shards have changed their owner.
    membership_moved: bool,
}

impl Outbox {
    /// Something waits in the lane of another node.
    pub(crate) fn wake(&self, destination: DestinationId, from: Position) {
        self.add(|waiting| waiting.wake(destination, from));
    }

    /// Something may wait anywhere in these shards of other nodes.
    pub(crate) fn shards(&self, shards: impl IntoIterator<Item = u16>) {
        self.add(|waiting| waiting.shards.extend(shards));
    }

    pub(crate) fn changed(&self, account: AccountId) {
        // Without a word the others look at the versions a moment later.
        self.add(|waiting| {
            if waiting.accounts.len() < limits::WAKES_NAMED {
                waiting.accounts.insert(account);
            }
        });
    }

    /// Membership or ownership has moved.
    pub(crate) fn membership_moved(&self) {
        self.add(|waiting| waiting.membership_moved = true);
    }

    /// Tells what has gathered, for ever.
    pub(crate) async fn run(self: Arc<Self>, store: Arc<dyn Store>, dice: Arc<dyn Dice>) {
        let mut backoff = Backoff::default();
        loop {
            supervisor::failpoint();
            self.bell.notified().await;
            let untold = Untold { outbox: &self, waiting: self.with(std::mem::take) };
            supervisor::failpoint();
            let news = untold.waiting.news();
            if news.is_empty() {
                continue;
            }
            let begun = Instant::now();
            let pause = match store.tell(&news).await {
                Ok(()) => {
                    untold.told();
                    backoff.reset();
                    batch_interval(begun.elapsed()).max(limits::WAKES_PAUSE)
                }
                Err(error) => {
                    if backoff.worth_telling() {
                        tracing::warn!(%error, "the other nodes could not be told; trying again");
                    }
                    drop(untold);
                    backoff.pause(dice.as_ref())
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    fn add(&self, change: impl FnOnce(&mut PendingNews)) {
        self.with(change);
        self.bell.notify_one();
    }

    fn with<T>(&self, change: impl FnOnce(&mut PendingNews) -> T) -> T {
        change(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What is being told: put back unless it was, whatever happens meanwhile.
struct Untold<'a> {
    outbox: &'a Outbox,
    waiting: PendingNews,
}

impl Untold<'_> {
    fn told(mut self) {
        self.waiting = PendingNews::default();
    }
}

impl Drop for Untold<'_> {
    fn drop(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        if !waiting.news().is_empty() {
            self.outbox.add(|newer| newer.put_back(waiting));
        }
    }
}

impl PendingNews {
    fn wake(&mut self, destination: DestinationId, from: Position) {
        let place = (destination, from.track);
        if let Some(lowest) = self.lanes.get_mut(&place) {
            *lowest = from.min(*lowest);
        } else if self.lanes.len() < limits::WAKES_NAMED {
            self.lanes.insert(place, from);
        } else {
            self.shards.insert(destination.shard());
        }
    }

    fn put_back(&mut self, older: Self) {
        for ((destination, _), from) in older.lanes {
            self.wake(destination, from);
        }
        self.shards.extend(older.shards);
        self.accounts.extend(older.accounts);
        self.membership_moved |= older.membership_moved;
    }

    fn news(&self) -> Vec<News> {
        let wake = |((id, _), from): (&(DestinationId, i64), &Position)| {
            let shard = id.shard();
            (!self.shards.contains(&shard)).then_some(Wake { destination_id: *id, shard, from: *from })
        };
        let wakes: Vec<Wake> = self.lanes.iter().filter_map(wake).collect();
        let mut news = Vec::new();
        if self.membership_moved {
            news.push(News::Roster);
        }
        if !wakes.is_empty() {
            news.push(News::Wakes(wakes));
        }
        if !self.shards.is_empty() {
            news.push(News::Shards(self.shards.iter().copied().collect()));
        }
        news.extend(self.accounts.iter().map(|account| News::Changed(*account)));
        news
    }
}

/// Where what is heard goes.
#[derive(Clone)]
pub(crate) struct WakeListener {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) dice: Arc<dyn Dice>,
    pub(crate) dispatcher: mpsc::Sender<Message>,
    pub(crate) rescans: Arc<Rescans>,
    pub(crate) watch: Arc<EarlyLooks>,
    /// Rung when membership or ownership has moved.
    pub(crate) membership_moved: Arc<Notify>,
}

impl WakeListener {
    /// Listens for ever. A life after another one begins as after a lost connection.
    pub(crate) async fn run(self, life: Life) {
        let mut backoff = Backoff::default();
        if life == Life::Again {
            self.heard(News::Missed).await;
        }
        loop {
            supervisor::failpoint();
            match self.store.hear().await {
                Ok(news) => {
                    backoff.reset();
                    for news in news {
                        supervisor::failpoint();
                        self.heard(news).await;
                    }
                }
                Err(error) => {
                    if backoff.worth_telling() {
                        tracing::warn!(%error, "the other nodes cannot be heard; trying again");
                    }
                    tokio::time::sleep(backoff.pause(self.dice.as_ref())).await;
                }
            }
        }
    }

    async fn heard(&self, news: News) {
        match news {
            News::Wakes(wakes) => {
                // A dispatcher that has stopped needs no waking.
                let _ = self.dispatcher.send(Message::Woken(wakes)).await;
            }
            News::Shards(shards) => self.rescans.ask(shards),
            News::Changed(account) => self.watch.look_at(account),
            News::Roster => self.membership_moved.notify_one(),
            News::Missed => {
                self.rescans.ask_all();
                self.watch.look();
                self.membership_moved.notify_one();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::{id::DeliveryId, time::Timestamp};

    fn place(seconds: i64) -> Position {
        Position::due(Timestamp::from_seconds(seconds), DeliveryId::MIN)
    }

    #[test]
    fn a_lane_is_named_once_with_its_lowest_position() {
        let outbox = Outbox::default();
        let lane = DestinationId::MIN;
        for seconds in [5, 3, 4] {
            outbox.wake(lane, place(seconds));
        }
        outbox.membership_moved();
        let wake = Wake { destination_id: lane, shard: lane.shard(), from: place(3) };
        assert_eq!(outbox.with(std::mem::take).news(), [News::Roster, News::Wakes(vec![wake])]);
    }

    #[test]
    fn too_many_lanes_are_told_by_their_shards() {
        let outbox = Outbox::default();
        for n in 0..limits::WAKES_NAMED as u128 + 5_000 {
            outbox.wake(DestinationId::at(Timestamp::from_seconds(1), n), place(1));
        }
        let waiting = outbox.with(std::mem::take);
        assert_eq!(waiting.lanes.len(), limits::WAKES_NAMED);
        assert!(!waiting.shards.is_empty());
    }
}
