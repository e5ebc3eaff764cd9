//! Accounts.

use crate::schema;
use domain::{
    erasure::ErasurePhase,
    id::AccountId,
    limits,
    retry::{RetrySettings, RetryStatus},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The tenant that owns everything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Account)]
pub struct AccountView {
    #[schema(value_type = schema::AccountId)]
    pub id: AccountId,
    /// The operator's own id of it.
    #[schema(required)]
    pub uid: Option<String>,
    pub name: String,
    /// How long ended work is kept.
    pub retention_days: u32,
    /// What its destinations go by where they say nothing themselves.
    pub defaults: DefaultsView,
    /// Events a second it may bring in, on each node, by all its keys and sources together. Null: no limit of its own.
    #[serde(default)]
    #[schema(required)]
    pub rate_limit: Option<u32>,
    /// How much it may have.
    #[serde(default)]
    #[schema(required)]
    pub quotas: QuotasView,
    /// Payloads and headers of its events, and what is kept of answers, are encrypted by the account's data key.
    #[serde(default)]
    #[schema(required)]
    pub encrypt_payloads: bool,
    #[schema(value_type = schema::Timestamp)]
    pub created_at: Timestamp,
    #[schema(value_type = schema::Timestamp)]
    pub updated_at: Timestamp,
    /// Of an account that was deleted, for its operator: how far all that was its own is erased. Then it has no name, no
    /// uid and no settings any more. Null: it lives.
    #[serde(default)]
    #[schema(required)]
    pub erasure: Option<ErasureView>,
}

/// How far what was an account's is erased.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Erasure)]
pub struct ErasureView {
    #[schema(value_type = schema::Timestamp)]
    pub requested_at: Timestamp,
    /// What is being erased; null once all of it is.
    #[schema(value_type = Option<schema::ErasurePhase>, required)]
    pub phase: Option<ErasurePhase>,
    /// Rows that were erased so far, of whatever kind.
    pub erased_rows: u64,
    #[schema(value_type = Option<schema::Timestamp>, required)]
    pub finished_at: Option<Timestamp>,
}

/// An account to be made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewAccount {
    /// Your own id of it, unique in the installation.
    #[schema(value_type = Option<schema::Uid>)]
    pub uid: Option<String>,
    #[schema(value_type = schema::Name)]
    pub name: String,
    #[serde(default = "retention_days")]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 3650, default = 90)]
    pub retention_days: u32,
    #[serde(default)]
    #[schema(value_type = Option<DefaultsInput>)]
    pub defaults: DefaultsInput,
    /// Events a second it may bring in, on each node, by all its keys and sources together; a second's worth may come at once.
    /// Null: no limit of its own.
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub rate_limit: Option<u32>,
    #[serde(default)]
    #[schema(value_type = Option<QuotasInput>)]
    pub quotas: QuotasInput,
    /// Encrypt payloads and headers of its events, and what is kept of answers, by the account's data key, from now on.
    #[serde(default)]
    #[schema(value_type = Option<bool>, default = false)]
    pub encrypt_payloads: bool,
}

impl NewAccount {
    pub fn new(name: &str) -> Self {
        Self {
            uid: None,
            name: name.into(),
            retention_days: retention_days(),
            defaults: DefaultsInput::default(),
            rate_limit: None,
            quotas: QuotasInput::default(),
            encrypt_payloads: false,
        }
    }
}

/// How much an account may have. Null: as much as any account of the installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = Quotas)]
pub struct QuotasView {
    #[schema(required)]
    pub destinations: Option<u32>,
    #[schema(required)]
    pub routes: Option<u32>,
    /// Deliveries that may wait; beyond, its events are refused.
    #[schema(required)]
    pub backlog_rows: Option<u64>,
    /// The payloads of those, each delivery's for itself.
    #[schema(required)]
    pub backlog_bytes: Option<u64>,
}

/// How much an account may have, each for itself. Null: as much as any account of the installation (`limits.backlog_rows`,
/// `limits.backlog_bytes`; 200,000 destinations and routes).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QuotasInput {
    #[schema(minimum = 0, maximum = 200_000)]
    pub destinations: Option<u32>,
    #[schema(minimum = 0, maximum = 200_000)]
    pub routes: Option<u32>,
    /// Deliveries that may wait; beyond, its events are refused.
    #[schema(minimum = 1, maximum = 1_000_000_000_000_u64)]
    pub backlog_rows: Option<u64>,
    /// The payloads of those, each delivery's for itself.
    #[schema(minimum = 1, maximum = 1_000_000_000_000_000_u64)]
    pub backlog_bytes: Option<u64>,
}

/// What an account may change of itself: its uid and how much it may have are the operator's, or its platform's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OwnAccountInput {
    #[schema(value_type = schema::Name)]
    pub name: String,
    #[serde(default = "retention_days")]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 3650, default = 90)]
    pub retention_days: u32,
    #[serde(default)]
    #[schema(value_type = Option<DefaultsInput>)]
    pub defaults: DefaultsInput,
    /// Encrypt payloads and headers of its events, and what is kept of answers, by the account's data key, from now on.
    #[serde(default)]
    #[schema(value_type = Option<bool>, default = false)]
    pub encrypt_payloads: bool,
}

/// What an account's destinations go by where they say nothing themselves. Null: what the installation says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Defaults)]
pub struct DefaultsView {
    #[schema(required, minimum = 1, maximum = 1000)]
    pub max_concurrency: Option<u32>,
    #[schema(required, minimum = 1, maximum = 30)]
    pub timeout_seconds: Option<u64>,
    #[schema(required)]
    pub retry_policy: Option<RetrySettingsView>,
}

/// The members of a retry policy that are set here; null is left to others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = RetrySettings)]
pub struct RetrySettingsView {
    /// The pause before each retry; an empty list means one attempt.
    #[schema(value_type = Option<Vec<schema::PauseSeconds>>, required, max_items = 20)]
    pub schedule_seconds: Option<Vec<u64>>,
    /// The part of a pause that chance may add or take away.
    #[schema(required, minimum = 0.0, maximum = 1.0)]
    pub jitter: Option<f64>,
    /// The age at which a delivery is given up.
    #[schema(required, minimum = 1, maximum = 7776000)]
    pub expire_after_seconds: Option<u64>,
    #[schema(value_type = Option<Vec<schema::RetryStatus>>, required, max_items = 32)]
    pub retry_statuses: Option<Vec<RetryStatus>>,
}

/// Defaults of an account's destinations, each for itself. Null: what the installation says.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DefaultsInput {
    /// Requests open at once to a destination.
    #[schema(minimum = 1, maximum = 1000)]
    pub max_concurrency: Option<u32>,
    /// How long an attempt may take.
    #[schema(minimum = 1, maximum = 30)]
    pub timeout_seconds: Option<u64>,
    #[serde(default)]
    #[schema(value_type = Option<schema::RetryPolicyInput>)]
    pub retry_policy: RetrySettings,
}

fn retention_days() -> u32 {
    limits::RETENTION_DAYS_DEFAULT
}
