//! API keys.

use super::{
    super::{
        audit_log,
        pool::Connection,
        rows::{Cells, Doc, Unreadable},
        sessions,
        statement::{Statement, params, sql},
    },
    accounts, document, micros,
};
use crate::{Page, StoreError, damage};
use domain::{
    account::ApiKey,
    audit::AuditEntry,
    id::{AccountId, ApiKeyId},
    limits,
    session::Holder,
    time::Timestamp,
};
use std::sync::LazyLock;

static INSERT_API_KEY: LazyLock<Statement> = sql!("insert_api_key");
static API_KEY_BY_LOOKUP: LazyLock<Statement> = sql!("api_key_by_lookup");
static API_KEY_BY_ID: LazyLock<Statement> = sql!("api_key_by_id");
static API_KEYS: LazyLock<Statement> = sql!("api_keys");
static REVOKE_API_KEY: LazyLock<Statement> = sql!("revoke_api_key");
static TOUCH_API_KEY: LazyLock<Statement> =
    sql!("touch_api_key": "update api_keys set last_used_at = :now where id = :id");

pub(super) async fn create(
    connection: &Connection,
    key: &ApiKey,
    audit: &AuditEntry,
) -> Result<(), StoreError> {
    let params = params![
        id: key.id.uuid() => UUID, account_id: key.account_id.map(|id| id.uuid()) => UUID,
        lookup: key.lookup => TEXT, created_at: key.created_at.micros() => INT8,
        last_used_at: micros(key.last_used_at) => INT8, revoked_at: micros(key.revoked_at) => INT8,
        doc: document(key)? => TEXT,
    ];
    let transaction = connection.begin().await?;
    let created = async {
        if let Some(account) = key.account_id {
            accounts::lock(&transaction, account).await?;
        }
        transaction.run(&INSERT_API_KEY, params).await?;
        audit_log::append(&transaction, key.account_id, audit).await
    };
    let created = created.await;
    transaction.end(created).await
}

pub(super) async fn by_lookup(connection: &Connection, lookup: &str) -> Result<Option<ApiKey>, StoreError> {
    Ok(connection.read(&API_KEY_BY_LOOKUP, params![lookup: lookup => TEXT]).await?.first(read)?)
}

pub(in crate::postgres) async fn by_id(
    connection: &Connection,
    id: ApiKeyId,
) -> Result<Option<ApiKey>, StoreError> {
    Ok(connection.read(&API_KEY_BY_ID, params![id: id.uuid() => UUID]).await?.first(read)?)
}

pub(super) async fn list(
    connection: &Connection,
    account: Option<AccountId>,
    page: Page<ApiKeyId>,
) -> Result<Vec<ApiKey>, StoreError> {
    let mut limit = page.limit;
    loop {
        let params = params![
            account_id: account.map(|id| id.uuid()) => UUID,
            before_id: page.before.unwrap_or(ApiKeyId::MAX).uuid() => UUID, limit: limit as i64 => INT8,
        ];
        let found = connection.read(&API_KEYS, params).await?.each_by_itself::<ApiKeyId, _>("id", read)?;
        if limit > page.limit || !damage::is_cut_short(&found, limit) {
            return Ok(damage::sound("api key", found, page.limit));
        }
        limit += limits::DAMAGED_PASSED_OVER;
    }
}

pub(super) async fn revoke(
    connection: &Connection,
    account: Option<AccountId>,
    id: ApiKeyId,
    now: Timestamp,
    audit: &AuditEntry,
) -> Result<(), StoreError> {
    let params = params![
        account_id: account.map(|id| id.uuid()) => UUID, id: id.uuid() => UUID, now: now.micros() => INT8,
    ];
    let transaction = connection.begin().await?;
    let revoked = async {
        match transaction.run(&REVOKE_API_KEY, params).await?.is_empty() {
            true => Err(StoreError::NotFound { what: "api key" }),
            false => {
                sessions::end_sessions(&transaction, Holder::Key(id)).await?;
                audit_log::append(&transaction, account, audit).await
            }
        }
    };
    let revoked = revoked.await;
    transaction.end(revoked).await
}

pub(super) async fn touch(connection: &Connection, id: ApiKeyId, now: Timestamp) -> Result<(), StoreError> {
    connection.write(&TOUCH_API_KEY, params![id: id.uuid() => UUID, now: now.micros() => INT8]).await?;
    Ok(())
}

fn read(cells: &mut Cells<'_, '_>) -> Result<ApiKey, Unreadable> {
    let Doc(key) = cells.get("doc")?;
    Ok(ApiKey { last_used_at: cells.get("last_used_at")?, revoked_at: cells.get("revoked_at")?, ..key })
}
