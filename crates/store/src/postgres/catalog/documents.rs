//! Sources, destinations and routes: see [`crate::documents`] for what they have in common.

use super::{
    super::{
        audit_log, operational_events,
        pool::{Connection, Transaction},
        rows::{Cells, Doc, FromColumn, Unreadable},
        statement::{Statement, params, sql},
        trouble::Trouble,
    },
    accounts::{self, next_version},
    document, micros,
};
use crate::{Listed, Page, StoreError, documents::Document, page_rows};
use domain::{
    audit::AuditEntry,
    destination::{Destination, Disabled, DisabledReason, Switch},
    id::{AccountId, DestinationId},
    route::Route,
    source::Source,
    time::Timestamp,
};
use std::sync::LazyLock;

static INSERT_SOURCE: LazyLock<Statement> = sql!("insert_source");
static UPDATE_SOURCE: LazyLock<Statement> = sql!("update_source");
static SOURCE_BY_TOKEN: LazyLock<Statement> = sql!("source_by_token");
static DELETE_ROUTES_OF_SOURCE: LazyLock<Statement> = sql!("delete_routes_of_source");

static INSERT_DESTINATION: LazyLock<Statement> = sql!("insert_destination");
static UPDATE_DESTINATION: LazyLock<Statement> = sql!("update_destination");
static DELETE_ROUTES_OF_DESTINATION: LazyLock<Statement> = sql!("delete_routes_of_destination");
static PROBE: LazyLock<Statement> = sql!("probe");

static INSERT_ROUTE: LazyLock<Statement> = sql!("insert_route");
static UPDATE_ROUTE: LazyLock<Statement> = sql!("update_route");

/// A document with its statements.
pub(super) trait StoredDocument: Document<Id: for<'r> FromColumn<'r>> {
    fn statements() -> &'static Statements;
    fn read(cells: &mut Cells<'_, '_>) -> Result<Self, Unreadable>;

    /// Nothing that it leads to is missing.
    fn has_ends(&self, _: &Transaction<'_>) -> impl Future<Output = Result<(), StoreError>> + Send {
        async { Ok(()) }
    }

    /// Inserts it, or writes it over what was there.
    fn write(
        &self,
        transaction: &Transaction<'_>,
        write: Write,
        version: i64,
        doc: &str,
    ) -> impl Future<Output = Result<(), Trouble>> + Send;
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Write {
    Insert,
    Update,
}

pub(super) struct Statements {
    get: Statement,
    list: Statement,
    by_uid: Statement,
    version: Statement,
    count: Statement,
    delete: Statement,
    /// What hangs on a row that is deleted, by `:account_id`, `:id`, `:now` and `:version`.
    delete_routes: Option<&'static Statement>,
}

impl Statements {
    fn of<D: Document>(delete_routes: Option<&'static Statement>) -> Self {
        Self {
            get: Statement::new(D::WHAT, D::GET),
            list: Statement::new(D::WHAT, D::LIST),
            by_uid: Statement::new(D::WHAT, D::BY_UID),
            version: Statement::new(D::WHAT, D::VERSION),
            count: Statement::new(D::WHAT, D::COUNT),
            delete: Statement::new(D::WHAT, &format!("{} returning id", D::DELETE)),
            delete_routes,
        }
    }
}

pub(super) async fn get<D: StoredDocument>(
    connection: &Connection,
    account: AccountId,
    id: D::Id,
) -> Result<D, StoreError> {
    let params = params![id: D::uuid(id) => UUID, account_id: account.uuid() => UUID];
    let found = connection.read(&D::statements().get, params).await?.first(D::read)?;
    found.ok_or(StoreError::NotFound { what: D::WHAT })
}

pub(super) async fn list<D: StoredDocument>(
    connection: &Connection,
    account: AccountId,
    page: Page<D::Id>,
) -> Result<Listed<D, D::Id>, StoreError> {
    let before = D::uuid(page.before.unwrap_or(D::LAST_ID));
    let params = params![
        account_id: account.uuid() => UUID, before_id: before => UUID,
        limit: page_rows::asked_for(page.limit) as i64 => INT8,
    ];
    let read = connection.read(&D::statements().list, params).await?;
    Ok(read.page(D::WHAT, page.limit, |cells| cells.get("id"), D::read)?.listed())
}

pub(super) async fn by_uid<D: StoredDocument>(
    connection: &Connection,
    account: AccountId,
    uid: &str,
) -> Result<Option<D::Id>, StoreError> {
    let params = params![account_id: account.uuid() => UUID, uid: uid => TEXT];
    Ok(connection.read(&D::statements().by_uid, params).await?.first_value("id")?)
}

/// The row's version; NotFound if it is not there, or not this account's.
async fn version<D: StoredDocument>(
    transaction: &Transaction<'_>,
    account: AccountId,
    id: D::Id,
) -> Result<i64, StoreError> {
    let params = params![id: D::uuid(id) => UUID, account_id: account.uuid() => UUID];
    let found = transaction.run(&D::statements().version, params).await?.first_value("version")?;
    found.ok_or(StoreError::NotFound { what: D::WHAT })
}

pub(super) async fn create<D: StoredDocument>(
    connection: &Connection,
    new: &D,
    audit: &AuditEntry,
) -> Result<D, StoreError> {
    let transaction = connection.begin().await?;
    let created = async {
        let version = next_version(&transaction, new.account_id(), "account").await?;
        new.has_ends(&transaction).await?;
        has_room::<D>(&transaction, new.account_id(), version).await?;
        new.write(&transaction, Write::Insert, version, &document(new)?).await?;
        audit_log::append(&transaction, Some(new.account_id()), audit).await?;
        Ok(new.kept(version))
    };
    let created = created.await;
    transaction.end(created).await
}

/// Each of them took a version when it was created, so an account that has had fewer changes has room. Any other is
/// counted under its lock, by the index of live uids: there is no number beside the rows that could go wrong.
async fn has_room<D: StoredDocument>(
    transaction: &Transaction<'_>,
    account: AccountId,
    version: i64,
) -> Result<(), StoreError> {
    if D::MAX.is_none() {
        return Ok(());
    }
    let most = D::most(&accounts::limits(transaction, account).await?.quotas);
    let Some((max, what)) = most.filter(|(max, _)| version > *max as i64) else { return Ok(()) };
    let params = params![account_id: account.uuid() => UUID, limit: max as i64 => INT8];
    let count: usize = transaction.run(&D::statements().count, params).await?.value("count")?;
    if count < max { Ok(()) } else { Err(StoreError::Full { what }) }
}

/// Writes only over the version it was read with. Under the account's lock nothing can come between.
pub(super) async fn update<D: StoredDocument>(
    connection: &Connection,
    changed: &D,
    audit: &AuditEntry,
) -> Result<D, StoreError> {
    let transaction = connection.begin().await?;
    let updated = async {
        let account = changed.account_id();
        let next = next_version(&transaction, account, D::WHAT).await?;
        let found = version::<D>(&transaction, account, changed.id()).await?;
        changed.has_ends(&transaction).await?;
        if found != changed.version() {
            return Err(StoreError::Changed);
        }
        changed.write(&transaction, Write::Update, next, &document(changed)?).await?;
        audit_log::append(&transaction, Some(account), audit).await?;
        Ok(changed.kept(next))
    };
    let updated = updated.await;
    transaction.end(updated).await
}

/// Marks a row as deleted, then what hangs on it.
pub(super) async fn delete<D: StoredDocument>(
    connection: &Connection,
    account: AccountId,
    id: D::Id,
    now: Timestamp,
    audit: &AuditEntry,
) -> Result<(), StoreError> {
    let transaction = connection.begin().await?;
    let deleted = async {
        let version = next_version(&transaction, account, D::WHAT).await?;
        let params = params![
            account_id: account.uuid() => UUID, id: D::uuid(id) => UUID, now: now.micros() => INT8,
            version: version => INT8,
        ];
        let Statements { delete, delete_routes, .. } = D::statements();
        if transaction.run(delete, params.clone()).await?.is_empty() {
            return Err(StoreError::NotFound { what: D::WHAT });
        }
        if let Some(delete_routes) = delete_routes {
            transaction.run(delete_routes, params).await?;
        }
        audit_log::append(&transaction, Some(account), audit).await
    };
    let deleted = deleted.await;
    transaction.end(deleted).await
}

// --- Sources -----------------------------------------------------------------------------------------------------

impl StoredDocument for Source {
    fn statements() -> &'static Statements {
        static STATEMENTS: LazyLock<Statements> =
            LazyLock::new(|| Statements::of::<Source>(Some(&DELETE_ROUTES_OF_SOURCE)));
        &STATEMENTS
    }

    fn read(cells: &mut Cells<'_, '_>) -> Result<Self, Unreadable> {
        let Doc(source) = cells.get("doc")?;
        Ok(Self { version: cells.get("version")?, token_hash: cells.get("token_hash")?, ..source })
    }

    async fn write(
        &self,
        transaction: &Transaction<'_>,
        write: Write,
        version: i64,
        doc: &str,
    ) -> Result<(), Trouble> {
        let params = params![
            id: self.id.uuid() => UUID, account_id: self.account_id.uuid() => UUID, uid: self.uid => TEXT,
            token_hash: self.token_hash => BYTEA, version: version => INT8,
            created_at: self.created_at.micros() => INT8, doc: doc => TEXT, keep_refused: self.keep_refused => BOOL,
        ];
        match write {
            Write::Update => {
                let params = params.without(&["account_id", "created_at"]);
                transaction.run(&UPDATE_SOURCE, params).await?
            }
            Write::Insert => transaction.run(&INSERT_SOURCE, params.without(&["keep_refused"])).await?,
        };
        Ok(())
    }
}

pub(super) async fn source_by_token(
    connection: &Connection,
    token_hash: &[u8],
) -> Result<Option<Source>, StoreError> {
    let params = params![token_hash: token_hash => BYTEA];
    Ok(connection.read(&SOURCE_BY_TOKEN, params).await?.first(Source::read)?)
}

// --- Destinations ------------------------------------------------------------------------------------------------

impl StoredDocument for Destination {
    fn statements() -> &'static Statements {
        static STATEMENTS: LazyLock<Statements> =
            LazyLock::new(|| Statements::of::<Destination>(Some(&DELETE_ROUTES_OF_DESTINATION)));
        &STATEMENTS
    }

    fn read(cells: &mut Cells<'_, '_>) -> Result<Self, Unreadable> {
        let Doc(destination) = cells.get("doc")?;
        let reason: Option<&str> = cells.get("disabled_reason")?;
        let reason = DisabledReason::parse(reason.unwrap_or_default());
        let disabled_at: Option<Timestamp> = cells.get("disabled_at")?;
        let switch = Switch {
            paused_at: cells.get("paused_at")?,
            resumed_at: cells.get("resumed_at")?,
            disabled: disabled_at.map(|at| Disabled { at, reason }),
            probed_at: cells.get("probed_at")?,
            deleted_at: cells.get("deleted_at")?,
        };
        Ok(Self { version: cells.get("version")?, switch, ..destination })
    }

    async fn write(
        &self,
        transaction: &Transaction<'_>,
        write: Write,
        version: i64,
        doc: &str,
    ) -> Result<(), Trouble> {
        let (switch, disabled) = (&self.switch, self.switch.disabled.as_ref());
        let params = params![
            id: self.id.uuid() => UUID, account_id: self.account_id.uuid() => UUID, uid: self.uid => TEXT,
            version: version => INT8, paused_at: micros(switch.paused_at) => INT8,
            resumed_at: micros(switch.resumed_at) => INT8,
            disabled_at: disabled.map(|disabled| disabled.at.micros()) => INT8,
            disabled_reason: disabled.map(|disabled| disabled.reason.as_str()) => TEXT, doc: doc => TEXT,
            shard: self.id.shard() as i16 => INT2, created_at: self.created_at.micros() => INT8,
        ];
        match write {
            Write::Insert => transaction.run(&INSERT_DESTINATION, params).await?,
            Write::Update => {
                operational_events::note_disabled(transaction, self).await?;
                let params = params.without(&["account_id", "created_at", "shard"]);
                transaction.run(&UPDATE_DESTINATION, params).await?
            }
        };
        Ok(())
    }
}

pub(super) async fn probe(
    connection: &Connection,
    account: AccountId,
    id: DestinationId,
    now: Timestamp,
    audit: &AuditEntry,
) -> Result<Destination, StoreError> {
    let transaction = connection.begin().await?;
    let probed = async {
        let version = next_version(&transaction, account, "destination").await?;
        let params = params![
            account_id: account.uuid() => UUID, id: id.uuid() => UUID, now: now.micros() => INT8,
            version: version => INT8,
        ];
        let found = transaction.run(&PROBE, params).await?.first(Destination::read)?;
        let found = found.ok_or(StoreError::NotFound { what: "destination" })?;
        audit_log::append(&transaction, Some(account), audit).await?;
        Ok(found)
    };
    let probed = probed.await;
    transaction.end(probed).await
}

// --- Routes ------------------------------------------------------------------------------------------------------

impl StoredDocument for Route {
    fn statements() -> &'static Statements {
        static STATEMENTS: LazyLock<Statements> = LazyLock::new(|| Statements::of::<Route>(None));
        &STATEMENTS
    }

    fn read(cells: &mut Cells<'_, '_>) -> Result<Self, Unreadable> {
        let Doc(route) = cells.get("doc")?;
        Ok(Self { version: cells.get("version")?, ..route })
    }

    /// It leads from a source of its account, or from none, to a destination of its account.
    async fn has_ends(&self, transaction: &Transaction<'_>) -> Result<(), StoreError> {
        version::<Destination>(transaction, self.account_id, self.destination_id).await?;
        if let Some(source) = self.source_id {
            version::<Source>(transaction, self.account_id, source).await?;
        }
        Ok(())
    }

    async fn write(
        &self,
        transaction: &Transaction<'_>,
        write: Write,
        version: i64,
        doc: &str,
    ) -> Result<(), Trouble> {
        let params = params![
            id: self.id.uuid() => UUID, account_id: self.account_id.uuid() => UUID, uid: self.uid => TEXT,
            source_id: self.source_id.map(|id| id.uuid()) => UUID,
            destination_id: self.destination_id.uuid() => UUID, overrides: self.has_overrides() => BOOL,
            version: version => INT8, created_at: self.created_at.micros() => INT8, doc: doc => TEXT,
        ];
        if self.takes_operational() {
            operational_events::is_told(transaction, self.account_id).await?;
        }
        match write {
            Write::Insert => transaction.run(&INSERT_ROUTE, params).await?,
            Write::Update => {
                let params = params.without(&["account_id", "created_at"]);
                transaction.run(&UPDATE_ROUTE, params).await?
            }
        };
        Ok(())
    }
}
