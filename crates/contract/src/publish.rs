//! Events that come in: what is sent, and what is answered when they are durable.

use crate::{Problem, schema};
use domain::{id::EventId, time::Timestamp};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use utoipa::ToSchema;

/// An event to publish. `schema::Publish` describes it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Publish<'a> {
    #[serde(rename = "type", borrow)]
    pub event_type: Cow<'a, str>,
    /// The payload, byte for byte as written here; or `data_base64`.
    #[serde(default, borrow, deserialize_with = "as_written", skip_serializing_if = "Option::is_none")]
    pub data: Option<Cow<'a, RawValue>>,
    /// A payload that is not JSON; needs `content_type`.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub data_base64: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Repeats with the same key within 24 hours give the first event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// Deliveries with the same key keep their order at destinations that ask for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordering_key: Option<String>,
    /// Not before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deliver_at: Option<Timestamp>,
    /// For filters and people; not sent.
    #[serde(
        default,
        borrow,
        deserialize_with = "as_written_or_none",
        skip_serializing_if = "Option::is_none"
    )]
    pub metadata: Option<Cow<'a, RawValue>>,
    /// What the event is found by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
}

/// `null` is a payload too.
fn as_written<'de: 'a, 'a, D: Deserializer<'de>>(from: D) -> Result<Option<Cow<'a, RawValue>>, D::Error> {
    <&RawValue>::deserialize(from).map(|written| Some(Cow::Borrowed(written)))
}

fn as_written_or_none<'de: 'a, 'a, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Cow<'a, RawValue>>, D::Error> {
    Ok(<Option<&RawValue>>::deserialize(from)?.map(Cow::Borrowed))
}

impl Publish<'static> {
    /// With a payload of JSON.
    pub fn json(event_type: &str, data: impl Into<String>) -> Result<Self, NotJson> {
        Ok(Self {
            event_type: event_type.to_owned().into(),
            data: Some(Cow::Owned(RawValue::from_string(data.into()).map_err(NotJson)?)),
            data_base64: None,
            content_type: None,
            idempotency_key: None,
            ordering_key: None,
            deliver_at: None,
            metadata: None,
            tags: None,
        })
    }

    pub fn with_key(mut self, idempotency_key: impl Into<String>) -> Self {
        self.idempotency_key = Some(idempotency_key.into());
        self
    }
}

/// Why a text is no payload of an event.
#[derive(Debug, thiserror::Error)]
#[error("the data is not JSON: {0}")]
pub struct NotJson(#[source] serde_json::Error);

/// What a producer is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Accepted {
    #[schema(value_type = schema::EventId)]
    pub id: EventId,
    pub status: AcceptedStatus,
    /// How many deliveries the event was committed with; null while a large fan-out is being expanded.
    #[schema(required)]
    pub deliveries: Option<u32>,
    pub expanding: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AcceptedStatus {
    /// Durable, with its deliveries.
    Queued,
    /// Durable, and no route led it anywhere: it has no deliveries.
    Unmatched,
    /// The key was used before: this is the first event.
    Duplicate,
}

/// One result per event, in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BatchAnswer {
    pub results: Vec<BatchResult>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum BatchResult {
    Accepted(Accepted),
    Refused(Refused),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Refused {
    #[schema(value_type = schema::RefusedStatus)]
    pub status: Cow<'static, str>,
    pub error: Problem,
}
