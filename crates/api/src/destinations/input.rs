//! A destination as it is written: what may be said, what is said by leaving it out, and what is refused.
//!
//! Creating reads the body; changing merges the body into the form the destination has now and reads that, so both go
//! through the same checks. Secrets are not in that form: a `null` there means "as it is".

use super::auth::AuthInput;
use crate::{
    error::ApiError,
    json,
    validate::Checks,
    views::{RateLimitView, schema, words},
};
use domain::{
    address::{AddressPolicy, UrlError},
    destination::{Destination, OnDeadLetter, Ordering, RateLimit, Scheme, Signing},
    limits,
    retry::RetryPolicy,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{collections::BTreeMap, time::Duration};
use utoipa::ToSchema;

/// A destination to be made. What is left out, or null, takes its default.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewDestination)]
pub(crate) struct DestinationInput {
    /// Your own id of it, unique in the account.
    pub(super) uid: Option<String>,
    pub(super) name: String,
    /// https; no user name, no password, no fragment.
    #[schema(example = "https://fulfillment.example.com/webhooks")]
    pub(super) url: String,
    #[serde(default = "max_concurrency")]
    #[schema(minimum = 1, maximum = 1000, default = 5)]
    pub(super) max_concurrency: u32,
    #[serde(default = "timeout_seconds")]
    #[schema(minimum = 1, maximum = 30, default = 10)]
    pub(super) timeout_seconds: u64,
    #[schema(value_type = Option<RateLimitView>)]
    pub(super) rate_limit: Option<RateLimit>,
    #[serde(default)]
    #[schema(value_type = Option<words::OrderingWord>)]
    pub(super) ordering: Ordering,
    #[serde(default)]
    #[schema(value_type = Option<words::OnDeadLetterWord>)]
    pub(super) on_dead_letter: OnDeadLetter,
    #[serde(default)]
    #[schema(value_type = Option<words::RetryPolicyWord>)]
    pub(super) retry_policy: RetryPolicy,
    /// Sent with every request; at most 20.
    #[serde(default)]
    #[schema(value_type = Option<schema::Headers>)]
    pub(super) headers: BTreeMap<String, String>,
    /// Names of inbound headers that are passed on; at most 20.
    #[serde(default)]
    pub(super) forward_headers: Vec<String>,
    #[serde(default)]
    pub(super) auth: AuthInput,
    #[serde(default)]
    pub(super) signing: SigningInput,
}

/// How requests are to be signed.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[schema(as = SigningInput)]
pub(crate) struct SigningInput {
    pub(crate) scheme: SchemeInput,
    pub(crate) ed25519: bool,
    pub(crate) svix_headers: bool,
    /// Your own signing secret, at creation only; one is made otherwise.
    #[schema(example = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")]
    pub(crate) secret: Option<String>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = SigningSchemeInput)]
pub(crate) enum SchemeInput {
    #[default]
    Standard,
    Stripe,
    Github,
    None,
}

/// What a destination's settings are held against.
pub(super) struct Rules<'a> {
    pub(super) addresses: &'a AddressPolicy,
    pub(super) retention_days: u32,
}

fn max_concurrency() -> u32 {
    limits::MAX_CONCURRENCY
}

fn timeout_seconds() -> u64 {
    limits::TIMEOUT.as_secs()
}

impl DestinationInput {
    /// Reads the body of a create.
    pub(super) fn created(body: Value) -> Result<Self, ApiError> {
        Self::read(Value::Object(Map::new()), body)
    }

    /// Merges the body of a patch into what the destination is now.
    pub(super) fn patched(current: &Destination, patch: Value) -> Result<Self, ApiError> {
        let mut form = serde_json::to_value(Self::of(current)).expect("an input is plain data");
        // Another type of auth has other members: nothing of the old one is kept.
        if let Some(kind) =
            patch.pointer("/auth/type").filter(|kind| Some(*kind) != form.pointer("/auth/type"))
        {
            form["auth"] = serde_json::json!({ "type": kind });
        }
        Self::read(form, patch)
    }

    fn read(form: Value, body: Value) -> Result<Self, ApiError> {
        AuthInput::check_available(&body)?;
        json::patched(form, body)
    }

    fn of(destination: &Destination) -> Self {
        Self {
            uid: destination.uid.clone(),
            name: destination.name.clone(),
            url: destination.url.clone(),
            max_concurrency: destination.max_concurrency,
            timeout_seconds: destination.timeout.as_secs(),
            rate_limit: destination.rate_limit,
            ordering: destination.ordering,
            on_dead_letter: destination.on_dead_letter,
            retry_policy: destination.retry_policy.clone(),
            headers: destination.headers.iter().cloned().collect(),
            forward_headers: destination.forward_headers.clone(),
            auth: AuthInput::of(&destination.auth),
            signing: SigningInput::of(&destination.signing),
        }
    }

    /// Finds everything that is wrong with it. `current` is None at creation.
    pub(super) fn check(&self, current: Option<&Destination>, rules: &Rules<'_>) -> Result<(), ApiError> {
        let mut checks = Checks::default();
        checks.name("/name", &self.name);
        checks.uid(self.uid.as_deref());
        // A URL that the operator has forbidden since does not keep its destination from being renamed.
        if current.is_none_or(|current| current.url != self.url) {
            check_url(&mut checks, &self.url, rules.addresses);
        }
        checks.range("/max_concurrency", self.max_concurrency, 1..=limits::MAX_CONCURRENCY_MAX);
        checks.timeout("/timeout_seconds", self.timeout_seconds);
        if let Some(RateLimit { requests, per_seconds }) = self.rate_limit {
            checks.range("/rate_limit/requests", requests, 1..=limits::DESTINATION_RATE_MAX);
            checks.range("/rate_limit/per_seconds", per_seconds, 1..=limits::DESTINATION_RATE_SECONDS_MAX);
        }
        let policy = current.map(|current| &current.retry_policy);
        checks.retry_policy("/retry_policy", &self.retry_policy, policy, rules.retention_days);
        let headers = checks.headers("/headers", &self.headers);
        checks.forward_headers("/forward_headers", &self.forward_headers);
        self.auth.check(&mut checks, &headers, current.map(|current| &current.auth));
        self.signing.check(&mut checks, "/signing");
        if current.is_some() && self.signing.secret.is_some() {
            let detail = "a secret is changed by POST …/rotate-secret, so that the old one goes on signing for a while";
            checks.refuse("/signing/secret", "not_allowed", detail);
        }
        if self.on_dead_letter == OnDeadLetter::Pause && self.ordering == Ordering::None {
            let detail =
                "only an ordered destination is paused at a dead letter: set `ordering` to `strict` or `key`";
            checks.refuse("/on_dead_letter", "not_allowed", detail);
        }
        checks.done()
    }

    /// Writes what has been checked, secrets excepted.
    pub(super) fn write(&self, destination: &mut Destination) {
        let mut checks = Checks::default();
        destination.uid = self.uid.clone();
        destination.name = self.name.clone();
        destination.url = self.url.clone();
        destination.max_concurrency = self.max_concurrency;
        destination.timeout = Duration::from_secs(self.timeout_seconds);
        destination.rate_limit = self.rate_limit;
        destination.ordering = self.ordering;
        destination.on_dead_letter = self.on_dead_letter;
        destination.retry_policy = self.retry_policy.clone();
        destination.headers = checks.headers("/headers", &self.headers);
        destination.forward_headers = checks.forward_headers("/forward_headers", &self.forward_headers);
        destination.signing = self.signing.to_signing();
    }
}

impl SigningInput {
    pub(crate) fn of(signing: &Signing) -> Self {
        let scheme = match signing.scheme {
            Scheme::Standard => SchemeInput::Standard,
            Scheme::None => SchemeInput::None,
        };
        Self { scheme, ed25519: signing.ed25519, svix_headers: signing.svix_headers, secret: None }
    }

    pub(crate) fn check(&self, checks: &mut Checks, pointer: &str) {
        if matches!(self.scheme, SchemeInput::Stripe | SchemeInput::Github) {
            let detail = "this scheme is not available yet: `standard` and `none` are";
            checks.not_available(&format!("{pointer}/scheme"), detail);
        }
        if self.ed25519 {
            checks.not_available(&format!("{pointer}/ed25519"), "Ed25519 signatures are not available yet");
        }
        if self.svix_headers {
            checks
                .not_available(&format!("{pointer}/svix_headers"), "`svix-*` headers are not available yet");
        }
        if let Some(Err(error)) = self.secret.as_deref().map(str::parse::<domain::signature::SigningSecret>) {
            checks.refuse(format!("{pointer}/secret"), "invalid_secret", error.to_string());
        }
    }

    pub(crate) fn to_signing(&self) -> Signing {
        let scheme = match self.scheme {
            SchemeInput::None => Scheme::None,
            SchemeInput::Standard | SchemeInput::Stripe | SchemeInput::Github => Scheme::Standard,
        };
        Signing { scheme, ed25519: self.ed25519, svix_headers: self.svix_headers }
    }
}

fn check_url(checks: &mut Checks, url: &str, addresses: &AddressPolicy) {
    match addresses.check_url(url) {
        Ok(_) => {}
        Err(error @ UrlError::Blocked) => checks.refuse("/url", error.code(), error.to_string()),
        Err(error) => checks.refuse("/url", error.code(), format!("the URL {error}")),
    }
}
