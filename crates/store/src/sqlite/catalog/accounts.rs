//! Accounts: the version of everything they own, and what has changed since one.

use super::{
    super::{
        audit_log,
        rows::Columns,
        statement::{bound, sql},
        trouble::Trouble,
    },
    documents::{document, route, taken},
};
use crate::{AccountChanges, Page, StoreError, damage, seals::sealing_of};
use domain::{
    account::{Account, AccountLimits},
    audit::AuditEntry,
    destination::Numbering,
    id::AccountId,
};
use rusqlite::Connection;
use std::ops::ControlFlow;

const NUMBERINGS: &str = sql!("numberings");
const CHANGED_ROUTES: &str = sql!("changed_routes");
pub(in super::super) const COUNT_ACCOUNTS: &str = "select count(*) from (select 1 from accounts indexed by accounts_uid \
                                           where deleted_at is null limit :limit)";

pub(super) fn create(
    connection: &Connection,
    account: &Account,
    audit: &AuditEntry,
) -> Result<Account, Trouble> {
    let account = Account { version: 1, ..account.clone() };
    bound!(
        "insert into accounts (id, uid, version, created_at, doc) values (:id, :uid, :version, :created_at, :doc)",
        id: account.id,
        uid: account.uid,
        version: account.version,
        created_at: account.created_at,
        doc: document(&account)?,
    )
    .execute(connection)
    .map_err(taken)?;
    audit_log::append(connection, Some(account.id), audit)?;
    Ok(account)
}

/// Counted by the index of live uids, without a look at the rows: there is no number beside them that could go wrong.
pub(super) fn create_within(
    connection: &Connection,
    most: usize,
    account: &Account,
    audit: &AuditEntry,
) -> Result<Account, Trouble> {
    let count =
        bound!(COUNT_ACCOUNTS, limit: most).one(connection, |columns| Ok(columns.count()? as usize))?;
    if count >= most {
        return Err(StoreError::Full { what: "accounts" }.into());
    }
    create(connection, account, audit)
}

pub(super) fn get(connection: &Connection, id: AccountId) -> Result<Account, Trouble> {
    bound!("select version, doc from accounts where id = :id and deleted_at is null", id: id)
        .first(connection, read)?
        .ok_or(StoreError::NotFound { what: "account" }.into())
}

pub(super) fn by_uid(connection: &Connection, uid: &str) -> Result<Option<Account>, Trouble> {
    bound!("select version, doc from accounts where uid = :uid and deleted_at is null", uid: uid)
        .first(connection, read)
}

pub(super) fn list(connection: &Connection, page: Page<AccountId>) -> Result<Vec<Account>, Trouble> {
    const LIST: &str = "select version, doc, id from accounts where id < :before and deleted_at is null \
                        order by id desc limit :limit";
    let before = page.before.unwrap_or(AccountId::MAX);
    damage::page("account", page.limit, |limit| {
        bound!(LIST, before: before, limit: limit).each_by_itself::<AccountId, _>(connection, "id", read)
    })
}

pub(super) fn first(connection: &Connection) -> Result<Option<Account>, Trouble> {
    bound!("select version, doc from accounts where deleted_at is null order by id limit 1")
        .first(connection, read)
}

pub(super) fn update(
    connection: &Connection,
    account: &Account,
    audit: &AuditEntry,
) -> Result<Account, Trouble> {
    if known_version(connection, account.id)? != account.version {
        return Err(StoreError::Changed.into());
    }
    let account = Account { version: account.version + 1, ..account.clone() };
    bound!(
        "update accounts set uid = :uid, version = :version, doc = :doc where id = :id",
        id: account.id,
        uid: account.uid,
        version: account.version,
        doc: document(&account)?,
    )
    .execute(connection)
    .map_err(taken)?;
    audit_log::append(connection, Some(account.id), audit)?;
    Ok(account)
}

/// The account's version; None if there is no such account.
pub(in super::super) fn version(connection: &Connection, id: AccountId) -> Result<Option<i64>, Trouble> {
    bound!("select version from accounts where id = :id and deleted_at is null", id: id)
        .first(connection, |columns| Ok(columns.get()?))
}

/// The account's version; NotFound if there is no such account.
pub(super) fn known_version(connection: &Connection, id: AccountId) -> Result<i64, Trouble> {
    version(connection, id)?.ok_or(StoreError::NotFound { what: "account" }.into())
}

/// What the account says of how much it may have.
pub(super) fn limits(connection: &Connection, id: AccountId) -> Result<AccountLimits, Trouble> {
    let found = bound!("select doc from accounts where id = :id and deleted_at is null", id: id)
        .first(connection, |columns| Ok(AccountLimits::of_document(columns.text()?)))?;
    found.ok_or(StoreError::NotFound { what: "account" }.into())
}

/// The version of a change that is being made to the account's configuration.
pub(in super::super) fn next_version(connection: &Connection, id: AccountId) -> Result<i64, Trouble> {
    bound!(
        "update accounts set version = version + 1 where id = :id and deleted_at is null returning version",
        id: id,
    )
    .first(connection, |columns| Ok(columns.get()?))?
    .ok_or(StoreError::NotFound { what: "account" }.into())
}

pub(super) fn changes(
    connection: &Connection,
    account: AccountId,
    since: i64,
) -> Result<AccountChanges, Trouble> {
    let mut changes =
        bound!("select version, doc from accounts where id = :id and deleted_at is null", id: account)
            .first(connection, |columns| {
                let (version, doc) = (columns.get()?, columns.text()?);
                let (limits, sealing) = (AccountLimits::of_document(doc), sealing_of(doc)?);
                Ok(AccountChanges { version, limits, sealing, ..AccountChanges::default() })
            })?
            .ok_or(StoreError::NotFound { what: "account" })?;
    bound!(CHANGED_ROUTES, account_id: account, since: since).each(connection, |columns| {
        let (removed, id): (bool, _) = (columns.get()?, columns.id()?);
        match removed {
            true => changes.removed_routes.push(id),
            false => changes.routes.push(route(columns)?),
        }
        Ok(ControlFlow::Continue(()))
    })?;
    changes.numberings = bound!(NUMBERINGS, account_id: account, since: since)
        .all(connection, |columns| Ok((columns.id()?, Numbering::read(columns.text()?))))?;
    Ok(changes)
}

fn read(columns: &mut Columns<'_>) -> Result<Account, Trouble> {
    let version = columns.get()?;
    Ok(Account { version, ..columns.document("account")? })
}
