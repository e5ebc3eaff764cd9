//! Rows and what they stand for. Columns are read by place: names would be looked up again for every row.

use domain::{
    delivery::{Delivery, Position},
    event::{Event, EventType, Headers},
    id::{AccountId, DeliveryId, DestinationId, EventId, ReplayId, RouteId, SourceId},
    time::Timestamp,
};
use tokio_postgres::Row;
use uuid::Uuid;

/// A waiting delivery and its shard, from column `at` on: shard, delivery_id, account_id, event_id, destination_id,
/// route_id, replay_id, origin, track, rank, due_at, attempts, spent, tls_errors, last_outcome, last_http_status,
/// created_at, available_at, payload_bytes, sequence.
pub(super) fn delivery(row: &Row, at: usize) -> (u16, Delivery) {
    let id = DeliveryId::from_uuid(row.get(at + 1));
    let delivery = Delivery {
        id,
        account_id: AccountId::from_uuid(row.get(at + 2)),
        event_id: EventId::from_uuid(row.get(at + 3)),
        destination_id: DestinationId::from_uuid(row.get(at + 4)),
        route_id: RouteId::from_uuid(row.get(at + 5)),
        replay_id: row.get::<_, Option<Uuid>>(at + 6).map(ReplayId::from_uuid),
        origin: DeliveryId::from_uuid(row.get(at + 7)),
        position: Position { track: row.get(at + 8), rank: row.get(at + 9), delivery_id: id },
        due_at: time(row, at + 10),
        attempts: count(row, at + 11),
        spent: count(row, at + 12),
        tls_errors: count(row, at + 13),
        last_outcome: row.get::<_, Option<&str>>(at + 14).and_then(|word| word.parse().ok()),
        last_http_status: http_status(row, at + 15),
        created_at: time(row, at + 16),
        available_at: time(row, at + 17),
        payload_bytes: count(row, at + 18),
        sequence: row.get(at + 19),
    };
    (row.get::<_, i16>(at) as u16, delivery)
}

/// An event without its payload: id, account_id, source_id, type, idempotency_key, content_type, headers, ordering_key,
/// metadata, received_at, deliver_at.
pub(super) fn event(row: &Row) -> Event {
    Event {
        id: EventId::from_uuid(row.get(0)),
        account_id: AccountId::from_uuid(row.get(1)),
        source_id: row.get::<_, Option<Uuid>>(2).map(SourceId::from_uuid),
        event_type: row.get::<_, &str>(3).parse().unwrap_or_else(|_| EventType::unknown()),
        idempotency_key: row.get(4),
        content_type: row.get(5),
        headers: serde_json::from_str::<Headers>(row.get(6)).unwrap_or_default(),
        payload: bytes::Bytes::new(),
        ordering_key: row.get(7),
        metadata: serde_json::from_str(row.get(8)).unwrap_or_default(),
        received_at: time(row, 9),
        deliver_at: optional_time(row, 10),
    }
}

pub(super) fn time(row: &Row, column: usize) -> Timestamp {
    Timestamp::from_micros(row.get(column))
}

pub(super) fn optional_time(row: &Row, column: usize) -> Option<Timestamp> {
    row.get::<_, Option<i64>>(column).map(Timestamp::from_micros)
}

/// Never negative: the tables check it.
pub(super) fn count(row: &Row, column: usize) -> u32 {
    row.get::<_, i32>(column) as u32
}

pub(super) fn http_status(row: &Row, column: usize) -> Option<u16> {
    row.get::<_, Option<i16>>(column).map(|status| status as u16)
}
