//! Configuration.

use super::{MemoryStore, Tables, newest_first, table::KeptRow};
use crate::{AccountChanges, Catalog, DestinationRecord, Listed, Page, StoreError};
use async_trait::async_trait;
use domain::{
    account::{Account, ApiKey},
    audit::AuditEntry,
    destination::{Destination, Numbering},
    id::{AccountId, ApiKeyId, DestinationId, RouteId, SourceId},
    operations::OperationalNote,
    route::Route,
    session::Holder,
    source::Source,
    time::Timestamp,
};
use std::collections::BTreeSet;

#[async_trait]
impl Catalog for MemoryStore {
    async fn setting_or_insert(&self, name: &str, value: &[u8]) -> Result<Vec<u8>, StoreError> {
        let mut tables = self.tables();
        Ok(tables.settings.entry(name.into()).or_insert_with(|| value.into()).clone())
    }

    // --- Accounts ------------------------------------------------------------------------------------------------

    async fn create_account(&self, account: &Account, audit: &AuditEntry) -> Result<Account, StoreError> {
        let mut tables = self.tables();
        tables.account_uid_is_free(account)?;
        let account = Account { version: 1, ..account.clone() };
        tables.accounts.insert(account.id, account.clone());
        tables.append(Some(account.id), audit);
        Ok(account)
    }

    async fn create_account_within(
        &self,
        most: usize,
        account: &Account,
        audit: &AuditEntry,
    ) -> Result<Account, StoreError> {
        if self.tables().accounts.len() >= most {
            return Err(StoreError::Full { what: "accounts" });
        }
        self.create_account(account, audit).await
    }

    async fn account(&self, id: AccountId) -> Result<Account, StoreError> {
        self.tables().account(id).cloned()
    }

    async fn account_by_uid(&self, uid: &str) -> Result<Option<Account>, StoreError> {
        Ok(self.tables().accounts.values().find(|account| account.uid.as_deref() == Some(uid)).cloned())
    }

    async fn accounts(&self, page: Page<AccountId>) -> Result<Vec<Account>, StoreError> {
        let tables = self.tables();
        Ok(newest_first(&tables.accounts, page.before)
            .take(page.limit)
            .map(|(_, account)| account.clone())
            .collect())
    }

    async fn first_account(&self) -> Result<Option<Account>, StoreError> {
        Ok(self.tables().accounts.values().next().cloned())
    }

    async fn update_account(&self, account: &Account, audit: &AuditEntry) -> Result<Account, StoreError> {
        let mut tables = self.tables();
        if tables.account(account.id)?.version != account.version {
            return Err(StoreError::Changed);
        }
        tables.account_uid_is_free(account)?;
        let account = Account { version: tables.next_version(account.id)?, ..account.clone() };
        tables.accounts.insert(account.id, account.clone());
        tables.append(Some(account.id), audit);
        Ok(account)
    }

    async fn changes(&self, account: AccountId, since: i64) -> Result<AccountChanges, StoreError> {
        let tables = self.tables();
        let (version, limits) = (tables.account(account)?.version, tables.account(account)?.limits());
        let newer =
            || tables.routes.0.values().filter(|kept| kept.row.account_id == account && kept.version > since);
        Ok(AccountChanges {
            version,
            limits,
            sealing: tables.account(account)?.sealing().cloned(),
            routes: newer().filter_map(KeptRow::live).cloned().collect(),
            removed_routes: newer()
                .filter(|kept| kept.deleted_at.is_some())
                .map(|kept| kept.row.id)
                .collect(),
            numberings: tables
                .destinations
                .0
                .values()
                .filter(|kept| kept.row.account_id == account && kept.version > since)
                .map(|kept| (kept.row.id, kept.row.numbering()))
                .filter(|(_, numbering)| since > 0 || *numbering != Numbering::None)
                .collect(),
        })
    }

    async fn versions(&self, accounts: &[AccountId]) -> Result<Vec<Option<i64>>, StoreError> {
        let tables = self.tables();
        Ok(accounts.iter().map(|id| tables.accounts.get(id).map(|account| account.version)).collect())
    }

    async fn changed_destinations(
        &self,
        account: AccountId,
        since: i64,
        after: Option<DestinationId>,
        limit: usize,
    ) -> Result<Vec<DestinationId>, StoreError> {
        let tables = self.tables();
        let own = tables.destinations.0.values().filter(|kept| kept.version > since).map(|kept| &kept.row);
        let own = own.filter(|row| row.account_id == account).map(|row| row.id);
        let routes = tables.routes.0.values().filter(|kept| kept.version > since).map(|kept| &kept.row);
        let routed = routes.filter(|row| row.account_id == account).map(|row| row.destination_id);
        let changed: BTreeSet<DestinationId> = own.chain(routed).collect();
        Ok(changed.into_iter().filter(|id| Some(*id) > after).take(limit).collect())
    }

    // --- API keys ------------------------------------------------------------------------------------------------

    async fn create_api_key(&self, key: &ApiKey, audit: &AuditEntry) -> Result<(), StoreError> {
        let mut tables = self.tables();
        key.account_id.map(|id| tables.account(id)).transpose()?;
        if tables.api_keys.values().any(|other| other.lookup == key.lookup) {
            return Err(StoreError::Taken { constraint: "lookup" });
        }
        tables.api_keys.insert(key.id, key.clone());
        tables.append(key.account_id, audit);
        Ok(())
    }

    async fn api_key_by_lookup(&self, lookup: &str) -> Result<Option<ApiKey>, StoreError> {
        self.interrupted("api_key_by_lookup")?;
        let tables = self.tables();
        let found = tables.api_keys.values().find(|key| key.lookup == lookup).cloned();
        Ok(found.map(|key| {
            let erasure = key.account_id.and_then(|account| tables.erasures.get(&account));
            ApiKey { revoked_at: key.revoked_at.or(erasure.map(|erasure| erasure.requested_at)), ..key }
        }))
    }

    async fn api_keys(
        &self,
        account: Option<AccountId>,
        page: Page<ApiKeyId>,
    ) -> Result<Vec<ApiKey>, StoreError> {
        let tables = self.tables();
        let keys = newest_first(&tables.api_keys, page.before).filter(|(_, key)| key.account_id == account);
        Ok(keys.take(page.limit).map(|(_, key)| key.clone()).collect())
    }

    async fn revoke_api_key(
        &self,
        account: Option<AccountId>,
        id: ApiKeyId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let key = tables.api_keys.get_mut(&id).filter(|key| key.account_id == account);
        key.ok_or(StoreError::NotFound { what: "api key" })?.revoked_at.get_or_insert(now);
        tables.end_sessions(Holder::Key(id));
        tables.append(account, audit);
        Ok(())
    }

    async fn touch_api_key(&self, id: ApiKeyId, now: Timestamp) -> Result<(), StoreError> {
        if let Some(key) = self.tables().api_keys.get_mut(&id) {
            key.last_used_at = Some(now);
        }
        Ok(())
    }

    // --- Sources -------------------------------------------------------------------------------------------------

    async fn create_source(&self, source: &Source, audit: &AuditEntry) -> Result<Source, StoreError> {
        self.tables().create(source, audit)
    }

    async fn source(&self, account: AccountId, id: SourceId) -> Result<Source, StoreError> {
        self.tables().sources.get(account, id).cloned()
    }

    async fn source_by_uid(&self, account: AccountId, uid: &str) -> Result<Option<SourceId>, StoreError> {
        Ok(self.tables().sources.by_uid(account, uid))
    }

    async fn source_by_token(&self, token_hash: &[u8]) -> Result<Option<Source>, StoreError> {
        let tables = self.tables();
        let found = tables.sources.live().find(|source| source.token_hash == token_hash);
        Ok(found.filter(|source| !tables.is_deleted(source.account_id)).cloned())
    }

    async fn sources(
        &self,
        account: AccountId,
        page: Page<SourceId>,
    ) -> Result<Listed<Source, SourceId>, StoreError> {
        Ok(self.tables().sources.list(account, page))
    }

    async fn update_source(&self, source: &Source, audit: &AuditEntry) -> Result<Source, StoreError> {
        let mut tables = self.tables();
        let updated = tables.update(source, audit)?;
        if !updated.keep_refused {
            tables.forget_refused(updated.id);
        }
        Ok(updated)
    }

    async fn delete_source(
        &self,
        account: AccountId,
        id: SourceId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let mut tables = self.tables();
        tables.sources.get(account, id)?;
        let version = tables.next_version(account)?;
        tables.sources.remove(&[id], version, now);
        tables.remove_routes(|route| route.source_id == Some(id), version, now);
        tables.forget_refused(id);
        tables.append(Some(account), audit);
        Ok(())
    }

    // --- Destinations --------------------------------------------------------------------------------------------

    async fn create_destination(
        &self,
        destination: &Destination,
        audit: &AuditEntry,
    ) -> Result<Destination, StoreError> {
        self.tables().create(&undeleted(destination), audit)
    }

    async fn destination(&self, account: AccountId, id: DestinationId) -> Result<Destination, StoreError> {
        self.tables().destinations.get(account, id).cloned()
    }

    async fn destination_by_uid(
        &self,
        account: AccountId,
        uid: &str,
    ) -> Result<Option<DestinationId>, StoreError> {
        Ok(self.tables().destinations.by_uid(account, uid))
    }

    async fn destinations(
        &self,
        account: AccountId,
        page: Page<DestinationId>,
    ) -> Result<Listed<Destination, DestinationId>, StoreError> {
        Ok(self.tables().destinations.list(account, page))
    }

    async fn update_destination(
        &self,
        destination: &Destination,
        audit: &AuditEntry,
    ) -> Result<Destination, StoreError> {
        let mut tables = self.tables();
        let before = tables.destinations.get(destination.account_id, destination.id)?.switch.disabled.clone();
        let updated = tables.update(&undeleted(destination), audit)?;
        if let (None, Some(disabled)) = (before, &updated.switch.disabled) {
            let (account, reason) = (updated.account_id, disabled.reason.as_str());
            let note = OperationalNote::of_disabled(account, updated.id, reason, disabled.at);
            tables.note_operational(&note);
            self.note_signal.notify();
        }
        Ok(updated)
    }

    async fn delete_destination(
        &self,
        account: AccountId,
        id: DestinationId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let mut tables = self.tables();
        tables.destinations.get(account, id)?;
        let version = tables.next_version(account)?;
        tables.destinations.remove(&[id], version, now);
        tables.remove_routes(|route| route.destination_id == id, version, now);
        tables.append(Some(account), audit);
        Ok(())
    }

    async fn probe(
        &self,
        account: AccountId,
        id: DestinationId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<Destination, StoreError> {
        let mut tables = self.tables();
        tables.destinations.get(account, id)?;
        let version = tables.next_version(account)?;
        let kept = tables.destinations.0.get_mut(&id).expect("found above");
        (kept.version, kept.row.version, kept.row.switch.probed_at) = (version, version, Some(now));
        let probed = kept.row.clone();
        tables.append(Some(account), audit);
        Ok(probed)
    }

    async fn held_destinations(
        &self,
        account: AccountId,
        limit: usize,
    ) -> Result<Vec<DestinationId>, StoreError> {
        let tables = self.tables();
        let own = tables.destinations.live().filter(|destination| destination.account_id == account);
        let mut newest: Vec<&Destination> = own.collect();
        newest.sort_by_key(|destination| std::cmp::Reverse(destination.id));
        newest.truncate(limit);
        let held = |destination: &Destination| {
            let gate = tables.gates.get(&destination.id);
            !destination.holds().is_empty() || gate.is_some_and(|gate| gate.record.is_held())
        };
        Ok(newest.into_iter().filter(|it| held(it)).map(|it| it.id).collect())
    }

    async fn destination_records(
        &self,
        ids: &[DestinationId],
    ) -> Result<Vec<Option<DestinationRecord>>, StoreError> {
        let tables = self.tables();
        let routes = tables.routes.0.values().map(|kept| &kept.row);
        let with_settings: Vec<&Route> = routes.filter(|route| route.has_overrides()).collect();
        Ok(ids.iter().map(|id| tables.destination_record(*id, &with_settings)).collect())
    }

    // --- Routes --------------------------------------------------------------------------------------------------

    async fn create_route(&self, route: &Route, audit: &AuditEntry) -> Result<Route, StoreError> {
        let mut tables = self.tables();
        tables.account(route.account_id)?;
        tables.route_has_ends(route)?;
        let created = tables.create(route, audit)?;
        tables.told_accounts.extend(route.takes_operational().then_some(route.account_id));
        Ok(created)
    }

    async fn route(&self, account: AccountId, id: RouteId) -> Result<Route, StoreError> {
        self.tables().routes.get(account, id).cloned()
    }

    async fn route_by_uid(&self, account: AccountId, uid: &str) -> Result<Option<RouteId>, StoreError> {
        Ok(self.tables().routes.by_uid(account, uid))
    }

    async fn routes(
        &self,
        account: AccountId,
        page: Page<RouteId>,
    ) -> Result<Listed<Route, RouteId>, StoreError> {
        Ok(self.tables().routes.list(account, page))
    }

    async fn update_route(&self, route: &Route, audit: &AuditEntry) -> Result<Route, StoreError> {
        let mut tables = self.tables();
        tables.routes.get(route.account_id, route.id)?;
        tables.route_has_ends(route)?;
        let updated = tables.update(route, audit)?;
        tables.told_accounts.extend(route.takes_operational().then_some(route.account_id));
        Ok(updated)
    }

    async fn delete_route(
        &self,
        account: AccountId,
        id: RouteId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let mut tables = self.tables();
        tables.routes.get(account, id)?;
        let version = tables.next_version(account)?;
        tables.routes.remove(&[id], version, now);
        tables.append(Some(account), audit);
        Ok(())
    }
}

impl Tables {
    fn account_uid_is_free(&self, account: &Account) -> Result<(), StoreError> {
        let mut others = self.accounts.values().filter(|other| other.id != account.id);
        match account.uid.is_some() && others.any(|other| other.uid == account.uid) {
            true => Err(StoreError::Taken { constraint: "uid" }),
            false => Ok(()),
        }
    }

    /// A route leads from a source of its account, or from none, to a destination of its account.
    fn route_has_ends(&self, route: &Route) -> Result<(), StoreError> {
        self.destinations.get(route.account_id, route.destination_id)?;
        route.source_id.map(|id| self.sources.get(route.account_id, id)).transpose()?;
        Ok(())
    }

    fn remove_routes(&mut self, which: impl Fn(&Route) -> bool, version: i64, now: Timestamp) {
        let gone: Vec<RouteId> =
            self.routes.live().filter(|route| which(route)).map(|route| route.id).collect();
        self.routes.remove(&gone, version, now);
    }

    fn destination_record(&self, id: DestinationId, with_settings: &[&Route]) -> Option<DestinationRecord> {
        let kept = self.destinations.0.get(&id)?;
        // What belongs to an account that was deleted is as good as gone.
        let account = self.accounts.get(&kept.row.account_id)?;
        let mut destination = kept.row.clone();
        destination.switch.deleted_at = kept.deleted_at;
        let own = with_settings.iter().filter(|route| route.destination_id == id);
        Some(DestinationRecord {
            id,
            account_id: destination.account_id,
            account_version: account.version,
            shard: id.shard(),
            account_defaults: account.defaults.clone(),
            data_key: account.data_key.clone(),
            encrypts: account.encrypt_payloads,
            destination: Ok(destination),
            overrides: own.map(|route| Route::clone(route)).collect(),
            gate: self.gates.get(&id).cloned(),
        })
    }
}

fn undeleted(destination: &Destination) -> Destination {
    let mut destination = destination.clone();
    destination.switch.deleted_at = None;
    destination
}
