//! Who presents credentials that are none is slowed down, by address: API keys and ingest URLs alike.
//!
//! Passwords can be guessed, and from many addresses at once: those are counted by the name they are for as well. Who was right
//! for a name lately, from the same network, is not kept out by what others try.
//!
//! A credential that is right is never refused for what others at its address do (a proxy, an office): it is recognised
//! first. Only what has turned out wrong, and looks for what this node has never seen, is counted.

use crate::{client_address::ClientAddress, error::ApiError, rate::whole_seconds, request::OncePerSecond};
use domain::{bucket::Bucket, limits};
use std::{
    collections::HashMap,
    future::Future,
    hash::{BuildHasher as _, Hash, RandomState},
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// The addresses that were wrong lately.
pub(crate) struct Guesses {
    started: Instant,
    guessers: Mutex<HashMap<IpAddr, Guesser>>,
    names: Mutex<HashMap<u64, GuessedName>>,
    /// So that nobody chooses which names share a place.
    places: RandomState,
    told: OncePerSecond,
}

#[derive(Default)]
struct Guesser {
    wrong: Bucket,
    lookups: Bucket,
    last_at: Duration,
}

/// A name that passwords were tried for, whether there is such a user or not.
#[derive(Default)]
struct GuessedName {
    wrong: Bucket,
    last_at: Duration,
    /// Where the right one came from, the last of them at the end.
    right_from: Vec<IpAddr>,
}

/// What is remembered of somebody, and when it was last of use.
trait Remembered {
    fn last_at(&self) -> Duration;
}

impl Remembered for Guesser {
    fn last_at(&self) -> Duration {
        self.last_at
    }
}

impl Remembered for GuessedName {
    fn last_at(&self) -> Duration {
        self.last_at
    }
}

impl Guesses {
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            guessers: Mutex::default(),
            names: Mutex::default(),
            places: RandomState::new(),
            told: OncePerSecond::default(),
        }
    }

    /// The answer to a credential that is none: what was said to it, or, when there were too many, when to come back.
    pub(crate) fn wrong(&self, client: ClientAddress, said: ApiError) -> ApiError {
        self.count_wrong(client).map_or_else(|wait| self.refuse(client, wait), |()| said)
    }

    /// Before a password is tried: unlike a key it can be guessed, so every try counts until [`Guesses::was_right`], for the
    /// address that it comes from and for the name that it is for.
    pub(crate) fn try_password(&self, client: ClientAddress, name: &str) -> Result<(), ApiError> {
        self.count_wrong(client).map_err(|wait| self.refuse(client, wait))?;
        const MOST: u32 = limits::WRONG_PASSWORDS_OF_A_NAME;
        const SECONDS: u32 = limits::WRONG_PASSWORDS_OF_A_NAME_SECONDS;
        let now = self.started.elapsed();
        let taken = self.name(name, now, |guessed| {
            let known = guessed.right_from.contains(&client.network());
            if known { Ok(()) } else { take_slowly(&mut guessed.wrong, MOST, SECONDS, now) }
        });
        taken.map_err(|wait| {
            let seconds = self.tell(client, wait);
            ApiError::rate_limited("too many passwords for this name were wrong").retry_after(seconds)
        })
    }

    pub(crate) fn was_right(&self, client: ClientAddress, name: &str) {
        let now = self.started.elapsed();
        self.guesser(client, now, |guesser| guesser.wrong.give_back(limits::WRONG_CREDENTIALS, 1));
        self.name(name, now, |guessed| {
            let network = client.network();
            if !guessed.right_from.contains(&network) {
                guessed.wrong.give_back(limits::WRONG_PASSWORDS_OF_A_NAME, 1);
            }
            guessed.right_from.retain(|other| *other != network);
            if guessed.right_from.len() >= limits::RIGHT_NETWORKS {
                guessed.right_from.remove(0);
            }
            guessed.right_from.push(network);
        });
    }

    /// Err: how long until the next one is counted.
    fn count_wrong(&self, client: ClientAddress) -> Result<(), Duration> {
        let now = self.started.elapsed();
        self.guesser(client, now, |guesser| {
            take_slowly(&mut guesser.wrong, limits::WRONG_CREDENTIALS, limits::WRONG_CREDENTIALS_SECONDS, now)
        })
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
        make_room(&mut guessers, &network, limits::GUESSERS);
        let guesser = guessers.entry(network).or_default();
        guesser.last_at = now;
        change(guesser)
    }

    fn name<T>(&self, name: &str, now: Duration, change: impl FnOnce(&mut GuessedName) -> T) -> T {
        let place = self.places.hash_one(name);
        // Nothing in here can be half done.
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        make_room(&mut names, &place, limits::NAMES_GUESSED);
        let guessed = names.entry(place).or_default();
        guessed.last_at = now;
        change(guessed)
    }

    fn refuse(&self, client: ClientAddress, wait: Duration) -> ApiError {
        let seconds = self.tell(client, wait);
        ApiError::rate_limited("too many credentials that came from this address were wrong")
            .retry_after(seconds)
    }

    /// When to come back.
    fn tell(&self, client: ClientAddress, wait: Duration) -> u32 {
        if let Some(count) = self.told.count_if_due() {
            tracing::warn!(client = %client.0, count, "credentials.guessed");
        }
        whole_seconds(wait).clamp(1, limits::RETRY_AFTER_TOLD_MAX_SECONDS)
    }

    /// Nothing in here can be half done.
    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, Guesser>> {
        self.guessers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// So many in so many seconds. A bucket holds what comes in one: time passes as much more slowly for it.
fn take_slowly(bucket: &mut Bucket, most: u32, seconds: u32, now: Duration) -> Result<(), Duration> {
    bucket.take(most, 1, now / seconds).map(drop).map_err(|wait| wait * seconds)
}

/// The quarter that has been quiet for longest is forgotten: together, so that not every newcomer looks through all.
fn make_room<K: Eq + Hash, V: Remembered>(all: &mut HashMap<K, V>, newcomer: &K, most: usize) {
    if all.len() < most || all.contains_key(newcomer) {
        return;
    }
    let mut last_at: Vec<Duration> = all.values().map(V::last_at).collect();
    let (_, oldest_kept, _) = last_at.select_nth_unstable(most / 4);
    let oldest_kept = *oldest_kept;
    all.retain(|_, one| one.last_at() >= oldest_kept);
    if all.len() >= most {
        // All in the same moment.
        all.clear();
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
            guesses.try_password(client(1), "ada").unwrap();
            guesses.was_right(client(1), "ada");
        }
        for _ in 0..limits::WRONG_CREDENTIALS {
            guesses.try_password(client(1), "ada").unwrap();
        }
        assert_eq!(guesses.try_password(client(1), "ada").unwrap_err().code(), Code::RateLimited);
        assert!(guesses.try_password(client(2), "ada").is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn from_however_many_addresses_a_name_has_so_many_tries_and_its_owner_is_not_kept_out() {
        let guesses = Guesses::new();
        guesses.try_password(client(0), "ada").unwrap();
        guesses.was_right(client(0), "ada");
        for n in 1..=limits::WRONG_PASSWORDS_OF_A_NAME {
            guesses.try_password(client(n), "ada").unwrap();
        }
        let stranger = client(limits::WRONG_PASSWORDS_OF_A_NAME + 1);
        let refused = guesses.try_password(stranger, "ada").unwrap_err();
        assert_eq!(refused.code(), Code::RateLimited);
        assert!(guesses.try_password(stranger, "bob").is_ok(), "another name is another's");
        assert!(guesses.try_password(client(0), "ada").is_ok(), "who was right for it lately may");
        let one = limits::WRONG_PASSWORDS_OF_A_NAME_SECONDS / limits::WRONG_PASSWORDS_OF_A_NAME;
        tokio::time::advance(Duration::from_secs(one.into())).await;
        assert!(guesses.try_password(stranger, "ada").is_ok());
        assert!(guesses.try_password(stranger, "ada").is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn of_a_name_few_networks_are_remembered_and_of_names_so_many() {
        let guesses = Guesses::new();
        for n in 0..limits::RIGHT_NETWORKS as u32 + 5 {
            guesses.was_right(client(n), "ada");
        }
        guesses.name("ada", Duration::ZERO, |guessed| {
            assert_eq!(guessed.right_from.len(), limits::RIGHT_NETWORKS);
            assert!(!guessed.right_from.contains(&client(0).network()));
        });
        for n in 0..limits::NAMES_GUESSED * 2 {
            guesses.name(&format!("user {n}"), guesses.started.elapsed(), drop_it);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert!(guesses.names.lock().unwrap().len() <= limits::NAMES_GUESSED);
    }

    fn drop_it(_: &mut GuessedName) {}

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
