//! Ids, times and words between Rust and SQLite: an id is a blob of 16 bytes, a time an integer of microseconds, an
//! outcome or an ending its word.

use super::trouble::{Trouble, unreadable};
use domain::{
    delivery::{Delivery, Ending, Position},
    event::Event,
    id::{
        AccountId, ApiKeyId, AttemptId, DeliveryId, DestinationId, EventId, NodeId, ReplayId, RouteId,
        SourceId,
    },
    outcome::Outcome,
    time::Timestamp,
};
use rusqlite::Row;

/// An id of any kind, as it is stored.
pub(super) trait Key: Copy {
    fn read(bytes: [u8; 16]) -> Self;
    fn blob(&self) -> [u8; 16];
}

macro_rules! keys {
    ($($id:ident)*) => {$(
        impl Key for $id {
            fn read(bytes: [u8; 16]) -> Self { Self::from_bytes(bytes) }
            fn blob(&self) -> [u8; 16] { *self.bytes() }
        }
    )*};
}

keys! { AccountId ApiKeyId AttemptId DeliveryId DestinationId EventId NodeId ReplayId RouteId SourceId }

pub(super) fn id<K: Key>(row: &Row<'_>, column: usize) -> rusqlite::Result<K> {
    row.get(column).map(K::read)
}

pub(super) fn maybe_id<K: Key>(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<K>> {
    Ok(row.get::<_, Option<[u8; 16]>>(column)?.map(K::read))
}

pub(super) fn blob<K: Key>(id: Option<K>) -> Option<[u8; 16]> {
    id.map(|id| id.blob())
}

pub(super) fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    row.get(column).map(Timestamp::from_micros)
}

pub(super) fn maybe_time(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_micros))
}

pub(super) fn micros(time: Option<Timestamp>) -> Option<i64> {
    time.map(Timestamp::micros)
}

pub(super) fn maybe_outcome(row: &Row<'_>, column: usize) -> Result<Option<Outcome>, Trouble> {
    let word = row.get_ref(column)?.as_str_or_null().map_err(rusqlite::Error::from)?;
    word.map(|word| word.parse().map_err(|error| unreadable("outcome", error))).transpose()
}

pub(super) fn ending(row: &Row<'_>, word: usize, reason: usize) -> Result<Ending, Trouble> {
    let (word, reason): (String, Option<String>) = (row.get(word)?, row.get(reason)?);
    Ending::read(&word, reason.as_deref()).ok_or_else(|| unreadable("ending", word))
}

/// For those who can do without it: a newer version's word is none.
fn known_outcome(row: &Row<'_>, column: usize) -> Option<Outcome> {
    row.get_ref(column).ok()?.as_str().ok()?.parse().ok()
}

/// How many columns [`delivery`] reads, in the order in which they stand in the statements.
pub(super) const DELIVERY_COLUMNS: usize = 19;

/// `delivery_id, account_id, event_id, destination_id, route_id, replay_id, origin, track, rank, due_at, attempts, spent,
/// tls_errors, last_outcome, last_http_status, created_at, available_at, payload_bytes, sequence`
pub(super) fn delivery(row: &Row<'_>) -> Result<Delivery, Trouble> {
    let id = id(row, 0)?;
    Ok(Delivery {
        id,
        account_id: self::id(row, 1)?,
        event_id: self::id(row, 2)?,
        destination_id: self::id(row, 3)?,
        route_id: self::id(row, 4)?,
        replay_id: maybe_id(row, 5)?,
        origin: self::id(row, 6)?,
        position: Position { track: row.get(7)?, rank: row.get(8)?, delivery_id: id },
        due_at: time(row, 9)?,
        attempts: row.get(10)?,
        spent: row.get(11)?,
        tls_errors: row.get(12)?,
        last_outcome: known_outcome(row, 13),
        last_http_status: row.get(14)?,
        created_at: time(row, 15)?,
        available_at: time(row, 16)?,
        payload_bytes: row.get(17)?,
        sequence: row.get(18)?,
    })
}

/// `id, account_id, source_id, type, idempotency_key, content_type, ordering_key, received_at, deliver_at, headers,
/// metadata`; the payload is for whoever wants it.
pub(super) fn event(row: &Row<'_>, payload: bytes::Bytes) -> Result<Event, Trouble> {
    let text = |column| row.get_ref(column)?.as_str().map_err(rusqlite::Error::from);
    Ok(Event {
        id: id(row, 0)?,
        account_id: id(row, 1)?,
        source_id: maybe_id(row, 2)?,
        event_type: event_type(text(3)?)?,
        idempotency_key: row.get(4)?,
        content_type: row.get(5)?,
        ordering_key: row.get(6)?,
        received_at: time(row, 7)?,
        deliver_at: maybe_time(row, 8)?,
        headers: serde_json::from_str(text(9)?).map_err(|error| unreadable("headers", error))?,
        metadata: serde_json::from_str(text(10)?).map_err(|error| unreadable("metadata", error))?,
        payload,
    })
}

fn event_type(text: &str) -> Result<domain::event::EventType, Trouble> {
    text.parse().map_err(|error| unreadable("event type", error))
}
