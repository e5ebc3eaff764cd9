//! API keys.

use crate::schema;
use domain::{
    account::{KeyKind, Scope},
    id::{AccountId, ApiKeyId, SourceId},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A key as it can be shown: enough to recognise it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ApiKey)]
pub struct ApiKeyView {
    #[schema(value_type = schema::ApiKeyId)]
    pub id: ApiKeyId,
    pub name: String,
    #[schema(value_type = schema::ApiKeyKind)]
    pub kind: KeyKind,
    /// How the key begins.
    #[schema(example = "phk_4fGh…")]
    pub prefix: String,
    #[schema(value_type = Vec<schema::Scope>)]
    pub scopes: Vec<Scope>,
    /// The source an ingest key is bound to.
    #[schema(value_type = Option<schema::SourceId>, required)]
    pub source_id: Option<SourceId>,
    /// Events a second that it may bring in, on each node.
    #[schema(required)]
    pub rate_limit: Option<u32>,
    #[schema(value_type = Option<schema::Timestamp>, required)]
    pub expires_at: Option<Timestamp>,
    /// Networks that it is taken from; empty: all.
    #[serde(default)]
    #[schema(required, max_items = 64)]
    pub allowed_addresses: Vec<String>,
    /// Written once a minute at most.
    #[schema(value_type = Option<schema::Timestamp>, required)]
    pub last_used_at: Option<Timestamp>,
    #[schema(value_type = Option<schema::Timestamp>, required)]
    pub revoked_at: Option<Timestamp>,
    #[schema(value_type = schema::Timestamp)]
    pub created_at: Timestamp,
}

/// A key that has just been made: the only time its secret is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = NewApiKey)]
pub struct NewApiKeyView {
    #[serde(flatten)]
    pub api_key: ApiKeyView,
    /// The key itself. It is shown this once and cannot be read again.
    pub key: String,
}

/// A key to be made. `schema::ApiKeyInput` describes it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiKeyInput {
    pub name: String,
    /// `operator` and `platform` are for operators.
    pub kind: Option<KeyKind>,
    /// Left out: every scope of an account, or of a platform. An ingest key has `ingest:write` and nothing else.
    pub scopes: Option<Vec<Scope>>,
    /// The source an ingest key is bound to.
    pub source_id: Option<SourceId>,
    /// The account the key is for, when an operator makes it.
    pub account_id: Option<AccountId>,
    /// Events a second it may bring in, on each node; a second's worth may come at once. Null: no limit.
    pub rate_limit: Option<u32>,
    pub expires_at: Option<Timestamp>,
    /// Addresses and networks that it is taken from; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_addresses: Vec<String>,
}
