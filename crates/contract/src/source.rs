//! Sources.

use crate::schema;
use domain::{id::SourceId, time::Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Where events of others come in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Source)]
pub struct SourceView {
    #[schema(value_type = schema::SourceId)]
    pub id: SourceId,
    #[schema(required)]
    pub uid: Option<String>,
    pub name: String,
    pub enabled: bool,
    /// Where to post events to. Every caller that knows it can bring events in, so it is a secret: only in the answer to
    /// the request that made it; later at `GET …/{id}/ingest-url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingest_url: Option<String>,
    pub verification: VerificationView,
    /// Requests per second.
    #[schema(required)]
    pub rate_limit: Option<u32>,
    /// What its events are tagged with.
    #[serde(default)]
    #[schema(required, max_items = 8)]
    pub tags: Vec<SourceTag>,
    #[schema(value_type = schema::Timestamp)]
    pub created_at: Timestamp,
    #[schema(value_type = schema::Timestamp)]
    pub updated_at: Timestamp,
}

/// A source's ingest URL.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = IngestUrl)]
pub struct IngestUrlView {
    /// Where to post events to. Every caller that knows it can bring events in.
    pub ingest_url: String,
}

/// How a source checks its callers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Verification)]
pub struct VerificationView {
    #[serde(rename = "type")]
    pub kind: VerificationKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = VerificationType)]
pub enum VerificationKind {
    #[default]
    None,
}

/// A source to be made. What is left out, or null, takes its default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSource {
    /// Your own id of it, unique in the account.
    #[schema(value_type = Option<schema::Uid>)]
    pub uid: Option<String>,
    #[schema(value_type = schema::Name)]
    pub name: String,
    #[serde(default = "enabled")]
    #[schema(value_type = Option<bool>, default = true)]
    pub enabled: bool,
    #[serde(default)]
    #[schema(value_type = Option<VerificationInput>)]
    pub verification: VerificationInput,
    /// Events a second that may come in by it, on each node; a second's worth may come at once. Null: no limit.
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub rate_limit: Option<u32>,
    /// What its events are tagged with: each takes one value of what comes in. What is not there, is no text, number or
    /// boolean, or makes no tag is left out, and no event is refused for it.
    #[serde(default)]
    #[schema(value_type = Option<Vec<SourceTag>>, max_items = 8)]
    pub tags: Vec<SourceTag>,
}

/// Where a tag is taken from: `path` or `header`, one of them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SourceTag {
    /// Names of members of the payload, and places in lists, with dots between them: `order.items.0.id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::TagPath>)]
    pub path: Option<String>,
    /// The name of a header; of several with this name, the first. Credentials are not kept, and so not found.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::HeaderName>)]
    pub header: Option<String>,
    /// Put before the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::TagPrefix>)]
    pub prefix: Option<String>,
}

impl NewSource {
    pub fn new(name: &str) -> Self {
        let verification = VerificationInput::default();
        Self {
            uid: None,
            name: name.into(),
            enabled: enabled(),
            verification,
            rate_limit: None,
            tags: Vec::new(),
        }
    }
}

fn enabled() -> bool {
    true
}

/// How callers are to be verified.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct VerificationInput {
    #[serde(rename = "type")]
    #[schema(value_type = Option<VerificationKind>)]
    pub kind: VerificationKind,
}
