//! What is sealed.

use super::{MemoryStore, Tables};
use crate::{
    DataKeyChange, KeptDataKey, KeptSeals, ResealedRow, SealedRow, SealedRowId, Seals, SettingChange,
    StoreError, seals::collected,
};
use async_trait::async_trait;
use domain::{
    account::Account,
    audit::AuditEntry,
    id::{AccountId, EventId},
    seal::Sealed,
};

#[async_trait]
impl KeptSeals for MemoryStore {
    async fn data_keys(
        &self,
        after: Option<AccountId>,
        limit: usize,
    ) -> Result<Vec<KeptDataKey>, StoreError> {
        let tables = self.tables();
        let behind = tables.accounts.values().filter(|account| Some(account.id) > after);
        let kept = |account: &Account| KeptDataKey {
            seals_events: account.payloads_encrypted_at.is_some(),
            account_id: account.id,
            data_key: Some(account.data_key.clone()),
        };
        Ok(behind.take(limit).map(kept).collect())
    }

    async fn settings(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let tables = self.tables();
        let mut found: Vec<_> = tables.settings.iter().filter(|(name, _)| name.starts_with(prefix)).collect();
        found.sort();
        Ok(found.into_iter().map(|(name, value)| (name.clone(), value.clone())).collect())
    }
}

#[async_trait]
impl Seals for MemoryStore {
    async fn replace_data_keys(
        &self,
        changes: &[DataKeyChange],
        audit: &AuditEntry,
    ) -> Result<usize, StoreError> {
        self.interrupted("replace_data_keys")?;
        let mut tables = self.tables();
        let mut replaced = 0;
        for DataKeyChange { account_id, from, to } in changes {
            let Some(account) = tables.accounts.get_mut(account_id) else { continue };
            if account.data_key == *from {
                account.data_key = to.clone();
                tables.next_version(*account_id)?;
                replaced += 1;
            }
        }
        if replaced > 0 {
            tables.append(None, audit);
        }
        Ok(replaced)
    }

    async fn replace_settings(
        &self,
        changes: &[SettingChange],
        audit: &AuditEntry,
    ) -> Result<bool, StoreError> {
        let mut tables = self.tables();
        if changes.iter().any(|change| tables.settings.get(&change.name) != Some(&change.from)) {
            return Ok(false);
        }
        for SettingChange { name, to, .. } in changes {
            match to {
                Some(to) => tables.settings.insert(name.clone(), to.clone()),
                None => tables.settings.remove(name),
            };
        }
        tables.append(None, audit);
        Ok(true)
    }

    async fn sealed_rows(
        &self,
        account: AccountId,
        after: Option<SealedRowId>,
        limit: usize,
    ) -> Result<Vec<SealedRow>, StoreError> {
        let tables = self.tables();
        tables.account(account)?;
        let destinations = tables.destinations.0.values().filter(|kept| kept.row.account_id == account);
        let destinations = destinations.map(|kept| {
            let (id, mut row) = (SealedRowId::Destination(kept.row.id), kept.row.clone());
            SealedRow { id, version: kept.version, sealed: Some(collected(row.sealed_mut())) }
        });
        let sources = tables.sources.0.values().filter(|kept| kept.row.account_id == account);
        let sources = sources.filter(|kept| kept.deleted_at.is_none()).map(|kept| {
            let (id, mut row) = (SealedRowId::Source(kept.row.id), kept.row.clone());
            SealedRow { id, version: kept.version, sealed: Some(collected(row.sealed_mut())) }
        });
        Ok(destinations.chain(sources).filter(|row| Some(row.id) > after).take(limit).collect())
    }

    async fn reseal_rows(
        &self,
        account: AccountId,
        rows: &[ResealedRow],
        audit: &AuditEntry,
    ) -> Result<usize, StoreError> {
        let mut tables = self.tables();
        tables.account(account)?;
        let fitting: Vec<_> =
            rows.iter().filter(|row| tables.kept_version(account, row.id) == Some(row.version)).collect();
        if fitting.is_empty() {
            return Ok(0);
        }
        let version = tables.next_version(account)?;
        for row in &fitting {
            tables.reseal(row, version);
        }
        tables.append(Some(account), audit);
        Ok(fitting.len())
    }

    async fn oldest_event_of(&self, account: AccountId) -> Result<Option<EventId>, StoreError> {
        let tables = self.tables();
        let oldest = tables.events.iter().find(|(_, kept)| kept.event.account_id == account);
        Ok(oldest.map(|(id, _)| *id))
    }
}

impl Tables {
    fn kept_version(&self, account: AccountId, id: SealedRowId) -> Option<i64> {
        match id {
            SealedRowId::Destination(id) => {
                let found = self.destinations.0.get(&id).filter(|kept| kept.row.account_id == account);
                found.map(|kept| kept.version)
            }
            SealedRowId::Source(id) => {
                let found = self.sources.0.get(&id).filter(|kept| kept.row.account_id == account);
                found.filter(|kept| kept.deleted_at.is_none()).map(|kept| kept.version)
            }
        }
    }

    fn reseal(&mut self, row: &ResealedRow, version: i64) {
        let replace = |sealed: Vec<(String, &mut Sealed)>| {
            for (_, sealed) in sealed {
                if let Some((_, to)) = row.replaced.iter().find(|(from, _)| from == sealed) {
                    *sealed = to.clone();
                }
            }
        };
        match row.id {
            SealedRowId::Destination(id) => {
                let kept = self.destinations.0.get_mut(&id).expect("it was found");
                (kept.version, kept.row.version) = (version, version);
                replace(kept.row.sealed_mut());
            }
            SealedRowId::Source(id) => {
                let kept = self.sources.0.get_mut(&id).expect("it was found");
                (kept.version, kept.row.version) = (version, version);
                replace(kept.row.sealed_mut());
            }
        }
    }
}
