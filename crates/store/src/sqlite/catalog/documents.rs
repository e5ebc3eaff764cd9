//! What sources, destinations and routes have in common: an owner, a uid, a version, a document, and an afterlife.

use super::{
    super::{
        rows::{Columns, Id},
        statement::{Value, bound, sql},
        trouble::Trouble,
    },
    accounts,
};
use crate::{Page, StoreError};
use domain::{
    destination::{Destination, Disabled, DisabledReason, Switch},
    id::{AccountId, DestinationId, RouteId, SourceId},
    limits,
    route::Route,
    source::Source,
    time::Timestamp,
};
use rusqlite::{Connection, ErrorCode};
use serde::Serialize;

/// Configuration that belongs to an account. The statements are whole texts, one kind at a time, so that anyone can
/// explain them; what they select begins with version and document.
pub(super) trait Document: Clone + Sized {
    type Id: Id + Value;
    const WHAT: &'static str;
    const GET: &'static str;
    const LIST: &'static str;
    const VERSION: &'static str;
    const COUNT: &'static str;
    const DELETE: &'static str;
    const FIRST_PAGE: Self::Id;
    /// How many of them an account may have, and their name.
    const MOST: Option<(usize, &'static str)> = None;

    fn id(&self) -> Self::Id;
    fn account_id(&self) -> AccountId;
    fn version_mut(&mut self) -> &mut i64;
    fn read(columns: &mut Columns<'_>) -> Result<Self, Trouble>;
    fn insert(&self, connection: &Connection) -> Result<(), Trouble>;
    fn overwrite(&self, connection: &Connection) -> Result<(), Trouble>;
}

pub(super) fn get<D: Document>(connection: &Connection, account: AccountId, id: D::Id) -> Result<D, Trouble> {
    bound!(D::GET, id: id, account_id: account)
        .first(connection, D::read)?
        .ok_or(StoreError::NotFound { what: D::WHAT }.into())
}

pub(super) fn list<D: Document>(
    connection: &Connection,
    account: AccountId,
    page: Page<D::Id>,
) -> Result<Vec<D>, Trouble> {
    let before = page.before.unwrap_or(D::FIRST_PAGE);
    bound!(D::LIST, account_id: account, before: before, limit: page.limit).all(connection, D::read)
}

/// The row's version; NotFound if it is not there, or not this account's.
pub(super) fn version<D: Document>(
    connection: &Connection,
    account: AccountId,
    id: D::Id,
) -> Result<i64, Trouble> {
    bound!(D::VERSION, id: id, account_id: account)
        .first(connection, |columns| Ok(columns.get()?))?
        .ok_or(StoreError::NotFound { what: D::WHAT }.into())
}

pub(super) fn create<D: Document>(connection: &Connection, document: &D) -> Result<D, Trouble> {
    let mut document = document.clone();
    *document.version_mut() = accounts::next_version(connection, document.account_id())?;
    has_room::<D>(connection, document.account_id(), *document.version_mut())?;
    document.insert(connection)?;
    Ok(document)
}

/// Each of them took a version when it was created, so an account that has had fewer changes has room. Any other is
/// counted, which is a range of an index without a look at the rows: there is no number beside them that could go wrong.
fn has_room<D: Document>(connection: &Connection, account: AccountId, version: i64) -> Result<(), Trouble> {
    let Some((most, what)) = D::MOST.filter(|(most, _)| version > *most as i64) else { return Ok(()) };
    let count = bound!(D::COUNT, account_id: account, limit: most)
        .one(connection, |columns| Ok(columns.count()? as usize))?;
    if count < most { Ok(()) } else { Err(StoreError::Full { what }.into()) }
}

/// Writes only over the version it was read with.
pub(super) fn update<D: Document>(connection: &Connection, document: &D) -> Result<D, Trouble> {
    let mut document = document.clone();
    let known = version::<D>(connection, document.account_id(), document.id())?;
    if known != *document.version_mut() {
        return Err(StoreError::Changed.into());
    }
    *document.version_mut() = accounts::next_version(connection, document.account_id())?;
    document.overwrite(connection)?;
    Ok(document)
}

/// Marks the row deleted and gives the version at which it went.
pub(super) fn delete<D: Document>(
    connection: &Connection,
    account: AccountId,
    id: D::Id,
    now: Timestamp,
) -> Result<i64, Trouble> {
    version::<D>(connection, account, id)?;
    let version = accounts::next_version(connection, account)?;
    bound!(D::DELETE, id: id, now: now, version: version).execute(connection)?;
    Ok(version)
}

pub(super) fn source_by_token(connection: &Connection, token_hash: &[u8]) -> Result<Option<Source>, Trouble> {
    bound!(
        "select version, doc, token_hash from sources where token_hash = :token_hash and deleted_at is null",
        token_hash: token_hash,
    )
    .first(connection, Source::read)
}

/// A route whose version and document come next.
pub(in super::super) fn route(columns: &mut Columns<'_>) -> Result<Route, Trouble> {
    Route::read(columns)
}

/// The texts that differ by no more than the table's name and the columns beside the document.
macro_rules! statements {
    ($table:literal, $columns:literal) => {
        const GET: &'static str = concat!(
            "select version, doc",
            $columns,
            " from ",
            $table,
            " where id = :id and account_id = :account_id and deleted_at is null"
        );
        const LIST: &'static str = concat!(
            "select version, doc",
            $columns,
            " from ",
            $table,
            " where account_id = :account_id and id < :before and deleted_at is null
             order by id desc limit :limit"
        );
        const VERSION: &'static str = concat!(
            "select version from ",
            $table,
            " where id = :id and account_id = :account_id and deleted_at is null"
        );
        const COUNT: &'static str = concat!(
            "select count(*) from (select 1 from ",
            $table,
            " where account_id = :account_id and deleted_at is null limit :limit)"
        );
        const DELETE: &'static str =
            concat!("update ", $table, " set deleted_at = :now, version = :version where id = :id");
    };
}

impl Document for Source {
    type Id = SourceId;
    const WHAT: &'static str = "source";
    const FIRST_PAGE: SourceId = SourceId::MAX;
    statements!("sources", ", token_hash");

    fn id(&self) -> SourceId {
        self.id
    }

    fn account_id(&self) -> AccountId {
        self.account_id
    }

    fn version_mut(&mut self) -> &mut i64 {
        &mut self.version
    }

    fn read(columns: &mut Columns<'_>) -> Result<Self, Trouble> {
        let (version, source) = (columns.get()?, columns.document(Self::WHAT)?);
        Ok(Self { version, token_hash: columns.get()?, ..source })
    }

    fn insert(&self, connection: &Connection) -> Result<(), Trouble> {
        const INSERT: &str = sql!("insert_source");
        bound!(
            INSERT,
            id: self.id,
            account_id: self.account_id,
            uid: self.uid,
            version: self.version,
            created_at: self.created_at,
            token_hash: self.token_hash,
            doc: document(self)?,
        )
        .execute(connection)
        .map(|_| ())
        .map_err(taken)
    }

    fn overwrite(&self, connection: &Connection) -> Result<(), Trouble> {
        const UPDATE: &str = sql!("update_source");
        bound!(
            UPDATE,
            id: self.id,
            uid: self.uid,
            version: self.version,
            token_hash: self.token_hash,
            doc: document(self)?,
        )
        .execute(connection)
        .map(|_| ())
        .map_err(taken)
    }
}

impl Document for Destination {
    type Id = DestinationId;
    const WHAT: &'static str = "destination";
    const FIRST_PAGE: DestinationId = DestinationId::MAX;
    const MOST: Option<(usize, &'static str)> = Some((limits::DESTINATIONS_PER_ACCOUNT, "destinations"));
    statements!(
        "destinations",
        ", paused_at, resumed_at, disabled_at, disabled_reason, probed_at, deleted_at"
    );

    fn id(&self) -> DestinationId {
        self.id
    }

    fn account_id(&self) -> AccountId {
        self.account_id
    }

    fn version_mut(&mut self) -> &mut i64 {
        &mut self.version
    }

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

    fn insert(&self, connection: &Connection) -> Result<(), Trouble> {
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
            doc: document(self)?,
        )
        .execute(connection)
        .map(|_| ())
        .map_err(taken)
    }

    fn overwrite(&self, connection: &Connection) -> Result<(), Trouble> {
        const UPDATE: &str = sql!("update_destination");
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
            doc: document(self)?,
        )
        .execute(connection)
        .map(|_| ())
        .map_err(taken)
    }
}

fn disabled(columns: &mut Columns<'_>) -> Result<Option<Disabled>, Trouble> {
    let (at, reason) = (columns.optional_time()?, columns.optional_text()?);
    Ok(at.zip(reason).map(|(at, reason)| Disabled { at, reason: DisabledReason::parse(reason) }))
}

impl Document for Route {
    type Id = RouteId;
    const WHAT: &'static str = "route";
    const FIRST_PAGE: RouteId = RouteId::MAX;
    const MOST: Option<(usize, &'static str)> = Some((limits::ROUTES_PER_ACCOUNT, "routes"));
    statements!("routes", "");

    fn id(&self) -> RouteId {
        self.id
    }

    fn account_id(&self) -> AccountId {
        self.account_id
    }

    fn version_mut(&mut self) -> &mut i64 {
        &mut self.version
    }

    fn read(columns: &mut Columns<'_>) -> Result<Self, Trouble> {
        let version = columns.get()?;
        Ok(Self { version, ..columns.document(Self::WHAT)? })
    }

    fn insert(&self, connection: &Connection) -> Result<(), Trouble> {
        const INSERT: &str = sql!("insert_route");
        bound!(
            INSERT,
            id: self.id,
            account_id: self.account_id,
            uid: self.uid,
            version: self.version,
            created_at: self.created_at,
            source_id: self.source_id,
            destination_id: self.destination_id,
            doc: document(self)?,
        )
        .execute(connection)
        .map(|_| ())
        .map_err(taken)
    }

    fn overwrite(&self, connection: &Connection) -> Result<(), Trouble> {
        const UPDATE: &str = sql!("update_route");
        bound!(
            UPDATE,
            id: self.id,
            uid: self.uid,
            version: self.version,
            source_id: self.source_id,
            destination_id: self.destination_id,
            doc: document(self)?,
        )
        .execute(connection)
        .map(|_| ())
        .map_err(taken)
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
