//! How a source verifies its callers, as it is written. Secrets are write-only: they are sealed when they come, and a change
//! that leaves them out keeps them, unless it is to another type.

use crate::{error::ApiError, validate::Checks};
use contract::VerificationInput;
use domain::{
    address::network,
    dice::Dice,
    id::SourceId,
    limits,
    seal::DataKey,
    source::Source,
    verification::{HmacAlgorithm, HmacRule, Verification, VerificationKind, Verifier, check_secret},
};
use ipnet::IpNet;
use serde_json::{Value, json};
use std::sync::Arc;

/// Seals the secrets of one source.
pub(super) struct Sealer<'a> {
    pub(super) key: &'a DataKey,
    pub(super) dice: &'a dyn Dice,
}

/// The form of what is kept; secrets are `null` there.
pub(super) fn form(verification: &Verification) -> VerificationInput {
    let Verification { kind, hmac, tolerance_seconds, allowed_addresses, .. } = verification;
    let mut input = VerificationInput {
        kind: *kind,
        tolerance_seconds: *tolerance_seconds,
        allowed_addresses: allowed_addresses.iter().map(IpNet::to_string).collect(),
        ..VerificationInput::default()
    };
    if let Some(rule) = hmac.clone() {
        input.header = Some(rule.header);
        input.prefix = Some(rule.prefix);
        input.encoding = Some(rule.encoding);
        input.algorithm = Some(rule.algorithm);
        input.timestamp_header = rule.timestamp_header;
        input.id_header = rule.id_header;
        input.signed_content = rule.signed_content;
    }
    input
}

/// Another type has other members: of the old one only the addresses are kept, which no change may open by the way.
pub(super) fn forget_other_type(form: &mut Value, patch: &Value) {
    let Some(kind) = patch.pointer("/verification/type") else { return };
    let Some(own) = form.get_mut("verification").filter(|own| own["type"] != *kind) else { return };
    *own = json!({ "type": kind, "allowed_addresses": own["allowed_addresses"] });
}

/// Finds everything that is wrong with it. `kept` secrets go on if none are given.
pub(super) fn check(checks: &mut Checks, input: &VerificationInput, enabled: bool, kept: usize) {
    let kind = input.kind;
    check_secrets(checks, input);
    if kind == VerificationKind::None {
        if !input.allowed_addresses.is_empty() {
            let detail = "addresses are asked for beside a signature or a credential, and do not replace one";
            checks.refuse("/verification/allowed_addresses", "not_allowed", detail);
        }
    } else if enabled && input.secrets.as_ref().map_or(kept, Vec::len) == 0 {
        let detail = "a source that verifies needs a secret before it can be enabled";
        checks.refuse("/verification/secrets", "missing_field", detail);
    }
    let has_timestamp = match kind {
        VerificationKind::Hmac => input.timestamp_header.is_some(),
        kind => kind.tolerance_seconds().is_some(),
    };
    match input.tolerance_seconds {
        Some(_) if !has_timestamp => {
            let detail = "what this type signs has no timestamp";
            checks.refuse("/verification/tolerance_seconds", "not_allowed", detail);
        }
        Some(seconds) => checks.range(
            "/verification/tolerance_seconds",
            seconds,
            1..=limits::VERIFICATION_TOLERANCE_MAX_SECONDS,
        ),
        None => {}
    }
    checks.networks("/verification/allowed_addresses", &input.allowed_addresses);
    check_rule(checks, input);
}

fn check_secrets(checks: &mut Checks, input: &VerificationInput) {
    let secrets = input.secrets.as_deref().unwrap_or_default();
    if secrets.len() > limits::VERIFICATION_SECRETS {
        let detail = format!("at most {}", limits::VERIFICATION_SECRETS);
        checks.refuse("/verification/secrets", "too_many", detail);
    }
    for (place, secret) in secrets.iter().enumerate().take(limits::VERIFICATION_SECRETS) {
        if let Err(detail) = check_secret(input.kind, secret) {
            let code = if input.kind == VerificationKind::None { "not_allowed" } else { "invalid_value" };
            checks.refuse(format!("/verification/secrets/{place}"), code, detail);
        }
    }
}

fn check_rule(checks: &mut Checks, input: &VerificationInput) {
    if input.kind != VerificationKind::Hmac {
        let members = [
            ("header", input.header.is_some()),
            ("prefix", input.prefix.is_some()),
            ("encoding", input.encoding.is_some()),
            ("algorithm", input.algorithm.is_some()),
            ("timestamp_header", input.timestamp_header.is_some()),
            ("id_header", input.id_header.is_some()),
            ("signed_content", input.signed_content.is_some()),
        ];
        for (member, _) in members.iter().filter(|(_, given)| *given) {
            let detail = format!("`{member}` belongs to the type `hmac`");
            checks.refuse(format!("/verification/{member}"), "not_allowed", detail);
        }
        return;
    }
    if input.header.is_none() {
        checks.refuse("/verification/header", "missing_field", "the type `hmac` needs `header`");
    }
    let headers = [
        ("header", &input.header),
        ("timestamp_header", &input.timestamp_header),
        ("id_header", &input.id_header),
    ];
    for (member, name) in headers {
        let fits = name.as_deref().is_none_or(|name| {
            name.len() <= limits::CUSTOM_HEADER_NAME_BYTES && http::HeaderName::try_from(name).is_ok()
        });
        if !fits {
            let detail = "not the name of a header";
            checks.refuse(format!("/verification/{member}"), "invalid_header_name", detail);
        }
    }
    for (member, text) in [("prefix", &input.prefix), ("signed_content", &input.signed_content)] {
        let fits = text.as_deref().is_none_or(|text| {
            text.len() <= limits::SIGNED_CONTENT_BYTES
                && text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
        });
        if !fits {
            let detail = format!("at most {} characters of printable ASCII", limits::SIGNED_CONTENT_BYTES);
            checks.refuse(format!("/verification/{member}"), "invalid_value", detail);
        }
    }
    if let Err(detail) = rule(input).check_signed_content() {
        checks.refuse("/verification/signed_content", "invalid_value", detail);
    }
}

/// What is to be kept, after [`check`].
pub(super) fn read(
    input: VerificationInput,
    current: &Verification,
    id: SourceId,
    sealer: &Sealer<'_>,
) -> Verification {
    let hmac = (input.kind == VerificationKind::Hmac).then(|| rule(&input));
    let place = Source::verification_place(id);
    let seal = |secret: &String| sealer.key.seal(&place, secret.as_bytes(), sealer.dice);
    let secrets = match &input.secrets {
        Some(secrets) => secrets.iter().map(seal).collect(),
        None if current.kind == input.kind => current.secrets.clone(),
        None => Vec::new(),
    };
    Verification {
        kind: input.kind,
        secrets,
        hmac,
        tolerance_seconds: input.tolerance_seconds,
        allowed_addresses: input.allowed_addresses.iter().filter_map(|text| network(text)).collect(),
    }
}

fn rule(input: &VerificationInput) -> HmacRule {
    let lower = |name: &Option<String>| name.as_deref().map(str::to_ascii_lowercase);
    HmacRule {
        header: lower(&input.header).unwrap_or_default(),
        prefix: input.prefix.clone().unwrap_or_default(),
        encoding: input.encoding.unwrap_or_default(),
        algorithm: input.algorithm.unwrap_or(HmacAlgorithm::Sha256),
        timestamp_header: lower(&input.timestamp_header),
        id_header: lower(&input.id_header),
        signed_content: input.signed_content.clone(),
    }
}

/// The rule of a source with its secrets opened. One that does not open is our own trouble, and lets nobody in.
pub(crate) fn verifier(source: &Source, key: &DataKey) -> Result<Arc<Verifier>, ApiError> {
    let place = Source::verification_place(source.id);
    let opened: Result<Vec<_>, _> =
        source.verification.secrets.iter().map(|secret| key.open(&place, secret)).collect();
    let opened = opened.map_err(ApiError::from_bug)?;
    let secrets = opened.iter().map(|secret| secret.as_slice());
    Ok(Arc::new(Verifier::new(&source.verification, secrets)))
}
