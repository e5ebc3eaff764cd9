//! Requests that a source did not believe.

use crate::{HeadersView, schema};
use domain::{time::Timestamp, verification::RefusalReason};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A request that a source did not believe, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = RefusedRequest)]
pub struct RefusedRequestView {
    #[schema(value_type = schema::Timestamp)]
    pub at: Timestamp,
    #[schema(value_type = schema::RefusalReason)]
    pub reason: RefusalReason,
    /// What that usually comes from, and what to do.
    pub detail: String,
    /// Where it came from.
    pub client_address: String,
    /// As they came; of a value that proves something only its beginning and its length.
    #[schema(value_type = schema::Headers)]
    pub headers: HeadersView,
    /// Of the whole body.
    pub size_bytes: u64,
    /// The first 4 KiB as text; null if they are not text.
    #[schema(required)]
    pub body: Option<String>,
    /// The first 4 KiB in base64 if they are not text.
    #[schema(required)]
    pub body_base64: Option<String>,
    /// There was more.
    pub truncated: bool,
}
