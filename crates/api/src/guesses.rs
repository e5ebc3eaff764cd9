//! Who presents credentials that are none is slowed down, by address: API keys and ingest URLs alike.
//!
//! A credential that is right is never refused for what others at its address do (a proxy, an office): it is recognised
//! first. Only what has turned out wrong, and looks for what this node has never seen, is counted.

use crate::{client_address::ClientAddress, error::ApiError, rate::whole_seconds, request::OncePerSecond};
use domain::{bucket::Bucket, limits};
use std::{
    collections::HashMap,
    future::Future,
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// The addresses that were wrong lately.
pub(crate) struct Guesses {
    started: Instant,
    guessers: Mutex<HashMap<IpAddr, Guesser>>,
    told: OncePerSecond,
}

#[derive(Default)]
struct Guesser {
    wrong: Bucket,
    lookups: Bucket,
    last_at: Duration,
}

impl Guesses {
    pub(crate) fn new() -> Self {
        Self { started: Instant::now(), guessers: Mutex::default(), told: OncePerSecond::default() }
    }

    /// The answer to a credential that is none: what was said to it, or, when there were too many, when to come back.
    pub(crate) fn wrong(&self, client: ClientAddress, said: ApiError) -> ApiError {
        const SECONDS: u32 = limits::WRONG_CREDENTIALS_SECONDS;
        let now = self.started.elapsed();
        // A bucket holds what comes in a second: time passes as much more slowly for it.
        let taken = self.guesser(client, now, |guesser| {
            guesser.wrong.take(limits::WRONG_CREDENTIALS, 1, now / SECONDS).map_err(|wait| wait * SECONDS)
        });
        taken.map_or_else(|wait| self.refuse(client, wait), |_| said)
    }

    /// Before a password is tried: unlike a key it can be guessed, so every try counts until [`Guesses::was_right`].
    pub(crate) fn try_password(&self, client: ClientAddress) -> Result<(), ApiError> {
        const SECONDS: u32 = limits::WRONG_CREDENTIALS_SECONDS;
        let now = self.started.elapsed();
        let taken = self.guesser(client, now, |guesser| {
            guesser.wrong.take(limits::WRONG_CREDENTIALS, 1, now / SECONDS).map_err(|wait| wait * SECONDS)
        });
        taken.map(drop).map_err(|wait| self.refuse(client, wait))
    }

    pub(crate) fn was_right(&self, client: ClientAddress) {
        let now = self.started.elapsed();
        self.guesser(client, now, |guesser| guesser.wrong.give_back(limits::WRONG_CREDENTIALS, 1));
    }

    /// Reads a credential from the store, unless this node has never seen it and too many that came from this address
    /// were not there.
    pub(crate) async fn find<T>(
        &self,
        client: ClientAddress,
        is_new: bool,
        read: impl Future<Output = Result<Option<T>, ApiError>>,
    ) -> Result<Option<T>, ApiError> {
        if is_new {
            self.look_up(client)?;
        }
        let found = read.await;
        // A store that is away says nothing against whoever asks.
        if is_new && !matches!(found, Ok(None)) {
            self.looked_up(client);
        }
        found
    }

    fn look_up(&self, client: ClientAddress) -> Result<(), ApiError> {
        let now = self.started.elapsed();
        let taken = self.guesser(client, now, |guesser| {
            guesser.lookups.take(limits::UNKNOWN_CREDENTIALS_PER_SECOND, 1, now)
        });
        taken.map(drop).map_err(|wait| self.refuse(client, wait))
    }

    fn looked_up(&self, client: ClientAddress) {
        let now = self.started.elapsed();
        self.guesser(client, now, |guesser| {
            guesser.lookups.give_back(limits::UNKNOWN_CREDENTIALS_PER_SECOND, 1);
        });
    }

    fn guesser<T>(&self, client: ClientAddress, now: Duration, change: impl FnOnce(&mut Guesser) -> T) -> T {
        let mut guessers = self.lock();
        let network = client.network();
        make_room(&mut guessers, network);
        let guesser = guessers.entry(network).or_default();
        guesser.last_at = now;
        change(guesser)
    }

    fn refuse(&self, client: ClientAddress, wait: Duration) -> ApiError {
        if let Some(count) = self.told.count_if_due() {
            tracing::warn!(client = %client.0, count, "credentials.guessed");
        }
        let seconds = whole_seconds(wait).clamp(1, limits::RETRY_AFTER_TOLD_MAX_SECONDS);
        ApiError::rate_limited("too many credentials that came from this address were wrong")
            .retry_after(seconds)
    }

    /// Nothing in here can be half done.
    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, Guesser>> {
        self.guessers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The quarter that has been quiet for longest is forgotten: together, so that not every newcomer looks through all.
fn make_room(guessers: &mut HashMap<IpAddr, Guesser>, newcomer: IpAddr) {
    if guessers.len() < limits::GUESSERS || guessers.contains_key(&newcomer) {
        return;
    }
    let mut last_at: Vec<Duration> = guessers.values().map(|guesser| guesser.last_at).collect();
    let (_, oldest_kept, _) = last_at.select_nth_unstable(limits::GUESSERS / 4);
    let oldest_kept = *oldest_kept;
    guessers.retain(|_, guesser| guesser.last_at >= oldest_kept);
    if guessers.len() >= limits::GUESSERS {
        // All in the same moment.
        guessers.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    fn client(n: u32) -> ClientAddress {
        ClientAddress(IpAddr::V4(n.into()))
    }

    fn said() -> ApiError {
        ApiError::unauthorized("no")
    }

    #[tokio::test(start_paused = true)]
    async fn after_so_many_an_address_is_told_to_wait_and_no_other_is() {
        let guesses = Guesses::new();
        for _ in 0..limits::WRONG_CREDENTIALS {
            assert_eq!(guesses.wrong(client(1), said()).code(), Code::Unauthorized);
        }
        assert_eq!(guesses.wrong(client(1), said()).code(), Code::RateLimited);
        assert_eq!(guesses.wrong(client(2), said()).code(), Code::Unauthorized);
        assert!(guesses.look_up(client(1)).is_ok(), "what is new may still be right");
        let one = Duration::from_secs((limits::WRONG_CREDENTIALS_SECONDS / limits::WRONG_CREDENTIALS).into());
        tokio::time::advance(one).await;
        assert_eq!(guesses.wrong(client(1), said()).code(), Code::Unauthorized);
        assert_eq!(guesses.wrong(client(1), said()).code(), Code::RateLimited);
    }

    #[tokio::test(start_paused = true)]
    async fn a_password_is_not_even_tried_after_so_many_that_were_wrong() {
        let guesses = Guesses::new();
        for _ in 0..limits::WRONG_CREDENTIALS * 2 {
            guesses.try_password(client(1)).unwrap();
            guesses.was_right(client(1));
        }
        for _ in 0..limits::WRONG_CREDENTIALS {
            guesses.try_password(client(1)).unwrap();
        }
        assert_eq!(guesses.try_password(client(1)).unwrap_err().code(), Code::RateLimited);
        assert!(guesses.try_password(client(2)).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn only_lookups_that_found_nothing_are_counted() {
        let guesses = Guesses::new();
        for _ in 0..limits::UNKNOWN_CREDENTIALS_PER_SECOND * 3 {
            guesses.look_up(client(1)).unwrap();
            guesses.looked_up(client(1));
        }
        for _ in 0..limits::UNKNOWN_CREDENTIALS_PER_SECOND {
            guesses.look_up(client(1)).unwrap();
        }
        assert_eq!(guesses.look_up(client(1)).unwrap_err().code(), Code::RateLimited);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(guesses.look_up(client(1)).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_network_of_one_household_is_one_address() {
        let guesses = Guesses::new();
        for host in 0..limits::WRONG_CREDENTIALS {
            guesses.wrong(ClientAddress(format!("2001:db8::{host}").parse().unwrap()), said());
        }
        let another = |text: &str| guesses.wrong(ClientAddress(text.parse().unwrap()), said()).code();
        assert_eq!(another("2001:db8::ffff:1"), Code::RateLimited);
        assert_eq!(another("2001:db8:0:1::1"), Code::Unauthorized);
    }

    #[tokio::test(start_paused = true)]
    async fn there_are_never_more_than_may_be_remembered_and_the_oldest_go_first() {
        let guesses = Guesses::new();
        for n in 0..limits::GUESSERS as u32 {
            guesses.wrong(client(n), said());
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        guesses.wrong(client(u32::MAX), said());
        let guessers = guesses.lock();
        assert!(guessers.len() <= limits::GUESSERS);
        let remembers = |n: u32| guessers.contains_key(&client(n).network());
        assert!(!remembers(0) && remembers(limits::GUESSERS as u32 - 1) && remembers(u32::MAX));
    }

    #[tokio::test(start_paused = true)]
    async fn a_crowd_of_one_moment_is_bounded_too() {
        let guesses = Guesses::new();
        for n in 0..limits::GUESSERS as u32 * 2 {
            guesses.wrong(client(n), said());
        }
        assert!(guesses.lock().len() <= limits::GUESSERS);
    }
}
