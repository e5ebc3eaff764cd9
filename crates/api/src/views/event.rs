use contract::{DeliveryView, EventDetailView, EventView, FanoutView};
use domain::limits;
use store::{EventRecord, FanoutCounts};

pub(crate) fn event(record: &EventRecord) -> EventView {
    let event = &record.event;
    EventView {
        id: event.id,
        event_type: event.event_type.clone(),
        source_id: event.source_id,
        idempotency_key: event.idempotency_key.clone(),
        content_type: event.content_type.clone(),
        size_bytes: record.size_bytes,
        ordering_key: event.ordering_key.clone(),
        metadata: event.metadata.clone(),
        tags: event.tags.clone(),
        received_at: event.received_at,
        deliver_at: event.deliver_at,
        payload_erased_at: record.payload_erased_at,
        fanout: fanout(&record.fanout),
        other_routes: record.other_routes.clone(),
    }
}

fn fanout(counts: &FanoutCounts) -> FanoutView {
    FanoutView {
        total: counts.total,
        delivered: counts.delivered,
        waiting: counts.waiting,
        dead_letter: counts.dead_letter,
        dismissed: counts.dismissed,
        cancelled: counts.cancelled,
        exact: !counts.capped,
        expanding: counts.expanding,
        completed_at: counts.completed_at,
    }
}

/// `payload` is None if it was too long to be read for this.
pub(crate) fn event_detail(
    record: &EventRecord,
    payload: Option<&[u8]>,
    deliveries: Vec<DeliveryView>,
) -> EventDetailView {
    EventDetailView {
        event: event(record),
        headers: record.event.headers.as_slice().into(),
        payload: payload.and_then(shown_payload),
        deliveries,
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
