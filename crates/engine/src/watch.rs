//! Changes of configuration made on other nodes: a few times a second the versions of the accounts that have lanes here
//! are compared, and what has changed is read again before anything else starts there. A word from the node that made
//! the change only makes it faster. A node that is alone makes all changes itself, and is told by its own API.

use crate::{backoff::Backoff, data_keys::DataKeys, dispatcher::Message, ownership_view::OwnershipView};
use domain::{dice::Dice, id::AccountId, limits};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};
use store::{Change, Store, StoreError};
use tokio::{
    sync::{Notify, mpsc, oneshot},
    time::Instant,
};

/// What was asked to be looked at before its time.
#[derive(Debug, Default)]
pub(crate) struct EarlyLooks {
    /// Accounts that other nodes spoke of, bounded by name: beyond, the next look at all of them is near enough.
    spoken_of: Mutex<BTreeSet<AccountId>>,
    bell: Notify,
}

/// The accounts that have lanes here, each with the version up to which its changes are known.
pub(crate) type Accounts = Vec<(AccountId, i64)>;

#[derive(Clone)]
pub(crate) struct ConfigWatch {
    pub(crate) watch: Arc<EarlyLooks>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) dice: Arc<dyn Dice>,
    pub(crate) ownership_view: Arc<OwnershipView>,
    pub(crate) dispatcher: mpsc::Sender<Message>,
    pub(crate) data_keys: Arc<DataKeys>,
}

impl EarlyLooks {
    pub(crate) fn look_at(&self, account: AccountId) {
        let mut spoken_of = self.spoken_of();
        if spoken_of.len() < limits::VERSIONS_AT_ONCE {
            spoken_of.insert(account);
        }
        self.bell.notify_one();
    }

    /// The line was down: look at all of them at the next round, which is near.
    pub(crate) fn look(&self) {
        self.bell.notify_one();
    }

    fn spoken_of(&self) -> std::sync::MutexGuard<'_, BTreeSet<AccountId>> {
        self.spoken_of.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConfigWatch {
    /// Watches for ever. It begins with all of them, so that nothing is missed by a life after another one.
    pub(crate) async fn run(self) {
        let mut backoff = Backoff::default();
        let mut next = Instant::now();
        loop {
            tokio::select! {
                biased;
                () = self.watch.bell.notified() => {}
                () = tokio::time::sleep_until(next) => {}
            }
            let spoken_of = std::mem::take(&mut *self.watch.spoken_of());
            supervisor::failpoint();
            let all = next <= Instant::now();
            if all {
                next = Instant::now() + limits::VERSIONS_LOOK;
            }
            if self.ownership_view.is_alone() {
                continue;
            }
            let only = (!all).then_some(spoken_of);
            match self.look(only).await {
                Ok(()) => backoff.reset(),
                Err(error) => {
                    if backoff.worth_telling() {
                        tracing::warn!(%error, "changes of configuration could not be read; trying again");
                    }
                    next = Instant::now() + backoff.pause(self.dice.as_ref());
                }
            }
        }
    }

    /// Compares versions, of these accounts or of all that have lanes here.
    async fn look(&self, only: Option<BTreeSet<AccountId>>) -> Result<(), StoreError> {
        if only.is_none() {
            self.forget_deleted().await?;
        }
        let (answer, answered) = oneshot::channel();
        let _ = self.dispatcher.send(Message::Accounts(answer)).await;
        let Ok(mut accounts) = answered.await else { return Ok(()) };
        if let Some(only) = only {
            accounts.retain(|(account, _)| only.contains(account));
        }
        for some in accounts.chunks(limits::VERSIONS_AT_ONCE) {
            let ids: Vec<AccountId> = some.iter().map(|(account, _)| *account).collect();
            let versions = self.store.versions(&ids).await?;
            for ((account, known), version) in some.iter().zip(versions) {
                match version {
                    Some(version) if version > *known => self.review(*account, *known, version).await?,
                    Some(_) => {}
                    // It was deleted: its lanes are to know. What belongs to no account knows already.
                    None if *account == AccountId::MIN => {}
                    None => {
                        let _ = self.dispatcher.send(Message::Changed(Change::Defaults(*account))).await;
                    }
                }
            }
        }
        Ok(())
    }

    /// Keys of accounts that are gone, with lanes here or without.
    async fn forget_deleted(&self) -> Result<(), StoreError> {
        for some in self.data_keys.accounts().chunks(limits::VERSIONS_AT_ONCE) {
            let versions = self.store.versions(some).await?;
            let gone = some.iter().zip(versions).filter(|(_, version)| version.is_none());
            gone.for_each(|(account, _)| self.data_keys.forget(*account));
        }
        Ok(())
    }

    /// The destinations that changed are outdated; then the account is known up to `version`.
    async fn review(&self, account: AccountId, known: i64, version: i64) -> Result<(), StoreError> {
        self.data_keys.forget(account);
        if self.has_other_defaults(account, known).await? {
            let _ = self.dispatcher.send(Message::Changed(Change::Defaults(account))).await;
        }
        let (mut after, limit) = (None, limits::VERSIONS_AT_ONCE);
        loop {
            let changed = self.store.changed_destinations(account, known, after, limit).await?;
            after = changed.last().copied();
            let complete = changed.len() < limit;
            let version = complete.then_some(version);
            // A dispatcher that has stopped has nothing to keep up to date.
            let _ = self.dispatcher.send(Message::Reviewed { account, version, changed }).await;
            if complete {
                return Ok(());
            }
        }
    }

    /// Whether the account's defaults have changed after this version. Read later than the version that is reviewed: what
    /// has changed in between is found once more.
    async fn has_other_defaults(&self, account: AccountId, known: i64) -> Result<bool, StoreError> {
        match self.store.account(account).await {
            Ok(account) => Ok(account.defaults_version > known),
            // Its destinations say so when they are read.
            Err(StoreError::NotFound { .. } | StoreError::Unreadable(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
