//! Rows and what they stand for: an id is a blob of 16 bytes, a time an integer of microseconds, an outcome or an ending
//! its word. Columns are read one after the other, in the order in which the statement names them.

use super::trouble::{Trouble, unreadable};
use bytes::Bytes;
use domain::{
    delivery::{Delivery, Ending, Position},
    event::{Event, EventType},
    id::{
        AccountId, ApiKeyId, AttemptId, AuditId, DeliveryId, DestinationId, EventId, NodeId, PortalLinkId,
        ReplayId, RequestId, RouteId, SessionId, SourceId, UserId,
    },
    outcome::Outcome,
    seal::Sealed,
    time::Timestamp,
};
use rusqlite::{
    Row,
    types::{FromSql, ValueRef},
};
use serde::de::DeserializeOwned;
use std::time::Duration;

/// An id of any kind.
pub(super) trait Id: Copy {
    fn read(bytes: [u8; 16]) -> Self;
}

/// An id of a row, by the name of its column.
pub(super) fn id_in<K: Id>(row: &Row<'_>, column: &str) -> rusqlite::Result<K> {
    row.get(column).map(K::read)
}

macro_rules! ids {
    ($($id:ident)*) => {$(
        impl Id for $id {
            fn read(bytes: [u8; 16]) -> Self { Self::from_bytes(bytes) }
        }
    )*};
}

ids! {
    AccountId ApiKeyId AttemptId AuditId DeliveryId DestinationId EventId NodeId ReplayId RequestId RouteId SessionId
    PortalLinkId SourceId UserId
}

/// The columns of a row, from the one that is read next.
#[derive(Clone)]
pub(super) struct Columns<'r> {
    row: &'r Row<'r>,
    next: usize,
}

impl<'r> Columns<'r> {
    pub(super) fn of(row: &'r Row<'r>) -> Self {
        Self { row, next: 0 }
    }

    fn column(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    pub(super) fn get<T: FromSql>(&mut self) -> rusqlite::Result<T> {
        let column = self.column();
        self.row.get(column)
    }

    /// As it is kept.
    pub(super) fn value(&mut self) -> rusqlite::Result<ValueRef<'r>> {
        let column = self.column();
        self.row.get_ref(column)
    }

    pub(super) fn text(&mut self) -> rusqlite::Result<&'r str> {
        Ok(self.value()?.as_str()?)
    }

    pub(super) fn optional_text(&mut self) -> rusqlite::Result<Option<&'r str>> {
        Ok(self.value()?.as_str_or_null()?)
    }

    pub(super) fn blob(&mut self) -> rusqlite::Result<&'r [u8]> {
        Ok(self.value()?.as_blob()?)
    }

    pub(super) fn optional_blob(&mut self) -> rusqlite::Result<Option<&'r [u8]>> {
        Ok(self.value()?.as_blob_or_null()?)
    }

    /// None where it is null: nothing is sealed.
    pub(super) fn sealed(&mut self) -> rusqlite::Result<Option<Sealed>> {
        Ok(self.optional_blob()?.map(|sealed| Sealed(sealed.to_vec())))
    }

    pub(super) fn id<I: Id>(&mut self) -> rusqlite::Result<I> {
        self.get().map(I::read)
    }

    pub(super) fn optional_id<I: Id>(&mut self) -> rusqlite::Result<Option<I>> {
        Ok(self.get::<Option<[u8; 16]>>()?.map(I::read))
    }

    pub(super) fn time(&mut self) -> rusqlite::Result<Timestamp> {
        self.get().map(Timestamp::from_micros)
    }

    pub(super) fn optional_time(&mut self) -> rusqlite::Result<Option<Timestamp>> {
        Ok(self.get::<Option<i64>>()?.map(Timestamp::from_micros))
    }

    pub(super) fn duration(&mut self) -> rusqlite::Result<Duration> {
        self.count().map(Duration::from_micros)
    }

    pub(super) fn optional_duration(&mut self) -> rusqlite::Result<Option<Duration>> {
        Ok(self.get::<Option<i64>>()?.map(|micros| Duration::from_micros(micros.unsigned_abs())))
    }

    /// Never negative: the tables check it.
    pub(super) fn count(&mut self) -> rusqlite::Result<u64> {
        self.get().map(i64::unsigned_abs)
    }

    pub(super) fn document<T: DeserializeOwned>(&mut self, what: &'static str) -> Result<T, Trouble> {
        serde_json::from_str(self.text()?).map_err(|error| unreadable(what, error))
    }

    pub(super) fn optional_outcome(&mut self) -> Result<Option<Outcome>, Trouble> {
        let word = self.optional_text()?;
        word.map(|word| word.parse().map_err(|error| unreadable("outcome", error))).transpose()
    }

    /// For readers that can do without it: a newer version's word is none.
    fn known_outcome(&mut self) -> Option<Outcome> {
        self.text().ok()?.parse().ok()
    }

    /// Its word and its reason.
    pub(super) fn ending(&mut self) -> Result<Ending, Trouble> {
        self.optional_ending()?.ok_or_else(|| unreadable("ending", "none"))
    }

    pub(super) fn optional_ending(&mut self) -> Result<Option<Ending>, Trouble> {
        let (word, reason) = (self.optional_text()?, self.optional_text()?);
        word.map(|word| Ending::read(word, reason).ok_or_else(|| unreadable("ending", word))).transpose()
    }

    /// `delivery_id, account_id, event_id, destination_id, route_id, replay_id, origin, track, rank, due_at, attempts,
    /// spent, tls_errors, last_outcome, last_http_status, created_at, available_at, payload_bytes, sequence`
    pub(super) fn delivery(&mut self) -> Result<Delivery, Trouble> {
        let id = self.id()?;
        Ok(Delivery {
            id,
            account_id: self.id()?,
            event_id: self.id()?,
            destination_id: self.id()?,
            route_id: self.id()?,
            replay_id: self.optional_id()?,
            origin: self.id()?,
            position: Position { track: self.get()?, rank: self.get()?, delivery_id: id },
            due_at: self.time()?,
            attempts: self.get()?,
            spent: self.get()?,
            tls_errors: self.get()?,
            last_outcome: self.known_outcome(),
            last_http_status: self.get()?,
            created_at: self.time()?,
            available_at: self.time()?,
            payload_bytes: self.get()?,
            sequence: self.get()?,
        })
    }

    /// `id, account_id, source_id, type, idempotency_key, content_type, ordering_key, received_at, deliver_at, headers,
    /// metadata`; without its payload.
    pub(super) fn event(&mut self) -> Result<Event, Trouble> {
        Ok(Event {
            id: self.id()?,
            account_id: self.id()?,
            source_id: self.optional_id()?,
            event_type: EventType::kept(self.text()?).map_err(|error| unreadable("event type", error))?,
            idempotency_key: self.get()?,
            content_type: self.get()?,
            ordering_key: self.get()?,
            received_at: self.time()?,
            deliver_at: self.optional_time()?,
            headers: self.document("headers")?,
            metadata: self.document("metadata")?,
            tags: Vec::new(),
            payload: Bytes::new(),
        })
    }
}
