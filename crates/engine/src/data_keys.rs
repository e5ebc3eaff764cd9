//! The data keys of accounts that have their payloads encrypted: opened when something of such an account is read or kept, and
//! remembered for a while. An account without it costs nothing here.
//!
//! A key is read again after [`limits::DATA_KEY_FRESH`], so that a node seals by the newest one soon enough for the older
//! ones to be forgotten; and at once when something is sealed by one that is not known here.

use domain::{
    event::Event,
    id::AccountId,
    limits,
    seal::{DataKey, MasterKeys, SealError, Sealed},
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use store::{Store, StoreError, StoredEvent};
use tokio::time::Instant;

pub(crate) struct DataKeys {
    store: Arc<dyn Store>,
    master_keys: Arc<MasterKeys>,
    known: Mutex<HashMap<AccountId, KnownKey>>,
}

struct KnownKey {
    since: Instant,
    key: Arc<DataKey>,
}

/// Why something stays shut.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Shut {
    /// It may be opened later.
    #[error(transparent)]
    Store(StoreError),
    /// It never will.
    #[error("{0}")]
    ForGood(String),
}

impl DataKeys {
    pub(crate) fn new(store: Arc<dyn Store>, master_keys: Arc<MasterKeys>) -> Arc<Self> {
        Arc::new(Self { store, master_keys, known: Mutex::default() })
    }

    /// The key that seals what is kept of this account.
    pub(crate) async fn of(&self, account: AccountId) -> Result<Arc<DataKey>, Shut> {
        match self.known(account) {
            Some(key) => Ok(key),
            None => self.read(account).await,
        }
    }

    /// The event as it was accepted.
    pub(crate) async fn open(&self, stored: StoredEvent) -> Result<Arc<Event>, Shut> {
        let sealed = match stored {
            StoredEvent::Plain(event) => return Ok(event),
            StoredEvent::Sealed(sealed) => sealed,
        };
        let key = self.that_opens(sealed.account_id(), sealed.seal()).await?;
        sealed.open(&key).map_err(|error| {
            Shut::ForGood(match error {
                SealError::UnknownDataKey(number) => {
                    format!("its payload is encrypted by data key {number} of its account, which is gone")
                }
                _ => "its payload is encrypted, and does not open: it is damaged, or of another event".into(),
            })
        })
    }

    /// Sealed by one that was made since: an account's keys are there before anything is sealed by them.
    async fn that_opens(&self, account: AccountId, sealed: &Sealed) -> Result<Arc<DataKey>, Shut> {
        let key = self.of(account).await?;
        if key.knows(sealed) { Ok(key) } else { self.read(account).await }
    }

    async fn read(&self, account: AccountId) -> Result<Arc<DataKey>, Shut> {
        let wrapped = match self.store.account(account).await {
            Ok(found) => found.data_key,
            Err(StoreError::NotFound { .. }) => {
                self.forget(account);
                return Err(Shut::ForGood(
                    "its account was deleted, and the key of its payloads with it".into(),
                ));
            }
            Err(error) => return Err(Shut::Store(error)),
        };
        let key = self.master_keys.data_key(account, &wrapped);
        let key = key.map_err(|error| Shut::ForGood(format!("its account's data key: {error}")))?;
        let key = Arc::new(key);
        let mut known = self.lock();
        if known.len() >= limits::DATA_KEYS_CACHED && !known.contains_key(&account) {
            known.retain(|_, known| known.is_fresh());
            if known.len() >= limits::DATA_KEYS_CACHED {
                known.clear();
            }
        }
        known.insert(account, KnownKey { since: Instant::now(), key: Arc::clone(&key) });
        Ok(key)
    }

    /// Something of the account has changed, or it was deleted.
    pub(crate) fn forget(&self, account: AccountId) {
        self.lock().remove(&account);
    }

    /// Whose keys are remembered; those that are not to be used any more are dropped.
    pub(crate) fn accounts(&self) -> Vec<AccountId> {
        let mut known = self.lock();
        known.retain(|_, known| known.is_fresh());
        known.keys().copied().collect()
    }

    fn known(&self, account: AccountId) -> Option<Arc<DataKey>> {
        self.lock().get(&account).filter(|known| known.is_fresh()).map(|known| Arc::clone(&known.key))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AccountId, KnownKey>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KnownKey {
    fn is_fresh(&self) -> bool {
        self.since.elapsed() < limits::DATA_KEY_FRESH
    }
}

/// Of an installation with one master key.
#[cfg(test)]
pub(crate) fn testing(store: Arc<dyn Store>) -> Arc<DataKeys> {
    let master_keys = MasterKeys::parse("k1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    DataKeys::new(store, Arc::new(master_keys.expect("a key")))
}
