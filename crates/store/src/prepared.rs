//! An event with all that is written of it, made before it waits for the committer: what one flush does for its events it does
//! for all of them one after the other, and whoever waits for it waits for the largest.

use crate::{payload::StoredPayload, tags};
use domain::event::Event;
use std::{ops::Deref, sync::Arc};

/// An event as it came, and as the tables have it. That both are of one event is why it cannot be changed.
#[derive(Debug)]
pub struct PreparedEvent {
    event: Arc<Event>,
    pub(crate) headers_text: String,
    pub(crate) metadata_text: String,
    /// None where there are none.
    pub(crate) tags_text: Option<String>,
    stored_payload: StoredPayload,
}

impl PreparedEvent {
    /// Takes as long as its payload is large: some two milliseconds a mebibyte.
    pub fn new(event: impl Into<Arc<Event>>) -> Arc<Self> {
        let event = event.into();
        let json = "texts and JSON values are always JSON";
        Arc::new(Self {
            headers_text: serde_json::to_string(&event.headers).expect(json),
            metadata_text: serde_json::to_string(&event.metadata).expect(json),
            tags_text: tags::written(&event.tags),
            stored_payload: StoredPayload::of(&event.payload),
            event,
        })
    }

    pub fn event(&self) -> &Arc<Event> {
        &self.event
    }

    /// What it holds of memory beside the event itself.
    pub fn prepared_bytes(&self) -> usize {
        size_of::<Self>()
            + self.headers_text.len()
            + self.metadata_text.len()
            + self.tags_text.as_ref().map_or(0, String::len)
            + self.stored_payload.packed_bytes()
    }

    pub(crate) fn payload_bytes(&self) -> &[u8] {
        self.stored_payload.bytes(&self.event.payload)
    }

    pub(crate) fn payload_crc(&self) -> i32 {
        self.stored_payload.crc
    }
}

impl Deref for PreparedEvent {
    type Target = Event;

    fn deref(&self) -> &Event {
        &self.event
    }
}
