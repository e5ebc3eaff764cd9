//! Configuration: accounts, keys, sources, destinations, routes. Written by the API only (a settlement may disable a
//! destination), versioned by account: every change takes the account's next version in the changing transaction and
//! stamps its row with it, so that a snapshot can be checked, and brought up to date by reading what is newer.

use crate::{KeptGate, Listed, StoreError};
use async_trait::async_trait;
use domain::{
    account::{Account, AccountLimits, ApiKey},
    audit::AuditEntry,
    delivery_settings::DeliverySettings,
    destination::{Destination, Numbering},
    id::{AccountId, ApiKeyId, DestinationId, RouteId, SourceId},
    route::Route,
    seal::Sealed,
    source::Source,
    time::Timestamp,
};

/// Updates write only if the row still has the version it was read with, else [`StoreError::Changed`].
///
/// Every method that takes an account answers [`StoreError::NotFound`] for a foreign id, exactly as for a random one.
/// Deleted rows are not found either, and their uid is free again. A uid is unique among the accounts, and within an
/// account among its sources, its destinations and its routes, each kind for itself: `Taken { "uid" }` otherwise.
/// Creating something for an account that is not there is `NotFound { "account" }`.
///
/// What is created or updated is given back as it is kept from now on, with its new version. An account's own version
/// is 1 when it is created; it is the one that everything below counts up, so that its row counts as changed when
/// anything of it has. An account has at most [`domain::limits::DESTINATIONS_PER_ACCOUNT`] destinations and
/// [`domain::limits::ROUTES_PER_ACCOUNT`] routes, or as many as its quotas say, deleted ones not counted:
/// `Full { "destinations" }` or `Full { "routes" }` beyond. Where several reasons to refuse hold, the first of NotFound, Changed, Full, Taken is
/// given. What is changed here is written down in the same transaction: the entry given becomes the next of the chain of the
/// account, or of the installation for keys of operators and platforms, and what is refused leaves none. Lists are newest first; those of sources, destinations and routes may be short and go on, as in [`crate::History`].
#[async_trait]
pub trait Catalog: Send + Sync {
    // --- The installation --------------------------------------------------------------------------------------

    /// The value kept under this name; if there is none yet, this one is kept from now on. Gives what is kept.
    async fn setting_or_insert(&self, name: &str, value: &[u8]) -> Result<Vec<u8>, StoreError>;

    // --- Accounts ------------------------------------------------------------------------------------------------

    async fn create_account(&self, account: &Account, audit: &AuditEntry) -> Result<Account, StoreError>;
    /// The same, if there are fewer than `most` then: `Full { "accounts" }` otherwise. However many make one at once, there
    /// are never more.
    async fn create_account_within(
        &self,
        most: usize,
        account: &Account,
        audit: &AuditEntry,
    ) -> Result<Account, StoreError>;
    async fn account(&self, id: AccountId) -> Result<Account, StoreError>;
    /// The account of this uid, if there is one.
    async fn account_by_uid(&self, uid: &str) -> Result<Option<Account>, StoreError>;
    /// Newest first, ids below `page.before`.
    async fn accounts(&self, page: Page<AccountId>) -> Result<Vec<Account>, StoreError>;
    /// The oldest account, if there is any.
    async fn first_account(&self) -> Result<Option<Account>, StoreError>;
    /// Takes exactly the version after the one it was read with, so that a document can say at which version a part of
    /// it changed ([`Account::with_defaults`]).
    async fn update_account(&self, account: &Account, audit: &AuditEntry) -> Result<Account, StoreError>;
    /// The configuration that changed after version `since` (0: all of it).
    async fn changes(&self, account: AccountId, since: i64) -> Result<AccountChanges, StoreError>;

    /// The version of each account, in the order asked for; None where there is no such account.
    async fn versions(&self, accounts: &[AccountId]) -> Result<Vec<Option<i64>>, StoreError>;
    /// The destinations that changed after version `since`, deleted ones too, and those that a changed route leads to;
    /// each once, in order, above `after`, at most `limit`. Other defaults of the account change none of them here, and
    /// all of them for who delivers: [`Account::defaults_version`] tells.
    async fn changed_destinations(
        &self,
        account: AccountId,
        since: i64,
        after: Option<DestinationId>,
        limit: usize,
    ) -> Result<Vec<DestinationId>, StoreError>;

    // --- API keys ------------------------------------------------------------------------------------------------

    /// Taken { "lookup" } if the looked-up part exists already.
    async fn create_api_key(&self, key: &ApiKey, audit: &AuditEntry) -> Result<(), StoreError>;
    /// Of any account, revoked and expired ones too: the caller decides.
    async fn api_key_by_lookup(&self, lookup: &str) -> Result<Option<ApiKey>, StoreError>;
    /// Keys of an account, or for None those of operators and platforms; newest first.
    async fn api_keys(
        &self,
        account: Option<AccountId>,
        page: Page<ApiKeyId>,
    ) -> Result<Vec<ApiKey>, StoreError>;
    /// Revoking again is fine and keeps the first time.
    async fn revoke_api_key(
        &self,
        account: Option<AccountId>,
        id: ApiKeyId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<(), StoreError>;
    /// Notes that the key was used; a key that is not there is none to note.
    async fn touch_api_key(&self, id: ApiKeyId, now: Timestamp) -> Result<(), StoreError>;

    // --- Sources -------------------------------------------------------------------------------------------------

    async fn create_source(&self, source: &Source, audit: &AuditEntry) -> Result<Source, StoreError>;
    async fn source(&self, account: AccountId, id: SourceId) -> Result<Source, StoreError>;
    /// The source of this uid, if the account has one.
    async fn source_by_uid(&self, account: AccountId, uid: &str) -> Result<Option<SourceId>, StoreError>;
    /// Of any account, disabled ones too: the caller decides.
    async fn source_by_token(&self, token_hash: &[u8]) -> Result<Option<Source>, StoreError>;
    async fn sources(
        &self,
        account: AccountId,
        page: Page<SourceId>,
    ) -> Result<Listed<Source, SourceId>, StoreError>;
    async fn update_source(&self, source: &Source, audit: &AuditEntry) -> Result<Source, StoreError>;
    /// Removes its routes too.
    async fn delete_source(
        &self,
        account: AccountId,
        id: SourceId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<(), StoreError>;

    // --- Destinations --------------------------------------------------------------------------------------------

    /// `destination.id.shard()` is stored with it.
    async fn create_destination(
        &self,
        destination: &Destination,
        audit: &AuditEntry,
    ) -> Result<Destination, StoreError>;
    async fn destination(&self, account: AccountId, id: DestinationId) -> Result<Destination, StoreError>;
    /// The destination of this uid, if the account has one.
    async fn destination_by_uid(
        &self,
        account: AccountId,
        uid: &str,
    ) -> Result<Option<DestinationId>, StoreError>;
    async fn destinations(
        &self,
        account: AccountId,
        page: Page<DestinationId>,
    ) -> Result<Listed<Destination, DestinationId>, StoreError>;
    /// Those that a switch or a kept gate holds, newest first; of an account's newest `limit` destinations.
    async fn held_destinations(
        &self,
        account: AccountId,
        limit: usize,
    ) -> Result<Vec<DestinationId>, StoreError>;
    /// Writes the document and the switches (not `deleted_at` and `probed_at`, which have commands of their own).
    async fn update_destination(
        &self,
        destination: &Destination,
        audit: &AuditEntry,
    ) -> Result<Destination, StoreError>;
    /// Marks it deleted and removes its routes; the row stays until its lane is empty.
    async fn delete_destination(
        &self,
        account: AccountId,
        id: DestinationId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<(), StoreError>;
    /// "Probe now": notes when it was asked for, and gives the destination as it is kept from now on. A change as any
    /// other: it takes the account's next version.
    async fn probe(
        &self,
        account: AccountId,
        id: DestinationId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<Destination, StoreError>;
    /// What the engine needs to deliver, deleted destinations included, in the order asked for; None where there is
    /// no row at all.
    async fn destination_records(
        &self,
        ids: &[DestinationId],
    ) -> Result<Vec<Option<DestinationRecord>>, StoreError>;

    // --- Routes --------------------------------------------------------------------------------------------------

    /// NotFound { "destination" } or { "source" } if it leads from or to something that is not there.
    async fn create_route(&self, route: &Route, audit: &AuditEntry) -> Result<Route, StoreError>;
    async fn route(&self, account: AccountId, id: RouteId) -> Result<Route, StoreError>;
    /// The route of this uid, if the account has one.
    async fn route_by_uid(&self, account: AccountId, uid: &str) -> Result<Option<RouteId>, StoreError>;
    async fn routes(
        &self,
        account: AccountId,
        page: Page<RouteId>,
    ) -> Result<Listed<Route, RouteId>, StoreError>;
    /// NotFound { "destination" } or { "source" } as when it is created.
    async fn update_route(&self, route: &Route, audit: &AuditEntry) -> Result<Route, StoreError>;
    async fn delete_route(
        &self,
        account: AccountId,
        id: RouteId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<(), StoreError>;
}

/// A part of a list, newest first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Page<K> {
    /// Only ids below this one.
    pub before: Option<K>,
    pub limit: usize,
}

/// What changed in an account's configuration, for its snapshot: the routes as they are now, disabled ones too, the ids
/// of those that were removed, and how the destinations that changed number; each oldest first.
#[derive(Debug, Clone, Default)]
pub struct AccountChanges {
    pub version: i64,
    /// As they are now. Those of an account whose document does not read are none of its own.
    pub limits: AccountLimits,
    pub routes: Vec<Route>,
    pub removed_routes: Vec<RouteId>,
    /// The data key that seals payloads, wrapped, of an account that has them encrypted. Read later than the version: a
    /// newer one is no harm.
    pub sealing: Option<Sealed>,
    /// From the beginning on only of those that are ordered.
    pub numberings: Vec<(DestinationId, Numbering)>,
}

/// A destination with all that is needed to deliver to it.
#[derive(Debug, Clone)]
pub struct DestinationRecord {
    pub id: DestinationId,
    pub account_id: AccountId,
    /// The account's version when this was read: what changes later has a higher one.
    pub account_version: i64,
    pub shard: u16,
    /// A document that does not read back, its account's too, is a reason to dead-letter, not to fail.
    pub destination: Result<Destination, String>,
    /// What the account says where the destination does not.
    pub account_defaults: DeliverySettings,
    /// The account's data key, wrapped.
    pub data_key: Sealed,
    /// What is kept of its attempts is sealed by it.
    pub encrypts: bool,
    /// Its routes that have settings of their own (retry policy, timeout, signing), oldest first. Removed ones too:
    /// removing a route touches later events only, what waits keeps its schedule.
    pub overrides: Vec<Route>,
    /// What its lane's last owner remembered of its gate.
    pub gate: Option<KeptGate>,
}
