//! The audit log.

use super::{MemoryStore, Tables};
use crate::{AuditChains, AuditFilter, AuditLog, ChainOwner, Listed, Page, StoreError};
use async_trait::async_trait;
use domain::{
    audit::{AuditEntry, AuditRecord, ChainEnds, ChainPlace},
    id::{AccountId, AuditId},
    limits,
    time::Timestamp,
};
use std::{
    cmp::Reverse,
    ops::Bound::{Excluded, Unbounded},
};

#[derive(Default)]
pub(super) struct KeptChain {
    ends: ChainEnds,
    records: Vec<AuditRecord>,
}

#[async_trait]
impl AuditLog for MemoryStore {
    async fn write_audit(&self, account: Option<AccountId>, entry: &AuditEntry) -> Result<(), StoreError> {
        self.interrupted("write_audit")?;
        self.tables().append(account, entry);
        Ok(())
    }

    async fn audit_entries(
        &self,
        account: Option<AccountId>,
        filter: &AuditFilter,
        page: Page<AuditId>,
    ) -> Result<Listed<AuditRecord, AuditId>, StoreError> {
        let tables = self.tables();
        let (from, before) = filter.ids(page);
        let chains = tables.audit_chains.iter().filter(|(owner, _)| account.is_none() || **owner == account);
        let records = chains.flat_map(|(_, chain)| &chain.records);
        let mut found: Vec<&AuditRecord> =
            records.filter(|record| (from..before).contains(&record.entry.id)).collect();
        found.sort_by_key(|record| Reverse(record.entry.id));
        Ok(filter.page(found.into_iter().take(limits::AUDIT_LOG_SCAN).cloned(), page.limit))
    }

    async fn prune_audit(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let (mut tables, before) = (self.tables(), AuditId::at(before, 0));
        let mut pruned = 0;
        for chain in tables.audit_chains.values_mut() {
            let old = chain.records.iter().take_while(|record| record.entry.id < before);
            let count = old.take(limit - pruned).count();
            if let Some(last) = chain.records.drain(..count).next_back() {
                chain.ends.forgotten = ChainPlace { number: last.number, hash: last.hash };
            }
            pruned += count;
        }
        Ok(pruned)
    }
}

#[async_trait]
impl AuditChains for MemoryStore {
    async fn audit_chains(
        &self,
        after: Option<ChainOwner>,
        limit: usize,
    ) -> Result<Vec<ChainOwner>, StoreError> {
        let from = after.map_or(Unbounded, Excluded);
        Ok(self.tables().audit_chains.range((from, Unbounded)).take(limit).map(|(owner, _)| *owner).collect())
    }

    async fn audit_ends(&self, owner: ChainOwner) -> Result<Option<ChainEnds>, StoreError> {
        Ok(self.tables().audit_chains.get(&owner).map(|chain| chain.ends))
    }

    async fn audit_records(
        &self,
        owner: ChainOwner,
        after: i64,
        limit: usize,
    ) -> Result<Vec<AuditRecord>, StoreError> {
        let tables = self.tables();
        let records = tables.audit_chains.get(&owner).map_or(&[][..], |chain| &chain.records);
        Ok(records.iter().filter(|record| record.number > after).take(limit).cloned().collect())
    }
}

impl Tables {
    /// The next entry of a chain.
    pub(super) fn append(&mut self, account: Option<AccountId>, entry: &AuditEntry) {
        let chain = self.audit_chains.entry(account).or_default();
        let record = chain.ends.last.next(account, entry.clone());
        chain.ends.last = ChainPlace { number: record.number, hash: record.hash };
        chain.records.push(record);
    }
}

/// For tests: past its promises.
impl MemoryStore {
    pub fn alter_audit(&self, owner: ChainOwner, change: impl FnOnce(&mut Vec<AuditRecord>)) {
        change(&mut self.tables().audit_chains.entry(owner).or_default().records);
    }
}
