//! Accounts and the keys that act for them.

use crate::{
    delivery_settings::DeliverySettings,
    id::{AccountId, ApiKeyId, SourceId},
    limits,
    seal::Sealed,
    time::Timestamp,
    word::words,
};
use serde::{Deserialize, Serialize};

/// The tenant that owns everything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Account {
    pub id: AccountId,
    pub uid: Option<String>,
    pub name: String,
    pub retention_days: u32,
    /// What its destinations go by where they say nothing themselves.
    #[serde(default)]
    pub defaults: DeliverySettings,
    /// The version at which those last changed, 0 if they never did: at that one all its destinations changed.
    #[serde(default)]
    pub defaults_version: i64,
    /// The account's data key, wrapped by a master key; see [`crate::seal`].
    pub data_key: Sealed,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Grows with every change of the account's configuration; kept by the store.
    #[serde(skip)]
    pub version: i64,
}

impl Account {
    /// With the usual retention.
    pub fn new(id: AccountId, name: &str, data_key: Sealed, now: Timestamp) -> Self {
        Self {
            id,
            uid: None,
            name: name.into(),
            retention_days: limits::RETENTION_DAYS_DEFAULT,
            defaults: DeliverySettings::default(),
            defaults_version: 0,
            data_key,
            created_at: now,
            updated_at: now,
            version: 0,
        }
    }

    /// With other defaults. An update takes exactly the next version or fails, so that is the one they change at.
    pub fn with_defaults(self, defaults: DeliverySettings) -> Self {
        let same = defaults == self.defaults;
        let defaults_version = if same { self.defaults_version } else { self.version + 1 };
        Self { defaults, defaults_version, ..self }
    }
}

words! {
    "the kind of a key",
    /// What a key may be used for.
    KeyKind {
        /// `phk_`: acts for one account, within its scopes.
        Account = "account",
        /// `phi_`: brings events in by one source.
        Ingest = "ingest",
        /// `pho_`: runs the installation; belongs to no account.
        Operator = "operator",
    }
}

/// A key as it is kept: enough to recognise it, not enough to use it.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct ApiKey {
    pub id: ApiKeyId,
    /// None for operator keys.
    pub account_id: Option<AccountId>,
    pub name: String,
    pub kind: KeyKind,
    /// The twelve characters by which a presented key is looked up.
    pub lookup: String,
    /// HMAC-SHA-256 of the secret part under the installation's pepper.
    pub hash: Vec<u8>,
    pub scopes: Vec<Scope>,
    pub source_id: Option<SourceId>,
    pub rate_limit: Option<u32>,
    pub expires_at: Option<Timestamp>,
    pub last_used_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    pub created_at: Timestamp,
}

impl std::fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiKey").field("id", &self.id).field("kind", &self.kind).finish_non_exhaustive()
    }
}

words! {
    "a scope",
    /// A permission of a key.
    Scope {
        IngestWrite = "ingest:write",
        EventsRead = "events:read",
        DeliveriesRead = "deliveries:read",
        DeliveriesRetry = "deliveries:retry",
        DestinationsRead = "destinations:read",
        DestinationsWrite = "destinations:write",
        SecretsReveal = "secrets:reveal",
        KeysManage = "keys:manage",
        AuditRead = "audit:read",
        AccountAdmin = "account:admin",
    }
}
