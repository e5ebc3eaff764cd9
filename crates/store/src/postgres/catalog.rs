//! Configuration. Every change is a transaction that takes the account's next version first: the account's row is
//! the lock under which its configuration changes, one change at a time. What belongs to an account is written the same
//! way whatever it is: see [`documents`].

mod accounts;
mod api_keys;
mod destination_records;
mod documents;

use super::{
    PostgresStore,
    rows::{Cells, Unreadable},
    statement::{Statement, params, sql},
};
use crate::{AccountChanges, Catalog, DestinationRecord, Listed, Page, StoreError};
pub(super) use accounts::{lock as lock_account, next_version, numbering};
pub(super) use api_keys::by_id as api_key_by_id;
use async_trait::async_trait;
pub(super) use destination_records::DESTINATION_RECORDS;
use documents::StoredDocument as _;
use domain::{
    account::{Account, ApiKey},
    audit::AuditEntry,
    destination::Destination,
    id::{AccountId, ApiKeyId, DestinationId, RouteId, SourceId},
    route::Route,
    source::Source,
    time::Timestamp,
};
use serde::Serialize;
use std::sync::LazyLock;

static INSERT_SETTING: LazyLock<Statement> = sql!(
    "insert_setting": "insert into settings (name, value) values (:name, :value) on conflict do nothing"
);
pub(super) static SETTING: LazyLock<Statement> =
    sql!("setting": "select value from settings where name = :name");

static HELD_DESTINATIONS: LazyLock<Statement> = sql!("held_destinations");

#[async_trait]
impl Catalog for PostgresStore {
    // --- The installation --------------------------------------------------------------------------------------

    async fn setting_or_insert(&self, name: &str, value: &[u8]) -> Result<Vec<u8>, StoreError> {
        let connection = self.pools.general().await?;
        // Two statements: the loser of a race sees the winner's value only in a new snapshot.
        connection.write(&INSERT_SETTING, params![name: name => TEXT, value: value => BYTEA]).await?;
        let found = connection.read(&SETTING, params![name: name => TEXT]).await?;
        found.first_value("value")?.ok_or(StoreError::NotFound { what: "setting" })
    }

    // --- Accounts ------------------------------------------------------------------------------------------------

    async fn create_account(&self, new: &Account, audit: &AuditEntry) -> Result<Account, StoreError> {
        accounts::create(&self.pools.general().await?, None, new, audit).await
    }

    async fn create_account_within(
        &self,
        most: usize,
        new: &Account,
        audit: &AuditEntry,
    ) -> Result<Account, StoreError> {
        accounts::create(&self.pools.general().await?, Some(most), new, audit).await
    }

    async fn account(&self, id: AccountId) -> Result<Account, StoreError> {
        accounts::get(&self.pools.general().await?, id).await
    }

    async fn account_by_uid(&self, uid: &str) -> Result<Option<Account>, StoreError> {
        accounts::by_uid(&self.pools.general().await?, uid).await
    }

    async fn accounts(&self, page: Page<AccountId>) -> Result<Vec<Account>, StoreError> {
        accounts::list(&self.pools.general().await?, page).await
    }

    async fn first_account(&self) -> Result<Option<Account>, StoreError> {
        accounts::first(&self.pools.general().await?).await
    }

    async fn update_account(&self, changed: &Account, audit: &AuditEntry) -> Result<Account, StoreError> {
        accounts::update(&self.pools.general().await?, changed, audit).await
    }

    async fn changes(&self, id: AccountId, since: i64) -> Result<AccountChanges, StoreError> {
        accounts::changes(&self.pools.general().await?, id, since).await
    }

    async fn versions(&self, accounts: &[AccountId]) -> Result<Vec<Option<i64>>, StoreError> {
        accounts::versions(&self.pools.nodes().await?, accounts).await
    }

    async fn changed_destinations(
        &self,
        account: AccountId,
        since: i64,
        after: Option<DestinationId>,
        limit: usize,
    ) -> Result<Vec<DestinationId>, StoreError> {
        accounts::changed_destinations(&self.pools.nodes().await?, account, since, after, limit).await
    }

    // --- API keys ------------------------------------------------------------------------------------------------

    async fn create_api_key(&self, key: &ApiKey, audit: &AuditEntry) -> Result<(), StoreError> {
        api_keys::create(&self.pools.general().await?, key, audit).await
    }

    async fn api_key_by_lookup(&self, lookup: &str) -> Result<Option<ApiKey>, StoreError> {
        api_keys::by_lookup(&self.pools.general().await?, lookup).await
    }

    async fn api_keys(
        &self,
        account: Option<AccountId>,
        page: Page<ApiKeyId>,
    ) -> Result<Vec<ApiKey>, StoreError> {
        api_keys::list(&self.pools.general().await?, account, page).await
    }

    async fn revoke_api_key(
        &self,
        account: Option<AccountId>,
        id: ApiKeyId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        api_keys::revoke(&self.pools.general().await?, account, id, now, audit).await
    }

    async fn touch_api_key(&self, id: ApiKeyId, now: Timestamp) -> Result<(), StoreError> {
        api_keys::touch(&self.pools.general().await?, id, now).await
    }

    // --- Sources -------------------------------------------------------------------------------------------------

    async fn create_source(&self, new: &Source, audit: &AuditEntry) -> Result<Source, StoreError> {
        documents::create(&self.pools.general().await?, new, audit).await
    }

    async fn source(&self, account: AccountId, id: SourceId) -> Result<Source, StoreError> {
        documents::get(&self.pools.general().await?, account, id).await
    }

    async fn source_by_uid(&self, account: AccountId, uid: &str) -> Result<Option<SourceId>, StoreError> {
        documents::by_uid::<Source>(&self.pools.general().await?, account, uid).await
    }

    async fn source_by_token(&self, token_hash: &[u8]) -> Result<Option<Source>, StoreError> {
        documents::source_by_token(&self.pools.general().await?, token_hash).await
    }

    async fn sources(
        &self,
        account: AccountId,
        page: Page<SourceId>,
    ) -> Result<Listed<Source, SourceId>, StoreError> {
        documents::list(&self.pools.general().await?, account, page).await
    }

    async fn update_source(&self, changed: &Source, audit: &AuditEntry) -> Result<Source, StoreError> {
        documents::update(&self.pools.general().await?, changed, audit).await
    }

    async fn delete_source(
        &self,
        account: AccountId,
        id: SourceId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        documents::delete::<Source>(&self.pools.general().await?, account, id, now, audit).await
    }

    // --- Destinations --------------------------------------------------------------------------------------------

    async fn create_destination(
        &self,
        new: &Destination,
        audit: &AuditEntry,
    ) -> Result<Destination, StoreError> {
        documents::create(&self.pools.general().await?, new, audit).await
    }

    async fn destination(&self, account: AccountId, id: DestinationId) -> Result<Destination, StoreError> {
        documents::get(&self.pools.general().await?, account, id).await
    }

    async fn destination_by_uid(
        &self,
        account: AccountId,
        uid: &str,
    ) -> Result<Option<DestinationId>, StoreError> {
        documents::by_uid::<Destination>(&self.pools.general().await?, account, uid).await
    }

    async fn destinations(
        &self,
        account: AccountId,
        page: Page<DestinationId>,
    ) -> Result<Listed<Destination, DestinationId>, StoreError> {
        documents::list(&self.pools.general().await?, account, page).await
    }

    async fn update_destination(
        &self,
        changed: &Destination,
        audit: &AuditEntry,
    ) -> Result<Destination, StoreError> {
        let updated = documents::update(&self.pools.general().await?, changed, audit).await?;
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
        documents::delete::<Destination>(&self.pools.general().await?, account, id, now, audit).await
    }

    async fn probe(
        &self,
        account: AccountId,
        id: DestinationId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<Destination, StoreError> {
        documents::probe(&self.pools.general().await?, account, id, now, audit).await
    }

    async fn held_destinations(
        &self,
        account: AccountId,
        limit: usize,
    ) -> Result<Vec<DestinationId>, StoreError> {
        let connection = self.pools.general().await?;
        let params = params![account_id: account.uuid() => UUID, limit: limit as i64 => INT8];
        let held = connection.read(&HELD_DESTINATIONS, params).await?;
        Ok(held.all(|cells| cells.get("id"))?)
    }

    async fn destination_records(
        &self,
        ids: &[DestinationId],
    ) -> Result<Vec<Option<DestinationRecord>>, StoreError> {
        destination_records::get(&self.pools.engine().await?, ids).await
    }

    // --- Routes --------------------------------------------------------------------------------------------------

    async fn create_route(&self, new: &Route, audit: &AuditEntry) -> Result<Route, StoreError> {
        documents::create(&self.pools.general().await?, new, audit).await
    }

    async fn route(&self, account: AccountId, id: RouteId) -> Result<Route, StoreError> {
        documents::get(&self.pools.general().await?, account, id).await
    }

    async fn route_by_uid(&self, account: AccountId, uid: &str) -> Result<Option<RouteId>, StoreError> {
        documents::by_uid::<Route>(&self.pools.general().await?, account, uid).await
    }

    async fn routes(
        &self,
        account: AccountId,
        page: Page<RouteId>,
    ) -> Result<Listed<Route, RouteId>, StoreError> {
        documents::list(&self.pools.general().await?, account, page).await
    }

    async fn update_route(&self, changed: &Route, audit: &AuditEntry) -> Result<Route, StoreError> {
        documents::update(&self.pools.general().await?, changed, audit).await
    }

    async fn delete_route(
        &self,
        account: AccountId,
        id: RouteId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        documents::delete::<Route>(&self.pools.general().await?, account, id, now, audit).await
    }
}

/// A route with its version.
pub(super) fn route(cells: &mut Cells<'_, '_>) -> Result<Route, Unreadable> {
    Route::read(cells)
}

fn document<T: Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Refused(error.into()))
}

fn micros(at: Option<Timestamp>) -> Option<i64> {
    at.map(Timestamp::micros)
}
