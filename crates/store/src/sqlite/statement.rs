//! Statements with parameters by name, at the price of parameters by number.
//!
//! The texts say `:name`, and their callers give the values by the same names, in any order. SQLite numbers names as
//! they first appear; [`order`] does the same while this program is compiled, so that a name that is missing, or is none
//! of the statement's, does not compile, and nothing is looked up when the statement runs.

use super::{
    rows::{Columns, Id},
    trouble::Trouble,
};
use crate::{
    Listed,
    damage::DamagedRow,
    page_rows::{PageRow, PageRows},
};
use domain::{
    id::{
        AccountId, ApiKeyId, AttemptId, AuditId, DeliveryId, DestinationId, EventId, NodeId, PortalLinkId,
        ReplayId, RequestId, RouteId, SessionId, SourceId, UserId,
    },
    time::Timestamp,
};
use rusqlite::{
    Connection, Params, Row, Rows, Statement,
    types::{ToSqlOutput, ValueRef},
};
use std::{
    fmt::{Debug, Display},
    ops::ControlFlow,
};

/// The text of `sql/NAME.sql`; several names are one text.
macro_rules! sql {
    ($($part:literal),+ $(,)?) => {
        concat!($(
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/sqlite/sql/", $part, ".sql")),
            "\n",
        )+)
    };
}

/// A statement with its values: `bound!(CANCEL, account_id: account, delivery_id: id)`.
macro_rules! bound {
    ($sql:expr $(, $name:ident: $value:expr)* $(,)?) => {
        $crate::sqlite::statement::Bound::new(
            $sql,
            const { &$crate::sqlite::statement::order($sql, [$(stringify!($name)),*]) },
            [$($crate::sqlite::statement::Value::value(&$value)),*],
        )
    };
}

pub(super) use {bound, sql};

/// A statement and what is bound to it, in the order of its numbers.
pub(super) struct Bound<'v, const N: usize> {
    sql: &'static str,
    values: [ValueRef<'v>; N],
}

impl<'v, const N: usize> Bound<'v, N> {
    /// See [`bound`].
    pub(super) fn new(sql: &'static str, order: &[usize; N], given: [ValueRef<'v>; N]) -> Self {
        Self { sql, values: order.map(|place| given[place]) }
    }

    fn values(self) -> impl Params {
        rusqlite::params_from_iter(self.values.map(ToSqlOutput::Borrowed))
    }

    /// On the statement, which was prepared before.
    pub(super) fn rows<'s>(self, statement: &'s mut Statement<'_>) -> rusqlite::Result<Rows<'s>> {
        statement.query(self.values())
    }

    /// On the statement, which was prepared before.
    pub(super) fn execute_on(self, statement: &mut Statement<'_>) -> rusqlite::Result<usize> {
        statement.execute(self.values())
    }

    /// On the statement, which was prepared before.
    pub(super) fn first_on<T>(
        self,
        statement: &mut Statement<'_>,
        read: impl FnOnce(&mut Columns<'_>) -> Result<T, Trouble>,
    ) -> Result<Option<T>, Trouble> {
        self.rows(statement)?.next()?.map(|row| read(&mut Columns::of(row))).transpose()
    }

    /// How many rows it has changed.
    pub(super) fn execute(self, connection: &Connection) -> rusqlite::Result<usize> {
        connection.prepare_cached(self.sql)?.execute(self.values())
    }

    pub(super) fn exists(self, connection: &Connection) -> rusqlite::Result<bool> {
        connection.prepare_cached(self.sql)?.exists(self.values())
    }

    /// Its first row, if there is one.
    pub(super) fn first<T>(
        self,
        connection: &Connection,
        read: impl FnOnce(&mut Columns<'_>) -> Result<T, Trouble>,
    ) -> Result<Option<T>, Trouble> {
        let mut statement = connection.prepare_cached(self.sql)?;
        self.first_on(&mut statement, read)
    }

    /// The row of a statement that always has one.
    pub(super) fn one<T>(
        self,
        connection: &Connection,
        read: impl FnOnce(&mut Columns<'_>) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        self.first(connection, read)?.ok_or(Trouble::Sql(rusqlite::Error::QueryReturnedNoRows))
    }

    /// Goes over its rows as long as it is told to.
    pub(super) fn each(
        self,
        connection: &Connection,
        mut visit: impl FnMut(&mut Columns<'_>) -> Result<ControlFlow<()>, Trouble>,
    ) -> Result<(), Trouble> {
        let mut statement = connection.prepare_cached(self.sql)?;
        let mut rows = self.rows(&mut statement)?;
        while let Some(row) = rows.next()? {
            if visit(&mut Columns::of(row))?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// All of them, each for itself; the column `key` names one that does not read.
    pub(super) fn each_by_itself<K: Id + Display, T>(
        self,
        connection: &Connection,
        key: &str,
        mut read: impl FnMut(&mut Columns<'_>) -> Result<T, Trouble>,
    ) -> Result<Vec<Result<T, DamagedRow>>, Trouble> {
        let mut statement = connection.prepare_cached(self.sql)?;
        let mut rows = self.rows(&mut statement)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(match read(&mut Columns::of(row)) {
                Err(trouble) if trouble.is_damage() => {
                    Err(DamagedRow::new(row.get(key).map(K::read)?, trouble.of_read()))
                }
                read => Ok(read?),
            });
        }
        Ok(found)
    }

    /// A page that goes on where it stopped, without the rows that do not read: each is named.
    pub(super) fn page<K: Copy + Debug, T: PageRow>(
        self,
        connection: &Connection,
        (what, limit): (&'static str, usize),
        key: impl Fn(&Row<'_>) -> rusqlite::Result<K>,
        mut read: impl FnMut(&mut Columns<'_>) -> Result<T, Trouble>,
    ) -> Result<Listed<T, K>, Trouble> {
        let mut statement = connection.prepare_cached(self.sql)?;
        let mut rows = self.rows(&mut statement)?;
        let mut page = PageRows::new(limit);
        while let Some(row) = rows.next()? {
            let key = key(row)?;
            let read = Trouble::leave_out(what, format_args!("{key:?}"), read(&mut Columns::of(row)))?;
            if page.add(key, read).is_break() {
                break;
            }
        }
        Ok(page.listed())
    }

    pub(super) fn all<T>(
        self,
        connection: &Connection,
        mut read: impl FnMut(&mut Columns<'_>) -> Result<T, Trouble>,
    ) -> Result<Vec<T>, Trouble> {
        let mut found = Vec::new();
        self.each(connection, |columns| {
            found.push(read(columns)?);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(found)
    }
}

/// Which of the names given comes first in the text, which second, and so on.
pub(super) const fn order<const N: usize>(sql: &str, given: [&str; N]) -> [usize; N] {
    let (text, mut at) = (sql.as_bytes(), 0);
    let (mut order, mut found) = ([usize::MAX; N], 0);
    while at < text.len() {
        match text[at] {
            b'-' if at + 1 < text.len() && text[at + 1] == b'-' => at = past(text, at, b'\n'),
            quote @ (b'\'' | b'"') => at = past(text, at + 1, quote),
            b':' => {
                let end = end_of_name(text, at + 1);
                let mut which = 0;
                while which < N && !is_name(text, at + 1, end, given[which].as_bytes()) {
                    which += 1;
                }
                assert!(which < N, "a parameter of the statement has no value");
                let mut known = false;
                let mut place = 0;
                while place < found {
                    known |= order[place] == which;
                    place += 1;
                }
                if !known {
                    order[found] = which;
                    found += 1;
                }
                at = end;
            }
            _ => at += 1,
        }
    }
    assert!(found == N, "a value is for no parameter of the statement");
    order
}

/// Behind the next such byte.
const fn past(text: &[u8], mut at: usize, byte: u8) -> usize {
    while at < text.len() && text[at] != byte {
        at += 1;
    }
    at + 1
}

const fn end_of_name(text: &[u8], mut at: usize) -> usize {
    while at < text.len() && (text[at].is_ascii_alphanumeric() || text[at] == b'_') {
        at += 1;
    }
    at
}

const fn is_name(text: &[u8], from: usize, to: usize, name: &[u8]) -> bool {
    if to - from != name.len() {
        return false;
    }
    let mut at = 0;
    while at < name.len() && text[from + at] == name[at] {
        at += 1;
    }
    at == name.len()
}

/// What can be bound: an id as a blob of 16 bytes, a time as an integer of microseconds.
pub(super) trait Value {
    fn value(&self) -> ValueRef<'_>;
}

impl<V: Value + ?Sized> Value for &V {
    fn value(&self) -> ValueRef<'_> {
        (**self).value()
    }
}

impl<V: Value> Value for Option<V> {
    fn value(&self) -> ValueRef<'_> {
        self.as_ref().map_or(ValueRef::Null, V::value)
    }
}

/// What was read, as it was.
impl Value for rusqlite::types::Value {
    fn value(&self) -> ValueRef<'_> {
        self.into()
    }
}

impl Value for Timestamp {
    fn value(&self) -> ValueRef<'_> {
        ValueRef::Integer(self.micros())
    }
}

impl Value for str {
    fn value(&self) -> ValueRef<'_> {
        ValueRef::Text(self.as_bytes())
    }
}

impl Value for String {
    fn value(&self) -> ValueRef<'_> {
        self.as_str().value()
    }
}

impl Value for [u8] {
    fn value(&self) -> ValueRef<'_> {
        ValueRef::Blob(self)
    }
}

impl Value for Vec<u8> {
    fn value(&self) -> ValueRef<'_> {
        ValueRef::Blob(self)
    }
}

impl<const N: usize> Value for [u8; N] {
    fn value(&self) -> ValueRef<'_> {
        ValueRef::Blob(self)
    }
}

/// A limit: more than there can ever be is as good as that.
impl Value for usize {
    fn value(&self) -> ValueRef<'_> {
        ValueRef::Integer(i64::try_from(*self).unwrap_or(i64::MAX))
    }
}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        impl Value for $integer {
            fn value(&self) -> ValueRef<'_> {
                ValueRef::Integer((*self).into())
            }
        }
    )*};
}

integers! { bool i16 i32 i64 u16 u32 }

macro_rules! ids {
    ($($id:ident)*) => {$(
        impl Value for $id {
            fn value(&self) -> ValueRef<'_> {
                ValueRef::Blob(self.bytes())
            }
        }
    )*};
}

ids! {
    AccountId ApiKeyId AttemptId AuditId DeliveryId DestinationId EventId NodeId ReplayId RequestId RouteId SessionId
    PortalLinkId SourceId UserId
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "-- :comment, it's none
        select :second, ':text', \":column\", :first, :second where a = :third_one";

    #[test]
    fn values_are_bound_by_name_in_whatever_order_they_are_given() {
        let connection = Connection::open_in_memory().expect("a database");
        connection.execute_batch("create table t (\":column\" text, a text)").expect("a table");
        connection.execute_batch("insert into t values ('column', 'third')").expect("a row");
        const FROM: &str =
            "select :second, ':text', \":column\", :first, :second from t where a = :third_one";
        let bound = bound!(FROM, first: "first", third_one: "third", second: 2_i64);
        let row = bound.one(&connection, |columns| {
            Ok((
                columns.get::<i64>()?,
                columns.text()?.to_owned(),
                columns.text()?.to_owned(),
                columns.text()?.to_owned(),
            ))
        });
        let (second, text, column, first) = row.expect("a row");
        assert_eq!((second, text.as_str(), column.as_str(), first.as_str()), (2, ":text", "column", "first"));
    }

    #[test]
    fn names_are_numbered_as_they_first_appear() {
        assert_eq!(order(TEXT, ["first", "second", "third_one"]), [1, 0, 2]);
    }

    #[test]
    #[should_panic(expected = "a parameter of the statement has no value")]
    fn a_name_that_is_not_given_is_refused() {
        order(TEXT, ["first", "second"]);
    }

    #[test]
    #[should_panic(expected = "a value is for no parameter of the statement")]
    fn a_value_for_no_name_is_refused() {
        order(TEXT, ["first", "second", "third_one", "fourth"]);
    }
}
