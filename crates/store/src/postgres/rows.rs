//! Rows and what they stand for. A struct made by [`row!`] has a field for each column it reads, with the column's name;
//! the names are looked up once for all rows of an answer. What does not read is an error that names the statement and
//! the column.

use crate::{BoxError, StoreError};
use domain::{
    delivery::{Delivery, Position},
    event::{Event, EventType},
    id::{
        AccountId, ApiKeyId, AttemptId, DeliveryId, DestinationId, EventId, NodeId, ReplayId, RouteId,
        SourceId,
    },
    time::Timestamp,
};
use serde::de::DeserializeOwned;
use tokio_postgres::{
    Column, Row,
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
    pub(super) fn all<'r, T: FromRow<'r>>(&'r self) -> Result<Vec<T>, Unreadable> {
        self.each()?.collect()
    }

    /// One by one, for a caller that goes on without those that do not read.
    pub(super) fn each<'r, T: FromRow<'r>>(
        &'r self,
    ) -> Result<impl Iterator<Item = Result<T, Unreadable>>, Unreadable> {
        let missing = |column: &'static str| self.unreadable(column, "there is no such column");
        let columns = self.rows.first().map_or(&[][..], Row::columns);
        // An answer without rows does not tell its columns.
        let places = match columns {
            [] => Vec::new(),
            columns => places(columns, T::COLUMNS).map_err(missing)?,
        };
        Ok(self.rows.iter().map(move |row| {
            T::read(&mut Cells { row, places: places.iter() })
                .map_err(|(column, why)| self.unreadable(column, why))
        }))
    }

    /// Those in which this column is not null: where a left join finds nothing, it answers with a row of nulls.
    pub(super) fn joined<'r, T: FromRow<'r>>(&'r self, key: &'static str) -> Result<Vec<T>, Unreadable> {
        let keys = self.column::<Option<Anything>>(key)?;
        self.each()?.zip(keys).filter_map(|(row, key)| key.map(|_| row)).collect()
    }

    pub(super) fn first<'r, T: FromRow<'r>>(&'r self) -> Result<Option<T>, Unreadable> {
        self.each()?.next().transpose()
    }

    /// Of a statement that always answers with a row.
    pub(super) fn one<'r, T: FromRow<'r>>(&'r self) -> Result<T, Unreadable> {
        self.first()?.ok_or_else(|| self.unreadable("*", "there is no row"))
    }

    /// One column of all of them.
    pub(super) fn column<'r, T: FromColumn<'r>>(&'r self, name: &'static str) -> Result<Vec<T>, Unreadable> {
        self.rows.iter().map(|row| self.cell(row, name)).collect()
    }

    /// One column of the first of them.
    pub(super) fn first_value<'r, T: FromColumn<'r>>(
        &'r self,
        name: &'static str,
    ) -> Result<Option<T>, Unreadable> {
        self.rows.first().map(|row| self.cell(row, name)).transpose()
    }

    /// One column of the row of a statement that always answers with one.
    pub(super) fn value<'r, T: FromColumn<'r>>(&'r self, name: &'static str) -> Result<T, Unreadable> {
        self.first_value(name)?.ok_or_else(|| self.unreadable(name, "there is no row"))
    }

    fn cell<'r, T: FromColumn<'r>>(&self, row: &'r Row, name: &'static str) -> Result<T, Unreadable> {
        let raw = row.try_get(name).map_err(|error| self.unreadable(name, error))?;
        T::of(raw).map_err(|error| self.unreadable(name, error))
    }

    fn unreadable(&self, column: &str, why: impl Into<BoxError>) -> Unreadable {
        Unreadable { statement: self.statement, column: column.to_owned(), why: why.into() }
    }
}

/// Something in a row that does not read: a type or a null that should not be there, a document or a number that makes
/// no sense. Reading it again will not help.
#[derive(Debug, thiserror::Error)]
#[error("`{column}` in the answer to `{statement}` does not read: {why}")]
pub(super) struct Unreadable {
    statement: &'static str,
    column: String,
    #[source]
    why: BoxError,
}

impl From<Unreadable> for StoreError {
    fn from(unreadable: Unreadable) -> Self {
        Self::Unreadable(unreadable.into())
    }
}

/// Where each of these columns stands; else the one that is missing.
fn places(columns: &[Column], names: &[&'static str]) -> Result<Vec<usize>, &'static str> {
    let place = |name: &&'static str| columns.iter().position(|column| column.name() == *name).ok_or(*name);
    names.iter().map(place).collect()
}

/// What can be read from a row. See [`row!`].
pub(super) trait FromRow<'r>: Sized {
    const COLUMNS: &'static [&'static str];

    fn read(cells: &mut Cells<'r, '_>) -> Result<Self, (&'static str, BoxError)>;
}

/// The cells of a row, in the order in which they were asked for.
pub(super) struct Cells<'r, 'p> {
    row: &'r Row,
    places: std::slice::Iter<'p, usize>,
}

impl<'r> Cells<'r, '_> {
    /// `column` is its name, for the error.
    pub(super) fn next<T: FromColumn<'r>>(
        &mut self,
        column: &'static str,
    ) -> Result<T, (&'static str, BoxError)> {
        let place = *self.places.next().expect("a place for every column that is asked for");
        let raw = self.row.try_get(place).map_err(|error| (column, error.into()))?;
        T::of(raw).map_err(|error| (column, error))
    }
}

/// Declares a struct that is read from a row: each field from the column of its name.
macro_rules! row {
    ($(#[$meta:meta])* $vis:vis struct $name:ident<$life:lifetime> {
        $($(#[$about:meta])* $seen:vis $field:ident: $kind:ty,)*
    }) => {
        $(#[$meta])*
        $vis struct $name<$life> { $($(#[$about])* $seen $field: $kind,)* }

        $crate::postgres::rows::row!(impl $life $name<$life> { $($field)* });
    };
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[$about:meta])* $seen:vis $field:ident: $kind:ty,)*
    }) => {
        $(#[$meta])*
        $vis struct $name { $($(#[$about])* $seen $field: $kind,)* }

        $crate::postgres::rows::row!(impl 'r $name { $($field)* });
    };
    (impl $life:lifetime $name:ty { $($field:ident)* }) => {
        impl<$life> $crate::postgres::rows::FromRow<$life> for $name {
            const COLUMNS: &'static [&'static str] = &[$(stringify!($field)),*];

            fn read(
                cells: &mut $crate::postgres::rows::Cells<$life, '_>,
            ) -> Result<Self, (&'static str, $crate::BoxError)> {
                // Read as they are written: in the order of the columns.
                Ok(Self { $($field: cells.next(stringify!($field))?),* })
            }
        }
    };
}
pub(super) use row;

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
    ids: AccountId, ApiKeyId, AttemptId, DeliveryId, DestinationId, EventId, NodeId, ReplayId, RouteId, SourceId;
    numbers: u16 => i16, u32 => i32, u64 => i64, usize => i64;
}

impl FromColumn<'_> for Timestamp {
    type Raw = i64;

    fn of(raw: i64) -> Result<Self, BoxError> {
        Ok(Self::from_micros(raw))
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

row! {
    /// A delivery that waits.
    pub(super) struct WaitingRow<'r> {
        pub(super) shard: u16,
        delivery_id: DeliveryId,
        account_id: AccountId,
        event_id: EventId,
        destination_id: DestinationId,
        route_id: RouteId,
        replay_id: Option<ReplayId>,
        origin: DeliveryId,
        track: i64,
        rank: i64,
        due_at: Timestamp,
        attempts: u32,
        spent: u32,
        tls_errors: u32,
        last_outcome: Option<&'r str>,
        last_http_status: Option<u16>,
        created_at: Timestamp,
        available_at: Timestamp,
        payload_bytes: u32,
        sequence: Option<i64>,
    }
}

impl WaitingRow<'_> {
    pub(super) fn delivery(self) -> Delivery {
        Delivery {
            id: self.delivery_id,
            account_id: self.account_id,
            event_id: self.event_id,
            destination_id: self.destination_id,
            route_id: self.route_id,
            replay_id: self.replay_id,
            origin: self.origin,
            position: Position { track: self.track, rank: self.rank, delivery_id: self.delivery_id },
            due_at: self.due_at,
            attempts: self.attempts,
            spent: self.spent,
            tls_errors: self.tls_errors,
            // A newer version's word is none.
            last_outcome: self.last_outcome.and_then(|word| word.parse().ok()),
            last_http_status: self.last_http_status,
            created_at: self.created_at,
            available_at: self.available_at,
            payload_bytes: self.payload_bytes,
            sequence: self.sequence,
        }
    }
}

row! {
    /// An event without its payload. What a person or a newer version has made unreadable of it does not
    /// keep the rest from being delivered.
    pub(super) struct EventRow<'r> {
        pub(super) id: EventId,
        account_id: AccountId,
        source_id: Option<SourceId>,
        event_type: &'r str,
        idempotency_key: Option<String>,
        content_type: String,
        headers: &'r str,
        ordering_key: Option<String>,
        metadata: &'r str,
        received_at: Timestamp,
        deliver_at: Option<Timestamp>,
    }
}

impl EventRow<'_> {
    pub(super) fn event(self) -> Event {
        Event {
            id: self.id,
            account_id: self.account_id,
            source_id: self.source_id,
            event_type: self.event_type.parse().unwrap_or_else(|_| EventType::unknown()),
            idempotency_key: self.idempotency_key,
            content_type: self.content_type,
            headers: serde_json::from_str(self.headers).unwrap_or_default(),
            payload: bytes::Bytes::new(),
            ordering_key: self.ordering_key,
            metadata: serde_json::from_str(self.metadata).unwrap_or_default(),
            received_at: self.received_at,
            deliver_at: self.deliver_at,
        }
    }
}
