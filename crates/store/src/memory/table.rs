//! What sources, destinations and routes have in common: an owner, a uid, a version, and an afterlife.

use super::{State, newest_first};
use crate::{Page, StoreError};
use domain::{
    destination::Destination,
    id::{AccountId, DestinationId, RouteId, SourceId},
    route::Route,
    source::Source,
    time::Timestamp,
};
use std::collections::BTreeMap;

/// Configuration that belongs to an account.
pub(super) trait Row: Clone + Sized {
    type Id: Ord + Copy;
    const WHAT: &'static str;

    fn id(&self) -> Self::Id;
    fn account_id(&self) -> AccountId;
    fn uid(&self) -> Option<&str>;
    fn version_mut(&mut self) -> &mut i64;
    fn table(state: &State) -> &Table<Self>;
    fn table_mut(state: &mut State) -> &mut Table<Self>;
}

/// Rows by id. Removed ones stay: a snapshot must learn that they are gone, and what waits may still need them.
pub(super) struct Table<R: Row>(pub(super) BTreeMap<R::Id, Kept<R>>);

pub(super) struct Kept<R> {
    pub(super) row: R,
    pub(super) version: i64,
    pub(super) deleted_at: Option<Timestamp>,
}

impl<R: Row> Default for Table<R> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<R> Kept<R> {
    pub(super) fn live(&self) -> Option<&R> {
        self.deleted_at.is_none().then_some(&self.row)
    }
}

impl<R: Row> Table<R> {
    /// The account's own, and live: everything else is not there.
    pub(super) fn get(&self, account: AccountId, id: R::Id) -> Result<&R, StoreError> {
        let found = self.0.get(&id).and_then(Kept::live).filter(|row| row.account_id() == account);
        found.ok_or(StoreError::NotFound { what: R::WHAT })
    }

    pub(super) fn list(&self, account: AccountId, page: Page<R::Id>) -> Vec<R> {
        let rows = newest_first(&self.0, page.before).filter_map(|(_, kept)| kept.live());
        rows.filter(|row| row.account_id() == account).take(page.limit).cloned().collect()
    }

    /// Live rows of all accounts, oldest first.
    pub(super) fn live(&self) -> impl Iterator<Item = &R> {
        self.0.values().filter_map(Kept::live)
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

    fn put(&mut self, row: &R, version: i64) -> R {
        let mut row = row.clone();
        *row.version_mut() = version;
        self.0.insert(row.id(), Kept { row: row.clone(), version, deleted_at: None });
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

impl State {
    pub(super) fn create<R: Row>(&mut self, row: &R) -> Result<R, StoreError> {
        self.account(row.account_id())?;
        R::table(self).uid_is_free(row)?;
        let version = self.next_version(row.account_id())?;
        Ok(R::table_mut(self).put(row, version))
    }

    /// Writes only over the version it was read with.
    pub(super) fn update<R: Row>(&mut self, row: &R) -> Result<R, StoreError> {
        R::table(self).get(row.account_id(), row.id())?;
        let mut given = row.clone();
        if R::table(self).0[&row.id()].version != *given.version_mut() {
            return Err(StoreError::Changed);
        }
        R::table(self).uid_is_free(row)?;
        let version = self.next_version(row.account_id())?;
        Ok(R::table_mut(self).put(row, version))
    }
}

macro_rules! rows {
    ($($row:ident, $id:ident, $what:literal, $table:ident;)*) => {$(
        impl Row for $row {
            type Id = $id;
            const WHAT: &'static str = $what;

            fn id(&self) -> $id { self.id }
            fn account_id(&self) -> AccountId { self.account_id }
            fn uid(&self) -> Option<&str> { self.uid.as_deref() }
            fn version_mut(&mut self) -> &mut i64 { &mut self.version }
            fn table(state: &State) -> &Table<Self> { &state.$table }
            fn table_mut(state: &mut State) -> &mut Table<Self> { &mut state.$table }
        }
    )*};
}

rows! {
    Source, SourceId, "source", sources;
    Destination, DestinationId, "destination", destinations;
    Route, RouteId, "route", routes;
}
