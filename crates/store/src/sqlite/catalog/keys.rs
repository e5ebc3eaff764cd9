//! API keys: a column each, because two of them are written by themselves.

use super::{
    super::{
        row::{self, Key as _, blob, micros},
        trouble::{Trouble, unreadable},
    },
    accounts,
    table::{self, taken},
};
use crate::{Page, StoreError};
use domain::{
    account::{ApiKey, KeyKind},
    id::{AccountId, ApiKeyId},
    time::Timestamp,
};
use rusqlite::{Connection, Row, params};

pub(super) fn create(connection: &Connection, key: &ApiKey) -> Result<(), Trouble> {
    key.account_id.map(|id| accounts::version(connection, id)).transpose()?;
    let mut insert = connection.prepare_cached(
        "insert into api_keys (id, account_id, lookup, hash, name, kind, scopes, source_id, rate_limit, expires_at,
           last_used_at, revoked_at, created_at)
         values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?;
    insert
        .execute(params![
            key.id.blob(),
            blob(key.account_id),
            key.lookup,
            key.hash,
            key.name,
            word(key.kind),
            table::document(&key.scopes)?,
            blob(key.source_id),
            key.rate_limit,
            micros(key.expires_at),
            micros(key.last_used_at),
            micros(key.revoked_at),
            key.created_at.micros(),
        ])
        .map_err(taken)?;
    Ok(())
}

pub(super) fn by_lookup(connection: &Connection, lookup: &str) -> Result<Option<ApiKey>, Trouble> {
    let mut select = connection.prepare_cached(
        "select id, account_id, lookup, hash, name, kind, scopes, source_id, rate_limit, expires_at, last_used_at,
           revoked_at, created_at
         from api_keys where lookup = ?1",
    )?;
    let mut rows = select.query([lookup])?;
    rows.next()?.map(read).transpose()
}

pub(super) fn list(
    connection: &Connection,
    account: Option<AccountId>,
    page: Page<ApiKeyId>,
) -> Result<Vec<ApiKey>, Trouble> {
    let mut select = connection.prepare_cached(
        "select id, account_id, lookup, hash, name, kind, scopes, source_id, rate_limit, expires_at, last_used_at,
           revoked_at, created_at
         from api_keys where account_id is ?1 and id < ?2 order by id desc limit ?3",
    )?;
    let before = page.before.unwrap_or(ApiKeyId::MAX);
    table::collect(select.query(params![blob(account), before.blob(), page.limit as i64])?, read)
}

pub(super) fn revoke(
    connection: &Connection,
    account: Option<AccountId>,
    id: ApiKeyId,
    now: Timestamp,
) -> Result<(), Trouble> {
    let mut revoke = connection.prepare_cached(
        "update api_keys set revoked_at = coalesce(revoked_at, ?3) where id = ?1 and account_id is ?2",
    )?;
    match revoke.execute(params![id.blob(), blob(account), now.micros()])? {
        0 => Err(StoreError::NotFound { what: "api key" }.into()),
        _ => Ok(()),
    }
}

fn read(row: &Row<'_>) -> Result<ApiKey, Trouble> {
    let text = |column| row.get_ref(column)?.as_str().map_err(rusqlite::Error::from);
    Ok(ApiKey {
        id: row::id(row, 0)?,
        account_id: row::maybe_id(row, 1)?,
        lookup: row.get(2)?,
        hash: row.get(3)?,
        name: row.get(4)?,
        kind: kind(text(5)?)?,
        scopes: serde_json::from_str(text(6)?).map_err(|error| unreadable("scopes", error))?,
        source_id: row::maybe_id(row, 7)?,
        rate_limit: row.get(8)?,
        expires_at: row::maybe_time(row, 9)?,
        last_used_at: row::maybe_time(row, 10)?,
        revoked_at: row::maybe_time(row, 11)?,
        created_at: row::time(row, 12)?,
    })
}

const fn word(kind: KeyKind) -> &'static str {
    match kind {
        KeyKind::Account => "account",
        KeyKind::Ingest => "ingest",
        KeyKind::Operator => "operator",
    }
}

fn kind(word: &str) -> Result<KeyKind, Trouble> {
    match word {
        "account" => Ok(KeyKind::Account),
        "ingest" => Ok(KeyKind::Ingest),
        "operator" => Ok(KeyKind::Operator),
        other => Err(unreadable("kind of key", other)),
    }
}
