//! Sources, destinations and routes: see [`crate::documents`] for what they have in common.

use super::{
    super::{
        audit_log, operational_events, refused_requests,
        rows::{Columns, Id, id_in},
        statement::{Value, bound, sql},
        trouble::Trouble,
    },
    accounts,
};
use crate::{Listed, Page, StoreError, documents::Document, page_rows};
use domain::{
    audit::AuditEntry,
    destination::{Destination, Disabled, DisabledReason, Switch},
    id::AccountId,
    route::Route,
    source::Source,
    time::Timestamp,
};
use rusqlite::{Connection, ErrorCode};
use serde::Serialize;

/// A document with its columns.
pub(super) trait StoredDocument: Document<Id: Id + Value> {
    fn read(columns: &mut Columns<'_>) -> Result<Self, Trouble>;
    fn insert(&self, connection: &Connection, doc: &str) -> rusqlite::Result<usize>;
    fn overwrite(&self, connection: &Connection, doc: &str) -> rusqlite::Result<usize>;

    /// Nothing that it leads to is missing.
    fn has_ends(&self, _: &Connection) -> Result<(), Trouble> {
        Ok(())
    }

    /// What hangs on a row goes with it.
    fn delete_routes(_: &Connection, _: Self::Id, _: Timestamp, _: i64) -> rusqlite::Result<usize> {
        Ok(0)
    }
}

pub(super) fn get<D: StoredDocument>(
    connection: &Connection,
    account: AccountId,
    id: D::Id,
) -> Result<D, Trouble> {
    bound!(D::GET, id: id, account_id: account)
        .first(connection, D::read)?
        .ok_or(StoreError::NotFound { what: D::WHAT }.into())
}

pub(super) fn list<D: StoredDocument>(
    connection: &Connection,
    account: AccountId,
    page: Page<D::Id>,
) -> Result<Listed<D, D::Id>, Trouble> {
    let before = page.before.unwrap_or(D::LAST_ID);
    let limit = page_rows::asked_for(page.limit);
    bound!(D::LIST, account_id: account, before_id: before, limit: limit).page(
        connection,
        (D::WHAT, page.limit),
        |row| id_in(row, "id"),
        D::read,
    )
}

pub(super) fn by_uid<D: StoredDocument>(
    connection: &Connection,
    account: AccountId,
    uid: &str,
) -> Result<Option<D::Id>, Trouble> {
    bound!(D::BY_UID, account_id: account, uid: uid).first(connection, |columns| Ok(columns.id()?))
}

/// The row's version; NotFound if it is not there, or not this account's.
pub(super) fn version<D: StoredDocument>(
    connection: &Connection,
    account: AccountId,
    id: D::Id,
) -> Result<i64, Trouble> {
    bound!(D::VERSION, id: id, account_id: account)
        .first(connection, |columns| Ok(columns.get()?))?
        .ok_or(StoreError::NotFound { what: D::WHAT }.into())
}

pub(super) fn create<D: StoredDocument>(
    connection: &Connection,
    new: &D,
    audit: &AuditEntry,
) -> Result<D, Trouble> {
    let new = new.kept(accounts::next_version(connection, new.account_id())?);
    new.has_ends(connection)?;
    has_room::<D>(connection, new.account_id(), new.version())?;
    new.insert(connection, &document(&new)?).map_err(taken)?;
    audit_log::append(connection, Some(new.account_id()), audit)?;
    Ok(new)
}

/// Each of them took a version when it was created, so an account that has had fewer changes has room. Any other is
/// counted, which is a range of an index without a look at the rows: there is no number beside them that could go wrong.
fn has_room<D: StoredDocument>(
    connection: &Connection,
    account: AccountId,
    version: i64,
) -> Result<(), Trouble> {
    if D::MAX.is_none() {
        return Ok(());
    }
    let most = D::most(&accounts::limits(connection, account)?.quotas);
    let Some((max, what)) = most.filter(|(max, _)| version > *max as i64) else { return Ok(()) };
    let count = bound!(D::COUNT, account_id: account, limit: max)
        .one(connection, |columns| Ok(columns.count()? as usize))?;
    if count < max { Ok(()) } else { Err(StoreError::Full { what }.into()) }
}

/// Writes only over the version it was read with.
pub(super) fn update<D: StoredDocument>(
    connection: &Connection,
    changed: &D,
    audit: &AuditEntry,
) -> Result<D, Trouble> {
    let found = version::<D>(connection, changed.account_id(), changed.id())?;
    changed.has_ends(connection)?;
    if found != changed.version() {
        return Err(StoreError::Changed.into());
    }
    let changed = changed.kept(accounts::next_version(connection, changed.account_id())?);
    changed.overwrite(connection, &document(&changed)?).map_err(taken)?;
    audit_log::append(connection, Some(changed.account_id()), audit)?;
    Ok(changed)
}

/// Marks a row as deleted, then what hangs on it.
pub(super) fn delete<D: StoredDocument>(
    connection: &Connection,
    account: AccountId,
    id: D::Id,
    now: Timestamp,
    audit: &AuditEntry,
) -> Result<(), Trouble> {
    version::<D>(connection, account, id)?;
    let version = accounts::next_version(connection, account)?;
    bound!(D::DELETE, id: id, account_id: account, now: now, version: version).execute(connection)?;
    D::delete_routes(connection, id, now, version)?;
    audit_log::append(connection, Some(account), audit)
}

pub(super) fn source_by_token(connection: &Connection, token_hash: &[u8]) -> Result<Option<Source>, Trouble> {
    bound!(
        "select version, doc, token_hash from sources where token_hash = :token_hash and deleted_at is null \
         and exists (select 1 from accounts a where a.id = sources.account_id and a.deleted_at is null)",
        token_hash: token_hash,
    )
    .first(connection, Source::read)
}

/// A route whose version and document come next.
pub(in super::super) fn route(columns: &mut Columns<'_>) -> Result<Route, Trouble> {
    Route::read(columns)
}

impl StoredDocument for Source {
    fn read(columns: &mut Columns<'_>) -> Result<Self, Trouble> {
        let (version, source) = (columns.get()?, columns.document(Self::WHAT)?);
        Ok(Self { version, token_hash: columns.get()?, ..source })
    }

    fn insert(&self, connection: &Connection, doc: &str) -> rusqlite::Result<usize> {
        const INSERT: &str = sql!("insert_source");
        bound!(
            INSERT,
            id: self.id,
            account_id: self.account_id,
            uid: self.uid,
            version: self.version,
            created_at: self.created_at,
            token_hash: self.token_hash,
            doc: doc,
        )
        .execute(connection)
    }

    fn overwrite(&self, connection: &Connection, doc: &str) -> rusqlite::Result<usize> {
        const UPDATE: &str = sql!("update_source");
        if !self.keep_refused {
            refused_requests::forget(connection, self.id)?;
        }
        bound!(
            UPDATE,
            id: self.id,
            uid: self.uid,
            version: self.version,
            token_hash: self.token_hash,
            doc: doc,
        )
        .execute(connection)
    }

    fn delete_routes(
        connection: &Connection,
        id: Self::Id,
        now: Timestamp,
        version: i64,
    ) -> rusqlite::Result<usize> {
        const DELETE_ROUTES: &str = sql!("delete_routes_of_source");
        refused_requests::forget(connection, id)?;
        bound!(DELETE_ROUTES, id: id, now: now, version: version).execute(connection)
    }
}

impl StoredDocument for Destination {
    fn read(columns: &mut Columns<'_>) -> Result<Self, Trouble> {
        let (version, destination) = (columns.get()?, columns.document(Self::WHAT)?);
        let switch = Switch {
            paused_at: columns.optional_time()?,
            resumed_at: columns.optional_time()?,
            disabled: disabled(columns)?,
            probed_at: columns.optional_time()?,
            deleted_at: columns.optional_time()?,
        };
        Ok(Self { version, switch, ..destination })
    }

    fn insert(&self, connection: &Connection, doc: &str) -> rusqlite::Result<usize> {
        const INSERT: &str = sql!("insert_destination");
        let disabled = self.switch.disabled.as_ref();
        bound!(
            INSERT,
            id: self.id,
            account_id: self.account_id,
            uid: self.uid,
            version: self.version,
            created_at: self.created_at,
            shard: self.id.shard(),
            paused_at: self.switch.paused_at,
            resumed_at: self.switch.resumed_at,
            disabled_at: disabled.map(|disabled| disabled.at),
            disabled_reason: disabled.map(|disabled| disabled.reason.as_str()),
            doc: doc,
        )
        .execute(connection)
    }

    fn overwrite(&self, connection: &Connection, doc: &str) -> rusqlite::Result<usize> {
        const UPDATE: &str = sql!("update_destination");
        operational_events::note_disabled(connection, self)?;
        let disabled = self.switch.disabled.as_ref();
        bound!(
            UPDATE,
            id: self.id,
            uid: self.uid,
            version: self.version,
            paused_at: self.switch.paused_at,
            resumed_at: self.switch.resumed_at,
            disabled_at: disabled.map(|disabled| disabled.at),
            disabled_reason: disabled.map(|disabled| disabled.reason.as_str()),
            doc: doc,
        )
        .execute(connection)
    }

    fn delete_routes(
        connection: &Connection,
        id: Self::Id,
        now: Timestamp,
        version: i64,
    ) -> rusqlite::Result<usize> {
        const DELETE_ROUTES: &str = sql!("delete_routes_of_destination");
        bound!(DELETE_ROUTES, id: id, now: now, version: version).execute(connection)
    }
}

fn disabled(columns: &mut Columns<'_>) -> Result<Option<Disabled>, Trouble> {
    let (at, reason) = (columns.optional_time()?, columns.optional_text()?);
    Ok(at.zip(reason).map(|(at, reason)| Disabled { at, reason: DisabledReason::parse(reason) }))
}

impl StoredDocument for Route {
    fn read(columns: &mut Columns<'_>) -> Result<Self, Trouble> {
        let version = columns.get()?;
        Ok(Self { version, ..columns.document(Self::WHAT)? })
    }

    fn insert(&self, connection: &Connection, doc: &str) -> rusqlite::Result<usize> {
        const INSERT: &str = sql!("insert_route");
        if self.takes_operational() {
            operational_events::is_told(connection, self.account_id)?;
        }
        bound!(
            INSERT,
            id: self.id,
            account_id: self.account_id,
            uid: self.uid,
            version: self.version,
            created_at: self.created_at,
            source_id: self.source_id,
            destination_id: self.destination_id,
            doc: doc,
        )
        .execute(connection)
    }

    fn overwrite(&self, connection: &Connection, doc: &str) -> rusqlite::Result<usize> {
        const UPDATE: &str = sql!("update_route");
        if self.takes_operational() {
            operational_events::is_told(connection, self.account_id)?;
        }
        bound!(
            UPDATE,
            id: self.id,
            uid: self.uid,
            version: self.version,
            source_id: self.source_id,
            destination_id: self.destination_id,
            doc: doc,
        )
        .execute(connection)
    }

    /// It leads from a source of its account, or from none, to a destination of its account.
    fn has_ends(&self, connection: &Connection) -> Result<(), Trouble> {
        version::<Destination>(connection, self.account_id, self.destination_id)?;
        self.source_id.map(|id| version::<Source>(connection, self.account_id, id)).transpose()?;
        Ok(())
    }
}

pub(super) fn document(value: &impl Serialize) -> Result<String, Trouble> {
    serde_json::to_string(value).map_err(|error| StoreError::Refused(error.into()).into())
}

/// A unique name that is taken is a decision; SQLite names it in its message, column by column.
pub(super) fn taken(error: rusqlite::Error) -> Trouble {
    let constraint = match &error {
        rusqlite::Error::SqliteFailure(failure, Some(message))
            if failure.code == ErrorCode::ConstraintViolation =>
        {
            ["uid", "token_hash", "lookup", "id"]
                .into_iter()
                .find(|column| message.ends_with(&format!(".{column}")))
        }
        _ => None,
    };
    match constraint {
        Some("token_hash") => StoreError::Taken { constraint: "token" }.into(),
        Some(constraint) => StoreError::Taken { constraint }.into(),
        None => error.into(),
    }
}
