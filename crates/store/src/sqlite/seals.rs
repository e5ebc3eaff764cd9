//! What is sealed.

use super::{
    SqliteReadOnly, SqliteStore, Trouble, audit_log, catalog,
    statement::{bound, sql},
    writer::Priority,
};
use crate::{
    DataKeyChange, KeptDataKey, KeptSeals, ResealedRow, SealedRow, SealedRowId, Seals, SettingChange,
    StoreError,
};
use async_trait::async_trait;
use domain::{
    audit::AuditEntry,
    id::{AccountId, DestinationId, EventId, SourceId},
};
use rusqlite::Connection;

const DATA_KEYS: &str =
    "select id, doc from accounts where id > :after and deleted_at is null order by id limit :limit";
const SETTINGS: &str =
    "select name, value from settings where substr(name, 1, length(:prefix)) = :prefix order by name";
const REPLACE_DATA_KEYS: &str = sql!("replace_data_keys");
const SEALED_DESTINATIONS: &str = "select id, version, doc from destinations \
                                   where account_id = :account_id and id > :after order by id limit :limit";
const SEALED_SOURCES: &str = "select id, version, doc from sources \
                              where account_id = :account_id and id > :after and deleted_at is null order by id limit :limit";

#[async_trait]
impl KeptSeals for SqliteStore {
    async fn data_keys(
        &self,
        after: Option<AccountId>,
        limit: usize,
    ) -> Result<Vec<KeptDataKey>, StoreError> {
        self.read(move |connection| data_keys(connection, after, limit)).await
    }

    async fn settings(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let prefix = prefix.to_owned();
        self.read(move |connection| settings(connection, &prefix)).await
    }
}

#[async_trait]
impl KeptSeals for SqliteReadOnly {
    async fn data_keys(
        &self,
        after: Option<AccountId>,
        limit: usize,
    ) -> Result<Vec<KeptDataKey>, StoreError> {
        self.readers.read(move |connection| data_keys(connection, after, limit)).await
    }

    async fn settings(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let prefix = prefix.to_owned();
        self.readers.read(move |connection| settings(connection, &prefix)).await
    }
}

#[async_trait]
impl Seals for SqliteStore {
    async fn replace_data_keys(
        &self,
        changes: &[DataKeyChange],
        audit: &AuditEntry,
    ) -> Result<usize, StoreError> {
        let (changes, audit) = (changes.to_owned(), audit.clone());
        self.write(Priority::Api, move |connection| {
            let mut replaced = 0;
            for change in &changes {
                let (from, to) = change.texts()?;
                replaced += bound!(REPLACE_DATA_KEYS, id: change.account_id, from: from, to: to)
                    .execute(connection)?;
            }
            if replaced > 0 {
                audit_log::append(connection, None, &audit)?;
            }
            Ok(replaced)
        })
        .await
    }

    async fn replace_settings(
        &self,
        changes: &[SettingChange],
        audit: &AuditEntry,
    ) -> Result<bool, StoreError> {
        let (changes, audit) = (changes.to_owned(), audit.clone());
        self.write(Priority::Api, move |connection| {
            for SettingChange { name, from, .. } in &changes {
                if !bound!("select 1 from settings where name = :name and value = :from", name: name, from: from)
                    .exists(connection)?
                {
                    return Ok(false);
                }
            }
            for SettingChange { name, to, .. } in &changes {
                match to {
                    Some(to) => bound!("update settings set value = :to where name = :name", name: name, to: to)
                        .execute(connection)?,
                    None => bound!("delete from settings where name = :name", name: name).execute(connection)?,
                };
            }
            audit_log::append(connection, None, &audit)?;
            Ok(true)
        })
        .await
    }

    async fn sealed_rows(
        &self,
        account: AccountId,
        after: Option<SealedRowId>,
        limit: usize,
    ) -> Result<Vec<SealedRow>, StoreError> {
        self.read(move |connection| sealed_rows(connection, account, after, limit)).await
    }

    async fn reseal_rows(
        &self,
        account: AccountId,
        rows: &[ResealedRow],
        audit: &AuditEntry,
    ) -> Result<usize, StoreError> {
        let (rows, audit) = (rows.to_owned(), audit.clone());
        self.write(Priority::Api, move |connection| reseal_rows(connection, account, &rows, &audit)).await
    }

    async fn oldest_event_of(&self, account: AccountId) -> Result<Option<EventId>, StoreError> {
        self.read(move |connection| {
            bound!("select id from events where account_id = :account_id order by id limit 1", account_id: account)
                .first(connection, |columns| Ok(columns.id()?))
        })
        .await
    }
}

fn data_keys(
    connection: &Connection,
    after: Option<AccountId>,
    limit: usize,
) -> Result<Vec<KeptDataKey>, Trouble> {
    bound!(DATA_KEYS, after: after.unwrap_or(AccountId::MIN), limit: limit)
        .all(connection, |columns| Ok(KeptDataKey::of_document(columns.id()?, columns.text()?)))
}

fn settings(connection: &Connection, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, Trouble> {
    bound!(SETTINGS, prefix: prefix).all(connection, |columns| Ok((columns.get()?, columns.get()?)))
}

fn sealed_rows(
    connection: &Connection,
    account: AccountId,
    after: Option<SealedRowId>,
    limit: usize,
) -> Result<Vec<SealedRow>, Trouble> {
    if catalog::version(connection, account)?.is_none() {
        return Err(StoreError::NotFound { what: "account" }.into());
    }
    let mut found = Vec::new();
    let after_source = match after {
        Some(SealedRowId::Source(id)) => id,
        after => {
            let after = match after {
                Some(SealedRowId::Destination(id)) => id,
                _ => DestinationId::MIN,
            };
            found = bound!(SEALED_DESTINATIONS, account_id: account, after: after, limit: limit)
                .all(connection, |columns| {
                    Ok(SealedRow::of_destination(columns.id()?, columns.get()?, columns.text()?))
                })?;
            SourceId::MIN
        }
    };
    let left = limit - found.len();
    if left > 0 {
        let sources = bound!(SEALED_SOURCES, account_id: account, after: after_source, limit: left);
        found.extend(sources.all(connection, |columns| {
            Ok(SealedRow::of_source(columns.id()?, columns.get()?, columns.text()?))
        })?);
    }
    Ok(found)
}

fn reseal_rows(
    connection: &Connection,
    account: AccountId,
    rows: &[ResealedRow],
    audit: &AuditEntry,
) -> Result<usize, Trouble> {
    let version = catalog::version(connection, account)?.ok_or(StoreError::NotFound { what: "account" })? + 1;
    let mut resealed = 0;
    for row in rows {
        let doc = match row.id {
            SealedRowId::Destination(id) => bound!(
                "select doc from destinations where id = :id and account_id = :account_id and version = :version",
                id: id,
                account_id: account,
                version: row.version,
            )
            .first(connection, |columns| Ok(columns.get::<String>()?))?,
            SealedRowId::Source(id) => bound!(
                "select doc from sources \
                where id = :id and account_id = :account_id and version = :version and deleted_at is null",
                id: id,
                account_id: account,
                version: row.version,
            )
            .first(connection, |columns| Ok(columns.get::<String>()?))?,
        };
        let Some(doc) = doc else { continue };
        let doc = row.in_document(doc)?;
        resealed += match row.id {
            SealedRowId::Destination(id) => {
                bound!("update destinations set doc = :doc, version = :version where id = :id",
                    id: id, doc: doc, version: version)
                .execute(connection)?
            }
            SealedRowId::Source(id) => {
                bound!("update sources set doc = :doc, version = :version where id = :id",
                    id: id, doc: doc, version: version)
                .execute(connection)?
            }
        };
    }
    if resealed > 0 {
        catalog::next_version(connection, account)?;
        audit_log::append(connection, Some(account), audit)?;
    }
    Ok(resealed)
}
