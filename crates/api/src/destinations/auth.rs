//! The credentials for a destination, as they are written. Values are write-only: they are sealed when they come,
//! and a change that leaves them out keeps them.

mod aws;
mod mtls;
mod oauth2;

use super::input::DestinationRules;
use crate::validate::{Checks, escaped};
use contract::{AuthInput, AuthKind};
use domain::{
    destination::Auth,
    dice::Dice,
    limits,
    seal::{DataKey, Sealed},
    time::Timestamp,
};
use std::collections::BTreeMap;

/// Seals the values of one destination.
pub(super) struct Sealer<'a> {
    pub(super) key: &'a DataKey,
    pub(super) dice: &'a dyn Dice,
    pub(super) place: String,
    /// The moment at which they were checked.
    pub(super) now: Timestamp,
}

impl Sealer<'_> {
    fn seal(&self, value: &str) -> Sealed {
        self.key.seal(&self.place, value.as_bytes(), self.dice)
    }

    /// What came, or else what is kept.
    fn seal_or_keep(&self, value: Option<&String>, kept: Option<&Sealed>) -> Sealed {
        match value {
            Some(value) => self.seal(value),
            None => kept.cloned().unwrap_or_default(),
        }
    }
}

/// What credentials are held against.
pub(super) struct AuthSurroundings<'a> {
    pub(super) rules: &'a DestinationRules<'a>,
    pub(super) current: Option<&'a Auth>,
    /// The destination's own.
    pub(super) url: &'a str,
    /// Those sent in the clear: a name stands in one place only.
    pub(super) headers: &'a [(String, String)],
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
            input.headers = Some(names_alone(headers));
        }
        Auth::OAuth2(client) => oauth2::fill(&mut input, client),
        Auth::Mtls(_) => input.kind = AuthKind::Mtls,
        Auth::AwsSigv4(credentials) => aws::fill(&mut input, credentials),
    }
    input
}

fn names_alone(values: &[(String, Sealed)]) -> BTreeMap<String, Option<String>> {
    values.iter().map(|(name, _)| (name.clone(), None)).collect()
}

/// Finds everything that is wrong with it, and writes its URL in the one form in which it is called.
pub(super) fn check(input: &mut AuthInput, checks: &mut Checks, around: &AuthSurroundings<'_>) {
    check_belonging(input, checks);
    match input.kind {
        AuthKind::None => {}
        AuthKind::Bearer => {
            let kept = matches!(around.current, Some(Auth::Bearer { .. }));
            check_value(checks, "token", input.token.as_deref(), kept);
        }
        AuthKind::Basic => {
            let kept = matches!(around.current, Some(Auth::Basic { .. }));
            check_value(checks, "username", input.username.as_deref(), false);
            check_value(checks, "password", input.password.as_deref(), kept);
            if input.username.as_deref().is_some_and(|name| name.contains(':')) {
                let detail = "a user name of basic authentication has no colon";
                checks.refuse("/auth/username", "invalid_value", detail);
            }
        }
        AuthKind::Headers => match &input.headers {
            Some(own) => check_headers(checks, own, around),
            None => checks.refuse("/auth/headers", "missing_field", "auth of type `headers` needs `headers`"),
        },
        AuthKind::Oauth2 => oauth2::check(input, checks, around),
        AuthKind::Mtls => mtls::check(input, checks, around),
        AuthKind::AwsSigv4 => aws::check(input, checks, around),
    }
}

/// The headers it sets, in lower case.
pub(super) fn header_names(input: &AuthInput) -> Vec<String> {
    match input.kind {
        AuthKind::None | AuthKind::Mtls => Vec::new(),
        AuthKind::Bearer | AuthKind::Basic | AuthKind::Oauth2 => vec!["authorization".into()],
        AuthKind::Headers => {
            input.headers.iter().flatten().map(|(name, _)| name.to_ascii_lowercase()).collect()
        }
        AuthKind::AwsSigv4 => aws::HEADERS.map(str::to_owned).to_vec(),
    }
}

/// Whether a secret that is kept would go on being used.
pub(super) fn keeps_secrets(input: &AuthInput, current: &Auth) -> bool {
    let any_kept = |values: &Option<BTreeMap<String, Option<String>>>| {
        values.iter().flatten().any(|(_, value)| value.is_none())
    };
    match (current, input.kind) {
        (Auth::Bearer { .. }, AuthKind::Bearer) => input.token.is_none(),
        (Auth::Basic { .. }, AuthKind::Basic) => input.password.is_none(),
        (Auth::Headers { .. }, AuthKind::Headers) => any_kept(&input.headers),
        (Auth::OAuth2(_), AuthKind::Oauth2) => input.client_secret.is_none() || any_kept(&input.params),
        (Auth::Mtls(_), AuthKind::Mtls) => input.private_key.is_none(),
        (Auth::AwsSigv4(_), AuthKind::AwsSigv4) => input.secret_access_key.is_none(),
        _ => false,
    }
}

/// What is to be kept, after [`check`]: what came is sealed, what was left out stays as it is.
pub(super) fn read(input: &AuthInput, current: Option<&Auth>, sealer: &Sealer<'_>) -> Auth {
    match (input.kind, current) {
        (AuthKind::None, _) => Auth::None,
        (AuthKind::Bearer, current) => {
            let kept = match current {
                Some(Auth::Bearer { token }) => Some(token),
                _ => None,
            };
            Auth::Bearer { token: sealer.seal_or_keep(input.token.as_ref(), kept) }
        }
        (AuthKind::Basic, current) => {
            let kept = match current {
                Some(Auth::Basic { password, .. }) => Some(password),
                _ => None,
            };
            Auth::Basic {
                username: input.username.clone().unwrap_or_default(),
                password: sealer.seal_or_keep(input.password.as_ref(), kept),
            }
        }
        (AuthKind::Headers, current) => {
            let own = input.headers.iter().flatten();
            let sealed = own.map(|(name, value)| {
                let name = name.to_ascii_lowercase();
                let value = sealer.seal_or_keep(value.as_ref(), kept_header(current, &name));
                (name, value)
            });
            Auth::Headers { headers: sealed.collect() }
        }
        (AuthKind::Oauth2, current) => Auth::OAuth2(oauth2::read(input, current, sealer)),
        (AuthKind::Mtls, current) => mtls::read(input, current, sealer),
        (AuthKind::AwsSigv4, current) => Auth::AwsSigv4(aws::read(input, current, sealer)),
    }
}

/// What was given must be of its type.
fn check_belonging(input: &AuthInput, checks: &mut Checks) {
    let members = [
        ("token", input.token.is_some(), AuthKind::Bearer),
        ("username", input.username.is_some(), AuthKind::Basic),
        ("password", input.password.is_some(), AuthKind::Basic),
        ("headers", input.headers.is_some(), AuthKind::Headers),
        ("token_url", input.token_url.is_some(), AuthKind::Oauth2),
        ("client_id", input.client_id.is_some(), AuthKind::Oauth2),
        ("client_secret", input.client_secret.is_some(), AuthKind::Oauth2),
        ("client_auth", input.client_auth.is_some(), AuthKind::Oauth2),
        ("scope", input.scope.is_some(), AuthKind::Oauth2),
        ("audience", input.audience.is_some(), AuthKind::Oauth2),
        ("params", input.params.is_some(), AuthKind::Oauth2),
        ("certificate", input.certificate.is_some(), AuthKind::Mtls),
        ("private_key", input.private_key.is_some(), AuthKind::Mtls),
        ("access_key_id", input.access_key_id.is_some(), AuthKind::AwsSigv4),
        ("secret_access_key", input.secret_access_key.is_some(), AuthKind::AwsSigv4),
        ("session_token", input.session_token.is_some(), AuthKind::AwsSigv4),
        ("region", input.region.is_some(), AuthKind::AwsSigv4),
        ("service", input.service.is_some(), AuthKind::AwsSigv4),
    ];
    for (member, given, of) in members {
        if given && input.kind != of {
            let detail = format!("this type of auth has no `{member}`");
            checks.refuse(format!("/auth/{member}"), "not_allowed", detail);
        }
    }
}

/// A value that is needed, unless one is kept.
fn check_value(checks: &mut Checks, member: &str, value: Option<&str>, kept: bool) {
    match value {
        Some(value) => check_text(checks, member, value, limits::AUTH_VALUE_BYTES),
        None if !kept => missing(checks, member),
        None => {}
    }
}

fn missing(checks: &mut Checks, member: &str) {
    checks.refuse(format!("/auth/{member}"), "missing_field", format!("this type of auth needs `{member}`"));
}

fn check_text(checks: &mut Checks, member: &str, value: &str, most: usize) {
    let printable = value.bytes().all(|byte| matches!(byte, b' '..=b'~')) && value.trim() == value;
    if value.is_empty() || !printable || value.len() > most {
        let detail = format!("1 to {most} visible ASCII characters");
        checks.refuse(format!("/auth/{member}"), "invalid_value", detail);
    }
}

fn check_headers(checks: &mut Checks, own: &BTreeMap<String, Option<String>>, around: &AuthSurroundings<'_>) {
    let mut seen = Vec::new();
    for (name, value) in own {
        let place = format!("/auth/headers/{}", escaped(name));
        let lower = name.to_ascii_lowercase();
        checks.header_name(&place, name, &[]);
        match value {
            Some(value) => checks.header_value(&place, value, limits::AUTH_VALUE_BYTES),
            None if kept_header(around.current, &lower).is_none() => {
                checks.refuse(&place, "missing_field", "a header needs a value");
            }
            None => {}
        }
        if seen.contains(&lower) || around.headers.iter().any(|(other, _)| *other == lower) {
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
        Some(Auth::Headers { headers }) => by_name(headers, name),
        _ => None,
    }
}

fn by_name<'a>(values: &'a [(String, Sealed)], name: &str) -> Option<&'a Sealed> {
    values.iter().find(|(kept, _)| kept == name).map(|(_, value)| value)
}
