//! What is sealed.

use super::{
    PostgresStore, audit_log, catalog,
    pool::Transaction,
    statement::{Statement, params, sql},
};
use crate::{
    Catalog as _, DataKeyChange, KeptDataKey, KeptSeals, ResealedRow, SealedRow, SealedRowId, Seals,
    SettingChange, StoreError,
};
use async_trait::async_trait;
use domain::{
    audit::AuditEntry,
    id::{AccountId, DestinationId, EventId, SourceId},
};
use std::sync::LazyLock;
use uuid::Uuid;

static DATA_KEYS: LazyLock<Statement> = sql!(
    "data_keys": "select id, doc from accounts where id > :after_id and deleted_at is null order by id limit :limit"
);
static SETTINGS: LazyLock<Statement> =
    sql!("settings": "select name, value from settings where starts_with(name, :prefix) order by name");
static REPLACE_DATA_KEYS: LazyLock<Statement> = sql!("replace_data_keys");
static REPLACE_SETTING: LazyLock<Statement> = sql!(
    "replace_setting": "update settings set value = :to_value where name = :name and value = :from_value returning name"
);
static REMOVE_SETTING: LazyLock<Statement> =
    sql!("remove_setting": "delete from settings where name = :name and value = :from_value returning name");
static SEALED_DESTINATIONS: LazyLock<Statement> = sql!(
    "sealed_destinations": "select id, version, doc from destinations \
    where account_id = :account_id and id > :after_id order by id limit :limit"
);
static SEALED_SOURCES: LazyLock<Statement> = sql!(
    "sealed_sources": "select id, version, doc from sources \
    where account_id = :account_id and id > :after_id and deleted_at is null order by id limit :limit"
);
static DESTINATION_TO_RESEAL: LazyLock<Statement> = sql!(
    "destination_to_reseal": "select doc from destinations \
    where id = :id and account_id = :account_id and version = :version for update"
);
static SOURCE_TO_RESEAL: LazyLock<Statement> = sql!(
    "source_to_reseal": "select doc from sources \
    where id = :id and account_id = :account_id and version = :version and deleted_at is null for update"
);
static RESEAL_DESTINATION: LazyLock<Statement> = sql!(
    "reseal_destination": "update destinations set doc = :doc, version = :new_version where id = :id"
);
static OLDEST_OF_ACCOUNT: LazyLock<Statement> =
    sql!("oldest_event_of": "select id from events where account_id = :account_id order by id limit 1");
static RESEAL_SOURCE: LazyLock<Statement> =
    sql!("reseal_source": "update sources set doc = :doc, version = :new_version where id = :id");

#[async_trait]
impl KeptSeals for PostgresStore {
    async fn data_keys(
        &self,
        after: Option<AccountId>,
        limit: usize,
    ) -> Result<Vec<KeptDataKey>, StoreError> {
        let connection = self.pools.general().await?;
        let after = after.unwrap_or(AccountId::MIN);
        let params = params![after_id: after.uuid() => UUID, limit: limit as i64 => INT8];
        let rows = connection.read(&DATA_KEYS, params).await?;
        Ok(rows.all(|cells| Ok(KeptDataKey::of_document(cells.get("id")?, cells.get("doc")?)))?)
    }

    async fn settings(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let connection = self.pools.general().await?;
        let rows = connection.read(&SETTINGS, params![prefix: prefix => TEXT]).await?;
        Ok(rows.all(|cells| Ok((cells.get("name")?, cells.get("value")?)))?)
    }
}

#[async_trait]
impl Seals for PostgresStore {
    async fn replace_data_keys(
        &self,
        changes: &[DataKeyChange],
        audit: &AuditEntry,
    ) -> Result<usize, StoreError> {
        let ids: Vec<Uuid> = changes.iter().map(|change| change.account_id.uuid()).collect();
        let texts = changes.iter().map(DataKeyChange::texts).collect::<Result<Vec<_>, _>>()?;
        let (from, to): (Vec<String>, Vec<String>) = texts.into_iter().unzip();
        let connection = self.pools.general().await?;
        let transaction = connection.begin().await?;
        let replaced = async {
            let params = params![
                account_ids: ids => UUID_ARRAY, from_texts: from => TEXT_ARRAY, to_texts: to => TEXT_ARRAY,
            ];
            let replaced = transaction.run(&REPLACE_DATA_KEYS, params).await?.len();
            if replaced > 0 {
                audit_log::append(&transaction, None, audit).await?;
            }
            Ok::<_, StoreError>(replaced)
        };
        let replaced = replaced.await;
        transaction.end(replaced).await
    }

    async fn replace_settings(
        &self,
        changes: &[SettingChange],
        audit: &AuditEntry,
    ) -> Result<bool, StoreError> {
        let connection = self.pools.general().await?;
        let transaction = connection.begin().await?;
        let replaced = async {
            for SettingChange { name, from, to } in changes {
                let found = match to {
                    Some(to) => {
                        let params = params![
                            name: name => TEXT, from_value: from => BYTEA, to_value: to => BYTEA,
                        ];
                        transaction.run(&REPLACE_SETTING, params).await?
                    }
                    None => {
                        let params = params![name: name => TEXT, from_value: from => BYTEA];
                        transaction.run(&REMOVE_SETTING, params).await?
                    }
                };
                if found.is_empty() {
                    // Rolls back what was replaced before it.
                    return Err(StoreError::Changed);
                }
            }
            audit_log::append(&transaction, None, audit).await
        };
        let replaced = replaced.await;
        match transaction.end(replaced).await {
            Ok(()) => Ok(true),
            Err(StoreError::Changed) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn sealed_rows(
        &self,
        account: AccountId,
        after: Option<SealedRowId>,
        limit: usize,
    ) -> Result<Vec<SealedRow>, StoreError> {
        self.account(account).await?;
        let connection = self.pools.general().await?;
        let mut found = Vec::new();
        let after_source = match after {
            Some(SealedRowId::Source(id)) => id,
            after => {
                let after = match after {
                    Some(SealedRowId::Destination(id)) => id,
                    _ => DestinationId::MIN,
                };
                let params = params![
                    account_id: account.uuid() => UUID, after_id: after.uuid() => UUID, limit: limit as i64 => INT8,
                ];
                let rows = connection.read(&SEALED_DESTINATIONS, params).await?;
                found = rows.all(|cells| {
                    let (id, version) = (cells.get("id")?, cells.get("version")?);
                    Ok(SealedRow::of_destination(id, version, cells.get("doc")?))
                })?;
                SourceId::MIN
            }
        };
        let left = limit - found.len();
        if left > 0 {
            let params = params![
                account_id: account.uuid() => UUID, after_id: after_source.uuid() => UUID, limit: left as i64 => INT8,
            ];
            let rows = connection.read(&SEALED_SOURCES, params).await?;
            found.extend(rows.all(|cells| {
                let (id, version) = (cells.get("id")?, cells.get("version")?);
                Ok(SealedRow::of_source(id, version, cells.get("doc")?))
            })?);
        }
        Ok(found)
    }

    async fn reseal_rows(
        &self,
        account: AccountId,
        rows: &[ResealedRow],
        audit: &AuditEntry,
    ) -> Result<usize, StoreError> {
        let connection = self.pools.general().await?;
        let transaction = connection.begin().await?;
        let resealed = async {
            // Holds the account's row, as every change of its configuration does: none comes in between.
            let version = catalog::next_version(&transaction, account, "account").await?;
            let mut resealed = 0;
            for row in rows {
                resealed += usize::from(reseal(&transaction, account, row, version).await?);
            }
            if resealed == 0 {
                return Err(StoreError::Changed);
            }
            audit_log::append(&transaction, Some(account), audit).await?;
            Ok(resealed)
        };
        let resealed = resealed.await;
        match transaction.end(resealed).await {
            // Without a change there is no version.
            Err(StoreError::Changed) => Ok(0),
            resealed => resealed,
        }
    }

    async fn oldest_event_of(&self, account: AccountId) -> Result<Option<EventId>, StoreError> {
        let connection = self.pools.general().await?;
        Ok(connection
            .read(&OLDEST_OF_ACCOUNT, params![account_id: account.uuid() => UUID])
            .await?
            .first_value("id")?)
    }
}

async fn reseal(
    transaction: &Transaction<'_>,
    account: AccountId,
    row: &ResealedRow,
    version: i64,
) -> Result<bool, StoreError> {
    let (id, found, write) = match row.id {
        SealedRowId::Destination(id) => (id.uuid(), &DESTINATION_TO_RESEAL, &RESEAL_DESTINATION),
        SealedRowId::Source(id) => (id.uuid(), &SOURCE_TO_RESEAL, &RESEAL_SOURCE),
    };
    let params = params![id: id => UUID, account_id: account.uuid() => UUID, version: row.version => INT8];
    let Some(doc) = transaction.run(found, params).await?.first_value::<String>("doc")? else {
        return Ok(false);
    };
    let doc = row.in_document(doc)?;
    transaction.run(write, params![id: id => UUID, doc: doc => TEXT, new_version: version => INT8]).await?;
    Ok(true)
}
