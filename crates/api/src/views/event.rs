use super::{DeliveryView, HeadersView, schema};
use domain::{
    event::EventType,
    id::{EventId, SourceId},
    limits,
    time::Timestamp,
};
use serde::Serialize;
use serde_json::{Map, Value};
use store::{EventRecord, FanoutCounts};
use utoipa::ToSchema;

/// One immutable thing that happened.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Event)]
pub struct EventView {
    #[schema(value_type = schema::EventId)]
    pub id: EventId,
    #[serde(rename = "type")]
    #[schema(value_type = String, example = "payment.succeeded")]
    pub event_type: EventType,
    /// Null: published by API.
    #[schema(value_type = Option<schema::SourceId>, required)]
    pub source_id: Option<SourceId>,
    #[schema(required)]
    pub idempotency_key: Option<String>,
    pub content_type: String,
    pub size_bytes: u64,
    #[schema(required)]
    pub ordering_key: Option<String>,
    #[schema(value_type = schema::Metadata)]
    pub metadata: Map<String, Value>,
    #[schema(value_type = schema::Timestamp)]
    pub received_at: Timestamp,
    #[schema(value_type = Option<schema::Timestamp>, required)]
    pub deliver_at: Option<Timestamp>,
    pub fanout: FanoutView,
}

/// How far an event's deliveries are. A list counts a little over 1,000 deliveries of one event; asked for alone, all.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Fanout)]
pub struct FanoutView {
    pub total: u32,
    pub delivered: u32,
    pub waiting: u32,
    pub dead_letter: u32,
    pub cancelled: u32,
    /// False: there are more than were counted, in a list of events with very large fan-outs.
    pub exact: bool,
    /// Deliveries are still being made.
    pub expanding: bool,
    /// When the last delivery ended; null if one has not, or not all were counted.
    #[schema(value_type = Option<schema::Timestamp>, required)]
    pub completed_at: Option<Timestamp>,
}

/// An event with what it carried and what became of it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EventDetail)]
pub struct EventDetailView {
    #[serde(flatten)]
    pub event: EventView,
    #[schema(value_type = schema::Headers)]
    pub headers: HeadersView,
    /// The payload as text up to 64 KiB; null if it is longer or not text. The exact bytes are at `…/{id}/payload`.
    #[schema(required)]
    pub payload: Option<String>,
    /// The first 200, newest first.
    pub deliveries: Vec<DeliveryView>,
}

impl From<&EventRecord> for EventView {
    fn from(record: &EventRecord) -> Self {
        let event = &record.event;
        Self {
            id: event.id,
            event_type: event.event_type.clone(),
            source_id: event.source_id,
            idempotency_key: event.idempotency_key.clone(),
            content_type: event.content_type.clone(),
            size_bytes: record.size_bytes,
            ordering_key: event.ordering_key.clone(),
            metadata: event.metadata.clone(),
            received_at: event.received_at,
            deliver_at: event.deliver_at,
            fanout: FanoutView::from(&record.fanout),
        }
    }
}

impl From<&FanoutCounts> for FanoutView {
    fn from(counts: &FanoutCounts) -> Self {
        Self {
            total: counts.total,
            delivered: counts.delivered,
            waiting: counts.waiting,
            dead_letter: counts.dead_letter,
            cancelled: counts.cancelled,
            exact: !counts.capped,
            expanding: counts.expanding,
            completed_at: counts.completed_at,
        }
    }
}

impl EventDetailView {
    /// `payload` is None if it was too long to be read for this.
    pub fn new(record: &EventRecord, payload: Option<&[u8]>, deliveries: Vec<DeliveryView>) -> Self {
        Self {
            event: EventView::from(record),
            headers: record.event.headers.as_slice().into(),
            payload: payload.and_then(shown_payload),
            deliveries,
        }
    }
}

fn shown_payload(payload: &[u8]) -> Option<String> {
    if payload.len() > limits::PAYLOAD_SHOWN_BYTES {
        return None;
    }
    std::str::from_utf8(payload).ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_shown_if_it_is_short_text() {
        assert_eq!(shown_payload(b"{}").as_deref(), Some("{}"));
        assert_eq!(shown_payload(b"\xff\xfe"), None);
        assert_eq!(shown_payload(&vec![b'a'; limits::PAYLOAD_SHOWN_BYTES + 1]), None);
    }
}
