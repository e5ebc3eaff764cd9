//! API keys: a column each, because two of them are written by themselves.

use super::{
    super::{
        audit_log,
        rows::Columns,
        sessions,
        statement::{bound, sql},
        trouble::{Trouble, unreadable},
    },
    accounts,
    documents::{document, taken},
};
use crate::{Page, StoreError, damage};
use domain::{
    account::{ApiKey, KeyKind},
    audit::AuditEntry,
    id::{AccountId, ApiKeyId},
    session::Holder,
    time::Timestamp,
};
use rusqlite::Connection;

const INSERT_API_KEY: &str = sql!("insert_api_key");
const API_KEY_BY_LOOKUP: &str = sql!("api_key_by_lookup");
const API_KEY_BY_ID: &str = sql!("api_key_by_id");
const API_KEYS: &str = sql!("api_keys");
const REVOKE_API_KEY: &str = sql!("revoke_api_key");

pub(super) fn create(connection: &Connection, key: &ApiKey, audit: &AuditEntry) -> Result<(), Trouble> {
    key.account_id.map(|id| accounts::known_version(connection, id)).transpose()?;
    bound!(
        INSERT_API_KEY,
        id: key.id,
        account_id: key.account_id,
        lookup: key.lookup,
        hash: key.hash,
        name: key.name,
        kind: word(key.kind),
        scopes: document(&key.scopes)?,
        source_id: key.source_id,
        rate_limit: key.rate_limit,
        expires_at: key.expires_at,
        last_used_at: key.last_used_at,
        revoked_at: key.revoked_at,
        created_at: key.created_at,
        allowed_addresses: document(&key.allowed_addresses)?,
    )
    .execute(connection)
    .map_err(taken)?;
    audit_log::append(connection, key.account_id, audit)
}

pub(super) fn by_lookup(connection: &Connection, lookup: &str) -> Result<Option<ApiKey>, Trouble> {
    bound!(API_KEY_BY_LOOKUP, lookup: lookup).first(connection, read)
}

pub(in crate::sqlite) fn by_id(connection: &Connection, id: ApiKeyId) -> Result<Option<ApiKey>, Trouble> {
    bound!(API_KEY_BY_ID, id: id).first(connection, read)
}

pub(super) fn list(
    connection: &Connection,
    account: Option<AccountId>,
    page: Page<ApiKeyId>,
) -> Result<Vec<ApiKey>, Trouble> {
    let before = page.before.unwrap_or(ApiKeyId::MAX);
    damage::page("api key", page.limit, |limit| {
        bound!(API_KEYS, account_id: account, before: before, limit: limit)
            .each_by_itself::<ApiKeyId, _>(connection, "id", read)
    })
}

pub(super) fn revoke(
    connection: &Connection,
    account: Option<AccountId>,
    id: ApiKeyId,
    now: Timestamp,
    audit: &AuditEntry,
) -> Result<(), Trouble> {
    match bound!(REVOKE_API_KEY, id: id, account_id: account, now: now).execute(connection)? {
        0 => Err(StoreError::NotFound { what: "api key" }.into()),
        _ => {
            sessions::end_sessions(connection, Holder::Key(id))?;
            audit_log::append(connection, account, audit)
        }
    }
}

fn read(columns: &mut Columns<'_>) -> Result<ApiKey, Trouble> {
    Ok(ApiKey {
        id: columns.id()?,
        account_id: columns.optional_id()?,
        lookup: columns.get()?,
        hash: columns.get()?,
        name: columns.get()?,
        kind: kind(columns.text()?)?,
        scopes: columns.document("scopes")?,
        source_id: columns.optional_id()?,
        rate_limit: columns.get()?,
        expires_at: columns.optional_time()?,
        last_used_at: columns.optional_time()?,
        revoked_at: columns.optional_time()?,
        created_at: columns.time()?,
        allowed_addresses: columns.document("allowed_addresses")?,
    })
}

const fn word(kind: KeyKind) -> &'static str {
    match kind {
        KeyKind::Account => "account",
        KeyKind::Ingest => "ingest",
        KeyKind::Operator => "operator",
        KeyKind::Platform => "platform",
    }
}

fn kind(word: &str) -> Result<KeyKind, Trouble> {
    match word {
        "account" => Ok(KeyKind::Account),
        "ingest" => Ok(KeyKind::Ingest),
        "operator" => Ok(KeyKind::Operator),
        "platform" => Ok(KeyKind::Platform),
        other => Err(unreadable("kind of key", other)),
    }
}
