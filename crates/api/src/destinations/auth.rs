//! The credentials for a destination, as they are written. Values are write-only: they are sealed when they come,
//! and a change that leaves them out keeps them.

use crate::{
    error::ApiError,
    validate::{Checks, escaped},
};
use contract::{AuthInput, AuthKind};
use domain::{
    destination::Auth,
    dice::Dice,
    limits,
    seal::{DataKey, Sealed},
};
use serde_json::Value;
use std::collections::BTreeMap;

/// Seals the values of one destination.
pub(super) struct Sealer<'a> {
    pub(super) key: &'a DataKey,
    pub(super) dice: &'a dyn Dice,
    pub(super) place: String,
}

impl Sealer<'_> {
    fn seal(&self, value: &str) -> Sealed {
        self.key.seal(&self.place, value.as_bytes(), self.dice)
    }
}

/// Types that are part of the contract and not built yet have members we do not know: say so before reading them.
pub(super) fn check_available(body: &Value) -> Result<(), ApiError> {
    let kind = body.pointer("/auth/type").and_then(Value::as_str);
    if !kind.is_some_and(|kind| matches!(kind, "oauth2" | "mtls")) {
        return Ok(());
    }
    let mut checks = Checks::default();
    let detail = "this type is not available yet: `none`, `bearer`, `basic` and `headers` are";
    checks.not_available("/auth/type", detail);
    checks.done()
}

/// The form of what is kept; a secret is `null` there.
pub(super) fn form(auth: &Auth) -> AuthInput {
    let mut input = AuthInput::default();
    match auth {
        Auth::None => {}
        Auth::Bearer { .. } => input.kind = AuthKind::Bearer,
        Auth::Basic { username, .. } => {
            input.kind = AuthKind::Basic;
            input.username = Some(username.clone());
        }
        Auth::Headers { headers } => {
            input.kind = AuthKind::Headers;
            input.headers = Some(headers.iter().map(|(name, _)| (name.clone(), None)).collect());
        }
    }
    input
}

/// `headers` are those sent in the clear: a name stands in one place only.
pub(super) fn check(
    input: &AuthInput,
    checks: &mut Checks,
    headers: &[(String, String)],
    current: Option<&Auth>,
) {
    let bearer = input.kind == AuthKind::Bearer;
    let basic = input.kind == AuthKind::Basic;
    check_member(
        checks,
        "token",
        bearer,
        input.token.as_deref(),
        matches!(current, Some(Auth::Bearer { .. })),
    );
    check_member(checks, "username", basic, input.username.as_deref(), false);
    check_member(
        checks,
        "password",
        basic,
        input.password.as_deref(),
        matches!(current, Some(Auth::Basic { .. })),
    );
    if input.username.as_deref().is_some_and(|name| name.contains(':')) {
        checks.refuse("/auth/username", "invalid_value", "a user name of basic authentication has no colon");
    }
    match &input.headers {
        Some(_) if input.kind != AuthKind::Headers => {
            checks.refuse("/auth/headers", "not_allowed", "this type of auth has no `headers`");
        }
        Some(own) => check_headers(checks, own, headers, current),
        None if input.kind == AuthKind::Headers => {
            checks.refuse("/auth/headers", "missing_field", "auth of type `headers` needs `headers`");
        }
        None => {}
    }
}

/// The headers it sets, in lower case.
pub(super) fn header_names(input: &AuthInput) -> Vec<String> {
    match input.kind {
        AuthKind::None => Vec::new(),
        AuthKind::Bearer | AuthKind::Basic => vec!["authorization".into()],
        AuthKind::Headers => {
            input.headers.iter().flatten().map(|(name, _)| name.to_ascii_lowercase()).collect()
        }
    }
}

/// Whether a secret that is kept would go on being sent.
pub(super) fn keeps_secrets(input: &AuthInput, current: &Auth) -> bool {
    match current {
        Auth::None => false,
        Auth::Bearer { .. } => input.kind == AuthKind::Bearer && input.token.is_none(),
        Auth::Basic { .. } => input.kind == AuthKind::Basic && input.password.is_none(),
        Auth::Headers { .. } => {
            input.kind == AuthKind::Headers
                && input.headers.iter().flatten().any(|(_, value)| value.is_none())
        }
    }
}

fn check_member(checks: &mut Checks, member: &str, belongs: bool, value: Option<&str>, kept: bool) {
    let pointer = format!("/auth/{member}");
    match value {
        Some(_) if !belongs => {
            checks.refuse(pointer, "not_allowed", format!("this type of auth has no `{member}`"));
        }
        None if belongs && !kept => {
            checks.refuse(pointer, "missing_field", format!("this type of auth needs `{member}`"));
        }
        Some(value) => {
            let printable = value.bytes().all(|byte| matches!(byte, b' '..=b'~')) && value.trim() == value;
            if value.is_empty() || !printable || value.len() > limits::AUTH_VALUE_BYTES {
                let detail = format!("1 to {} visible ASCII characters", limits::AUTH_VALUE_BYTES);
                checks.refuse(pointer, "invalid_value", detail);
            }
        }
        None => {}
    }
}

/// What is to be kept, after [`check`]: what came is sealed, what was left out stays as it is.
pub(super) fn read(input: &AuthInput, current: Option<&Auth>, sealer: &Sealer<'_>) -> Auth {
    let seal = |value: &Option<String>, kept: Option<&Sealed>| match (value, kept) {
        (Some(value), _) => sealer.seal(value),
        (None, kept) => kept.cloned().unwrap_or_default(),
    };
    match input.kind {
        AuthKind::None => Auth::None,
        AuthKind::Bearer => {
            let kept =
                current.and_then(|auth| if let Auth::Bearer { token } = auth { Some(token) } else { None });
            Auth::Bearer { token: seal(&input.token, kept) }
        }
        AuthKind::Basic => {
            let kept = current
                .and_then(|auth| if let Auth::Basic { password, .. } = auth { Some(password) } else { None });
            Auth::Basic {
                username: input.username.clone().unwrap_or_default(),
                password: seal(&input.password, kept),
            }
        }
        AuthKind::Headers => {
            let own = input.headers.iter().flatten();
            let sealed = own.map(|(name, value)| {
                let name = name.to_ascii_lowercase();
                let value = seal(value, kept_header(current, &name));
                (name, value)
            });
            Auth::Headers { headers: sealed.collect() }
        }
    }
}

fn check_headers(
    checks: &mut Checks,
    own: &BTreeMap<String, Option<String>>,
    clear: &[(String, String)],
    current: Option<&Auth>,
) {
    let mut seen = Vec::new();
    for (name, value) in own {
        let place = format!("/auth/headers/{}", escaped(name));
        let lower = name.to_ascii_lowercase();
        checks.header_name(&place, name, &[]);
        match value {
            Some(value) => checks.header_value(&place, value, limits::AUTH_VALUE_BYTES),
            None if kept_header(current, &lower).is_none() => {
                checks.refuse(&place, "missing_field", "a header needs a value");
            }
            None => {}
        }
        if seen.contains(&lower) || clear.iter().any(|(other, _)| *other == lower) {
            checks.refuse(&place, "duplicate", "this header is given twice");
        }
        seen.push(lower);
    }
    if own.is_empty() {
        checks.refuse("/auth/headers", "missing_field", "at least one header");
    }
    if own.len() > limits::CUSTOM_HEADERS {
        checks.refuse("/auth/headers", "too_many", format!("at most {} headers", limits::CUSTOM_HEADERS));
    }
}

fn kept_header<'a>(current: Option<&'a Auth>, name: &str) -> Option<&'a Sealed> {
    match current {
        Some(Auth::Headers { headers }) => {
            headers.iter().find(|(kept, _)| kept == name).map(|(_, value)| value)
        }
        _ => None,
    }
}
