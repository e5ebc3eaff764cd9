//! Accounts and the keys that act for them.

use crate::{
    delivery_settings::DeliverySettings,
    id::{AccountId, ApiKeyId, SourceId},
    limits,
    seal::Sealed,
    time::Timestamp,
    word::words,
};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

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
    /// Events a second that it may bring in on each node, whichever way. None: no limit of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<u32>,
    /// How much it may have.
    #[serde(default, skip_serializing_if = "Quotas::is_default")]
    pub quotas: Quotas,
    /// The account's data key, wrapped by a master key; see [`crate::seal`].
    pub data_key: Sealed,
    /// What comes in from now on, and what is kept of attempts, is sealed by it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub encrypt_payloads: bool,
    /// When that was first so: since then something may be sealed by any of its data keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payloads_encrypted_at: Option<Timestamp>,
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
            rate_limit: None,
            quotas: Quotas::default(),
            data_key,
            encrypt_payloads: false,
            payloads_encrypted_at: None,
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

    /// With its payloads encrypted from now on, or not any more. What the lanes of its destinations go by changes at the next
    /// version, as other defaults do.
    pub fn with_encryption(self, encrypt_payloads: bool, now: Timestamp) -> Self {
        if encrypt_payloads == self.encrypt_payloads {
            return self;
        }
        let first = encrypt_payloads.then_some(now);
        let payloads_encrypted_at = self.payloads_encrypted_at.or(first);
        let defaults_version = self.version + 1;
        Self { encrypt_payloads, payloads_encrypted_at, defaults_version, ..self }
    }

    /// The data key that seals its payloads, wrapped; None: they are not encrypted.
    pub fn sealing(&self) -> Option<&Sealed> {
        self.encrypt_payloads.then_some(&self.data_key)
    }

    pub fn limits(&self) -> AccountLimits {
        AccountLimits { rate_limit: self.rate_limit, quotas: self.quotas }
    }
}

/// How much an account may have, where that is its own. None: as much as any account of the installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Quotas {
    pub destinations: Option<u32>,
    pub routes: Option<u32>,
    /// Deliveries that may wait.
    pub backlog_rows: Option<u64>,
    /// Their payloads, each delivery's for itself.
    pub backlog_bytes: Option<u64>,
}

impl Quotas {
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// It says how much may wait.
    pub fn bounds_backlog(&self) -> bool {
        self.backlog_rows.is_some() || self.backlog_bytes.is_some()
    }
}

/// What of an account's document bounds the events that come in: read of it alone, on the way of every event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct AccountLimits {
    pub rate_limit: Option<u32>,
    pub quotas: Quotas,
}

impl AccountLimits {
    /// Of a document that does not read, none: that is no reason to refuse its events.
    pub fn of_document(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
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
        /// `php_`: acts for any account that it names, within its scopes; belongs to none.
        Platform = "platform",
    }
}

impl KeyKind {
    /// It is the installation's, and belongs to no account.
    pub const fn is_of_installation(self) -> bool {
        matches!(self, Self::Operator | Self::Platform)
    }
}

/// A key as it is kept: enough to recognise it, not enough to use it.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct ApiKey {
    pub id: ApiKeyId,
    /// None for keys of operators and platforms.
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
    /// Networks it is taken from; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_addresses: Vec<IpNet>,
    pub last_used_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    pub created_at: Timestamp,
}

impl ApiKey {
    /// Whether it is taken from there.
    pub fn allows(&self, client: IpAddr) -> bool {
        let client = client.to_canonical();
        self.allowed_addresses.is_empty()
            || self.allowed_addresses.iter().any(|network| network.contains(&client))
    }
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
        /// Of platform keys alone.
        AccountsRead = "accounts:read",
        /// Of platform keys alone.
        AccountsWrite = "accounts:write",
    }
}

impl Scope {
    /// Those that a key of an account may have: what is about other accounts is not among them.
    pub const OF_ACCOUNT: [Self; 10] = [
        Self::IngestWrite,
        Self::EventsRead,
        Self::DeliveriesRead,
        Self::DeliveriesRetry,
        Self::DestinationsRead,
        Self::DestinationsWrite,
        Self::SecretsReveal,
        Self::KeysManage,
        Self::AuditRead,
        Self::AccountAdmin,
    ];

    pub fn is_of_account(self) -> bool {
        Self::OF_ACCOUNT.contains(&self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_an_account_has_every_scope_but_those_about_accounts() {
        let others: Vec<Scope> = Scope::ALL.into_iter().filter(|scope| !scope.is_of_account()).collect();
        assert_eq!(others, [Scope::AccountsRead, Scope::AccountsWrite]);
    }

    #[test]
    fn limits_are_read_of_the_document_alone() {
        let now = Timestamp::from_seconds(1_790_000_000);
        let quotas = Quotas { routes: Some(3), backlog_bytes: Some(9), ..Quotas::default() };
        let plain = Account::new(AccountId::MIN, "Acme", Sealed::default(), now);
        let bounded = Account { rate_limit: Some(5), quotas, ..plain.clone() };
        for account in [plain, bounded] {
            let text = serde_json::to_string(&account).expect("a document");
            assert_eq!(AccountLimits::of_document(&text), account.limits());
        }
        assert_eq!(AccountLimits::of_document("{"), AccountLimits::default());
    }
}
