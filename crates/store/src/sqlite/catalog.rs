//! Configuration. What belongs to an account is written the same way whatever it is: see [`documents`].

mod accounts;
mod api_keys;
mod destination_records;
mod documents;

pub(super) use accounts::{next_version, version};
pub(super) use api_keys::by_id as api_key_by_id;
pub(super) use destination_records::get as destination_record;
pub(super) use documents::route;

use super::{
    SqliteStore, Trouble, audit_log,
    statement::{bound, sql},
    writer::Priority,
};
use crate::{AccountChanges, Catalog, DestinationRecord, Listed, Page, StoreError};
use async_trait::async_trait;
use domain::{
    account::{Account, ApiKey},
    audit::AuditEntry,
    destination::{Destination, Numbering},
    id::{AccountId, ApiKeyId, DestinationId, RouteId, SourceId},
    route::Route,
    source::Source,
    time::Timestamp,
};
use rusqlite::Connection;
use std::collections::BTreeSet;

pub(super) const CHANGED_DESTINATIONS: &str = sql!("changed_destinations");
const HELD_DESTINATIONS: &str = sql!("held_destinations");
const NUMBERINGS_OF: &str = sql!("numberings_of");

#[async_trait]
impl Catalog for SqliteStore {
    async fn setting_or_insert(&self, name: &str, value: &[u8]) -> Result<Vec<u8>, StoreError> {
        let (name, value) = (name.to_owned(), value.to_owned());
        self.write(Priority::Api, move |connection| {
            bound!(
                "insert into settings (name, value) values (:name, :value) on conflict do nothing",
                name: name,
                value: value,
            )
            .execute(connection)?;
            bound!("select value from settings where name = :name", name: name)
                .one(connection, |columns| Ok(columns.get()?))
        })
        .await
    }

    // --- Accounts ------------------------------------------------------------------------------------------------

    async fn create_account(&self, account: &Account, audit: &AuditEntry) -> Result<Account, StoreError> {
        let (account, audit) = (account.clone(), audit.clone());
        self.write(Priority::Api, move |connection| accounts::create(connection, &account, &audit)).await
    }

    async fn create_account_within(
        &self,
        most: usize,
        account: &Account,
        audit: &AuditEntry,
    ) -> Result<Account, StoreError> {
        let (account, audit) = (account.clone(), audit.clone());
        self.write(Priority::Api, move |connection| {
            accounts::create_within(connection, most, &account, &audit)
        })
        .await
    }

    async fn account(&self, id: AccountId) -> Result<Account, StoreError> {
        self.read(move |connection| accounts::get(connection, id)).await
    }

    async fn account_by_uid(&self, uid: &str) -> Result<Option<Account>, StoreError> {
        let uid = uid.to_owned();
        self.read(move |connection| accounts::by_uid(connection, &uid)).await
    }

    async fn accounts(&self, page: Page<AccountId>) -> Result<Vec<Account>, StoreError> {
        self.read(move |connection| accounts::list(connection, page)).await
    }

    async fn first_account(&self) -> Result<Option<Account>, StoreError> {
        self.read(accounts::first).await
    }

    async fn update_account(&self, account: &Account, audit: &AuditEntry) -> Result<Account, StoreError> {
        let (account, audit) = (account.clone(), audit.clone());
        self.write(Priority::Api, move |connection| accounts::update(connection, &account, &audit)).await
    }

    async fn changes(&self, account: AccountId, since: i64) -> Result<AccountChanges, StoreError> {
        self.read(move |connection| accounts::changes(connection, account, since)).await
    }

    async fn versions(&self, accounts: &[AccountId]) -> Result<Vec<Option<i64>>, StoreError> {
        let accounts = accounts.to_owned();
        self.read_for_engine(move |connection| {
            accounts.iter().map(|id| accounts::version(connection, *id)).collect()
        })
        .await
    }

    async fn changed_destinations(
        &self,
        account: AccountId,
        since: i64,
        after: Option<DestinationId>,
        limit: usize,
    ) -> Result<Vec<DestinationId>, StoreError> {
        self.read_for_engine(move |connection| {
            bound!(
                CHANGED_DESTINATIONS,
                account_id: account,
                since: since,
                after: after.unwrap_or(DestinationId::MIN),
                limit: limit,
            )
            .all(connection, |columns| Ok(columns.id()?))
        })
        .await
    }

    // --- API keys ------------------------------------------------------------------------------------------------

    async fn create_api_key(&self, key: &ApiKey, audit: &AuditEntry) -> Result<(), StoreError> {
        let (key, audit) = (key.clone(), audit.clone());
        self.write(Priority::Api, move |connection| api_keys::create(connection, &key, &audit)).await
    }

    async fn api_key_by_lookup(&self, lookup: &str) -> Result<Option<ApiKey>, StoreError> {
        let lookup = lookup.to_owned();
        self.read(move |connection| api_keys::by_lookup(connection, &lookup)).await
    }

    async fn api_keys(
        &self,
        account: Option<AccountId>,
        page: Page<ApiKeyId>,
    ) -> Result<Vec<ApiKey>, StoreError> {
        self.read(move |connection| api_keys::list(connection, account, page)).await
    }

    async fn revoke_api_key(
        &self,
        account: Option<AccountId>,
        id: ApiKeyId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let audit = audit.clone();
        self.write(Priority::Api, move |connection| api_keys::revoke(connection, account, id, now, &audit))
            .await
    }

    async fn touch_api_key(&self, id: ApiKeyId, now: Timestamp) -> Result<(), StoreError> {
        self.write(Priority::Api, move |connection| {
            bound!("update api_keys set last_used_at = :now where id = :id", id: id, now: now)
                .execute(connection)?;
            Ok(())
        })
        .await
    }

    // --- Sources -------------------------------------------------------------------------------------------------

    async fn create_source(&self, source: &Source, audit: &AuditEntry) -> Result<Source, StoreError> {
        let (source, audit) = (source.clone(), audit.clone());
        self.write(Priority::Api, move |connection| documents::create(connection, &source, &audit)).await
    }

    async fn source(&self, account: AccountId, id: SourceId) -> Result<Source, StoreError> {
        self.read(move |connection| documents::get(connection, account, id)).await
    }

    async fn source_by_uid(&self, account: AccountId, uid: &str) -> Result<Option<SourceId>, StoreError> {
        let uid = uid.to_owned();
        self.read(move |connection| documents::by_uid::<Source>(connection, account, &uid)).await
    }

    async fn source_by_token(&self, token_hash: &[u8]) -> Result<Option<Source>, StoreError> {
        let token_hash = token_hash.to_owned();
        self.read(move |connection| documents::source_by_token(connection, &token_hash)).await
    }

    async fn sources(
        &self,
        account: AccountId,
        page: Page<SourceId>,
    ) -> Result<Listed<Source, SourceId>, StoreError> {
        self.read(move |connection| documents::list(connection, account, page)).await
    }

    async fn update_source(&self, source: &Source, audit: &AuditEntry) -> Result<Source, StoreError> {
        let (source, audit) = (source.clone(), audit.clone());
        self.write(Priority::Api, move |connection| documents::update(connection, &source, &audit)).await
    }

    async fn delete_source(
        &self,
        account: AccountId,
        id: SourceId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let audit = audit.clone();
        self.write(Priority::Api, move |connection| {
            documents::delete::<Source>(connection, account, id, now, &audit)
        })
        .await
    }

    // --- Destinations --------------------------------------------------------------------------------------------

    async fn create_destination(
        &self,
        destination: &Destination,
        audit: &AuditEntry,
    ) -> Result<Destination, StoreError> {
        let (destination, audit) = (destination.clone(), audit.clone());
        self.write(Priority::Api, move |connection| documents::create(connection, &destination, &audit)).await
    }

    async fn destination(&self, account: AccountId, id: DestinationId) -> Result<Destination, StoreError> {
        self.read(move |connection| documents::get(connection, account, id)).await
    }

    async fn destination_by_uid(
        &self,
        account: AccountId,
        uid: &str,
    ) -> Result<Option<DestinationId>, StoreError> {
        let uid = uid.to_owned();
        self.read(move |connection| documents::by_uid::<Destination>(connection, account, &uid)).await
    }

    async fn destinations(
        &self,
        account: AccountId,
        page: Page<DestinationId>,
    ) -> Result<Listed<Destination, DestinationId>, StoreError> {
        self.read(move |connection| documents::list(connection, account, page)).await
    }

    async fn update_destination(
        &self,
        destination: &Destination,
        audit: &AuditEntry,
    ) -> Result<Destination, StoreError> {
        let (destination, audit) = (destination.clone(), audit.clone());
        let updated =
            self.write(Priority::Api, move |connection| documents::update(connection, &destination, &audit));
        let updated = updated.await?;
        self.note_signal.notify();
        Ok(updated)
    }

    async fn delete_destination(
        &self,
        account: AccountId,
        id: DestinationId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let audit = audit.clone();
        self.write(Priority::Api, move |connection| {
            documents::delete::<Destination>(connection, account, id, now, &audit)
        })
        .await
    }

    async fn probe(
        &self,
        account: AccountId,
        id: DestinationId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<Destination, StoreError> {
        let audit = audit.clone();
        self.write(Priority::Api, move |connection| {
            documents::version::<Destination>(connection, account, id)?;
            let version = accounts::next_version(connection, account)?;
            bound!(
                "update destinations set probed_at = :now, version = :version where id = :id",
                id: id,
                now: now,
                version: version,
            )
            .execute(connection)?;
            audit_log::append(connection, Some(account), &audit)?;
            documents::get(connection, account, id)
        })
        .await
    }

    async fn held_destinations(
        &self,
        account: AccountId,
        limit: usize,
    ) -> Result<Vec<DestinationId>, StoreError> {
        self.read(move |connection| {
            bound!(HELD_DESTINATIONS, account_id: account, limit: limit)
                .all(connection, |columns| Ok(columns.id()?))
        })
        .await
    }

    async fn destination_records(
        &self,
        ids: &[DestinationId],
    ) -> Result<Vec<Option<DestinationRecord>>, StoreError> {
        let ids = ids.to_owned();
        self.read_for_engine(move |connection| {
            ids.iter().map(|id| destination_records::get(connection, *id)).collect()
        })
        .await
    }

    // --- Routes --------------------------------------------------------------------------------------------------

    async fn create_route(&self, route: &Route, audit: &AuditEntry) -> Result<Route, StoreError> {
        let (route, audit) = (route.clone(), audit.clone());
        self.write(Priority::Api, move |connection| documents::create(connection, &route, &audit)).await
    }

    async fn route(&self, account: AccountId, id: RouteId) -> Result<Route, StoreError> {
        self.read(move |connection| documents::get(connection, account, id)).await
    }

    async fn route_by_uid(&self, account: AccountId, uid: &str) -> Result<Option<RouteId>, StoreError> {
        let uid = uid.to_owned();
        self.read(move |connection| documents::by_uid::<Route>(connection, account, &uid)).await
    }

    async fn routes(
        &self,
        account: AccountId,
        page: Page<RouteId>,
    ) -> Result<Listed<Route, RouteId>, StoreError> {
        self.read(move |connection| documents::list(connection, account, page)).await
    }

    async fn update_route(&self, route: &Route, audit: &AuditEntry) -> Result<Route, StoreError> {
        let (route, audit) = (route.clone(), audit.clone());
        self.write(Priority::Api, move |connection| documents::update(connection, &route, &audit)).await
    }

    async fn delete_route(
        &self,
        account: AccountId,
        id: RouteId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let audit = audit.clone();
        self.write(Priority::Api, move |connection| {
            documents::delete::<Route>(connection, account, id, now, &audit)
        })
        .await
    }
}

/// The destinations that number, among those that these routes lead to.
pub(super) fn numberings_of(
    connection: &Connection,
    routes: &[Route],
) -> Result<Vec<(DestinationId, Numbering)>, Trouble> {
    let destinations: BTreeSet<DestinationId> = routes.iter().map(|route| route.destination_id).collect();
    let mut numberings = Vec::new();
    for id in destinations {
        let numbering = numbering_of(connection, id)?.map(|(numbering, _)| numbering);
        numberings.extend(numbering.filter(|numbering| *numbering != Numbering::None).map(|it| (id, it)));
    }
    Ok(numberings)
}

/// And whether the destination is deleted. None if there never was one.
pub(super) fn numbering_of(
    connection: &Connection,
    id: DestinationId,
) -> Result<Option<(Numbering, bool)>, Trouble> {
    bound!(NUMBERINGS_OF, id: id)
        .first(connection, |columns| Ok((Numbering::read(columns.text()?), columns.get()?)))
}
