//! An account's routes in memory, for matching. A snapshot knows the account's version it was taken at; the commit
//! compares it, so an old snapshot costs a second round and never a wrong fan-out.

use crate::{LongWork, admit::bounded_lookup};
use domain::{
    account::AccountLimits,
    destination::Numbering,
    dice::Dice,
    event::Event,
    id::{AccountId, DestinationId, RouteId},
    limits,
    route::{RoutePlace, RouteTable},
    seal::{DataKey, MasterKeys, Sealed},
};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{self, AtomicBool, AtomicU64, AtomicUsize},
    },
};
use store::{AccountChanges, Catalog, PreparedEvent, StoreError};

/// The routes of an account at one version.
#[derive(Debug, Default)]
pub struct Snapshot {
    pub version: i64,
    /// What the account says of itself, on the way of each of its events.
    pub limits: AccountLimits,
    pub table: RouteTable,
    /// Of the destinations that number.
    pub numberings: Arc<HashMap<DestinationId, Numbering>>,
    /// What its payloads are sealed by; None: they are not encrypted.
    pub sealing: Option<Arc<DataKey>>,
}

impl Snapshot {
    /// What is written of an event: as its account has its payloads kept at this version.
    pub(crate) fn prepared(&self, event: impl Into<Arc<Event>>, dice: &dyn Dice) -> Arc<PreparedEvent> {
        match &self.sealing {
            None => PreparedEvent::new(event),
            Some(key) => PreparedEvent::sealed(event, key, dice),
        }
    }
}

/// The snapshots of the accounts seen lately.
pub struct Snapshots {
    store: Arc<dyn Catalog>,
    master_keys: Arc<MasterKeys>,
    accounts: RwLock<HashMap<AccountId, Arc<CachedAccount>>>,
    /// Counts uses; an account's last use is its place in this order.
    uses: AtomicU64,
    long_work: LongWork,
}

#[derive(Default)]
struct CachedAccount {
    current: Mutex<Option<Arc<Snapshot>>>,
    outdated: AtomicBool,
    last_use: AtomicU64,
    route_count: AtomicUsize,
    /// What the next change is made to. The task that has locked it reads; the others wait for what it has read.
    routes: tokio::sync::Mutex<AccountRoutes>,
}

#[derive(Default)]
struct AccountRoutes {
    version: i64,
    limits: AccountLimits,
    table: RouteTable,
    /// Where each route stands in the table.
    places: HashMap<RouteId, RoutePlace>,
    numberings: Arc<HashMap<DestinationId, Numbering>>,
    /// As it is wrapped, and as it is used.
    sealing: Option<(Sealed, Arc<DataKey>)>,
}

impl Snapshots {
    pub(crate) fn new(store: Arc<dyn Catalog>, master_keys: Arc<MasterKeys>, long_work: LongWork) -> Self {
        Self { store, master_keys, accounts: RwLock::default(), uses: AtomicU64::new(0), long_work }
    }

    /// The snapshot in memory, or a first one, unless the store hangs. What is there needs no clock and hardly any memory: every
    /// event comes by here, twice.
    pub async fn soon(&self, account: AccountId) -> Result<Arc<Snapshot>, StoreError> {
        let cached = self.cached(account);
        match cached.current() {
            Some(snapshot) if !cached.outdated.load(atomic::Ordering::Acquire) => Ok(snapshot),
            _ => Box::pin(bounded_lookup(self.get(account))).await,
        }
    }

    /// The snapshot in memory, or a first one.
    pub async fn get(&self, account: AccountId) -> Result<Arc<Snapshot>, StoreError> {
        let cached = self.cached(account);
        match cached.current() {
            Some(snapshot) if !cached.outdated.load(atomic::Ordering::Acquire) => Ok(snapshot),
            seen => self.refresh(account, &cached, seen).await,
        }
    }

    /// A snapshot newer than `version`, which a commit has refused; with `i64::MAX`, one that is read now.
    pub async fn newer_than(&self, account: AccountId, version: i64) -> Result<Arc<Snapshot>, StoreError> {
        let cached = self.cached(account);
        match cached.current() {
            Some(snapshot)
                if snapshot.version > version && !cached.outdated.load(atomic::Ordering::Acquire) =>
            {
                Ok(snapshot)
            }
            seen => self.refresh(account, &cached, seen).await,
        }
    }

    /// Configuration has been written by this process: read it before the next match.
    pub fn mark_outdated(&self, account: AccountId) {
        if let Some(cached) = self.read().get(&account) {
            cached.outdated.store(true, atomic::Ordering::Release);
        }
    }

    /// Accounts whose payloads are sealed by a key that is in here.
    pub fn sealing_accounts(&self) -> Vec<AccountId> {
        let seals = |cached: &Arc<CachedAccount>| cached.current().is_some_and(|it| it.sealing.is_some());
        let accounts = self.read();
        accounts.iter().filter(|(_, cached)| seals(cached)).map(|(account, _)| *account).collect()
    }

    /// The account was deleted. What comes for it yet finds none.
    pub fn forget(&self, account: AccountId) {
        self.accounts.write().unwrap_or_else(PoisonError::into_inner).remove(&account);
    }

    /// `meanwhile` runs as if the account's routes were being read.
    #[cfg(test)]
    pub(crate) async fn while_reading<T>(&self, account: AccountId, meanwhile: impl Future<Output = T>) -> T {
        let cached = self.cached(account);
        let _reading = cached.routes.lock().await;
        meanwhile.await
    }

    async fn refresh(
        &self,
        account: AccountId,
        cached: &CachedAccount,
        seen: Option<Arc<Snapshot>>,
    ) -> Result<Arc<Snapshot>, StoreError> {
        let mut routes = cached.routes.lock().await;
        // Another task may have read it while this one waited.
        if let Some(current) = cached.current()
            && !cached.outdated.load(atomic::Ordering::Acquire)
            && seen.is_none_or(|seen| current.version > seen.version)
        {
            return Ok(current);
        }
        // Cleared before the read: a write that comes during it sets it again.
        cached.outdated.store(false, atomic::Ordering::Release);
        let read = self.store.changes(account, routes.version).await.and_then(|mut changes| {
            let sealing = self.unwrapped(account, changes.sealing.take(), routes.sealing.take())?;
            Ok((changes, sealing))
        });
        let (changes, sealing) = match read {
            Ok(read) => read,
            Err(error) => {
                if let StoreError::NotFound { .. } = error {
                    // It was deleted: what could seal for it is forgotten with it.
                    *cached.current.lock().unwrap_or_else(PoisonError::into_inner) = None;
                    routes.sealing = None;
                }
                cached.outdated.store(true, atomic::Ordering::Release);
                return Err(error);
            }
        };
        if changes.routes.len() <= limits::ROUTES_PAGE {
            routes.change(changes);
        } else {
            // Sorting in so many takes long enough that other tasks must not wait for it.
            let mut taken = std::mem::take(&mut *routes);
            let changed = self.long_work.run(move || {
                taken.change(changes);
                taken
            });
            // Should it break, everything is read again.
            *routes = changed.await.map_err(|panic| {
                cached.outdated.store(true, atomic::Ordering::Release);
                StoreError::Unavailable(panic.into())
            })?;
        }
        routes.sealing = sealing;
        cached.route_count.store(routes.places.len(), atomic::Ordering::Relaxed);
        let AccountRoutes { version, limits, table, numberings, sealing, .. } = &*routes;
        let snapshot = Arc::new(Snapshot {
            version: *version,
            limits: *limits,
            table: table.clone(),
            numberings: numberings.clone(),
            sealing: sealing.as_ref().map(|(_, key)| key.clone()),
        });
        *cached.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(snapshot.clone());
        Ok(snapshot)
    }

    /// Opened again only where it is another one. What does not open keeps events out: they are not kept readable instead.
    fn unwrapped(
        &self,
        account: AccountId,
        wrapped: Option<Sealed>,
        known: Option<(Sealed, Arc<DataKey>)>,
    ) -> Result<Option<(Sealed, Arc<DataKey>)>, StoreError> {
        let Some(wrapped) = wrapped else { return Ok(None) };
        if let Some(known) = known.filter(|(of, _)| *of == wrapped) {
            return Ok(Some(known));
        }
        let key = self.master_keys.data_key(account, &wrapped).map_err(|error| {
            tracing::error!(account_id = %account, %error, "the data key that seals an account's payloads does not open");
            StoreError::Unavailable(error.into())
        })?;
        Ok(Some((wrapped, Arc::new(key))))
    }

    fn cached(&self, account: AccountId) -> Arc<CachedAccount> {
        let used = self.uses.fetch_add(1, atomic::Ordering::Relaxed);
        if let Some(cached) = self.read().get(&account) {
            cached.last_use.store(used, atomic::Ordering::Relaxed);
            return cached.clone();
        }
        let mut accounts = self.accounts.write().unwrap_or_else(PoisonError::into_inner);
        make_room(&mut accounts);
        let cached = accounts.entry(account).or_default();
        cached.last_use.store(used, atomic::Ordering::Relaxed);
        cached.clone()
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, HashMap<AccountId, Arc<CachedAccount>>> {
        self.accounts.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AccountRoutes {
    fn change(&mut self, changes: AccountChanges) {
        let ids = changes.removed_routes.iter().chain(changes.routes.iter().map(|route| &route.id));
        let gone: Vec<_> = ids.filter_map(|id| self.places.remove(id)).collect();
        self.places.extend(changes.routes.iter().map(|route| (route.id, route.place())));
        self.table = self.table.changed(&gone, changes.routes.into_iter().map(Arc::new));
        for (destination, numbering) in changes.numberings {
            let numberings = Arc::make_mut(&mut self.numberings);
            match numbering {
                Numbering::None => numberings.remove(&destination),
                numbers => numberings.insert(destination, numbers),
            };
        }
        self.limits = changes.limits;
        self.version = changes.version;
    }
}

impl CachedAccount {
    fn current(&self) -> Option<Arc<Snapshot>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Forgets the eighth that was used longest ago; all at once, so that newcomers do not each pay for it.
fn make_room(accounts: &mut HashMap<AccountId, Arc<CachedAccount>>) {
    let routes: usize =
        accounts.values().map(|cached| cached.route_count.load(atomic::Ordering::Relaxed)).sum();
    if accounts.len() < limits::SNAPSHOT_ACCOUNTS && routes < limits::SNAPSHOT_ROUTES {
        return;
    }
    let mut uses: Vec<u64> =
        accounts.values().map(|cached| cached.last_use.load(atomic::Ordering::Relaxed)).collect();
    let eighth = accounts.len() / 8;
    let (_, limit, _) = uses.select_nth_unstable(eighth);
    accounts.retain(|_, cached| cached.last_use.load(atomic::Ordering::Relaxed) > *limit);
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::time::Timestamp;

    fn cached(last_use: u64, routes: usize) -> Arc<CachedAccount> {
        Arc::new(CachedAccount {
            last_use: last_use.into(),
            route_count: routes.into(),
            ..CachedAccount::default()
        })
    }

    fn account(n: u64) -> AccountId {
        AccountId::at(Timestamp::MIN, n.into())
    }

    #[test]
    fn the_accounts_used_longest_ago_make_room() {
        let count = limits::SNAPSHOT_ACCOUNTS as u64;
        let mut accounts: HashMap<_, _> = (0..count).map(|n| (account(n), cached(n, 1))).collect();
        make_room(&mut accounts);
        assert!(accounts.len() < limits::SNAPSHOT_ACCOUNTS && accounts.len() > limits::SNAPSHOT_ACCOUNTS / 2);
        assert!(!accounts.contains_key(&account(0)) && accounts.contains_key(&account(count - 1)));
    }

    #[test]
    fn routes_count_too() {
        let mut accounts: HashMap<_, _> = (0..6).map(|n| (account(n), cached(n, 200_000))).collect();
        make_room(&mut accounts);
        assert_eq!(accounts.len(), 5);
        make_room(&mut accounts);
        make_room(&mut accounts);
        assert_eq!(accounts.len(), 4, "less than a million now");
    }
}
