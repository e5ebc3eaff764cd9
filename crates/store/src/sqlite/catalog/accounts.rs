//! Accounts: the version of everything they own, and what has changed since one.

use super::{
    super::{
        row::{self, Key as _},
        trouble::{Trouble, unreadable},
    },
    table::{self, taken},
};
use crate::{AccountChanges, Page, StoreError};
use domain::{account::Account, destination::Ordering, id::AccountId, route::Route};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

pub(super) fn create(connection: &Connection, account: &Account) -> Result<Account, Trouble> {
    let account = Account { version: 1, ..account.clone() };
    let mut insert = connection
        .prepare_cached("insert into accounts (id, uid, version, created_at, doc) values (?, ?, ?, ?, ?)")?;
    insert
        .execute(params![
            account.id.blob(),
            account.uid,
            account.version,
            account.created_at.micros(),
            table::document(&account)?
        ])
        .map_err(taken)?;
    Ok(account)
}

pub(super) fn get(connection: &Connection, id: AccountId) -> Result<Account, Trouble> {
    let mut select = connection
        .prepare_cached("select version, doc from accounts where id = ?1 and deleted_at is null")?;
    let mut rows = select.query([id.blob()])?;
    rows.next()?.map(read).transpose()?.ok_or(StoreError::NotFound { what: "account" }.into())
}

pub(super) fn list(connection: &Connection, page: Page<AccountId>) -> Result<Vec<Account>, Trouble> {
    let mut select = connection.prepare_cached(
        "select version, doc from accounts where id < ?1 and deleted_at is null order by id desc limit ?2",
    )?;
    let before = page.before.unwrap_or(AccountId::MAX);
    table::collect(select.query(params![before.blob(), page.limit as i64])?, read)
}

pub(super) fn first(connection: &Connection) -> Result<Option<Account>, Trouble> {
    let mut select = connection
        .prepare_cached("select version, doc from accounts where deleted_at is null order by id limit 1")?;
    let mut rows = select.query([])?;
    rows.next()?.map(read).transpose()
}

pub(super) fn update(connection: &Connection, account: &Account) -> Result<Account, Trouble> {
    if version(connection, account.id)? != account.version {
        return Err(StoreError::Changed.into());
    }
    let account = Account { version: account.version + 1, ..account.clone() };
    let mut update =
        connection.prepare_cached("update accounts set uid = ?2, version = ?3, doc = ?4 where id = ?1")?;
    update
        .execute(params![account.id.blob(), account.uid, account.version, table::document(&account)?])
        .map_err(taken)?;
    Ok(account)
}

/// The account's version; NotFound if there is no such account.
pub(super) fn version(connection: &Connection, id: AccountId) -> Result<i64, Trouble> {
    let mut select =
        connection.prepare_cached("select version from accounts where id = ?1 and deleted_at is null")?;
    let found = select.query_row([id.blob()], |row| row.get(0)).optional()?;
    found.ok_or(StoreError::NotFound { what: "account" }.into())
}

/// The version of a change that is being made to the account's configuration.
pub(in super::super) fn next_version(connection: &Connection, id: AccountId) -> Result<i64, Trouble> {
    let mut bump = connection.prepare_cached(
        "update accounts set version = version + 1 where id = ?1 and deleted_at is null returning version",
    )?;
    let version = bump.query_row([id.blob()], |row| row.get(0)).optional()?;
    version.ok_or(StoreError::NotFound { what: "account" }.into())
}

pub(super) fn changes(
    connection: &Connection,
    account: AccountId,
    since: i64,
) -> Result<AccountChanges, Trouble> {
    let mut changes = AccountChanges { version: version(connection, account)?, ..AccountChanges::default() };
    let mut select = connection.prepare_cached(
        "select version, doc, deleted_at is not null, id from routes where account_id = ?1 and version > ?2 order by id",
    )?;
    let mut rows = select.query(params![account.blob(), since])?;
    while let Some(row) = rows.next()? {
        match row.get(2)? {
            true => changes.removed_routes.push(row::id(row, 3)?),
            false => changes.routes.push(<Route as table::Kept>::read(row)?),
        }
    }
    let mut select = connection.prepare_cached(include_str!("../sql/orderings.sql"))?;
    let mut rows = select.query(params![account.blob(), since])?;
    while let Some(row) = rows.next()? {
        let word = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
        changes.orderings.push((row::id(row, 0)?, Ordering::read(word)));
    }
    Ok(changes)
}

fn read(row: &Row<'_>) -> Result<Account, Trouble> {
    let doc = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
    let account: Account = serde_json::from_str(doc).map_err(|error| unreadable("account", error))?;
    Ok(Account { version: row.get(0)?, ..account })
}
