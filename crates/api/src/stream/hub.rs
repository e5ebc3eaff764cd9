//! The one reader of a node, and the permits and subscriptions of its followers.
//!
//! A round reads everything that has become durable since the last one, for all accounts that are followed, and hands it
//! out. A follower that comes waits for a whole round that knew of it ([`Subscription::joined`]); what it then reads from
//! the history by itself reaches at least as far as that round began, so what later rounds hand out goes on without a
//! hole, and what both have is told apart by its stamp.

use super::{
    destinations::KnownDestinations,
    item::StreamItem,
    position::{StreamPosition, switched},
};
use crate::{app::App, error::ApiError};
use domain::{id::AccountId, limits, time::Timestamp};
use sharing::SharedResource;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use store::{FeedPlace, Followed, StoreError};
use supervisor::Life;
use tokio::{
    sync::{Notify, mpsc, watch},
    time::{Instant, sleep, sleep_until},
};

pub(crate) struct Hub {
    state: Mutex<HubState>,
    /// Rounds that have ended.
    rounds: watch::Sender<u64>,
    /// Rung when a follower comes.
    bell: Notify,
    /// For followers that read the history themselves.
    pub(super) catching_up: Arc<SharedResource>,
}

/// The hub's end of a subscription: where what happens to an account is handed to.
struct Subscriber {
    account: AccountId,
    /// Whether events are wanted, not just what becomes of them.
    events: bool,
    queue: mpsc::Sender<Arc<StreamItem>>,
}

#[derive(Default)]
struct HubState {
    permits: HashMap<AccountId, usize>,
    followers: usize,
    subscribers: BTreeMap<u64, Subscriber>,
    last_subscriber: u64,
    /// Rounds that have begun.
    begun: u64,
    /// How far everything was handed out, and the versions up to which changes of configuration were.
    place: Option<FeedPlace>,
    versions: HashMap<AccountId, i64>,
}

impl Default for Hub {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            rounds: watch::Sender::new(0),
            bell: Notify::new(),
            catching_up: SharedResource::new(limits::STREAM_CATCHING_UP),
        }
    }
}

impl Hub {
    /// 429 or 503 if none is left.
    fn take_permit(&self, account: AccountId) -> Result<(), ApiError> {
        let mut state = self.state();
        let again = limits::STREAM_RETRY_AFTER_SECONDS;
        if state.followers >= limits::STREAM_CLIENTS {
            return Err(ApiError::overloaded(
                "as many clients follow this node's stream as may: ask again later, or another node",
            )
            .retry_after(again));
        }
        let taken = state.permits.entry(account).or_default();
        if *taken >= limits::STREAM_CLIENTS_PER_ACCOUNT {
            let most = limits::STREAM_CLIENTS_PER_ACCOUNT;
            let detail = format!(
                "an account may follow the stream of a node {most} times at once, and does: end one that is not needed (a \
                 `posthaste tail`, an open page of the dashboard), or ask again later"
            );
            return Err(ApiError::rate_limited(detail).retry_after(again));
        }
        *taken += 1;
        state.followers += 1;
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, HubState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a follower is that has taken in everything that was handed out.
    pub(super) fn position(&self, account: AccountId) -> Option<StreamPosition> {
        let state = self.state();
        Some(StreamPosition { version: *state.versions.get(&account)?, place: state.place.clone()? })
    }

    /// The accounts that are still followed, and whether their events are; none: the reader waits for a follower.
    fn begin_round(&self) -> Option<(Vec<AccountId>, bool, u64)> {
        let mut state = self.state();
        state.subscribers.retain(|_, subscriber| !subscriber.queue.is_closed());
        let mut accounts: Vec<AccountId> =
            state.subscribers.values().map(|subscriber| subscriber.account).collect();
        let events = state.subscribers.values().any(|subscriber| subscriber.events);
        accounts.sort_unstable();
        accounts.dedup();
        if accounts.is_empty() {
            state.place = None;
            state.versions.clear();
            return None;
        }
        state.begun += 1;
        Some((accounts, events, state.begun))
    }

    /// A reader has died: how far it had handed out is in doubt. Every follower hears no more, reads the history from its
    /// own position and comes back; those that wait for their first round are let go for that.
    fn dismiss_all(&self) {
        let mut state = self.state();
        state.subscribers.clear();
        state.place = None;
        state.versions.clear();
        state.begun += 1;
        let begun = state.begun;
        drop(state);
        self.rounds.send_replace(begun);
    }

    /// No follower is waited for: one whose queue is full is handed nothing more, and has to catch up.
    fn hand_out(&self, account: AccountId, item: StreamItem) {
        let item = Arc::new(item);
        let concerns = |subscriber: &Subscriber| {
            subscriber.account == account && (subscriber.events || !item.is_event())
        };
        self.state()
            .subscribers
            .retain(|_, subscriber| !concerns(subscriber) || subscriber.queue.try_send(item.clone()).is_ok());
    }
}

/// One of the streams that an account and a node may have open at once; given back when it is dropped.
pub(super) struct StreamPermit {
    app: App,
    account: AccountId,
}

impl StreamPermit {
    pub(super) fn take(app: &App, account: AccountId) -> Result<Self, ApiError> {
        app.hub.take_permit(account)?;
        Ok(Self { app: app.clone(), account })
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut state = self.app.hub.state();
        state.followers -= 1;
        if let Some(taken) = state.permits.get_mut(&self.account) {
            *taken -= 1;
            if *taken == 0 {
                state.permits.remove(&self.account);
            }
        }
    }
}

/// A follower's end of a subscription: what the hub hands out from now on.
pub(super) struct Subscription {
    pub(super) queue: mpsc::Receiver<Arc<StreamItem>>,
    /// The round under way when it came, or the last one.
    begun: u64,
    rounds: watch::Receiver<u64>,
}

impl Subscription {
    /// Wakes the reader if there was no subscriber until now.
    pub(super) fn start(app: &App, account: AccountId, events: bool) -> Self {
        let (sender, queue) = mpsc::channel(limits::STREAM_BUFFER);
        let rounds = app.hub.rounds.subscribe();
        let mut state = app.hub.state();
        state.last_subscriber += 1;
        let number = state.last_subscriber;
        state.subscribers.insert(number, Subscriber { account, events, queue: sender });
        let begun = state.begun;
        drop(state);
        app.hub.bell.notify_one();
        Self { queue, begun, rounds }
    }

    /// Waits until a round that knew of it has ended.
    pub(super) async fn joined(&mut self) {
        let begun = self.begun;
        // The hub outlives every follower.
        let _ = self.rounds.wait_for(|ended| *ended > begun).await;
    }
}

/// Reads for ever, whenever there is a subscriber.
pub(crate) async fn read(app: App, life: Life) {
    if life == Life::Again {
        app.hub.dismiss_all();
    }
    loop {
        FeedReader { app: app.clone(), outage: None }.run().await;
        app.hub.bell.notified().await;
    }
}

/// Reads as long as there is a subscriber.
struct FeedReader {
    app: App,
    outage: Option<StoreOutage>,
}

/// The store was away.
struct StoreOutage {
    /// How far we had come then.
    at: Timestamp,
    over: Option<Instant>,
}

impl FeedReader {
    async fn run(mut self) {
        let app = self.app.clone();
        let mut failing = false;
        while let Some((accounts, events, round)) = app.hub.begin_round() {
            supervisor::failpoint();
            let began = Instant::now();
            let followed = Followed { accounts: &accounts, events };
            let rest = match self.round(followed).await {
                Ok(()) => {
                    failing = false;
                    app.hub.rounds.send_replace(round);
                    rest_after(began.elapsed())
                }
                Err(error) => {
                    if !failing {
                        tracing::warn!(%error, "the feed could not be read; trying again");
                    }
                    failing = true;
                    limits::STREAM_LOOK
                }
            };
            sleep(rest).await;
            tokio::select! {
                () = app.store.feed_written() => {}
                () = app.hub.bell.notified() => {}
                () = sleep_until(began + limits::STREAM_LOOK.max(rest)) => {}
            }
        }
    }

    /// Hands out what has become durable since the last round.
    async fn round(&mut self, followed: Followed<'_>) -> Result<(), StoreError> {
        let changed = self.know_versions(followed.accounts).await?;
        let known = self.app.hub.state().place.clone();
        let Some(place) = known else {
            // Where every follower begins.
            let place = self.app.store.feed_end(self.app.now()).await?;
            self.app.hub.state().place = Some(place);
            return Ok(());
        };
        let at = place.at();
        let handed_out = self.hand_out_feed(followed, place).await;
        self.note(at, handed_out.is_ok());
        handed_out?;
        self.hand_out_switches(changed, at).await
    }

    /// After the store was away, results come that were begun before: they are looked for a while longer.
    fn note(&mut self, at: Timestamp, went_well: bool) {
        match (&mut self.outage, went_well) {
            (None, true) => {}
            (None, false) => self.outage = Some(StoreOutage { at, over: None }),
            (Some(outage), false) => outage.over = None,
            (Some(outage), true) => {
                let over = *outage.over.get_or_insert_with(Instant::now);
                if over.elapsed() > limits::STREAM_AFTERMATH {
                    self.outage = None;
                }
            }
        }
    }

    async fn hand_out_feed(&self, followed: Followed<'_>, mut place: FeedPlace) -> Result<(), StoreError> {
        if let Some(outage) = &self.outage {
            place = place.looking_back_to(outage.at);
        }
        loop {
            let page = self.app.store.feed(followed, &place, limits::FEED_PAGE, self.app.now()).await?;
            let destinations = KnownDestinations::of(&self.app, &page.entries).await?;
            for entry in page.entries {
                let account = entry.account_id;
                let version = self.app.hub.state().versions.get(&account).copied().unwrap_or(0);
                self.app.hub.hand_out(account, StreamItem::of(entry, version, &destinations));
            }
            place = page.next;
            self.app.hub.state().place = Some(place.clone());
            if !page.more {
                return Ok(());
            }
        }
    }

    /// Pauses and disablings: found by the versions of the accounts.
    async fn hand_out_switches(
        &self,
        changed: Vec<(AccountId, i64)>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        for (account, known) in changed {
            let since = at.minus(limits::FEED_LOOKBACK);
            let (switched, version) = switched(&self.app, account, known, since).await?;
            let ids = switched.iter().map(|(id, _)| *id).collect();
            let destinations = KnownDestinations::read(&self.app, ids).await?;
            let place = self.app.hub.state().place.clone();
            let Some(place) = place else { continue };
            for (index, one) in switched.iter().enumerate() {
                // A follower that has heard all of them has heard of everything up to this version.
                let heard = if index + 1 == switched.len() { version } else { known };
                let position = StreamPosition { version: heard, place: place.clone() };
                self.app.hub.hand_out(account, StreamItem::switched(one, &destinations, position, version));
            }
            self.app.hub.state().versions.insert(account, version);
        }
        Ok(())
    }

    /// The accounts whose version is not the one we know, with that; those that we did not know are known now.
    async fn know_versions(&self, accounts: &[AccountId]) -> Result<Vec<(AccountId, i64)>, StoreError> {
        let mut changed = Vec::new();
        for some in accounts.chunks(limits::VERSIONS_AT_ONCE) {
            let versions = self.app.store.versions(some).await?;
            let mut state = self.app.hub.state();
            for (account, version) in some.iter().zip(versions) {
                let Some(version) = version else { continue };
                let known = *state.versions.entry(*account).or_insert(version);
                if version > known {
                    changed.push((*account, known));
                }
            }
        }
        Ok(changed)
    }
}

/// How long the store is left alone after a look that took so long: one look costs what was written in the last minutes
/// rather than what is new, so where much is written there are fewer of them.
fn rest_after(took: Duration) -> Duration {
    took.saturating_mul(limits::STREAM_LOOK_REST).clamp(limits::STREAM_LOOK_MIN, limits::STREAM_LOOK_MAX)
}

/// A pause that grows with every failure.
pub(super) fn pause_after(failures: u32) -> Duration {
    (limits::STREAM_LOOK * 2u32.saturating_pow(failures.min(8))).min(limits::STREAM_LOOK_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_take_a_tenth_of_the_time_at_most() {
        for millis in [10, 40, 100, 300, 500] {
            let took = Duration::from_millis(millis);
            assert!(rest_after(took) >= took * 10, "{took:?}");
        }
        assert_eq!(rest_after(Duration::ZERO), limits::STREAM_LOOK_MIN);
        assert_eq!(rest_after(Duration::from_secs(60)), limits::STREAM_LOOK_MAX);
        assert_eq!(rest_after(Duration::MAX), limits::STREAM_LOOK_MAX);
    }
}
