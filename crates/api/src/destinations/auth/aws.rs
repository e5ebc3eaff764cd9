//! Credentials for a service of AWS, as they are written.

use super::{AuthSurroundings, Sealer, check_value, missing};
use crate::validate::{Checks, escaped};
use contract::{AuthInput, AuthKind};
use domain::{
    destination::{Auth, AwsCredentials},
    limits,
};

/// What a signature sets.
pub(super) const HEADERS: [&str; 4] =
    ["authorization", "x-amz-content-sha256", "x-amz-date", "x-amz-security-token"];

pub(super) fn fill(input: &mut AuthInput, credentials: &AwsCredentials) {
    input.kind = AuthKind::AwsSigv4;
    input.access_key_id = Some(credentials.access_key_id.clone());
    input.region = Some(credentials.region.clone());
    input.service = Some(credentials.service.clone());
}

pub(super) fn check(input: &AuthInput, checks: &mut Checks, around: &AuthSurroundings<'_>) {
    let kept = matches!(around.current, Some(Auth::AwsSigv4(_)));
    match &input.access_key_id {
        None => missing(checks, "access_key_id"),
        Some(id) => {
            let well_formed = (1..=limits::AWS_KEY_ID_BYTES).contains(&id.len())
                && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if !well_formed {
                let detail = format!("1 to {} of A-Z a-z 0-9 _", limits::AWS_KEY_ID_BYTES);
                checks.refuse("/auth/access_key_id", "invalid_value", detail);
            }
        }
    }
    check_value(checks, "secret_access_key", input.secret_access_key.as_deref(), kept);
    check_value(checks, "session_token", input.session_token.as_deref(), true);
    if kept && input.session_token.is_some() && input.secret_access_key.is_none() {
        let detail = "a session token goes with its secret: send `secret_access_key` too";
        checks.refuse("/auth/secret_access_key", "missing_field", detail);
    }
    for (member, value) in [("region", &input.region), ("service", &input.service)] {
        let Some(value) = value else {
            missing(checks, member);
            continue;
        };
        let well_formed = (1..=limits::AWS_NAME_BYTES).contains(&value.len())
            && value.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        if !well_formed {
            let detail = format!("1 to {} of a-z 0-9 -, as AWS writes it", limits::AWS_NAME_BYTES);
            checks.refuse(format!("/auth/{member}"), "invalid_value", detail);
        }
    }
    for (name, _) in around.headers.iter().filter(|(name, _)| HEADERS.contains(&name.as_str())) {
        let detail = format!("`{name}` is set by the signature");
        checks.refuse(format!("/headers/{}", escaped(name)), "duplicate", detail);
    }
}

/// A secret that came without a session token has none: the one that is kept belongs to the secret before.
pub(super) fn read(input: &AuthInput, current: Option<&Auth>, sealer: &Sealer<'_>) -> AwsCredentials {
    let (secret_access_key, session_token) = match (&input.secret_access_key, current) {
        (None, Some(Auth::AwsSigv4(kept))) => (kept.secret_access_key.clone(), kept.session_token.clone()),
        (secret, _) => (
            sealer.seal_or_keep(secret.as_ref(), None),
            input.session_token.as_deref().map(|token| sealer.seal(token)),
        ),
    };
    AwsCredentials {
        access_key_id: input.access_key_id.clone().unwrap_or_default(),
        secret_access_key,
        session_token,
        region: input.region.clone().unwrap_or_default(),
        service: input.service.clone().unwrap_or_default(),
    }
}
