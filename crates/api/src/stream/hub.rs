//! The one reader of a node, and the seats of those who follow it.
//!
//! A round reads everything that has become durable since the last one, for all accounts that somebody follows, and
//! hands it out. Whoever comes waits for a whole round that knew of it ([`Ear::joined`]); what it then reads from the
//! history by itself reaches at least as far as that round began, so what later rounds hand out goes on without a
//! hole, and what both have is told apart by its stamp.

use super::{
    destinations::Destinations,
    happening::Happening,
    mark::{Mark, switched},
};
use crate::{app::App, error::ApiError};
use domain::{id::AccountId, limits, time::Timestamp};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use store::{FeedPlace, Followed, StoreError};
use supervisor::Life;
use tokio::{
    sync::{Notify, Semaphore, mpsc, watch},
    time::{Instant, sleep, sleep_until},
};

pub(crate) struct Hub {
    state: Mutex<State>,
    /// Rounds that have ended.
    rounds: watch::Sender<u64>,
    /// Rung when somebody comes.
    bell: Notify,
    /// For those who read the history themselves.
    pub(super) catching_up: Semaphore,
}

/// Where what happens to an account is handed to.
struct Listening {
    account: AccountId,
    /// Whether events are wanted, not just what becomes of them.
    events: bool,
    queue: mpsc::Sender<Arc<Happening>>,
}

#[derive(Default)]
struct State {
    seats: HashMap<AccountId, usize>,
    seated: usize,
    ears: BTreeMap<u64, Listening>,
    last_ear: u64,
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
            catching_up: Semaphore::new(limits::STREAM_CATCHING_UP),
        }
    }
}

impl Hub {
    /// 429 or 503 if there is none left.
    fn take_seat(&self, account: AccountId) -> Result<(), ApiError> {
        let mut state = self.state();
        let again = limits::STREAM_RETRY_AFTER_SECONDS;
        if state.seated >= limits::STREAM_CLIENTS {
            return Err(
                ApiError::overloaded("as many clients follow this node's stream as may").retry_after(again)
            );
        }
        let taken = state.seats.entry(account).or_default();
        if *taken >= limits::STREAM_CLIENTS_PER_ACCOUNT {
            let most = limits::STREAM_CLIENTS_PER_ACCOUNT;
            let detail = format!("an account may follow the stream of a node {most} times at once");
            return Err(ApiError::rate_limited(detail).retry_after(again));
        }
        *taken += 1;
        state.seated += 1;
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where somebody stands who has heard everything that was handed out.
    pub(super) fn mark(&self, account: AccountId) -> Option<Mark> {
        let state = self.state();
        Some(Mark { version: *state.versions.get(&account)?, place: state.place.clone()? })
    }

    /// The accounts that somebody still listens to, and whether to events; none: the reader waits for somebody.
    fn begin_round(&self) -> Option<(Vec<AccountId>, bool, u64)> {
        let mut state = self.state();
        state.ears.retain(|_, ear| !ear.queue.is_closed());
        let mut accounts: Vec<AccountId> = state.ears.values().map(|ear| ear.account).collect();
        let events = state.ears.values().any(|ear| ear.events);
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
    /// own mark and comes back; those who wait for their first round are let go for that.
    fn dismiss_all(&self) {
        let mut state = self.state();
        state.ears.clear();
        state.place = None;
        state.versions.clear();
        state.begun += 1;
        let begun = state.begun;
        drop(state);
        self.rounds.send_replace(begun);
    }

    /// Nobody is waited for: whose queue is full hears no more, and has to catch up.
    fn hand_out(&self, account: AccountId, happening: Happening) {
        let happening = Arc::new(happening);
        let concerns = |ear: &Listening| ear.account == account && (ear.events || !happening.is_event());
        self.state().ears.retain(|_, ear| !concerns(ear) || ear.queue.try_send(happening.clone()).is_ok());
    }
}

/// Given back when it is dropped.
pub(super) struct Seat {
    app: App,
    account: AccountId,
}

impl Seat {
    pub(super) fn take(app: &App, account: AccountId) -> Result<Self, ApiError> {
        app.hub.take_seat(account)?;
        Ok(Self { app: app.clone(), account })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.app.hub.state();
        state.seated -= 1;
        if let Some(taken) = state.seats.get_mut(&self.account) {
            *taken -= 1;
            if *taken == 0 {
                state.seats.remove(&self.account);
            }
        }
    }
}

/// Somebody who listens.
pub(super) struct Ear {
    pub(super) queue: mpsc::Receiver<Arc<Happening>>,
    /// The round under way when it came, or the last one.
    begun: u64,
    rounds: watch::Receiver<u64>,
}

impl Ear {
    /// Wakes the reader if nobody listened until now.
    pub(super) fn of(app: &App, account: AccountId, events: bool) -> Self {
        let (sender, queue) = mpsc::channel(limits::STREAM_BUFFER);
        let rounds = app.hub.rounds.subscribe();
        let mut state = app.hub.state();
        state.last_ear += 1;
        let number = state.last_ear;
        state.ears.insert(number, Listening { account, events, queue: sender });
        let begun = state.begun;
        drop(state);
        app.hub.bell.notify_one();
        Self { queue, begun, rounds }
    }

    /// Waits until a round that knew of it has ended.
    pub(super) async fn joined(&mut self) {
        let begun = self.begun;
        // The hub outlives everybody.
        let _ = self.rounds.wait_for(|ended| *ended > begun).await;
    }
}

/// Reads for ever, whenever somebody listens.
pub(crate) async fn read(app: App, life: Life) {
    if life == Life::Again {
        app.hub.dismiss_all();
    }
    loop {
        Reader { app: app.clone(), trouble: None }.run().await;
        app.hub.bell.notified().await;
    }
}

/// Reads as long as somebody listens.
struct Reader {
    app: App,
    trouble: Option<Trouble>,
}

/// The store was away.
struct Trouble {
    /// How far we had come then.
    at: Timestamp,
    over: Option<Instant>,
}

impl Reader {
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
            // Where everybody begins.
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
        match (&mut self.trouble, went_well) {
            (None, true) => {}
            (None, false) => self.trouble = Some(Trouble { at, over: None }),
            (Some(trouble), false) => trouble.over = None,
            (Some(trouble), true) => {
                let over = *trouble.over.get_or_insert_with(Instant::now);
                if over.elapsed() > limits::STREAM_AFTERMATH {
                    self.trouble = None;
                }
            }
        }
    }

    async fn hand_out_feed(&self, followed: Followed<'_>, mut place: FeedPlace) -> Result<(), StoreError> {
        if let Some(trouble) = &self.trouble {
            place = place.looking_back_to(trouble.at);
        }
        loop {
            let page = self.app.store.feed(followed, &place, limits::FEED_PAGE, self.app.now()).await?;
            let destinations = Destinations::of(&self.app, &page.entries).await?;
            for entry in page.entries {
                let account = entry.account_id;
                let version = self.app.hub.state().versions.get(&account).copied().unwrap_or(0);
                self.app.hub.hand_out(account, Happening::of(entry, version, &destinations));
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
            let destinations = Destinations::read(&self.app, ids).await?;
            let place = self.app.hub.state().place.clone();
            let Some(place) = place else { continue };
            for (index, one) in switched.iter().enumerate() {
                // Whoever has heard all of them has heard of everything up to this version.
                let heard = if index + 1 == switched.len() { version } else { known };
                let mark = Mark { version: heard, place: place.clone() };
                self.app.hub.hand_out(account, Happening::switched(one, &destinations, mark, version));
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
