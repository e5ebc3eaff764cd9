//! An event with all that is written of it, made before it waits for the committer: what one flush does for its events it does
//! for all of them one after the other, and whoever waits for it waits for the largest.

use crate::{payload::StoredPayload, sealed_event::Seals, tags};
use domain::{
    dice::Dice,
    event::Event,
    seal::{DataKey, Sealed},
};
use std::{ops::Deref, sync::Arc};

/// An event as it came, and as the tables have it. That both are of one event is why it cannot be changed.
#[derive(Debug)]
pub struct PreparedEvent {
    event: Arc<Event>,
    pub(crate) headers_text: String,
    pub(crate) metadata_text: String,
    /// None where there are none.
    pub(crate) tags_text: Option<String>,
    stored_payload: KeptPart,
}

/// What is written of the payload.
#[derive(Debug)]
enum KeptPart {
    Readable(StoredPayload),
    /// With the headers.
    Sealed(Seals),
}

/// As the table has headers that are sealed, in the column of those that are not.
const NO_HEADERS: &str = "[]";

impl PreparedEvent {
    /// Takes as long as its payload is large: some two milliseconds a mebibyte.
    pub fn new(event: impl Into<Arc<Event>>) -> Arc<Self> {
        let event = event.into();
        let (headers, payload) = (headers_text(&event), StoredPayload::of(&event.payload));
        Self::with(event, headers, KeptPart::Readable(payload))
    }

    /// The same of an account that has its payloads encrypted: headers and payload are sealed by its newest data key. What
    /// is handed over in memory stays as it is.
    pub fn sealed(event: impl Into<Arc<Event>>, key: &DataKey, dice: &dyn Dice) -> Arc<Self> {
        let event = event.into();
        let seals = Seals::of(&event, &headers_text(&event), key, dice);
        Self::with(event, NO_HEADERS.into(), KeptPart::Sealed(seals))
    }

    fn with(event: Arc<Event>, headers_text: String, stored_payload: KeptPart) -> Arc<Self> {
        let json = "JSON values are always JSON";
        Arc::new(Self {
            headers_text,
            metadata_text: serde_json::to_string(&event.metadata).expect(json),
            tags_text: tags::written(&event.tags),
            stored_payload,
            event,
        })
    }

    /// Whether it is written as an account with this key would have it now: sealed by the newest, or by none.
    pub fn is_sealed_as(&self, key: Option<&DataKey>) -> bool {
        match (self.sealed_headers(), key) {
            (Some(sealed), Some(key)) => key.is_newest_of(sealed),
            (sealed, key) => sealed.is_none() && key.is_none(),
        }
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
            + match &self.stored_payload {
                KeptPart::Readable(payload) => payload.packed_bytes(),
                KeptPart::Sealed(seals) => seals.payload.len() + seals.headers.0.len(),
            }
    }

    pub(crate) fn payload_bytes(&self) -> &[u8] {
        match &self.stored_payload {
            KeptPart::Readable(payload) => payload.bytes(&self.event.payload),
            KeptPart::Sealed(seals) => &seals.payload,
        }
    }

    pub(crate) fn payload_crc(&self) -> i32 {
        match &self.stored_payload {
            KeptPart::Readable(payload) => payload.crc,
            KeptPart::Sealed(seals) => seals.crc,
        }
    }

    /// The mark that headers and payload are sealed.
    pub(crate) fn sealed_headers(&self) -> Option<&Sealed> {
        match &self.stored_payload {
            KeptPart::Readable(_) => None,
            KeptPart::Sealed(seals) => Some(&seals.headers),
        }
    }
}

fn headers_text(event: &Event) -> String {
    serde_json::to_string(&event.headers).expect("texts are always JSON")
}

impl Deref for PreparedEvent {
    type Target = Event;

    fn deref(&self) -> &Event {
        &self.event
    }
}
