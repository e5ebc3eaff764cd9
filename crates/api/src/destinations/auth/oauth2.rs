//! Client credentials of OAuth 2.0, as they are written.

use super::{AuthSurroundings, Sealer, by_name, check_text, check_value, missing, names_alone};
use crate::{
    destinations::input::{check_url, is_elsewhere},
    validate::{Checks, escaped},
};
use contract::{AuthInput, AuthKind};
use domain::{
    destination::Auth,
    limits,
    oauth2::{OAuth2Client, OWN_PARAMS},
};
use std::collections::BTreeMap;

pub(super) fn fill(input: &mut AuthInput, client: &OAuth2Client) {
    input.kind = AuthKind::Oauth2;
    input.token_url = Some(client.token_url.clone());
    input.client_id = Some(client.client_id.clone());
    input.client_auth = Some(client.client_auth);
    input.scope = client.scope.clone();
    input.audience = client.audience.clone();
    input.params = Some(names_alone(&client.params));
}

pub(super) fn check(input: &mut AuthInput, checks: &mut Checks, around: &AuthSurroundings<'_>) {
    let current = kept(around.current);
    match &mut input.token_url {
        None => missing(checks, "token_url"),
        // One that the operator has forbidden since does not keep the rest from being changed.
        Some(url) if current.is_some_and(|current| current.token_url == *url) => {}
        Some(url) => check_url(checks, "/auth/token_url", url, around.rules.addresses),
    }
    check_value(checks, "client_id", input.client_id.as_deref(), false);
    check_value(checks, "client_secret", input.client_secret.as_deref(), current.is_some());
    for (member, value) in [("scope", &input.scope), ("audience", &input.audience)] {
        if let Some(value) = value {
            check_text(checks, member, value, limits::TOKEN_SCOPE_BYTES);
        }
    }
    if let Some(params) = &input.params {
        check_params(checks, params, current);
    }
    // Else whoever may change a URL could have the secret sent to a server of their own.
    let moves = current.is_some_and(|current| {
        is_elsewhere(&current.token_url, input.token_url.as_deref().unwrap_or_default())
    });
    let keeps_params = input.params.iter().flatten().any(|(_, value)| value.is_none());
    if moves && !around.rules.may_reveal && (input.client_secret.is_none() || keeps_params) {
        let detail = "the token URL moves to another origin, which is not given the credentials that are kept: send \
                      `client_secret` and the values of `params` again, or use a key with the scope `secrets:reveal`";
        checks.refuse("/auth", "credentials_needed", detail);
    }
}

fn check_params(
    checks: &mut Checks,
    params: &BTreeMap<String, Option<String>>,
    current: Option<&OAuth2Client>,
) {
    for (name, value) in params {
        let place = format!("/auth/params/{}", escaped(name));
        let well_formed = (1..=limits::TOKEN_PARAM_NAME_BYTES).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        if !well_formed {
            let detail = format!(
                "the name of a parameter has 1 to {} of A-Z a-z 0-9 . _ -",
                limits::TOKEN_PARAM_NAME_BYTES
            );
            checks.refuse(&place, "invalid_value", detail);
        } else if OWN_PARAMS.contains(&name.as_str()) {
            checks.refuse(&place, "not_allowed", format!("`{name}` is no further parameter"));
        }
        match value {
            Some(value) => checks.header_value(&place, value, limits::TOKEN_PARAM_VALUE_BYTES),
            None if current.is_none_or(|current| by_name(&current.params, name).is_none()) => {
                checks.refuse(&place, "missing_field", "a parameter needs a value");
            }
            None => {}
        }
    }
    if params.len() > limits::TOKEN_PARAMS {
        checks.refuse("/auth/params", "too_many", format!("at most {} parameters", limits::TOKEN_PARAMS));
    }
}

pub(super) fn read(input: &AuthInput, current: Option<&Auth>, sealer: &Sealer<'_>) -> OAuth2Client {
    let current = kept(current);
    let params = input.params.iter().flatten().map(|(name, value)| {
        let kept = current.and_then(|current| by_name(&current.params, name));
        (name.clone(), sealer.seal_or_keep(value.as_ref(), kept))
    });
    let kept_secret = current.map(|current| &current.client_secret);
    OAuth2Client {
        token_url: input.token_url.clone().unwrap_or_default(),
        client_id: input.client_id.clone().unwrap_or_default(),
        client_secret: sealer.seal_or_keep(input.client_secret.as_ref(), kept_secret),
        scope: input.scope.clone(),
        audience: input.audience.clone(),
        client_auth: input.client_auth.unwrap_or_default(),
        params: params.collect(),
    }
}

fn kept(current: Option<&Auth>) -> Option<&OAuth2Client> {
    match current {
        Some(Auth::OAuth2(client)) => Some(client),
        _ => None,
    }
}
