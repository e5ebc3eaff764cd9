//! Accounts, and the versions under which everything of an account changes.

use super::{
    super::{
        audit_log,
        pool::{Connection, Transaction},
        rows::{Cells, Doc, Unreadable},
        statement::{Statement, params, sql},
    },
    document, route,
};
use crate::{AccountChanges, Page, StoreError, damage, seals::sealing_of};
use domain::{
    account::{Account, AccountLimits},
    audit::AuditEntry,
    destination::Numbering,
    id::{AccountId, DestinationId},
    limits,
};
use std::sync::LazyLock;
use uuid::Uuid;

static INSERT_ACCOUNT: LazyLock<Statement> = sql!("insert_account");
// The number is "pacc": whoever counts the accounts waits for the others who do, and for nobody else.
static LOCK_ACCOUNTS: LazyLock<Statement> = sql!(
    "lock_accounts": "select pg_advisory_xact_lock(1885430627, hashtext(coalesce(current_schema(), '')))"
);
static COUNT_ACCOUNTS: LazyLock<Statement> = sql!(
    "count_accounts": "select count(*) as count \
    from (select 1 from accounts where deleted_at is null limit :limit) counted"
);
static ACCOUNT_DOCUMENT: LazyLock<Statement> =
    sql!("account_document": "select doc from accounts where id = :id and deleted_at is null");
static ACCOUNT: LazyLock<Statement> =
    sql!("account": "select doc, version from accounts where id = :id and deleted_at is null");
static ACCOUNT_BY_UID: LazyLock<Statement> =
    sql!("account_by_uid": "select doc, version from accounts where uid = :uid and deleted_at is null");
static ACCOUNTS: LazyLock<Statement> = sql!("accounts");
static FIRST_ACCOUNT: LazyLock<Statement> =
    sql!("first_account": "select doc, version from accounts where deleted_at is null order by id limit 1");
static UPDATE_ACCOUNT: LazyLock<Statement> =
    sql!("update_account": "update accounts set uid = :uid, doc = :doc where id = :id");
static NEXT_VERSION: LazyLock<Statement> = sql!(
    "next_version": "update accounts set version = version + 1 where id = :account_id and deleted_at is null returning version"
);
static LOCK_ACCOUNT: LazyLock<Statement> = sql!(
    "lock_account": "select from accounts where id = :account_id and deleted_at is null for share"
);
static CHANGES: LazyLock<Statement> = sql!("changes");
static NUMBERINGS: LazyLock<Statement> = sql!("numberings");
static VERSIONS: LazyLock<Statement> = sql!("versions");
static CHANGED_DESTINATIONS: LazyLock<Statement> = sql!("changed_destinations");

/// With `most`, only if there are fewer then.
pub(super) async fn create(
    connection: &Connection,
    most: Option<usize>,
    new: &Account,
    audit: &AuditEntry,
) -> Result<Account, StoreError> {
    let doc = document(new)?;
    let transaction = connection.begin().await?;
    let created = async {
        if let Some(most) = most {
            transaction.run(&LOCK_ACCOUNTS, params![]).await?;
            let limit = params![limit: most as i64 => INT8];
            let count: usize = transaction.run(&COUNT_ACCOUNTS, limit).await?.value("count")?;
            if count >= most {
                return Err(StoreError::Full { what: "accounts" });
            }
        }
        let params = params![
            id: new.id.uuid() => UUID, uid: new.uid => TEXT, created_at: new.created_at.micros() => INT8,
            doc: doc => TEXT,
        ];
        transaction.run(&INSERT_ACCOUNT, params).await?;
        audit_log::append(&transaction, Some(new.id), audit).await?;
        Ok(Account { version: 1, ..new.clone() })
    };
    let created = created.await;
    transaction.end(created).await
}

pub(super) async fn get(connection: &Connection, id: AccountId) -> Result<Account, StoreError> {
    let found = connection.read(&ACCOUNT, params![id: id.uuid() => UUID]).await?.first(account)?;
    found.ok_or(StoreError::NotFound { what: "account" })
}

pub(super) async fn by_uid(connection: &Connection, uid: &str) -> Result<Option<Account>, StoreError> {
    Ok(connection.read(&ACCOUNT_BY_UID, params![uid: uid => TEXT]).await?.first(account)?)
}

pub(super) async fn list(connection: &Connection, page: Page<AccountId>) -> Result<Vec<Account>, StoreError> {
    let before = page.before.unwrap_or(AccountId::MAX).uuid();
    let mut limit = page.limit;
    loop {
        let params = params![before_id: before => UUID, limit: limit as i64 => INT8];
        let found =
            connection.read(&ACCOUNTS, params).await?.each_by_itself::<AccountId, _>("id", account)?;
        if limit > page.limit || !damage::is_cut_short(&found, limit) {
            return Ok(damage::sound("account", found, page.limit));
        }
        limit += limits::DAMAGED_PASSED_OVER;
    }
}

pub(super) async fn first(connection: &Connection) -> Result<Option<Account>, StoreError> {
    Ok(connection.read(&FIRST_ACCOUNT, params![]).await?.first(account)?)
}

pub(super) async fn update(
    connection: &Connection,
    changed: &Account,
    audit: &AuditEntry,
) -> Result<Account, StoreError> {
    let transaction = connection.begin().await?;
    let updated = async {
        let version = next_version(&transaction, changed.id, "account").await?;
        if version != changed.version + 1 {
            return Err(StoreError::Changed);
        }
        let params =
            params![id: changed.id.uuid() => UUID, uid: changed.uid => TEXT, doc: document(changed)? => TEXT];
        transaction.run(&UPDATE_ACCOUNT, params).await?;
        audit_log::append(&transaction, Some(changed.id), audit).await?;
        Ok(Account { version, ..changed.clone() })
    };
    let updated = updated.await;
    transaction.end(updated).await
}

/// The version of the change that is being made. Holds the account's row until the transaction ends.
pub(in super::super) async fn next_version(
    transaction: &Transaction<'_>,
    account: AccountId,
    what: &'static str,
) -> Result<i64, StoreError> {
    let rows = transaction.run(&NEXT_VERSION, params![account_id: account.uuid() => UUID]).await?;
    rows.first_value("version")?.ok_or(StoreError::NotFound { what })
}

/// That it is there, and is not deleted before the transaction ends: for what is written without a version.
pub(in super::super) async fn lock(
    transaction: &Transaction<'_>,
    account: AccountId,
) -> Result<(), StoreError> {
    let found = transaction.run(&LOCK_ACCOUNT, params![account_id: account.uuid() => UUID]).await?;
    if found.is_empty() { Err(StoreError::NotFound { what: "account" }) } else { Ok(()) }
}

pub(super) async fn changes(
    connection: &Connection,
    id: AccountId,
    since: i64,
) -> Result<AccountChanges, StoreError> {
    let params = params![account_id: id.uuid() => UUID, since_version: since => INT8];
    let rows = connection.read(&CHANGES, params.clone()).await?;
    let version = rows.first_value("account_version")?.ok_or(StoreError::NotFound { what: "account" })?;
    let mut changes = AccountChanges { version, ..AccountChanges::default() };
    // Where nothing has changed there is one row, without a route.
    rows.joined("id", |cells| {
        match cells.get("deleted")? {
            true => changes.removed_routes.push(cells.get("id")?),
            false => changes.routes.push(route(cells)?),
        }
        Ok(())
    })?;
    // Read later than the version, both: what has changed in between is read once more.
    changes.numberings = connection.read(&NUMBERINGS, params).await?.all(numbering)?;
    let document = connection.read(&ACCOUNT_DOCUMENT, params![id: id.uuid() => UUID]).await?;
    changes.limits = document.first(limits_of)?.unwrap_or_default();
    let sealing = document.first(|cells| Ok(sealing_of(cells.get("doc")?)))?;
    changes.sealing = sealing.transpose()?.flatten();
    Ok(changes)
}

pub(super) async fn versions(
    connection: &Connection,
    accounts: &[AccountId],
) -> Result<Vec<Option<i64>>, StoreError> {
    let ids: Vec<Uuid> = accounts.iter().map(|id| id.uuid()).collect();
    Ok(connection.read(&VERSIONS, params![account_ids: ids => UUID_ARRAY]).await?.column("version")?)
}

pub(super) async fn changed_destinations(
    connection: &Connection,
    account: AccountId,
    since: i64,
    after: Option<DestinationId>,
    limit: usize,
) -> Result<Vec<DestinationId>, StoreError> {
    let params = params![
        account_id: account.uuid() => UUID, since_version: since => INT8,
        after_destination_id: after.unwrap_or(DestinationId::MIN).uuid() => UUID, limit: limit as i64 => INT8,
    ];
    Ok(connection.read(&CHANGED_DESTINATIONS, params).await?.column("id")?)
}

/// What the account says of how much it may have, under its lock.
pub(super) async fn limits(
    transaction: &Transaction<'_>,
    id: AccountId,
) -> Result<AccountLimits, StoreError> {
    let rows = transaction.run(&ACCOUNT_DOCUMENT, params![id: id.uuid() => UUID]).await?;
    Ok(rows.first(limits_of)?.unwrap_or_default())
}

fn limits_of(cells: &mut Cells<'_, '_>) -> Result<AccountLimits, Unreadable> {
    let doc: &str = cells.get("doc")?;
    Ok(AccountLimits::of_document(doc))
}

fn account(cells: &mut Cells<'_, '_>) -> Result<Account, Unreadable> {
    let Doc(account) = cells.get("doc")?;
    Ok(Account { version: cells.get("version")?, ..account })
}

pub(in super::super) fn numbering(
    cells: &mut Cells<'_, '_>,
) -> Result<(DestinationId, Numbering), Unreadable> {
    Ok((cells.get("id")?, cells.get("numbering")?))
}
