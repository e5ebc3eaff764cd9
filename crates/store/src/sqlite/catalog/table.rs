//! What sources, destinations and routes have in common: an owner, a uid, a version, a document, and an afterlife.

use super::{
    super::{
        row::{self, Key, blob, micros},
        trouble::{Trouble, unreadable},
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
use rusqlite::{Connection, ErrorCode, OptionalExtension as _, Row, Rows, params};
use serde::{Serialize, de::DeserializeOwned};

/// Configuration that belongs to an account. The statements are whole texts, one kind at a time, so that anyone can
/// explain them; what they select begins with version and document.
pub(super) trait Kept: Clone + Sized {
    type Id: Key;
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
    fn read(row: &Row<'_>) -> Result<Self, Trouble>;
    fn insert(&self, connection: &Connection) -> Result<(), Trouble>;
    fn overwrite(&self, connection: &Connection) -> Result<(), Trouble>;
}

pub(super) fn get<K: Kept>(connection: &Connection, account: AccountId, id: K::Id) -> Result<K, Trouble> {
    let mut select = connection.prepare_cached(K::GET)?;
    let mut rows = select.query(params![id.blob(), account.blob()])?;
    rows.next()?.map(K::read).transpose()?.ok_or(StoreError::NotFound { what: K::WHAT }.into())
}

pub(super) fn list<K: Kept>(
    connection: &Connection,
    account: AccountId,
    page: Page<K::Id>,
) -> Result<Vec<K>, Trouble> {
    let mut select = connection.prepare_cached(K::LIST)?;
    let before = page.before.unwrap_or(K::FIRST_PAGE);
    collect(select.query(params![account.blob(), before.blob(), page.limit as i64])?, K::read)
}

/// The row's version; NotFound if it is not there, or not this account's.
pub(super) fn version<K: Kept>(
    connection: &Connection,
    account: AccountId,
    id: K::Id,
) -> Result<i64, Trouble> {
    let mut select = connection.prepare_cached(K::VERSION)?;
    let found = select.query_row(params![id.blob(), account.blob()], |row| row.get(0)).optional()?;
    found.ok_or(StoreError::NotFound { what: K::WHAT }.into())
}

pub(super) fn create<K: Kept>(connection: &Connection, kept: &K) -> Result<K, Trouble> {
    let mut kept = kept.clone();
    *kept.version_mut() = accounts::next_version(connection, kept.account_id())?;
    has_room::<K>(connection, kept.account_id(), *kept.version_mut())?;
    kept.insert(connection)?;
    Ok(kept)
}

/// Each of them took a version when it was created, so an account that has had fewer changes has room. Any other is
/// counted, which is a range of an index without a look at the rows: there is no number beside them that could go wrong.
fn has_room<K: Kept>(connection: &Connection, account: AccountId, version: i64) -> Result<(), Trouble> {
    let Some((most, what)) = K::MOST.filter(|(most, _)| version > *most as i64) else { return Ok(()) };
    let mut count = connection.prepare_cached(K::COUNT)?;
    let count: i64 = count.query_row(params![account.blob(), most as i64], |row| row.get(0))?;
    if count < most as i64 { Ok(()) } else { Err(StoreError::Full { what }.into()) }
}

/// Writes only over the version it was read with.
pub(super) fn update<K: Kept>(connection: &Connection, kept: &K) -> Result<K, Trouble> {
    let mut kept = kept.clone();
    if version::<K>(connection, kept.account_id(), kept.id())? != *kept.version_mut() {
        return Err(StoreError::Changed.into());
    }
    *kept.version_mut() = accounts::next_version(connection, kept.account_id())?;
    kept.overwrite(connection)?;
    Ok(kept)
}

/// Marks the row deleted and gives the version at which it went.
pub(super) fn delete<K: Kept>(
    connection: &Connection,
    account: AccountId,
    id: K::Id,
    now: Timestamp,
) -> Result<i64, Trouble> {
    version::<K>(connection, account, id)?;
    let version = accounts::next_version(connection, account)?;
    connection.prepare_cached(K::DELETE)?.execute(params![id.blob(), now.micros(), version])?;
    Ok(version)
}

pub(super) fn source_by_token(connection: &Connection, token_hash: &[u8]) -> Result<Option<Source>, Trouble> {
    let mut select = connection.prepare_cached(
        "select version, doc, token_hash from sources where token_hash = ?1 and deleted_at is null",
    )?;
    let mut rows = select.query([token_hash])?;
    rows.next()?.map(Source::read).transpose()
}

/// The texts that differ by no more than the table's name and the columns beside the document.
macro_rules! statements {
    ($table:literal, $columns:literal) => {
        const GET: &'static str = concat!(
            "select version, doc",
            $columns,
            " from ",
            $table,
            " where id = ?1 and account_id = ?2 and deleted_at is null"
        );
        const LIST: &'static str = concat!(
            "select version, doc",
            $columns,
            " from ",
            $table,
            " where account_id = ?1 and id < ?2 and deleted_at is null order by id desc limit ?3"
        );
        const VERSION: &'static str = concat!(
            "select version from ",
            $table,
            " where id = ?1 and account_id = ?2 and deleted_at is null"
        );
        const COUNT: &'static str = concat!(
            "select count(*) from (select 1 from ",
            $table,
            " where account_id = ?1 and deleted_at is null limit ?2)"
        );
        const DELETE: &'static str =
            concat!("update ", $table, " set deleted_at = ?2, version = ?3 where id = ?1");
    };
}

impl Kept for Source {
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

    fn read(row: &Row<'_>) -> Result<Self, Trouble> {
        Ok(Self { version: row.get(0)?, token_hash: row.get(2)?, ..parse(row, Self::WHAT)? })
    }

    fn insert(&self, connection: &Connection) -> Result<(), Trouble> {
        let mut insert = connection.prepare_cached(
            "insert into sources (id, account_id, uid, version, created_at, token_hash, doc) values (?, ?, ?, ?, ?, ?, ?)",
        )?;
        let row = params![
            self.id.blob(),
            self.account_id.blob(),
            self.uid,
            self.version,
            self.created_at.micros(),
            self.token_hash,
            document(self)?,
        ];
        insert.execute(row).map(|_| ()).map_err(taken)
    }

    fn overwrite(&self, connection: &Connection) -> Result<(), Trouble> {
        let mut update = connection.prepare_cached(
            "update sources set uid = ?2, version = ?3, token_hash = ?4, doc = ?5 where id = ?1",
        )?;
        let row = params![self.id.blob(), self.uid, self.version, self.token_hash, document(self)?];
        update.execute(row).map(|_| ()).map_err(taken)
    }
}

impl Kept for Destination {
    type Id = DestinationId;
    const WHAT: &'static str = "destination";
    const FIRST_PAGE: DestinationId = DestinationId::MAX;
    const MOST: Option<(usize, &'static str)> = Some((limits::DESTINATIONS_PER_ACCOUNT, "destinations"));
    statements!(
        "destinations",
        ", paused_at, resumed_at, disabled_at, disabled_reason, deleted_at, probed_at"
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

    fn read(row: &Row<'_>) -> Result<Self, Trouble> {
        let reason: Option<String> = row.get(5)?;
        let disabled = row::maybe_time(row, 4)?.zip(reason);
        let switch = Switch {
            paused_at: row::maybe_time(row, 2)?,
            resumed_at: row::maybe_time(row, 3)?,
            disabled: disabled.map(|(at, reason)| Disabled { at, reason: DisabledReason::parse(&reason) }),
            probed_at: row::maybe_time(row, 7)?,
            deleted_at: row::maybe_time(row, 6)?,
        };
        Ok(Self { version: row.get(0)?, switch, ..parse(row, Self::WHAT)? })
    }

    fn insert(&self, connection: &Connection) -> Result<(), Trouble> {
        let mut insert = connection.prepare_cached(
            "insert into destinations (id, account_id, uid, version, created_at, shard, paused_at, resumed_at, disabled_at,
               disabled_reason, doc)
             values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?;
        let disabled = self.switch.disabled.as_ref();
        let row = params![
            self.id.blob(),
            self.account_id.blob(),
            self.uid,
            self.version,
            self.created_at.micros(),
            self.id.shard(),
            micros(self.switch.paused_at),
            micros(self.switch.resumed_at),
            disabled.map(|disabled| disabled.at.micros()),
            disabled.map(|disabled| disabled.reason.as_str()),
            document(self)?,
        ];
        insert.execute(row).map(|_| ()).map_err(taken)
    }

    fn overwrite(&self, connection: &Connection) -> Result<(), Trouble> {
        let mut update = connection.prepare_cached(
            "update destinations
             set uid = ?2, version = ?3, paused_at = ?4, resumed_at = ?5, disabled_at = ?6, disabled_reason = ?7, doc = ?8
             where id = ?1",
        )?;
        let disabled = self.switch.disabled.as_ref();
        let row = params![
            self.id.blob(),
            self.uid,
            self.version,
            micros(self.switch.paused_at),
            micros(self.switch.resumed_at),
            disabled.map(|disabled| disabled.at.micros()),
            disabled.map(|disabled| disabled.reason.as_str()),
            document(self)?,
        ];
        update.execute(row).map(|_| ()).map_err(taken)
    }
}

impl Kept for Route {
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

    fn read(row: &Row<'_>) -> Result<Self, Trouble> {
        Ok(Self { version: row.get(0)?, ..parse(row, Self::WHAT)? })
    }

    fn insert(&self, connection: &Connection) -> Result<(), Trouble> {
        let mut insert = connection.prepare_cached(
            "insert into routes (id, account_id, uid, version, created_at, source_id, destination_id, doc)
             values (?, ?, ?, ?, ?, ?, ?, ?)",
        )?;
        let row = params![
            self.id.blob(),
            self.account_id.blob(),
            self.uid,
            self.version,
            self.created_at.micros(),
            blob(self.source_id),
            self.destination_id.blob(),
            document(self)?,
        ];
        insert.execute(row).map(|_| ()).map_err(taken)
    }

    fn overwrite(&self, connection: &Connection) -> Result<(), Trouble> {
        let mut update = connection.prepare_cached(
            "update routes set uid = ?2, version = ?3, source_id = ?4, destination_id = ?5, doc = ?6 where id = ?1",
        )?;
        let row = params![
            self.id.blob(),
            self.uid,
            self.version,
            blob(self.source_id),
            self.destination_id.blob(),
            document(self)?,
        ];
        update.execute(row).map(|_| ()).map_err(taken)
    }
}

pub(super) fn document(value: &impl Serialize) -> Result<String, Trouble> {
    serde_json::to_string(value).map_err(|error| StoreError::Refused(error.into()).into())
}

fn parse<T: DeserializeOwned>(row: &Row<'_>, what: &'static str) -> Result<T, Trouble> {
    let doc = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
    serde_json::from_str(doc).map_err(|error| unreadable(what, error))
}

pub(super) fn collect<T>(
    mut rows: Rows<'_>,
    read: impl Fn(&Row<'_>) -> Result<T, Trouble>,
) -> Result<Vec<T>, Trouble> {
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
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
