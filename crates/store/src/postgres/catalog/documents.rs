//! What sources, destinations and routes have in common: an owner, a uid, a version, a document, and an afterlife.

use super::{
    super::{
        pool::{Connection, Transaction},
        rows::{Doc, FromRow, row},
        statement::{Statement, params, sql},
        trouble::Trouble,
    },
    accounts::next_version,
    document, micros,
};
use crate::StoreError;
use domain::{
    destination::{Destination, Disabled, DisabledReason, Switch},
    id::{AccountId, DestinationId},
    limits,
    route::Route,
    source::Source,
    time::Timestamp,
};
use serde::Serialize;
use std::sync::LazyLock;
use uuid::Uuid;

static SOURCE: LazyLock<Statement> = sql!("source");
static SOURCE_BY_TOKEN: LazyLock<Statement> = sql!("source_by_token");
static SOURCES: LazyLock<Statement> = sql!("sources");
static SOURCE_VERSION: LazyLock<Statement> = sql!("source_version");
static INSERT_SOURCE: LazyLock<Statement> = sql!("insert_source");
static UPDATE_SOURCE: LazyLock<Statement> = sql!("update_source");
static DELETE_SOURCE: LazyLock<Statement> = sql!("delete_source");
static DELETE_ROUTES_OF_SOURCE: LazyLock<Statement> = sql!("delete_routes_of_source");

static DESTINATION: LazyLock<Statement> = sql!("destination");
static DESTINATIONS: LazyLock<Statement> = sql!("destinations");
static DESTINATION_VERSION: LazyLock<Statement> = sql!("destination_version");
static COUNT_DESTINATIONS: LazyLock<Statement> = sql!("count_destinations");
static INSERT_DESTINATION: LazyLock<Statement> = sql!("insert_destination");
static UPDATE_DESTINATION: LazyLock<Statement> = sql!("update_destination");
static DELETE_DESTINATION: LazyLock<Statement> = sql!("delete_destination");
static DELETE_ROUTES_OF_DESTINATION: LazyLock<Statement> = sql!("delete_routes_of_destination");
static PROBE: LazyLock<Statement> = sql!("probe");

static ROUTE: LazyLock<Statement> = sql!("route");
static ROUTES: LazyLock<Statement> = sql!("routes");
static ROUTE_VERSION: LazyLock<Statement> = sql!("route_version");
static COUNT_ROUTES: LazyLock<Statement> = sql!("count_routes");
static INSERT_ROUTE: LazyLock<Statement> = sql!("insert_route");
static UPDATE_ROUTE: LazyLock<Statement> = sql!("update_route");
static DELETE_ROUTE: LazyLock<Statement> = sql!("delete_route");

/// Configuration that belongs to an account.
pub(super) trait Document: Clone + Send + Sync {
    type Row<'r>: FromRow<'r> + Into<Self>;
    const WHAT: &'static str;

    fn statements() -> Statements;
    fn id(&self) -> Uuid;
    fn account_id(&self) -> AccountId;
    fn version(&self) -> i64;
    /// As it is kept, with its new version.
    fn kept(&self, version: i64) -> Self;
    /// Nothing that it leads to is missing.
    fn has_ends(&self, transaction: &Transaction<'_>) -> impl Future<Output = Result<(), StoreError>> + Send;
    fn insert(
        &self,
        transaction: &Transaction<'_>,
        version: i64,
        doc: &str,
    ) -> impl Future<Output = Result<(), Trouble>> + Send;
    fn overwrite(
        &self,
        transaction: &Transaction<'_>,
        version: i64,
        doc: &str,
    ) -> impl Future<Output = Result<(), Trouble>> + Send;
}

/// The statements that differ by no more than the table's name and the columns beside the document.
pub(super) struct Statements {
    /// By `:id` and `:account_id`.
    get: &'static Statement,
    /// By `:account_id`, `:before_id` and `:limit`.
    list: &'static Statement,
    /// By `:id` and `:account_id`.
    version: &'static Statement,
    /// How many an account may have, their name, and what counts them, by `:account_id` and `:limit`.
    most: Option<(usize, &'static str, &'static Statement)>,
    /// The row itself, then what hangs on it; each by `:account_id`, `:id`, `:now` and `:version`.
    delete: Vec<&'static Statement>,
}

pub(super) async fn get<D: Document>(
    connection: &Connection,
    account: AccountId,
    id: Uuid,
) -> Result<D, StoreError> {
    let params = params![id: id => UUID, account_id: account.uuid() => UUID];
    let rows = connection.read(D::statements().get, params).await?;
    let found: Option<D::Row<'_>> = rows.first()?;
    found.map(Into::into).ok_or(StoreError::NotFound { what: D::WHAT })
}

pub(super) async fn list<D: Document>(
    connection: &Connection,
    account: AccountId,
    before: Uuid,
    limit: usize,
) -> Result<Vec<D>, StoreError> {
    let params =
        params![account_id: account.uuid() => UUID, before_id: before => UUID, limit: limit as i64 => INT8];
    let rows = connection.read(D::statements().list, params).await?;
    let found: Vec<D::Row<'_>> = rows.all()?;
    Ok(found.into_iter().map(Into::into).collect())
}

pub(super) async fn create<D: Document + Serialize>(
    connection: &Connection,
    new: &D,
) -> Result<D, StoreError> {
    let transaction = connection.begin().await?;
    let created = async {
        let version = next_version(&transaction, new.account_id(), "account").await?;
        new.has_ends(&transaction).await?;
        has_room::<D>(&transaction, new.account_id(), version).await?;
        new.insert(&transaction, version, &document(new)?).await?;
        Ok(new.kept(version))
    };
    let created = created.await;
    transaction.end(created).await
}

/// Each of them took a version when it was created, so an account that has had fewer changes has room. Any other is
/// counted under its lock, by the index of live uids: there is no number beside the rows that could go wrong.
async fn has_room<D: Document>(
    transaction: &Transaction<'_>,
    account: AccountId,
    version: i64,
) -> Result<(), StoreError> {
    let Some((most, what, count)) = D::statements().most.filter(|(most, ..)| version > *most as i64) else {
        return Ok(());
    };
    let params = params![account_id: account.uuid() => UUID, limit: most as i64 => INT8];
    let count: usize = transaction.run(count, params).await?.value("count")?;
    if count < most { Ok(()) } else { Err(StoreError::Full { what }) }
}

/// Writes only over the version it was read with. Under the account's lock nothing can come between.
pub(super) async fn update<D: Document + Serialize>(
    connection: &Connection,
    changed: &D,
) -> Result<D, StoreError> {
    let transaction = connection.begin().await?;
    let updated = async {
        let account = changed.account_id();
        let version = next_version(&transaction, account, D::WHAT).await?;
        let params = params![id: changed.id() => UUID, account_id: account.uuid() => UUID];
        let found: Option<i64> =
            transaction.run(D::statements().version, params).await?.first_value("version")?;
        if found.ok_or(StoreError::NotFound { what: D::WHAT })? != changed.version() {
            return Err(StoreError::Changed);
        }
        changed.has_ends(&transaction).await?;
        changed.overwrite(&transaction, version, &document(changed)?).await?;
        Ok(changed.kept(version))
    };
    let updated = updated.await;
    transaction.end(updated).await
}

/// Marks a row as deleted, then what hangs on it.
pub(super) async fn delete<D: Document>(
    connection: &Connection,
    account: AccountId,
    id: Uuid,
    now: Timestamp,
) -> Result<(), StoreError> {
    let transaction = connection.begin().await?;
    let deleted = async {
        let version = next_version(&transaction, account, D::WHAT).await?;
        let params = params![
            account_id: account.uuid() => UUID, id: id => UUID, now: now.micros() => INT8,
            version: version => INT8,
        ];
        for (place, statement) in D::statements().delete.into_iter().enumerate() {
            let rows = transaction.run(statement, params.clone()).await?;
            if place == 0 && rows.is_empty() {
                return Err(StoreError::NotFound { what: D::WHAT });
            }
        }
        Ok(())
    };
    let deleted = deleted.await;
    transaction.end(deleted).await
}

// --- Sources -----------------------------------------------------------------------------------------------------

row! {
    pub(super) struct SourceRow {
        doc: Doc<Source>,
        version: i64,
        token_hash: Vec<u8>,
    }
}

impl From<SourceRow> for Source {
    fn from(row: SourceRow) -> Self {
        Self { version: row.version, token_hash: row.token_hash, ..row.doc.0 }
    }
}

impl Document for Source {
    type Row<'r> = SourceRow;
    const WHAT: &'static str = "source";

    fn statements() -> Statements {
        Statements {
            get: &SOURCE,
            list: &SOURCES,
            version: &SOURCE_VERSION,
            most: None,
            delete: vec![&DELETE_SOURCE, &DELETE_ROUTES_OF_SOURCE],
        }
    }

    fn id(&self) -> Uuid {
        self.id.uuid()
    }

    fn account_id(&self) -> AccountId {
        self.account_id
    }

    fn version(&self) -> i64 {
        self.version
    }

    fn kept(&self, version: i64) -> Self {
        Self { version, ..self.clone() }
    }

    async fn has_ends(&self, _: &Transaction<'_>) -> Result<(), StoreError> {
        Ok(())
    }

    async fn insert(&self, transaction: &Transaction<'_>, version: i64, doc: &str) -> Result<(), Trouble> {
        let params = params![
            id: self.id.uuid() => UUID, account_id: self.account_id.uuid() => UUID, uid: self.uid => TEXT,
            token_hash: self.token_hash => BYTEA, version: version => INT8,
            created_at: self.created_at.micros() => INT8, doc: doc => TEXT,
        ];
        transaction.run(&INSERT_SOURCE, params).await?;
        Ok(())
    }

    async fn overwrite(&self, transaction: &Transaction<'_>, version: i64, doc: &str) -> Result<(), Trouble> {
        let params = params![
            id: self.id.uuid() => UUID, uid: self.uid => TEXT, token_hash: self.token_hash => BYTEA,
            version: version => INT8, doc: doc => TEXT,
        ];
        transaction.run(&UPDATE_SOURCE, params).await?;
        Ok(())
    }
}

pub(super) async fn source_by_token(
    connection: &Connection,
    token_hash: &[u8],
) -> Result<Option<Source>, StoreError> {
    let params = params![token_hash: token_hash => BYTEA];
    let found: Option<SourceRow> = connection.read(&SOURCE_BY_TOKEN, params).await?.first()?;
    Ok(found.map(Into::into))
}

// --- Destinations ------------------------------------------------------------------------------------------------

row! {
    pub(super) struct DestinationRow<'r> {
        doc: Doc<Destination>,
        version: i64,
        paused_at: Option<Timestamp>,
        resumed_at: Option<Timestamp>,
        disabled_at: Option<Timestamp>,
        disabled_reason: Option<&'r str>,
        deleted_at: Option<Timestamp>,
        probed_at: Option<Timestamp>,
    }
}

impl From<DestinationRow<'_>> for Destination {
    fn from(row: DestinationRow<'_>) -> Self {
        let reason = DisabledReason::parse(row.disabled_reason.unwrap_or_default());
        let switch = Switch {
            paused_at: row.paused_at,
            resumed_at: row.resumed_at,
            disabled: row.disabled_at.map(|at| Disabled { at, reason }),
            probed_at: row.probed_at,
            deleted_at: row.deleted_at,
        };
        Self { version: row.version, switch, ..row.doc.0 }
    }
}

impl Document for Destination {
    type Row<'r> = DestinationRow<'r>;
    const WHAT: &'static str = "destination";

    fn statements() -> Statements {
        Statements {
            get: &DESTINATION,
            list: &DESTINATIONS,
            version: &DESTINATION_VERSION,
            most: Some((limits::DESTINATIONS_PER_ACCOUNT, "destinations", &COUNT_DESTINATIONS)),
            delete: vec![&DELETE_DESTINATION, &DELETE_ROUTES_OF_DESTINATION],
        }
    }

    fn id(&self) -> Uuid {
        self.id.uuid()
    }

    fn account_id(&self) -> AccountId {
        self.account_id
    }

    fn version(&self) -> i64 {
        self.version
    }

    /// A deletion is never written this way.
    fn kept(&self, version: i64) -> Self {
        let mut kept = Self { version, ..self.clone() };
        kept.switch.deleted_at = None;
        kept
    }

    async fn has_ends(&self, _: &Transaction<'_>) -> Result<(), StoreError> {
        Ok(())
    }

    async fn insert(&self, transaction: &Transaction<'_>, version: i64, doc: &str) -> Result<(), Trouble> {
        let (switch, disabled) = (&self.switch, self.switch.disabled.as_ref());
        let params = params![
            id: self.id.uuid() => UUID, account_id: self.account_id.uuid() => UUID, uid: self.uid => TEXT,
            version: version => INT8, paused_at: micros(switch.paused_at) => INT8,
            resumed_at: micros(switch.resumed_at) => INT8,
            disabled_at: disabled.map(|disabled| disabled.at.micros()) => INT8,
            disabled_reason: disabled.map(|disabled| disabled.reason.as_str()) => TEXT, doc: doc => TEXT,
            shard: self.id.shard() as i16 => INT2, created_at: self.created_at.micros() => INT8,
        ];
        transaction.run(&INSERT_DESTINATION, params).await?;
        Ok(())
    }

    async fn overwrite(&self, transaction: &Transaction<'_>, version: i64, doc: &str) -> Result<(), Trouble> {
        let (switch, disabled) = (&self.switch, self.switch.disabled.as_ref());
        let params = params![
            id: self.id.uuid() => UUID, uid: self.uid => TEXT, version: version => INT8,
            paused_at: micros(switch.paused_at) => INT8, resumed_at: micros(switch.resumed_at) => INT8,
            disabled_at: disabled.map(|disabled| disabled.at.micros()) => INT8,
            disabled_reason: disabled.map(|disabled| disabled.reason.as_str()) => TEXT, doc: doc => TEXT,
        ];
        transaction.run(&UPDATE_DESTINATION, params).await?;
        Ok(())
    }
}

pub(super) async fn probe(
    connection: &Connection,
    account: AccountId,
    id: DestinationId,
    now: Timestamp,
) -> Result<Destination, StoreError> {
    let transaction = connection.begin().await?;
    let probed = async {
        let version = next_version(&transaction, account, "destination").await?;
        let params = params![
            account_id: account.uuid() => UUID, id: id.uuid() => UUID, now: now.micros() => INT8,
            version: version => INT8,
        ];
        let rows = transaction.run(&PROBE, params).await?;
        let found: Option<DestinationRow<'_>> = rows.first()?;
        found.map(Into::into).ok_or(StoreError::NotFound { what: "destination" })
    };
    let probed = probed.await;
    transaction.end(probed).await
}

// --- Routes ------------------------------------------------------------------------------------------------------

row! {
    pub(in super::super) struct RouteRow {
        doc: Doc<Route>,
        version: i64,
    }
}

impl RouteRow {
    pub(in super::super) fn route(self) -> Route {
        Route { version: self.version, ..self.doc.0 }
    }
}

impl From<RouteRow> for Route {
    fn from(row: RouteRow) -> Self {
        row.route()
    }
}

impl Document for Route {
    type Row<'r> = RouteRow;
    const WHAT: &'static str = "route";

    fn statements() -> Statements {
        Statements {
            get: &ROUTE,
            list: &ROUTES,
            version: &ROUTE_VERSION,
            most: Some((limits::ROUTES_PER_ACCOUNT, "routes", &COUNT_ROUTES)),
            delete: vec![&DELETE_ROUTE],
        }
    }

    fn id(&self) -> Uuid {
        self.id.uuid()
    }

    fn account_id(&self) -> AccountId {
        self.account_id
    }

    fn version(&self) -> i64 {
        self.version
    }

    fn kept(&self, version: i64) -> Self {
        Self { version, ..self.clone() }
    }

    /// It leads from a source of its account, or from none, to a destination of its account.
    async fn has_ends(&self, transaction: &Transaction<'_>) -> Result<(), StoreError> {
        let account = self.account_id.uuid();
        let params = params![id: self.destination_id.uuid() => UUID, account_id: account => UUID];
        if transaction.run(&DESTINATION_VERSION, params).await?.is_empty() {
            return Err(StoreError::NotFound { what: "destination" });
        }
        let Some(source) = self.source_id else { return Ok(()) };
        let params = params![id: source.uuid() => UUID, account_id: account => UUID];
        match transaction.run(&SOURCE_VERSION, params).await?.is_empty() {
            true => Err(StoreError::NotFound { what: "source" }),
            false => Ok(()),
        }
    }

    async fn insert(&self, transaction: &Transaction<'_>, version: i64, doc: &str) -> Result<(), Trouble> {
        let params = params![
            id: self.id.uuid() => UUID, account_id: self.account_id.uuid() => UUID, uid: self.uid => TEXT,
            source_id: self.source_id.map(|id| id.uuid()) => UUID,
            destination_id: self.destination_id.uuid() => UUID, overrides: has_overrides(self) => BOOL,
            version: version => INT8, created_at: self.created_at.micros() => INT8, doc: doc => TEXT,
        ];
        transaction.run(&INSERT_ROUTE, params).await?;
        Ok(())
    }

    async fn overwrite(&self, transaction: &Transaction<'_>, version: i64, doc: &str) -> Result<(), Trouble> {
        let params = params![
            id: self.id.uuid() => UUID, uid: self.uid => TEXT,
            source_id: self.source_id.map(|id| id.uuid()) => UUID,
            destination_id: self.destination_id.uuid() => UUID, overrides: has_overrides(self) => BOOL,
            version: version => INT8, doc: doc => TEXT,
        ];
        transaction.run(&UPDATE_ROUTE, params).await?;
        Ok(())
    }
}

fn has_overrides(route: &Route) -> bool {
    route.retry_policy.is_some() || route.timeout_seconds.is_some() || route.signing.is_some()
}
