//! Rows and what they stand for. Cells are read by the names of their columns, into what they are for. What does not
//! read is an error that names the statement and the column.

use crate::{
    BoxError, StoreError,
    damage::{self, DamagedRow},
    page_rows::{PageRow, PageRows},
};
use domain::{
    delivery::{Delivery, Ending, Position},
    destination::Numbering,
    event::{Event, EventType},
    id::{
        AccountId, ApiKeyId, AttemptId, AuditId, DeliveryId, DestinationId, EventId, NodeId, PortalLinkId,
        ReplayId, RequestId, RouteId, SessionId, SourceId, UserId,
    },
    seal::Sealed,
    time::Timestamp,
};
use serde::de::DeserializeOwned;
use std::{
    fmt::{Debug, Display},
    str::FromStr,
};
use tokio_postgres::{
    Row,
    types::{FromSql, Type},
};
use uuid::Uuid;

/// The rows that a statement answers with.
#[derive(Debug)]
pub(super) struct Rows {
    statement: &'static str,
    rows: Vec<Row>,
}

impl Rows {
    pub(super) fn new(statement: &'static str, rows: Vec<Row>) -> Self {
        Self { statement, rows }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// All of them, or the first trouble.
    pub(super) fn all<'r, T>(
        &'r self,
        read: impl FnMut(&mut Cells<'r, '_>) -> Result<T, Unreadable>,
    ) -> Result<Vec<T>, Unreadable> {
        self.each(read).collect()
    }

    /// One by one, for a caller that goes on without those that do not read.
    pub(super) fn each<'r, T>(
        &'r self,
        mut read: impl FnMut(&mut Cells<'r, '_>) -> Result<T, Unreadable>,
    ) -> impl Iterator<Item = Result<T, Unreadable>> {
        let mut places = Vec::new();
        self.rows
            .iter()
            .map(move |row| read(&mut Cells { statement: self.statement, row, places: &mut places, next: 0 }))
    }

    /// Each for itself; the column `key` names one that does not read.
    pub(super) fn each_by_itself<'r, K: FromColumn<'r> + Display, T>(
        &'r self,
        key: &'static str,
        mut read: impl FnMut(&mut Cells<'r, '_>) -> Result<T, Unreadable>,
    ) -> Result<Vec<Result<T, DamagedRow>>, Unreadable> {
        self.all(|cells| {
            let id: K = cells.get(key)?;
            Ok(read(cells).map_err(|unreadable| DamagedRow::new(id, unreadable)))
        })
    }

    /// Those in which this column is not null: where a left join finds nothing, it answers with a row of nulls.
    pub(super) fn joined<'r, T>(
        &'r self,
        key: &'static str,
        read: impl FnMut(&mut Cells<'r, '_>) -> Result<T, Unreadable>,
    ) -> Result<Vec<T>, Unreadable> {
        self.each_joined(key, read).collect()
    }

    fn each_joined<'r, T>(
        &'r self,
        key: &'static str,
        mut read: impl FnMut(&mut Cells<'r, '_>) -> Result<T, Unreadable>,
    ) -> impl Iterator<Item = Result<T, Unreadable>> {
        let found = self.each(move |cells| match cells.get::<Option<Anything>>(key)? {
            Some(Anything) => read(cells).map(Some),
            None => Ok(None),
        });
        found.filter_map(Result::transpose)
    }

    /// As many as a page takes; those that do not read are named and left out.
    pub(super) fn page<'r, K: Copy + Debug, T: PageRow>(
        &'r self,
        what: &'static str,
        limit: usize,
        mut key: impl FnMut(&mut Cells<'r, '_>) -> Result<K, Unreadable>,
        mut read: impl FnMut(&mut Cells<'r, '_>) -> Result<T, Unreadable>,
    ) -> Result<PageRows<T, K>, Unreadable> {
        let mut rows = PageRows::new(limit);
        for row in self.each(|cells| Ok((key(cells)?, read(cells)))) {
            let (key, read) = row?;
            if rows.add(key, sound(what, key, read)).is_break() {
                break;
            }
        }
        Ok(rows)
    }

    /// The same of a left join.
    pub(super) fn joined_page<'r, K: FromColumn<'r> + Copy + Debug, T: PageRow>(
        &'r self,
        what: &'static str,
        key: &'static str,
        limit: usize,
        mut read: impl FnMut(&mut Cells<'r, '_>) -> Result<T, Unreadable>,
    ) -> Result<PageRows<T, K>, Unreadable> {
        let mut rows = PageRows::new(limit);
        for row in self.each_joined(key, |cells| Ok((cells.get::<K>(key)?, read(cells)))) {
            let (key, read) = row?;
            if rows.add(key, sound(what, key, read)).is_break() {
                break;
            }
        }
        Ok(rows)
    }

    pub(super) fn first<'r, T>(
        &'r self,
        read: impl FnMut(&mut Cells<'r, '_>) -> Result<T, Unreadable>,
    ) -> Result<Option<T>, Unreadable> {
        self.each(read).next().transpose()
    }

    /// Of a statement that always answers with a row.
    pub(super) fn one<'r, T>(
        &'r self,
        read: impl FnMut(&mut Cells<'r, '_>) -> Result<T, Unreadable>,
    ) -> Result<T, Unreadable> {
        self.first(read)?.ok_or_else(|| Unreadable::new(self.statement, "*", "there is no row"))
    }

    /// One column of all of them.
    pub(super) fn column<'r, T: FromColumn<'r>>(&'r self, name: &'static str) -> Result<Vec<T>, Unreadable> {
        self.all(|cells| cells.get(name))
    }

    /// One column of the first of them.
    pub(super) fn first_value<'r, T: FromColumn<'r>>(
        &'r self,
        name: &'static str,
    ) -> Result<Option<T>, Unreadable> {
        self.first(|cells| cells.get(name))
    }

    /// One column of the row of a statement that always answers with one.
    pub(super) fn value<'r, T: FromColumn<'r>>(&'r self, name: &'static str) -> Result<T, Unreadable> {
        self.one(|cells| cells.get(name))
    }
}

/// None for a row that does not read, which is named.
fn sound<T>(what: &'static str, key: impl Debug, read: Result<T, Unreadable>) -> Option<T> {
    let named = |unreadable| damage::left_out(what, &DamagedRow::new(format_args!("{key:?}"), unreadable));
    read.map_err(named).ok()
}

/// Something in a row that does not read: a type or a null that should not be there, a document or a number that makes
/// no sense. Reading it again will not help.
#[derive(Debug, thiserror::Error)]
#[error("`{column}` in the answer to `{statement}` does not read: {why}")]
pub(super) struct Unreadable {
    statement: &'static str,
    column: &'static str,
    #[source]
    why: BoxError,
}

impl Unreadable {
    fn new(statement: &'static str, column: &'static str, why: impl Into<BoxError>) -> Self {
        Self { statement, column, why: why.into() }
    }
}

impl From<Unreadable> for StoreError {
    fn from(unreadable: Unreadable) -> Self {
        Self::Unreadable(unreadable.into())
    }
}

/// The cells of a row, by the names of their columns.
pub(super) struct Cells<'r, 'p> {
    statement: &'static str,
    row: &'r Row,
    /// What the rows before were asked for, in that order, and where it stands.
    places: &'p mut Vec<(&'static str, usize)>,
    next: usize,
}

impl<'r> Cells<'r, '_> {
    pub(super) fn get<T: FromColumn<'r>>(&mut self, column: &'static str) -> Result<T, Unreadable> {
        let place = self.place(column)?;
        let raw = self.row.try_get(place).map_err(|error| self.unreadable(column, error))?;
        T::of(raw).map_err(|error| self.unreadable(column, error))
    }

    /// A word, for readers that can do without it: one that only a newer version knows is none.
    pub(super) fn known_word<T: FromStr>(&mut self, column: &'static str) -> Result<Option<T>, Unreadable> {
        Ok(self.get::<Option<&str>>(column)?.and_then(|word| word.parse().ok()))
    }

    /// A word that there is no doing without.
    pub(super) fn word<T: FromStr>(&mut self, column: &'static str) -> Result<T, Unreadable> {
        let word: &str = self.get(column)?;
        word.parse().map_err(|_| self.unknown_word(column, word))
    }

    /// Of `ending` and `reason`; none also where only a newer version knows it.
    pub(super) fn known_ending(&mut self) -> Result<Option<Ending>, Unreadable> {
        let (word, reason): (Option<&str>, _) = (self.get("ending")?, self.get("reason")?);
        Ok(word.and_then(|word| Ending::read(word, reason)))
    }

    pub(super) fn unknown_word(&self, column: &'static str, word: &str) -> Unreadable {
        self.unreadable(column, format!("`{word}` was written by a newer version"))
    }

    pub(super) fn unreadable(&self, column: &'static str, why: impl Into<BoxError>) -> Unreadable {
        Unreadable::new(self.statement, column, why)
    }

    /// A name is looked for once for all rows of an answer, as long as they are asked for the same in the same order.
    fn place(&mut self, column: &'static str) -> Result<usize, Unreadable> {
        let asked = self.next;
        self.next += 1;
        match self.places.get(asked) {
            Some((name, place)) if *name == column => Ok(*place),
            _ => {
                let place = self.row.columns().iter().position(|known| known.name() == column);
                let place = place.ok_or_else(|| self.unreadable(column, "there is no such column"))?;
                self.places.truncate(asked);
                self.places.push((column, place));
                Ok(place)
            }
        }
    }
}

/// What a column can hold, made of what the driver reads.
pub(super) trait FromColumn<'r>: Sized {
    type Raw: FromSql<'r>;

    fn of(raw: Self::Raw) -> Result<Self, BoxError>;
}

macro_rules! columns {
    (as they are: $($kind:ty),*; ids: $($id:ident),*; numbers: $($number:ty => $raw:ty),*;) => {
        $(impl<'r> FromColumn<'r> for $kind {
            type Raw = Self;

            fn of(raw: Self) -> Result<Self, BoxError> {
                Ok(raw)
            }
        })*
        $(impl FromColumn<'_> for $id {
            type Raw = Uuid;

            fn of(raw: Uuid) -> Result<Self, BoxError> {
                Ok(Self::from_uuid(raw))
            }
        })*
        $(impl FromColumn<'_> for $number {
            type Raw = $raw;

            fn of(raw: $raw) -> Result<Self, BoxError> {
                Ok(raw.try_into()?)
            }
        })*
    };
}

columns! {
    as they are: bool, i16, i32, i64, String, Uuid, Vec<u8>, Vec<Uuid>, Vec<i64>, &'r str, &'r [u8], Vec<&'r str>;
    ids: AccountId, ApiKeyId, AttemptId, AuditId, DeliveryId, DestinationId, EventId, NodeId, ReplayId, RequestId, RouteId,
        PortalLinkId, SessionId, SourceId, UserId;
    numbers: u16 => i16, u32 => i32, u64 => i64, usize => i64;
}

impl FromColumn<'_> for Timestamp {
    type Raw = i64;

    fn of(raw: i64) -> Result<Self, BoxError> {
        Ok(Self::from_micros(raw))
    }
}

impl<'r> FromColumn<'r> for Numbering {
    type Raw = &'r str;

    fn of(raw: &'r str) -> Result<Self, BoxError> {
        Ok(Self::read(raw))
    }
}

impl<'r, T: FromColumn<'r>> FromColumn<'r> for Option<T> {
    type Raw = Option<T::Raw>;

    fn of(raw: Self::Raw) -> Result<Self, BoxError> {
        raw.map(T::of).transpose()
    }
}

/// A value that is looked at only for whether it is there.
struct Anything;

impl<'r> FromSql<'r> for Anything {
    fn from_sql(_: &Type, _: &'r [u8]) -> Result<Self, BoxError> {
        Ok(Self)
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

impl FromColumn<'_> for Anything {
    type Raw = Self;

    fn of(raw: Self) -> Result<Self, BoxError> {
        Ok(raw)
    }
}

/// A document. One that does not read was written by a newer version or by hand: the row is there, but not for us.
pub(super) struct Doc<T>(pub(super) T);

impl<'r, T: DeserializeOwned> FromColumn<'r> for Doc<T> {
    type Raw = &'r str;

    fn of(raw: &'r str) -> Result<Self, BoxError> {
        Ok(Self(serde_json::from_str(raw)?))
    }
}

/// Of `track`, `rank` and `delivery_id`.
pub(super) fn position(cells: &mut Cells<'_, '_>) -> Result<Position, Unreadable> {
    let (track, rank, delivery_id) = (cells.get("track")?, cells.get("rank")?, cells.get("delivery_id")?);
    Ok(Position { track, rank, delivery_id })
}

/// A delivery that waits.
pub(super) fn waiting(cells: &mut Cells<'_, '_>) -> Result<Delivery, Unreadable> {
    let position = position(cells)?;
    Ok(Delivery {
        id: position.delivery_id,
        position,
        account_id: cells.get("account_id")?,
        event_id: cells.get("event_id")?,
        destination_id: cells.get("destination_id")?,
        route_id: cells.get("route_id")?,
        replay_id: cells.get("replay_id")?,
        origin: cells.get("origin")?,
        due_at: cells.get("due_at")?,
        attempts: cells.get("attempts")?,
        spent: cells.get("spent")?,
        tls_errors: cells.get("tls_errors")?,
        last_outcome: cells.known_word("last_outcome")?,
        last_http_status: cells.get("last_http_status")?,
        created_at: cells.get("created_at")?,
        available_at: cells.get("available_at")?,
        payload_bytes: cells.get("payload_bytes")?,
        sequence: cells.get("sequence")?,
    })
}

/// None where it is null: nothing is sealed.
pub(super) fn sealed(cells: &mut Cells<'_, '_>) -> Result<Option<Sealed>, Unreadable> {
    let sealed: Option<&[u8]> = cells.get("sealed_headers")?;
    Ok(sealed.map(|sealed| Sealed(sealed.to_vec())))
}

/// An event without its payload. What a person or a newer version has made unreadable of it does not keep the rest from
/// being delivered.
pub(super) fn event(cells: &mut Cells<'_, '_>) -> Result<Event, Unreadable> {
    Ok(Event {
        id: cells.get("id")?,
        account_id: cells.get("account_id")?,
        source_id: cells.get("source_id")?,
        event_type: EventType::kept(cells.get("event_type")?).unwrap_or_else(|_| EventType::unknown()),
        idempotency_key: cells.get("idempotency_key")?,
        content_type: cells.get("content_type")?,
        headers: serde_json::from_str(cells.get("headers")?).unwrap_or_default(),
        payload: bytes::Bytes::new(),
        ordering_key: cells.get("ordering_key")?,
        metadata: serde_json::from_str(cells.get("metadata")?).unwrap_or_default(),
        tags: Vec::new(),
        received_at: cells.get("received_at")?,
        deliver_at: cells.get("deliver_at")?,
    })
}
