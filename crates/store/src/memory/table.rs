//! What sources, destinations and routes have in common: an owner, a uid, a version, and an afterlife.

use super::{Tables, newest_first};
use crate::{
    Listed, Page, StoreError,
    documents::Document,
    page_rows::{PageRow, PageRows},
};
use domain::{
    account::{Account, Quotas},
    audit::AuditEntry,
    destination::Destination,
    id::{AccountId, DestinationId, RouteId, SourceId},
    route::Route,
    source::Source,
    time::Timestamp,
};
use std::collections::BTreeMap;

/// Configuration that belongs to an account.
pub(super) trait CatalogRow: Clone + Sized + PageRow {
    type Id: Ord + Copy;
    const WHAT: &'static str;

    /// How many of them an account with these quotas may have, and their name.
    fn most(quotas: &Quotas) -> Option<(usize, &'static str)>;

    fn id(&self) -> Self::Id;
    fn account_id(&self) -> AccountId;
    fn uid(&self) -> Option<&str>;
    fn version_mut(&mut self) -> &mut i64;
    fn table(tables: &Tables) -> &Table<Self>;
    fn table_mut(tables: &mut Tables) -> &mut Table<Self>;
}

/// Rows by id. Removed ones stay: a snapshot must learn that they are gone, and what waits may still need them.
pub(super) struct Table<R: CatalogRow>(pub(super) BTreeMap<R::Id, KeptRow<R>>);

pub(super) struct KeptRow<R> {
    pub(super) row: R,
    pub(super) version: i64,
    pub(super) deleted_at: Option<Timestamp>,
}

impl<R: CatalogRow> Default for Table<R> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<R> KeptRow<R> {
    pub(super) fn live(&self) -> Option<&R> {
        self.deleted_at.is_none().then_some(&self.row)
    }
}

impl<R: CatalogRow> Table<R> {
    /// The account's own, and live: everything else is not there.
    pub(super) fn get(&self, account: AccountId, id: R::Id) -> Result<&R, StoreError> {
        let found = self.0.get(&id).and_then(KeptRow::live).filter(|row| row.account_id() == account);
        found.ok_or(StoreError::NotFound { what: R::WHAT })
    }

    pub(super) fn by_uid(&self, account: AccountId, uid: &str) -> Option<R::Id> {
        let mut own = self.live().filter(|row| row.account_id() == account);
        own.find(|row| row.uid() == Some(uid)).map(R::id)
    }

    pub(super) fn list(&self, account: AccountId, page: Page<R::Id>) -> Listed<R, R::Id> {
        let live = newest_first(&self.0, page.before).filter_map(|(_, kept)| kept.live());
        let mut rows = PageRows::new(page.limit);
        let _ = live
            .filter(|row| row.account_id() == account)
            .try_for_each(|row| rows.add(row.id(), Some(row.clone())));
        rows.listed()
    }

    /// Live rows of all accounts, oldest first.
    pub(super) fn live(&self) -> impl Iterator<Item = &R> {
        self.0.values().filter_map(KeptRow::live)
    }

    fn uid_is_free(&self, row: &R) -> Result<(), StoreError> {
        let Some(uid) = row.uid() else { return Ok(()) };
        let of_others =
            self.live().filter(|other| other.account_id() == row.account_id() && other.id() != row.id());
        match of_others.filter_map(R::uid).any(|taken| taken == uid) {
            true => Err(StoreError::Taken { constraint: "uid" }),
            false => Ok(()),
        }
    }

    fn has_room(&self, account: &Account) -> Result<(), StoreError> {
        let (Some((most, what)), account) = (R::most(&account.quotas), account.id) else { return Ok(()) };
        // Where there are fewer in all, it does not matter whose they are.
        let full =
            || most == 0 || self.live().filter(|row| row.account_id() == account).nth(most - 1).is_some();
        if self.0.len() >= most && full() { Err(StoreError::Full { what }) } else { Ok(()) }
    }

    fn put(&mut self, row: &R, version: i64) -> R {
        let mut row = row.clone();
        *row.version_mut() = version;
        self.0.insert(row.id(), KeptRow { row: row.clone(), version, deleted_at: None });
        row
    }

    pub(super) fn remove(&mut self, ids: &[R::Id], version: i64, now: Timestamp) {
        for id in ids {
            let kept = self.0.get_mut(id).expect("only rows that were just found are removed");
            kept.deleted_at = Some(now);
            kept.version = version;
            *kept.row.version_mut() = version;
        }
    }
}

impl Tables {
    pub(super) fn create<R: CatalogRow>(&mut self, row: &R, audit: &AuditEntry) -> Result<R, StoreError> {
        R::table(self).has_room(self.account(row.account_id())?)?;
        R::table(self).uid_is_free(row)?;
        let version = self.next_version(row.account_id())?;
        self.append(Some(row.account_id()), audit);
        Ok(R::table_mut(self).put(row, version))
    }

    /// Writes only over the version it was read with.
    pub(super) fn update<R: CatalogRow>(&mut self, row: &R, audit: &AuditEntry) -> Result<R, StoreError> {
        R::table(self).get(row.account_id(), row.id())?;
        let mut given = row.clone();
        if R::table(self).0[&row.id()].version != *given.version_mut() {
            return Err(StoreError::Changed);
        }
        R::table(self).uid_is_free(row)?;
        let version = self.next_version(row.account_id())?;
        self.append(Some(row.account_id()), audit);
        Ok(R::table_mut(self).put(row, version))
    }
}

macro_rules! rows {
    ($($row:ident, $id:ident, $what:literal, $table:ident;)*) => {$(
        impl CatalogRow for $row {
            type Id = $id;
            const WHAT: &'static str = $what;

            fn most(quotas: &Quotas) -> Option<(usize, &'static str)> { <Self as Document>::most(quotas) }

            fn id(&self) -> $id { self.id }
            fn account_id(&self) -> AccountId { self.account_id }
            fn uid(&self) -> Option<&str> { self.uid.as_deref() }
            fn version_mut(&mut self) -> &mut i64 { &mut self.version }
            fn table(tables: &Tables) -> &Table<Self> { &tables.$table }
            fn table_mut(tables: &mut Tables) -> &mut Table<Self> { &mut tables.$table }
        }
    )*};
}

rows! {
    Source, SourceId, "source", sources;
    Destination, DestinationId, "destination", destinations;
    Route, RouteId, "route", routes;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Catalog as _, memory::MemoryStore};
    use domain::{limits, seal::Sealed, testing::audit_entry, time::Clock};
    use std::sync::Arc;

    struct Still;

    impl Clock for Still {
        fn now(&self) -> Timestamp {
            Timestamp::MIN
        }
    }

    #[tokio::test]
    async fn an_account_has_no_more_destinations_than_it_may() {
        let (store, now) = (MemoryStore::new(Arc::new(Still)), Timestamp::MIN);
        let account = |n| Account::new(AccountId::at(now, n), "Acme", Sealed::default(), now);
        let ours = store.create_account(&account(1), &audit_entry()).await.expect("an account").id;
        let theirs = store.create_account(&account(2), &audit_entry()).await.expect("another").id;
        let destination = |account, n| {
            let id = DestinationId::at(now, (n as u128) << 16);
            Destination::new(id, account, "Billing", "https://billing.example", now)
        };
        let most = limits::DESTINATIONS_PER_ACCOUNT;
        for n in 0..most {
            store.create_destination(&destination(ours, n), &audit_entry()).await.expect("there is room");
        }
        let full = store.create_destination(&destination(ours, most), &audit_entry()).await;
        assert!(matches!(full, Err(StoreError::Full { what: "destinations" })), "{full:?}");
        store
            .create_destination(&destination(theirs, most + 1), &audit_entry())
            .await
            .expect("theirs are their own");
        store.delete_destination(ours, destination(ours, 0).id, now, &audit_entry()).await.expect("deleted");
        store
            .create_destination(&destination(ours, most), &audit_entry())
            .await
            .expect("there is room again");
    }
}
