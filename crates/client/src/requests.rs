//! What is sent to the API. A field left out takes the server's default.

use domain::{
    account::{KeyKind, Scope},
    destination::{OnDeadLetter, Ordering, RateLimit},
    id::{AccountId, DeliveryId, DestinationId, SourceId},
    retry::RetryPolicy,
    time::Timestamp,
};
use serde::Serialize;
use serde_json::{Map, Value, value::RawValue};

#[derive(Debug, Clone, Default, Serialize)]
pub struct NewAccount {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention_days: Option<u32>,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct NewApiKey {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<KeyKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<Scope>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_id: Option<SourceId>,
    /// Whose key, when an operator makes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account_id: Option<AccountId>,
    /// Events a second it may bring in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct NewSource {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct NewDestination {
    pub name: String,
    pub url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrency: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordering: Option<Ordering>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_dead_letter: Option<OnDeadLetter>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_policy: Option<RetryPolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signing: Option<Value>,
}

impl NewDestination {
    pub fn new(name: &str, url: &str) -> Self {
        Self { name: name.into(), url: url.into(), ..Self::default() }
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct NewRoute {
    pub destination_id: DestinationId,
    /// None: events published by API.
    pub source_id: Option<SourceId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_types: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_policy: Option<RetryPolicy>,
}

impl NewRoute {
    /// Everything that is published.
    pub fn to(destination_id: DestinationId) -> Self {
        Self {
            destination_id,
            source_id: None,
            name: None,
            event_types: None,
            filter: None,
            retry_policy: None,
        }
    }

    /// Everything that comes in by a source.
    pub fn from_source(source_id: SourceId, destination_id: DestinationId) -> Self {
        Self { source_id: Some(source_id), ..Self::to(destination_id) }
    }
}

/// What is to be delivered again: what a filter matches, or deliveries by their ids.
#[derive(Debug, Clone, Default, Serialize)]
pub struct NewReplay {
    /// The filters of the list of deliveries, as lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery_ids: Option<Vec<DeliveryId>>,
    /// Deliveries to make a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
    /// For the header: the same key and body give the same replay.
    #[serde(skip)]
    pub idempotency_key: Option<String>,
}

/// An event to publish. The bytes of `data` are the payload, exactly as they are here.
#[derive(Debug, Clone, Serialize)]
pub struct Publish {
    #[serde(rename = "type")]
    pub event_type: String,
    pub data: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordering_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliver_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

impl Publish {
    /// `data` is a JSON text.
    pub fn json(event_type: &str, data: impl Into<String>) -> Result<Self, crate::Error> {
        let data = RawValue::from_string(data.into())
            .map_err(|error| crate::Error::Unexpected(format!("the data is not JSON: {error}")))?;
        Ok(Self {
            event_type: event_type.into(),
            data,
            idempotency_key: None,
            ordering_key: None,
            deliver_at: None,
            metadata: Map::new(),
        })
    }

    pub fn with_key(mut self, idempotency_key: impl Into<String>) -> Self {
        self.idempotency_key = Some(idempotency_key.into());
        self
    }
}
