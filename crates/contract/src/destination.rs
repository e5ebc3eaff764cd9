//! Destinations, their holds, how they are proven to and how they are signed for.

use crate::{HeadersView, schema};
use domain::{
    delivery_settings::SettingLevel,
    destination::{Format, OnDeadLetter, Ordering, RateLimit, Scheme},
    event::EventType,
    gate::HoldReason,
    id::DestinationId,
    oauth2::ClientAuth,
    retry::{RetryPolicy, RetrySettings},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::BTreeMap, fmt};
use utoipa::ToSchema;

/// Where deliveries go, at what pace, and how it is doing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Destination)]
pub struct DestinationView {
    #[schema(value_type = schema::DestinationId)]
    pub id: DestinationId,
    #[schema(required)]
    pub uid: Option<String>,
    pub name: String,
    pub url: String,
    pub status: DestinationStatus,
    /// Why its deliveries wait; null when they do not.
    #[schema(required)]
    pub hold: Option<HoldView>,
    #[schema(value_type = Option<schema::Timestamp>, required)]
    pub throttled_until: Option<Timestamp>,
    #[schema(required, example = "429 Too Many Requests")]
    pub throttle_reason: Option<String>,
    /// Deliveries that wait, those in flight not counted.
    pub queued_events: i64,
    /// False when there are more than `queued_events` says.
    pub queued_events_exact: bool,
    pub in_flight: u32,
    #[schema(value_type = Option<schema::Timestamp>, required)]
    pub oldest_queued_at: Option<Timestamp>,
    /// The value that holds, wherever it was set; so with `timeout_seconds` and `retry_policy`.
    #[schema(minimum = 1, maximum = 1000)]
    pub max_concurrency: u32,
    #[schema(minimum = 1, maximum = 30)]
    pub timeout_seconds: u64,
    #[schema(value_type = Option<schema::RateLimit>, required)]
    pub rate_limit: Option<RateLimit>,
    #[schema(value_type = schema::Ordering)]
    pub ordering: Ordering,
    /// Deliveries carry numbers without gaps (`posthaste-sequence`) although they are in no order. Ordered ones do in any case.
    pub sequence: bool,
    #[schema(value_type = schema::OnDeadLetter)]
    pub on_dead_letter: OnDeadLetter,
    #[schema(value_type = schema::RetryPolicy)]
    pub retry_policy: RetryPolicy,
    /// Where each of these values comes from.
    pub settings_from: SettingsFromView,
    #[schema(value_type = schema::Headers)]
    pub headers: HeadersView,
    /// Inbound headers that are passed on.
    pub forward_headers: Vec<String>,
    pub auth: AuthView,
    #[schema(value_type = schema::DeliveryFormat)]
    pub format: Format,
    pub signing: SigningView,
    /// Successes among its newest attempts of the last hour, at most 200, throttled ones left out; null without any.
    #[schema(required)]
    pub success_rate_1h: Option<f64>,
    #[schema(value_type = schema::Timestamp)]
    pub created_at: Timestamp,
    #[schema(value_type = schema::Timestamp)]
    pub updated_at: Timestamp,
}

/// Where the values of a destination come from: the destination itself, else its account's `defaults`, else the settings of
/// the installation, else the product.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = SettingsFrom)]
pub struct SettingsFromView {
    #[schema(value_type = schema::SettingLevel)]
    pub max_concurrency: SettingLevel,
    #[schema(value_type = schema::SettingLevel)]
    pub timeout_seconds: SettingLevel,
    pub retry_policy: RetryPolicyFromView,
}

/// Where the members of a retry policy come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = RetryPolicyFrom)]
pub struct RetryPolicyFromView {
    #[schema(value_type = schema::SettingLevel)]
    pub schedule_seconds: SettingLevel,
    #[schema(value_type = schema::SettingLevel)]
    pub jitter: SettingLevel,
    #[schema(value_type = schema::SettingLevel)]
    pub expire_after_seconds: SettingLevel,
    #[schema(value_type = schema::SettingLevel)]
    pub retry_statuses: SettingLevel,
}

/// The first that holds of disabled, paused, throttled, unhealthy, active.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DestinationStatus {
    Active,
    Throttled,
    Unhealthy,
    Paused,
    Disabled,
}

/// Why a destination's deliveries wait, and until when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Hold)]
pub struct HoldView {
    #[schema(value_type = schema::HoldReason)]
    pub reason: HoldReason,
    #[schema(value_type = schema::Timestamp)]
    pub since: Timestamp,
    #[schema(value_type = Option<schema::Timestamp>, required)]
    pub until: Option<Timestamp>,
    pub detail: String,
    /// How many holds in a row this is.
    #[schema(required)]
    pub step: Option<u32>,
    /// A single request is under way to see whether it may end.
    pub probing: bool,
}

/// A hold in a destination's history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = HoldEntry)]
pub struct HoldRecordView {
    #[schema(value_type = schema::HoldReason)]
    pub reason: HoldReason,
    #[schema(value_type = schema::Timestamp)]
    pub since: Timestamp,
    /// Until when it was to last, as far as that was known.
    #[schema(value_type = Option<schema::Timestamp>, required)]
    pub until: Option<Timestamp>,
    /// Null while it goes on.
    #[schema(value_type = Option<schema::Timestamp>, required)]
    pub ended_at: Option<Timestamp>,
    pub detail: String,
    /// How many holds in a row this was.
    #[schema(required)]
    pub step: Option<u32>,
}

/// The credentials we send. The values are write-only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Auth)]
pub struct AuthView {
    #[serde(rename = "type")]
    pub kind: AuthKind,
    /// Of `basic` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Of `headers` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header_names: Option<Vec<String>>,
    /// Of `oauth2` only, as the next five. `scope` and `audience` are left out where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::ClientAuth>)]
    pub client_auth: Option<ClientAuth>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    /// What else the token endpoint is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub param_names: Option<Vec<String>>,
    /// Of `mtls` only: whose certificate it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "CN=hooks.example.com,O=Acme,C=DE")]
    pub subject: Option<String>,
    /// Of `mtls` only: when the first certificate of its chain ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Timestamp>)]
    pub expires_at: Option<Timestamp>,
    /// Of `aws_sigv4` only, as the next two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_key_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
}

impl AuthView {
    /// Of this type, and nothing more.
    pub fn of(kind: AuthKind) -> Self {
        Self {
            kind,
            username: None,
            header_names: None,
            token_url: None,
            client_id: None,
            client_auth: None,
            scope: None,
            audience: None,
            param_names: None,
            subject: None,
            expires_at: None,
            access_key_id: None,
            region: None,
            service: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = AuthType)]
pub enum AuthKind {
    #[default]
    None,
    Bearer,
    Basic,
    Headers,
    Oauth2,
    Mtls,
    AwsSigv4,
}

/// How requests are signed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Signing)]
pub struct SigningView {
    #[schema(value_type = schema::SigningScheme)]
    pub scheme: Scheme,
    /// Whether there is a `v1a` in `webhook-signature`, beside what the scheme says or alone.
    pub ed25519: bool,
    /// Whether the headers of Standard Webhooks come a second time, as `svix-…`.
    pub svix_headers: bool,
    /// Where a signature of `stripe` or `github` is; null with other schemes.
    #[serde(default)]
    #[schema(required, example = "stripe-signature")]
    pub header: Option<String>,
    /// Only in the answer to the request that made it; later at `GET …/{id}/secret`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")]
    pub secret: Option<String>,
    /// After the secret was changed: until when the one before signs as well; a moment that is over once it does no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Timestamp>)]
    pub previous_until: Option<Timestamp>,
    /// What receivers verify `v1a` with; there once Ed25519 was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=")]
    pub public_key: Option<String>,
    /// After the key pair was changed: the one before, which signs as well until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_public_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Timestamp>)]
    pub previous_public_key_until: Option<Timestamp>,
}

/// A destination's signing secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Secret)]
pub struct SecretView {
    #[schema(example = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")]
    pub secret: String,
    /// Until when the secret before this one signs as well; null if none does.
    #[schema(value_type = Option<schema::Timestamp>, required)]
    pub previous_until: Option<Timestamp>,
}

/// A destination to be made. What is left out, or null, takes its default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewDestination {
    /// Your own id of it, unique in the account.
    #[schema(value_type = Option<schema::Uid>)]
    pub uid: Option<String>,
    #[schema(value_type = schema::Name)]
    pub name: String,
    #[schema(value_type = schema::DestinationUrl)]
    pub url: String,
    /// Requests open at once. Null: the default of the account, else of the installation, else 5.
    #[schema(minimum = 1, maximum = 1000)]
    pub max_concurrency: Option<u32>,
    /// How long an attempt may take. Null: the default of the account, else of the installation, else 10.
    #[schema(minimum = 1, maximum = 30)]
    pub timeout_seconds: Option<u64>,
    #[schema(value_type = Option<schema::RateLimitInput>)]
    pub rate_limit: Option<RateLimit>,
    #[serde(default)]
    #[schema(value_type = Option<schema::Ordering>)]
    pub ordering: Ordering,
    /// Number deliveries without gaps (`posthaste-sequence`) although they are in no order, so that a receiver sees what is
    /// missing or late. Nothing waits for it.
    #[serde(default)]
    #[schema(value_type = Option<bool>, default = false)]
    pub sequence: bool,
    /// `pause` needs an `ordering` of `strict` or `key`.
    #[serde(default)]
    #[schema(value_type = Option<schema::OnDeadLetter>)]
    pub on_dead_letter: OnDeadLetter,
    #[serde(default)]
    #[schema(value_type = Option<schema::RetryPolicyInput>)]
    pub retry_policy: RetrySettings,
    /// Sent with every request.
    #[serde(default)]
    #[schema(value_type = Option<schema::HeadersInput>)]
    pub headers: BTreeMap<String, String>,
    /// Names of inbound headers that are passed on. None of them is set by `headers` or `auth` as well.
    #[serde(default)]
    #[schema(value_type = Option<Vec<schema::HeaderName>>, max_items = 20)]
    pub forward_headers: Vec<String>,
    #[serde(default)]
    #[schema(value_type = Option<schema::AuthInput>)]
    pub auth: AuthInput,
    /// What is sent: the payload as it is, the payload with the attributes of a CloudEvent as headers, or a CloudEvent as one
    /// JSON document with the payload in it.
    #[serde(default)]
    #[schema(value_type = Option<schema::DeliveryFormat>)]
    pub format: Format,
    #[serde(default)]
    #[schema(value_type = Option<schema::SigningInput>)]
    pub signing: SigningInput,
}

impl NewDestination {
    /// With every default of the product.
    pub fn new(name: &str, url: &str) -> Self {
        Self {
            uid: None,
            name: name.into(),
            url: url.into(),
            max_concurrency: None,
            timeout_seconds: None,
            rate_limit: None,
            ordering: Ordering::default(),
            sequence: false,
            on_dead_letter: OnDeadLetter::default(),
            retry_policy: RetrySettings::default(),
            headers: BTreeMap::new(),
            forward_headers: Vec::new(),
            auth: AuthInput::default(),
            format: Format::default(),
            signing: SigningInput::default(),
        }
    }
}

/// Every member of every type; which belong together is described by `schema::AuthInput`.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuthInput {
    #[serde(rename = "type")]
    pub kind: AuthKind,
    pub token: Option<String>,
    pub username: Option<String>,
    pub password: Option<String>,
    /// Values by name.
    pub headers: Option<BTreeMap<String, Option<String>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_auth: Option<ClientAuth>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    /// Values by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub params: Option<BTreeMap<String, Option<String>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_key_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_access_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
}

impl fmt::Debug for AuthInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthInput").field("type", &self.kind).finish_non_exhaustive()
    }
}

/// How requests are to be signed. `schema::SigningInput` describes it.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SigningInput {
    pub scheme: Scheme,
    pub ed25519: bool,
    pub svix_headers: bool,
    /// Of `stripe` and `github` only.
    pub header: Option<String>,
    /// Your own signing secret, at creation only; one is made otherwise.
    pub secret: Option<String>,
}

impl fmt::Debug for SigningInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningInput").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

/// What a destination signs with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RotatedKey {
    /// The secret that it shares with its receivers.
    Secret,
    /// The pair that it makes Ed25519 signatures with. If it has none yet, one is made.
    KeyPair,
}

/// How to change a signing secret, or a key pair.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RotateSecret {
    /// Which of both; the secret if it is left out.
    #[schema(value_type = Option<schema::RotatedKey>)]
    pub which: Option<RotatedKey>,
    /// Your own; one is made otherwise. Of a key pair: `whsk_` and seed and public key in base64.
    #[schema(value_type = Option<schema::SchemeSecret>, write_only)]
    pub secret: Option<String>,
    /// How long the old one goes on signing beside the new one.
    #[schema(minimum = 0, maximum = 604800, default = 86400)]
    pub overlap_seconds: Option<u64>,
}

/// An event to try a destination with.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TestEvent {
    /// `test` if left out.
    #[serde(rename = "type")]
    #[schema(value_type = Option<schema::EventType>)]
    pub event_type: Option<EventType>,
    /// The payload; a greeting if it is null or left out.
    #[schema(value_type = schema::Anything, required = false)]
    pub data: Option<Value>,
    /// Send it although the destination is held, paused or disabled, or its rate says to wait. A slot it needs all the same.
    pub force: bool,
}
