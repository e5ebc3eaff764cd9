//! Configuration. What belongs to an account is written the same way whatever it is: see [`table`].

mod accounts;
mod keys;
pub(super) mod table;
mod targets;

pub(super) use accounts::next_version;
pub(super) use targets::get as target;

use super::{
    SqliteStore,
    row::{self, Key as _},
    writer::Turn,
};
use crate::{AccountChanges, Catalog, Page, StoreError, Target};
use async_trait::async_trait;
use domain::{
    account::{Account, ApiKey},
    destination::{Destination, Ordering},
    id::{AccountId, ApiKeyId, DestinationId, RouteId, SourceId},
    route::Route,
    source::Source,
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension as _, params};
use std::collections::BTreeSet;

pub(super) const CHANGED_DESTINATIONS: &str = include_str!("sql/changed_destinations.sql");

#[async_trait]
impl Catalog for SqliteStore {
    async fn setting_or_insert(&self, name: &str, value: &[u8]) -> Result<Vec<u8>, StoreError> {
        let (name, value) = (name.to_owned(), value.to_owned());
        self.write(Turn::Api, move |connection| {
            let mut insert = connection
                .prepare_cached("insert into settings (name, value) values (?, ?) on conflict do nothing")?;
            insert.execute(params![name, value])?;
            let mut read = connection.prepare_cached("select value from settings where name = ?")?;
            Ok(read.query_row([&name], |row| row.get(0))?)
        })
        .await
    }

    // --- Accounts ------------------------------------------------------------------------------------------------

    async fn create_account(&self, account: &Account) -> Result<Account, StoreError> {
        let account = account.clone();
        self.write(Turn::Api, move |connection| accounts::create(connection, &account)).await
    }

    async fn account(&self, id: AccountId) -> Result<Account, StoreError> {
        self.read(move |connection| accounts::get(connection, id)).await
    }

    async fn accounts(&self, page: Page<AccountId>) -> Result<Vec<Account>, StoreError> {
        self.read(move |connection| accounts::list(connection, page)).await
    }

    async fn first_account(&self) -> Result<Option<Account>, StoreError> {
        self.read(accounts::first).await
    }

    async fn update_account(&self, account: &Account) -> Result<Account, StoreError> {
        let account = account.clone();
        self.write(Turn::Api, move |connection| accounts::update(connection, &account)).await
    }

    async fn changes(&self, account: AccountId, since: i64) -> Result<AccountChanges, StoreError> {
        self.read(move |connection| accounts::changes(connection, account, since)).await
    }

    async fn versions(&self, accounts: &[AccountId]) -> Result<Vec<Option<i64>>, StoreError> {
        let accounts = accounts.to_owned();
        self.read_for_engine(move |connection| {
            let mut select = connection
                .prepare_cached("select version from accounts where id = ?1 and deleted_at is null")?;
            let mut version =
                |id: &AccountId| Ok(select.query_row([id.blob()], |row| row.get(0)).optional()?);
            accounts.iter().map(&mut version).collect()
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
            let mut select = connection.prepare_cached(CHANGED_DESTINATIONS)?;
            let after = after.unwrap_or(DestinationId::MIN).blob();
            let found = select
                .query_map(params![account.blob(), since, after, limit as i64], |row| row::id(row, 0))?;
            Ok(found.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    // --- API keys ------------------------------------------------------------------------------------------------

    async fn create_api_key(&self, key: &ApiKey) -> Result<(), StoreError> {
        let key = key.clone();
        self.write(Turn::Api, move |connection| keys::create(connection, &key)).await
    }

    async fn api_key_by_lookup(&self, lookup: &str) -> Result<Option<ApiKey>, StoreError> {
        let lookup = lookup.to_owned();
        self.read(move |connection| keys::by_lookup(connection, &lookup)).await
    }

    async fn api_keys(
        &self,
        account: Option<AccountId>,
        page: Page<ApiKeyId>,
    ) -> Result<Vec<ApiKey>, StoreError> {
        self.read(move |connection| keys::list(connection, account, page)).await
    }

    async fn revoke_api_key(
        &self,
        account: Option<AccountId>,
        id: ApiKeyId,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.write(Turn::Api, move |connection| keys::revoke(connection, account, id, now)).await
    }

    async fn touch_api_key(&self, id: ApiKeyId, now: Timestamp) -> Result<(), StoreError> {
        self.write(Turn::Api, move |connection| {
            let mut touch =
                connection.prepare_cached("update api_keys set last_used_at = ?2 where id = ?1")?;
            touch.execute(params![id.blob(), now.micros()])?;
            Ok(())
        })
        .await
    }

    // --- Sources -------------------------------------------------------------------------------------------------

    async fn create_source(&self, source: &Source) -> Result<Source, StoreError> {
        let source = source.clone();
        self.write(Turn::Api, move |connection| table::create(connection, &source)).await
    }

    async fn source(&self, account: AccountId, id: SourceId) -> Result<Source, StoreError> {
        self.read(move |connection| table::get(connection, account, id)).await
    }

    async fn source_by_token(&self, token_hash: &[u8]) -> Result<Option<Source>, StoreError> {
        let token_hash = token_hash.to_owned();
        self.read(move |connection| table::source_by_token(connection, &token_hash)).await
    }

    async fn sources(&self, account: AccountId, page: Page<SourceId>) -> Result<Vec<Source>, StoreError> {
        self.read(move |connection| table::list(connection, account, page)).await
    }

    async fn update_source(&self, source: &Source) -> Result<Source, StoreError> {
        let source = source.clone();
        self.write(Turn::Api, move |connection| table::update(connection, &source)).await
    }

    async fn delete_source(
        &self,
        account: AccountId,
        id: SourceId,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.write(Turn::Api, move |connection| {
            let version = table::delete::<Source>(connection, account, id, now)?;
            let mut routes = connection.prepare_cached(
                "update routes set deleted_at = ?1, version = ?2 where source_id = ?3 and deleted_at is null",
            )?;
            routes.execute(params![now.micros(), version, id.blob()])?;
            Ok(())
        })
        .await
    }

    // --- Destinations --------------------------------------------------------------------------------------------

    async fn create_destination(&self, destination: &Destination) -> Result<Destination, StoreError> {
        let destination = destination.clone();
        self.write(Turn::Api, move |connection| table::create(connection, &destination)).await
    }

    async fn destination(&self, account: AccountId, id: DestinationId) -> Result<Destination, StoreError> {
        self.read(move |connection| table::get(connection, account, id)).await
    }

    async fn destinations(
        &self,
        account: AccountId,
        page: Page<DestinationId>,
    ) -> Result<Vec<Destination>, StoreError> {
        self.read(move |connection| table::list(connection, account, page)).await
    }

    async fn update_destination(&self, destination: &Destination) -> Result<Destination, StoreError> {
        let destination = destination.clone();
        self.write(Turn::Api, move |connection| table::update(connection, &destination)).await
    }

    async fn delete_destination(
        &self,
        account: AccountId,
        id: DestinationId,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.write(Turn::Api, move |connection| {
            let version = table::delete::<Destination>(connection, account, id, now)?;
            let mut routes = connection.prepare_cached(
                "update routes set deleted_at = ?1, version = ?2 where destination_id = ?3 and deleted_at is null",
            )?;
            routes.execute(params![now.micros(), version, id.blob()])?;
            Ok(())
        })
        .await
    }

    async fn probe(
        &self,
        account: AccountId,
        id: DestinationId,
        now: Timestamp,
    ) -> Result<Destination, StoreError> {
        self.write(Turn::Api, move |connection| {
            table::version::<Destination>(connection, account, id)?;
            let version = accounts::next_version(connection, account)?;
            let mut probe = connection
                .prepare_cached("update destinations set probed_at = ?2, version = ?3 where id = ?1")?;
            probe.execute(params![id.blob(), now.micros(), version])?;
            table::get(connection, account, id)
        })
        .await
    }

    async fn targets(&self, ids: &[DestinationId]) -> Result<Vec<Option<Target>>, StoreError> {
        let ids = ids.to_owned();
        self.read_for_engine(move |connection| ids.iter().map(|id| targets::get(connection, *id)).collect())
            .await
    }

    // --- Routes --------------------------------------------------------------------------------------------------

    async fn create_route(&self, route: &Route) -> Result<Route, StoreError> {
        let route = route.clone();
        self.write(Turn::Api, move |connection| {
            accounts::version(connection, route.account_id)?;
            has_ends(connection, &route)?;
            table::create(connection, &route)
        })
        .await
    }

    async fn route(&self, account: AccountId, id: RouteId) -> Result<Route, StoreError> {
        self.read(move |connection| table::get(connection, account, id)).await
    }

    async fn routes(&self, account: AccountId, page: Page<RouteId>) -> Result<Vec<Route>, StoreError> {
        self.read(move |connection| table::list(connection, account, page)).await
    }

    async fn update_route(&self, route: &Route) -> Result<Route, StoreError> {
        let route = route.clone();
        self.write(Turn::Api, move |connection| {
            table::version::<Route>(connection, route.account_id, route.id)?;
            has_ends(connection, &route)?;
            table::update(connection, &route)
        })
        .await
    }

    async fn delete_route(&self, account: AccountId, id: RouteId, now: Timestamp) -> Result<(), StoreError> {
        self.write(Turn::Api, move |connection| {
            table::delete::<Route>(connection, account, id, now).map(|_version| ())
        })
        .await
    }
}

/// A route leads from a source of its account, or from none, to a destination of its account.
fn has_ends(connection: &Connection, route: &Route) -> Result<(), super::Trouble> {
    table::version::<Destination>(connection, route.account_id, route.destination_id)?;
    route.source_id.map(|id| table::version::<Source>(connection, route.account_id, id)).transpose()?;
    Ok(())
}

/// The ordered destinations among those that these routes lead to.
pub(super) fn orderings_of(
    connection: &Connection,
    routes: &[Route],
) -> Result<Vec<(DestinationId, Ordering)>, super::Trouble> {
    let destinations: BTreeSet<DestinationId> = routes.iter().map(|route| route.destination_id).collect();
    let mut select = connection.prepare_cached(
        "select case
                    when instr(doc, '\"ordering\":\"strict\"') > 0 then 'strict'
                    when instr(doc, '\"ordering\":\"key\"') > 0 then 'key'
                end
         from destinations where id = ?1",
    )?;
    let mut orderings = Vec::new();
    for id in destinations {
        let word: Option<Option<String>> = select.query_row([id.blob()], |row| row.get(0)).optional()?;
        orderings.extend(word.flatten().map(|word| (id, Ordering::read(&word))));
    }
    Ok(orderings)
}

/// Routes whose version and document were selected.
pub(super) fn routes(rows: rusqlite::Rows<'_>) -> Result<Vec<Route>, super::Trouble> {
    table::collect(rows, table::Kept::read)
}
