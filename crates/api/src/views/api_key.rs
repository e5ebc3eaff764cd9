use super::schema;
use domain::{
    account::{ApiKey, KeyKind, Scope},
    id::{ApiKeyId, SourceId},
    time::Timestamp,
};
use serde::Serialize;
use utoipa::ToSchema;

/// A key as it can be shown: enough to recognise it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ApiKey)]
pub struct ApiKeyView {
    #[schema(value_type = schema::ApiKeyId)]
    pub id: ApiKeyId,
    pub name: String,
    #[schema(value_type = super::api_key::KeyKindWord)]
    pub kind: KeyKind,
    /// How the key begins.
    #[schema(example = "phk_4fGh…")]
    pub prefix: String,
    #[schema(value_type = Vec<super::api_key::ScopeWord>)]
    pub scopes: Vec<Scope>,
    /// The source an ingest key is bound to.
    #[schema(value_type = Option<schema::SourceId>, required)]
    pub source_id: Option<SourceId>,
    /// Requests per second.
    #[schema(required)]
    pub rate_limit: Option<u32>,
    #[schema(value_type = Option<schema::Timestamp>, required)]
    pub expires_at: Option<Timestamp>,
    /// Written once a minute at most.
    #[schema(value_type = Option<schema::Timestamp>, required)]
    pub last_used_at: Option<Timestamp>,
    #[schema(value_type = Option<schema::Timestamp>, required)]
    pub revoked_at: Option<Timestamp>,
    #[schema(value_type = schema::Timestamp)]
    pub created_at: Timestamp,
}

/// A key that has just been made: the only time its secret is shown.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = NewApiKey)]
pub struct NewApiKeyView {
    #[serde(flatten)]
    pub api_key: ApiKeyView,
    /// The key itself. It is shown this once and cannot be read again.
    pub key: String,
}

/// What a key may be used for.
#[derive(ToSchema)]
#[schema(as = ApiKeyKind, rename_all = "snake_case")]
#[expect(dead_code, reason = "describes domain::account::KeyKind in the OpenAPI document")]
pub(crate) enum KeyKindWord {
    Account,
    Ingest,
    Operator,
}

/// A permission of a key.
#[derive(ToSchema)]
#[schema(as = Scope)]
#[expect(dead_code, reason = "describes domain::account::Scope in the OpenAPI document")]
pub(crate) enum ScopeWord {
    #[schema(rename = "ingest:write")]
    IngestWrite,
    #[schema(rename = "events:read")]
    EventsRead,
    #[schema(rename = "deliveries:read")]
    DeliveriesRead,
    #[schema(rename = "deliveries:retry")]
    DeliveriesRetry,
    #[schema(rename = "destinations:read")]
    DestinationsRead,
    #[schema(rename = "destinations:write")]
    DestinationsWrite,
    #[schema(rename = "secrets:reveal")]
    SecretsReveal,
    #[schema(rename = "keys:manage")]
    KeysManage,
    #[schema(rename = "audit:read")]
    AuditRead,
    #[schema(rename = "account:admin")]
    AccountAdmin,
}

impl From<&ApiKey> for ApiKeyView {
    fn from(key: &ApiKey) -> Self {
        Self {
            id: key.id,
            name: key.name.clone(),
            kind: key.kind,
            prefix: prefix(key),
            scopes: key.scopes.clone(),
            source_id: key.source_id,
            rate_limit: key.rate_limit,
            expires_at: key.expires_at,
            last_used_at: key.last_used_at,
            revoked_at: key.revoked_at,
            created_at: key.created_at,
        }
    }
}

/// Four characters of the public part tell two keys apart.
fn prefix(key: &ApiKey) -> String {
    let kind = match key.kind {
        KeyKind::Account => "phk",
        KeyKind::Ingest => "phi",
        KeyKind::Operator => "pho",
    };
    let begins: String = key.lookup.chars().take(4).collect();
    format!("{kind}_{begins}…")
}
