//! Events: immutable things that happened, with their payload as the bytes that came in.

use crate::{
    id::{AccountId, DestinationId, EventId, SourceId},
    limits,
    operations::{ABOUT, is_operational},
    time::Timestamp,
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{fmt, str::FromStr, sync::Arc};

#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub id: EventId,
    pub account_id: AccountId,
    /// None: published by API.
    pub source_id: Option<SourceId>,
    pub event_type: EventType,
    pub idempotency_key: Option<String>,
    pub content_type: String,
    /// Inbound headers in lower case, without credentials.
    pub headers: Headers,
    pub payload: Bytes,
    pub ordering_key: Option<String>,
    pub metadata: Map<String, Value>,
    /// What it is found by: at most [`limits::TAGS`], each once. Left out of what is read to be delivered.
    pub tags: Vec<String>,
    pub received_at: Timestamp,
    pub deliver_at: Option<Timestamp>,
}

impl Event {
    /// An event of which no more is known than its type and its payload, which is JSON.
    pub fn new(
        id: EventId,
        account_id: AccountId,
        event_type: EventType,
        payload: Bytes,
        received_at: Timestamp,
    ) -> Self {
        Self {
            id,
            account_id,
            source_id: None,
            event_type,
            idempotency_key: None,
            content_type: "application/json".into(),
            headers: Vec::new(),
            payload,
            ordering_key: None,
            metadata: Map::new(),
            tags: Vec::new(),
            received_at,
            deliver_at: None,
        }
    }

    /// The destination that an operational event tells of: it is not delivered there.
    pub fn about(&self) -> Option<DestinationId> {
        if !self.id.is_operational() {
            return None;
        }
        self.metadata.get(ABOUT)?.as_str()?.parse().ok()
    }
}

/// Header names (lower case) and values, in the order they came.
pub type Headers = Vec<(String, String)>;

/// A dotted name such as `payment.succeeded`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EventType(Arc<str>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventTypeError {
    #[error("an event type is 1 to 128 of A-Z a-z 0-9 . _ -")]
    Malformed,
    #[error(
        "event types that begin with the segment `posthaste` are reserved: what Posthaste tells of itself has them"
    )]
    Reserved,
}

impl EventType {
    /// What an event is called when nothing tells its type.
    pub fn unknown() -> Self {
        Self("unknown".into())
    }

    /// A provider's own name: `/` becomes `.`, and what still does not fit is unknown.
    pub fn of_provider(text: &str) -> Self {
        text.replace('/', ".").parse().unwrap_or_else(|_| Self::unknown())
    }

    /// As it is kept: of an operational event too.
    pub fn kept(text: &str) -> Result<Self, EventTypeError> {
        match text.parse() {
            Err(EventTypeError::Reserved) => Ok(Self(text.into())),
            parsed => parsed,
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for EventType {
    type Err = EventTypeError;

    fn from_str(text: &str) -> Result<Self, EventTypeError> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        if text.is_empty() || text.len() > limits::EVENT_TYPE_BYTES || !text.bytes().all(allowed) {
            return Err(EventTypeError::Malformed);
        }
        if is_operational(text) {
            return Err(EventTypeError::Reserved);
        }
        Ok(Self(text.into()))
    }
}

impl TryFrom<String> for EventType {
    type Error = EventTypeError;
    fn try_from(text: String) -> Result<Self, EventTypeError> {
        text.parse()
    }
}

impl From<EventType> for String {
    fn from(event_type: EventType) -> Self {
        event_type.0.as_ref().into()
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_types_are_dotted_names() {
        assert!("payment.succeeded".parse::<EventType>().is_ok());
        assert_eq!("".parse::<EventType>(), Err(EventTypeError::Malformed));
        assert_eq!("a b".parse::<EventType>(), Err(EventTypeError::Malformed));
        assert_eq!("a".repeat(129).parse::<EventType>(), Err(EventTypeError::Malformed));
        for text in ["posthaste.test", "posthaste"] {
            assert_eq!(text.parse::<EventType>(), Err(EventTypeError::Reserved));
            assert_eq!(EventType::kept(text).map(|it| it.as_str().to_owned()), Ok(text.to_owned()));
        }
        assert!("posthastes.a".parse::<EventType>().is_ok());
    }

    #[test]
    fn a_providers_name_is_made_to_fit() {
        assert_eq!(EventType::of_provider("orders/paid").as_str(), "orders.paid");
        assert_eq!(EventType::of_provider("weird type!").as_str(), "unknown");
    }
}
