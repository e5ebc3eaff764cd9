//! Attempts.

use crate::{HeadersView, schema};
use domain::{
    id::{AttemptId, DeliveryId, DestinationId, EventId, NodeId},
    outcome::Outcome,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use utoipa::ToSchema;

/// One HTTP try of a delivery, as it went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Attempt)]
pub struct AttemptView {
    #[schema(value_type = schema::AttemptId)]
    pub id: AttemptId,
    #[schema(value_type = schema::DeliveryId)]
    pub delivery_id: DeliveryId,
    #[schema(value_type = schema::EventId)]
    pub event_id: EventId,
    #[schema(value_type = schema::DestinationId)]
    pub destination_id: DestinationId,
    /// From 1.
    pub number: u32,
    #[schema(value_type = schema::Timestamp)]
    pub started_at: Timestamp,
    pub duration_ms: u64,
    pub timing_ms: TimingView,
    pub connection_reused: bool,
    #[schema(value_type = schema::Outcome)]
    pub outcome: Outcome,
    #[schema(required)]
    pub http_status: Option<u16>,
    #[schema(required)]
    pub retry_after_seconds: Option<u64>,
    #[schema(required)]
    pub error: Option<AttemptErrorView>,
    pub request: RequestView,
    /// Null when there was no answer.
    #[schema(required)]
    pub response: Option<ResponseView>,
    /// The process that made it.
    #[schema(value_type = schema::NodeId)]
    pub node: NodeId,
    /// Recorded after its delivery had moved on: it changed nothing.
    pub late: bool,
}

/// Where the time went; null for a phase that did not take place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Timing)]
pub struct TimingView {
    #[schema(required)]
    pub dns: Option<u32>,
    #[schema(required)]
    pub connect: Option<u32>,
    #[schema(required)]
    pub tls: Option<u32>,
    #[schema(required)]
    pub first_byte: Option<u32>,
}

/// Why there is no answer, or none that is followed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = AttemptError)]
pub struct AttemptErrorView {
    #[schema(example = "connect_error")]
    pub code: String,
    /// More than the code says, where there is more: `refused`, `unreachable`, `connect_timeout`, `answer_timeout`, `reset`,
    /// `closed_early`, `not_tls`, `self_signed`, `expired`, `not_yet_valid`, `wrong_name`, `unknown_authority`,
    /// `bad_certificate`, `protocol`. More may come.
    #[serde(default)]
    #[schema(required, example = "refused")]
    pub kind: Option<String>,
    pub message: String,
}

/// What was sent; credentials are redacted. The body is the event's payload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = AttemptRequest)]
pub struct RequestView {
    #[schema(example = "POST")]
    pub method: Cow<'static, str>,
    pub url: String,
    #[schema(value_type = schema::Headers)]
    pub headers: HeadersView,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = AttemptResponse)]
pub struct ResponseView {
    #[schema(value_type = schema::Headers)]
    pub headers: HeadersView,
    /// The first 16 KiB as text; null if they are not text.
    #[schema(required)]
    pub body: Option<String>,
    /// The first 16 KiB in base64 if they are not text.
    #[schema(required)]
    pub body_base64: Option<String>,
    /// There was more.
    pub truncated: bool,
}
