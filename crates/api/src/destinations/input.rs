//! A destination as it is written: what may be said, what is said by leaving it out, and what is refused.
//!
//! Creating reads the body; changing merges the body into the form the destination has now and reads that, so both go
//! through the same checks. Secrets are not in that form: a `null` there means "as it is".

use super::{
    auth::{self, AuthSurroundings},
    signing,
};
use crate::{error::ApiError, json, validate::Checks};
use contract::{NewDestination, SigningInput};
use domain::{
    address::{AddressPolicy, UrlError},
    delivery_settings::DeliverySettings,
    destination::{Destination, OnDeadLetter, Ordering, RateLimit, header_of_new},
    limits,
    time::Timestamp,
};
use serde_json::{Map, Value};
use std::time::Duration;

/// What a destination's settings are held against.
pub(super) struct DestinationRules<'a> {
    pub(super) addresses: &'a AddressPolicy,
    pub(super) retention_days: u32,
    pub(super) account_defaults: DeliverySettings,
    /// Whether the key that asks may see secrets.
    pub(super) may_reveal: bool,
    pub(super) now: Timestamp,
}

/// Reads the body of a create.
pub(super) fn created(body: Value) -> Result<NewDestination, ApiError> {
    read(Value::Object(Map::new()), body)
}

/// Merges the body of a patch into what the destination is now.
pub(super) fn patched(current: &Destination, patch: Value) -> Result<NewDestination, ApiError> {
    let mut merged = serde_json::to_value(form(current)).expect("an input is plain data");
    // Another type of auth has other members: nothing of the old one is kept.
    if let Some(kind) = patch.pointer("/auth/type").filter(|kind| Some(*kind) != merged.pointer("/auth/type"))
    {
        merged["auth"] = serde_json::json!({ "type": kind });
    }
    signing::forget_header(&mut merged, &patch);
    read(merged, patch)
}

fn read(form: Value, body: Value) -> Result<NewDestination, ApiError> {
    json::patched(form, body)
}

/// What would make it as it is.
pub(super) fn form(destination: &Destination) -> NewDestination {
    NewDestination {
        uid: destination.uid.clone(),
        name: destination.name.clone(),
        url: destination.url.clone(),
        max_concurrency: destination.settings.max_concurrency,
        timeout_seconds: destination.settings.timeout.map(|timeout| timeout.as_secs()),
        rate_limit: destination.rate_limit,
        ordering: destination.ordering,
        sequence: destination.sequence,
        on_dead_letter: destination.on_dead_letter,
        retry_policy: destination.settings.retry_policy.clone(),
        headers: destination.headers.iter().cloned().collect(),
        forward_headers: destination.forward_headers.clone(),
        auth: auth::form(&destination.auth),
        format: destination.format,
        signing: signing::form(&destination.signing),
    }
}

/// Finds everything that is wrong with it, and writes its URL in the one form in which it is kept, shown and called.
/// `current` is None at creation.
pub(super) fn check(
    input: &mut NewDestination,
    current: Option<&Destination>,
    rules: &DestinationRules<'_>,
) -> Result<(), ApiError> {
    let mut checks = Checks::default();
    checks.name("/name", &input.name);
    checks.uid(input.uid.as_deref(), current.and_then(|current| current.uid.as_deref()));
    // A URL that the operator has forbidden since does not keep its destination from being renamed.
    if current.is_none_or(|current| current.url != input.url) {
        check_url(&mut checks, "/url", &mut input.url, rules.addresses);
    }
    let settings = current.map(|current| &current.settings);
    checks.delivery_settings("", &read_settings(input), settings, rules.retention_days);
    if let Some(RateLimit { requests, per_seconds }) = input.rate_limit {
        checks.range("/rate_limit/requests", requests, 1..=limits::DESTINATION_RATE_MAX);
        checks.range("/rate_limit/per_seconds", per_seconds, 1..=limits::DESTINATION_RATE_SECONDS_MAX);
    }
    let headers = checks.headers("/headers", &input.headers);
    let forwarded = checks.forward_headers("/forward_headers", &input.forward_headers);
    check_forwarded(&mut checks, &forwarded, &headers, &auth::header_names(&input.auth));
    let current_auth = current.map(|current| &current.auth);
    let around = AuthSurroundings { rules, current: current_auth, url: &input.url, headers: &headers };
    auth::check(&mut input.auth, &mut checks, &around);
    // Else whoever may change a URL could have the credentials sent to a server of their own.
    if let Some(current) = current
        && !rules.may_reveal
        && is_elsewhere(&current.url, &input.url)
        && auth::keeps_secrets(&input.auth, &current.auth)
    {
        let detail = "the URL moves to another origin, which is not given the credentials that are kept: send the secret \
                      values of `auth` again, or use a key with the scope `secrets:reveal`";
        checks.refuse("/auth", "credentials_needed", detail);
    }
    signing::check(&input.signing, &mut checks, "/signing");
    let set = headers.iter().map(|(name, _)| name).chain(&forwarded);
    check_own_header(&mut checks, &input.signing, set, &auth::header_names(&input.auth));
    if current.is_some() && input.signing.secret.is_some() {
        let detail =
            "a secret is changed by POST …/rotate-secret, so that the old one goes on signing for a while";
        checks.refuse("/signing/secret", "not_allowed", detail);
    }
    if input.on_dead_letter == OnDeadLetter::Pause && input.ordering == Ordering::None {
        let detail =
            "only an ordered destination is paused at a dead letter: set `ordering` to `strict` or `key`";
        checks.refuse("/on_dead_letter", "not_allowed", detail);
    }
    checks.done()
}

/// What is left out stays unsaid: a default is not copied.
fn read_settings(input: &NewDestination) -> DeliverySettings {
    DeliverySettings {
        max_concurrency: input.max_concurrency,
        timeout: input.timeout_seconds.map(Duration::from_secs),
        retry_policy: input.retry_policy.clone(),
    }
}

/// Writes what has been checked, secrets excepted.
pub(super) fn write(input: &NewDestination, destination: &mut Destination) {
    let mut checks = Checks::default();
    destination.uid = input.uid.clone();
    destination.name = input.name.clone();
    destination.url = input.url.clone();
    destination.settings = read_settings(input);
    destination.rate_limit = input.rate_limit;
    destination.ordering = input.ordering;
    destination.sequence = input.sequence;
    destination.on_dead_letter = input.on_dead_letter;
    destination.headers = checks.headers("/headers", &input.headers);
    destination.forward_headers = checks.forward_headers("/forward_headers", &input.forward_headers);
    destination.format = input.format;
    destination.signing = signing::read(&input.signing);
}

/// A header that has the signature has nothing else.
fn check_own_header<'n>(
    checks: &mut Checks,
    signing: &SigningInput,
    set: impl Iterator<Item = &'n String>,
    auth: &'n [String],
) {
    let signing = signing::read(signing);
    let Some(own) = signing.own_header() else { return };
    let own = [own.to_owned(), header_of_new(own)];
    if let Some(name) = set.chain(auth).find(|name| own.contains(name)) {
        let detail =
            format!("`{name}` carries the signature of this scheme, and cannot be set or passed on as well");
        checks.refuse("/signing/header", "duplicate", detail);
    }
}

/// A header that is set is not passed on as well.
fn check_forwarded(checks: &mut Checks, forwarded: &[String], headers: &[(String, String)], auth: &[String]) {
    for (index, name) in forwarded.iter().enumerate() {
        let set_by = match () {
            () if headers.iter().any(|(set, _)| set == name) => "headers",
            () if auth.contains(name) => "auth",
            () => continue,
        };
        let detail = format!("`{name}` is set by `{set_by}`, and cannot be passed on as it came in as well");
        checks.refuse(format!("/forward_headers/{index}"), "duplicate", detail);
    }
}

/// Whether two URLs are of different origins; what is not a URL is nowhere.
pub(super) fn is_elsewhere(before: &str, after: &str) -> bool {
    let origin = |text| url::Url::parse(text).map(|url| url.origin()).ok();
    origin(before) != origin(after)
}

/// Writes it in the one form in which it is kept, shown and called.
pub(super) fn check_url(checks: &mut Checks, pointer: &str, url: &mut String, addresses: &AddressPolicy) {
    match addresses.check_url(url) {
        // Requests are made with another parser: what it does not take cannot be sent.
        Ok(checked) if checked.as_str().parse::<http::Uri>().is_ok() => *url = checked.into(),
        Ok(_) => checks.refuse(
            pointer,
            "invalid_url",
            "the URL has characters that cannot be sent: write them as %XX",
        ),
        Err(error @ UrlError::Blocked) => checks.refuse(pointer, error.code(), error.to_string()),
        Err(error) => checks.refuse(pointer, error.code(), format!("the URL {error}")),
    }
}
