//! Sources.

use crate::schema;
use domain::{
    id::SourceId,
    time::Timestamp,
    verification::{Encoding, HmacAlgorithm, VerificationKind},
};
use serde::{Deserialize, Serialize};
use std::fmt;
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
    /// Whether the last requests that it did not believe are kept.
    #[serde(default)]
    #[schema(required)]
    pub keep_refused: bool,
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
    #[schema(value_type = schema::VerificationType)]
    pub kind: VerificationKind,
    /// Secrets are never shown.
    #[serde(default)]
    #[schema(required, maximum = 4)]
    pub secret_count: usize,
    /// How far the timestamp of a request may be from now; null where there is none.
    #[serde(default)]
    #[schema(required)]
    pub tolerance_seconds: Option<u64>,
    /// Networks that requests may come from, beside being signed; empty: all.
    #[serde(default)]
    #[schema(required, max_items = 64)]
    pub allowed_addresses: Vec<String>,
    /// Of `hmac` only, as all that follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::SignatureEncoding>)]
    pub encoding: Option<Encoding>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::HmacAlgorithm>)]
    pub algorithm: Option<HmacAlgorithm>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp_header: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id_header: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed_content: Option<String>,
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
    /// Keep the last ten requests that it did not believe, without what could be used again, for a person to see why: at most
    /// one a second on each node. They go when this is switched off.
    #[serde(default)]
    #[schema(value_type = Option<bool>, default = false)]
    pub keep_refused: bool,
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
            keep_refused: false,
        }
    }
}

fn enabled() -> bool {
    true
}

/// How callers are to be verified. `header` and all that follows it belong to `hmac`, which needs `header`; with other types
/// they are refused. A change of the type keeps nothing but `allowed_addresses`.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct VerificationInput {
    #[serde(rename = "type")]
    #[schema(value_type = Option<schema::VerificationType>)]
    pub kind: VerificationKind,
    /// As the provider shows them; several while one takes the place of another. All that there are: they replace those there
    /// were, and left out they stay. `none` has none, and without one no other type can be enabled. What one looks like depends
    /// on the type: `name:password` for `basic`, a token for `bearer`, a public key where the provider signs with a private one.
    #[schema(value_type = Option<Vec<schema::VerificationSecret>>, write_only, max_items = 4)]
    pub secrets: Option<Vec<String>>,
    /// How far the timestamp of a request may be from now. Null: what is usual with this provider. Refused where what is signed
    /// has no timestamp.
    #[schema(minimum = 1, maximum = 86400)]
    pub tolerance_seconds: Option<u64>,
    /// Addresses and networks that requests may come from, beside being signed; empty: all. Refused with `none`.
    #[schema(value_type = Option<Vec<schema::Network>>, max_items = 64)]
    pub allowed_addresses: Vec<String>,
    /// Where the signature is.
    #[schema(value_type = Option<schema::InboundHeaderName>)]
    pub header: Option<String>,
    /// What stands before the signature.
    #[schema(value_type = Option<schema::SignedText>)]
    pub prefix: Option<String>,
    #[schema(value_type = Option<schema::SignatureEncoding>)]
    pub encoding: Option<Encoding>,
    #[schema(value_type = Option<schema::HmacAlgorithm>)]
    pub algorithm: Option<HmacAlgorithm>,
    /// Where the moment of signing is, if it is signed: in seconds, in milliseconds, or as RFC 3339 has it.
    #[schema(value_type = Option<schema::InboundHeaderName>)]
    pub timestamp_header: Option<String>,
    /// Where the id is, by which a repeat is known.
    #[schema(value_type = Option<schema::InboundHeaderName>)]
    pub id_header: Option<String>,
    /// What is signed: a text with `{body}` in it, with `{timestamp}` if and only if there is a `timestamp_header`, and with
    /// `{id}` if you like and there is an `id_header`; each once. Null: `{body}`, or `{timestamp}.{body}`.
    #[schema(value_type = Option<schema::SignedText>)]
    pub signed_content: Option<String>,
}

impl fmt::Debug for VerificationInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerificationInput").field("type", &self.kind).finish_non_exhaustive()
    }
}
