//! An account's routes in memory, for matching. A snapshot knows the account's version it was taken at; the commit
//! compares it, so an old snapshot costs a second round and never a wrong fan-out.

use domain::{
    destination::Ordering,
    id::{AccountId, DestinationId, RouteId, SourceId},
    limits,
    route::RouteTable,
};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{self, AtomicBool, AtomicU64, AtomicUsize},
    },
};
use store::{AccountChanges, Catalog, StoreError};
use tokio::task::spawn_blocking;

/// The routes of an account at one version.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) version: i64,
    pub(crate) table: RouteTable,
    /// Of the ordered destinations.
    pub(crate) orderings: Arc<HashMap<DestinationId, Ordering>>,
}

/// The snapshots of the accounts seen lately.
pub(crate) struct Snapshots {
    store: Arc<dyn Catalog>,
    slots: RwLock<HashMap<AccountId, Arc<Slot>>>,
    /// Counts uses; a slot's last use is its place in this order.
    uses: AtomicU64,
}

#[derive(Default)]
struct Slot {
    current: Mutex<Option<Arc<Snapshot>>>,
    outdated: AtomicBool,
    last_use: AtomicU64,
    routes: AtomicUsize,
    /// For the next change; whoever holds it reads, the others wait for what it read.
    all: tokio::sync::Mutex<Known>,
}

#[derive(Default)]
struct Known {
    version: i64,
    table: RouteTable,
    /// The door of each route.
    doors: HashMap<RouteId, Option<SourceId>>,
    orderings: Arc<HashMap<DestinationId, Ordering>>,
}

impl Snapshots {
    pub(crate) fn new(store: Arc<dyn Catalog>) -> Self {
        Self { store, slots: RwLock::default(), uses: AtomicU64::new(0) }
    }

    /// The snapshot in memory, or a first one.
    pub(crate) async fn get(&self, account: AccountId) -> Result<Arc<Snapshot>, StoreError> {
        let slot = self.slot(account);
        match slot.current() {
            Some(snapshot) if !slot.outdated.load(atomic::Ordering::Acquire) => Ok(snapshot),
            seen => self.refresh(account, &slot, seen).await,
        }
    }

    /// A snapshot newer than `version`, which a commit has refused.
    pub(crate) async fn newer(&self, account: AccountId, version: i64) -> Result<Arc<Snapshot>, StoreError> {
        let slot = self.slot(account);
        match slot.current() {
            Some(snapshot)
                if snapshot.version > version && !slot.outdated.load(atomic::Ordering::Acquire) =>
            {
                Ok(snapshot)
            }
            seen => self.refresh(account, &slot, seen).await,
        }
    }

    /// Configuration has been written by this process: read it before the next match.
    pub(crate) fn outdated(&self, account: AccountId) {
        if let Some(slot) = self.read().get(&account) {
            slot.outdated.store(true, atomic::Ordering::Release);
        }
    }

    /// Somebody reads the account's routes `meanwhile`.
    #[cfg(test)]
    pub(crate) async fn stalled<T>(&self, account: AccountId, meanwhile: impl Future<Output = T>) -> T {
        let slot = self.slot(account);
        let _reading = slot.all.lock().await;
        meanwhile.await
    }

    async fn refresh(
        &self,
        account: AccountId,
        slot: &Slot,
        seen: Option<Arc<Snapshot>>,
    ) -> Result<Arc<Snapshot>, StoreError> {
        let mut all = slot.all.lock().await;
        // Somebody may have read it while we waited.
        if let Some(current) = slot.current()
            && !slot.outdated.load(atomic::Ordering::Acquire)
            && seen.is_none_or(|seen| current.version > seen.version)
        {
            return Ok(current);
        }
        // Cleared before the read: a write that comes during it sets it again.
        slot.outdated.store(false, atomic::Ordering::Release);
        let changes = match self.store.changes(account, all.version).await {
            Ok(changes) => changes,
            Err(error) => {
                slot.outdated.store(true, atomic::Ordering::Release);
                return Err(error);
            }
        };
        if changes.routes.len() <= limits::ROUTES_PAGE {
            all.change(changes);
        } else {
            // Sorting in so many takes long enough that others must not wait for it.
            let mut known = std::mem::take(&mut *all);
            let changed = spawn_blocking(move || {
                known.change(changes);
                known
            });
            // Should it break, everything is read again.
            *all = changed.await.map_err(|panic| {
                slot.outdated.store(true, atomic::Ordering::Release);
                StoreError::Unavailable(panic.into())
            })?;
        }
        slot.routes.store(all.doors.len(), atomic::Ordering::Relaxed);
        let (version, table, orderings) = (all.version, all.table.clone(), all.orderings.clone());
        let snapshot = Arc::new(Snapshot { version, table, orderings });
        *slot.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(snapshot.clone());
        Ok(snapshot)
    }

    fn slot(&self, account: AccountId) -> Arc<Slot> {
        let used = self.uses.fetch_add(1, atomic::Ordering::Relaxed);
        if let Some(slot) = self.read().get(&account) {
            slot.last_use.store(used, atomic::Ordering::Relaxed);
            return slot.clone();
        }
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        make_room(&mut slots);
        let slot = slots.entry(account).or_default();
        slot.last_use.store(used, atomic::Ordering::Relaxed);
        slot.clone()
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, HashMap<AccountId, Arc<Slot>>> {
        self.slots.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn change(&mut self, changes: AccountChanges) {
        let ids = changes.removed_routes.iter().chain(changes.routes.iter().map(|route| &route.id));
        let gone: Vec<_> = ids.filter_map(|id| Some((self.doors.remove(id)?, *id))).collect();
        self.doors.extend(changes.routes.iter().map(|route| (route.id, route.source_id)));
        self.table = self.table.changed(&gone, changes.routes.into_iter().map(Arc::new));
        for (destination, ordering) in changes.orderings {
            let orderings = Arc::make_mut(&mut self.orderings);
            match ordering {
                Ordering::None => orderings.remove(&destination),
                ordered => orderings.insert(destination, ordered),
            };
        }
        self.version = changes.version;
    }
}

impl Slot {
    fn current(&self) -> Option<Arc<Snapshot>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Forgets the eighth that was used longest ago; all at once, so that newcomers do not each pay for it.
fn make_room(slots: &mut HashMap<AccountId, Arc<Slot>>) {
    let routes: usize = slots.values().map(|slot| slot.routes.load(atomic::Ordering::Relaxed)).sum();
    if slots.len() < limits::SNAPSHOT_ACCOUNTS && routes < limits::SNAPSHOT_ROUTES {
        return;
    }
    let mut uses: Vec<u64> =
        slots.values().map(|slot| slot.last_use.load(atomic::Ordering::Relaxed)).collect();
    let eighth = slots.len() / 8;
    let (_, limit, _) = uses.select_nth_unstable(eighth);
    slots.retain(|_, slot| slot.last_use.load(atomic::Ordering::Relaxed) > *limit);
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::time::Timestamp;

    fn slot(last_use: u64, routes: usize) -> Arc<Slot> {
        Arc::new(Slot { last_use: last_use.into(), routes: routes.into(), ..Slot::default() })
    }

    fn account(n: u64) -> AccountId {
        AccountId::at(Timestamp::MIN, n.into())
    }

    #[test]
    fn the_accounts_used_longest_ago_make_room() {
        let count = limits::SNAPSHOT_ACCOUNTS as u64;
        let mut slots: HashMap<_, _> = (0..count).map(|n| (account(n), slot(n, 1))).collect();
        make_room(&mut slots);
        assert!(slots.len() < limits::SNAPSHOT_ACCOUNTS && slots.len() > limits::SNAPSHOT_ACCOUNTS / 2);
        assert!(!slots.contains_key(&account(0)) && slots.contains_key(&account(count - 1)));
    }

    #[test]
    fn routes_count_too() {
        let mut slots: HashMap<_, _> = (0..6).map(|n| (account(n), slot(n, 200_000))).collect();
        make_room(&mut slots);
        assert_eq!(slots.len(), 5);
        make_room(&mut slots);
        make_room(&mut slots);
        assert_eq!(slots.len(), 4, "less than a million now");
    }
}
