//! What is sent with every request to a destination: how it is proven who calls, and headers of one's own. The values of `auth`
//! are written here and never shown: what is left empty stays as it is.

use crate::{format, visit::Visit};
use contract::{AuthKind, AuthView, DestinationView};
use domain::{account::Scope, oauth2::ClientAuth};
use maud::{Markup, html};

const KINDS: [(AuthKind, &str, &str); 7] = [
    (AuthKind::None, "none", "nothing"),
    (AuthKind::Bearer, "bearer", "bearer token"),
    (AuthKind::Basic, "basic", "user name and password (Basic)"),
    (AuthKind::Headers, "headers", "headers with secret values"),
    (AuthKind::Oauth2, "oauth2", "OAuth 2.0, client credentials"),
    (AuthKind::Mtls, "mtls", "client certificate (mTLS)"),
    (AuthKind::AwsSigv4, "aws_sigv4", "AWS Signature Version 4"),
];

/// Sent with the version it was read at, as all settings are.
pub(crate) fn panel(visit: &Visit, destination: &DestinationView, version: i64) -> Markup {
    let auth = &destination.auth;
    if !visit.may(Scope::DestinationsWrite) {
        return html! { p { "Authentication: " (said(auth)) "." } p.quiet { "You may look at this and not change it." } };
    }
    let own = &destination.headers;
    html! {
        form.sheet data-form={ "/v1/destinations/" (destination.id) } data-method="PATCH" data-version=(version) data-done="Saved" {
            div.choice {
                label { "Authentication"
                    select name="auth.type" data-chooses { @for (kind, word, name) in KINDS { option value=(word) selected[kind == auth.kind] { (name) } } }
                }
                (bearer(auth)) (basic(auth)) (headers(auth)) (oauth2(auth)) (mtls(auth)) (aws(auth))
            }
            label { "Headers of your own, one a line"
                textarea name="headers" data-type="pairs" data-names=(names(own.iter().map(|(name, _)| name))) rows="3" spellcheck="false" placeholder="X-Tenant: north" {
                    @for (name, value) in own.iter() { (name) ": " (value) "\n" }
                }
                span.hint { "Everybody who sees this destination sees them: what is secret belongs above." }
            }
            label { "Headers passed on from what came in" input name="forward_headers" data-type="list" spellcheck="false" value=(destination.forward_headers.join(", ")) placeholder="none; x-request-id"; }
            div data-form-problems role="alert" {}
            button.button.primary type="submit" { "Save" }
        }
    }
}

fn said(auth: &AuthView) -> &'static str {
    KINDS.iter().find(|(kind, ..)| *kind == auth.kind).map_or("something", |(.., name)| name)
}

fn names<'n>(names: impl Iterator<Item = &'n str>) -> String {
    serde_json::to_string(&names.collect::<Vec<_>>()).unwrap_or_default()
}

/// Of the secret values of the kind that is chosen some are kept.
fn kept(auth: &AuthView, kind: AuthKind) -> &'static str {
    if auth.kind == kind { "kept; typed here it is another" } else { "" }
}

fn bearer(auth: &AuthView) -> Markup {
    let is_chosen = auth.kind == AuthKind::Bearer;
    html! { fieldset data-for="bearer" hidden[!is_chosen] disabled[!is_chosen] {
        label { "Token" input name="auth.token" type="password" autocomplete="off" data-empty="leave" placeholder=(kept(auth, AuthKind::Bearer)); }
    } }
}

fn basic(auth: &AuthView) -> Markup {
    let is_chosen = auth.kind == AuthKind::Basic;
    html! { fieldset data-for="basic" hidden[!is_chosen] disabled[!is_chosen] {
        div.fields {
            label { "User" input name="auth.username" autocomplete="off" spellcheck="false" autocapitalize="off" value=[auth.username.as_deref()]; }
            label { "Password" input name="auth.password" type="password" autocomplete="off" data-empty="leave" placeholder=(kept(auth, AuthKind::Basic)); }
        }
    } }
}

fn headers(auth: &AuthView) -> Markup {
    let is_chosen = auth.kind == AuthKind::Headers;
    let own = auth.header_names.as_deref().unwrap_or_default();
    html! { fieldset data-for="headers" hidden[!is_chosen] disabled[!is_chosen] {
        label { "Headers, one a line"
            textarea name="auth.headers" data-type="pairs" data-names=(names(own.iter().map(String::as_str))) rows="3" autocomplete="off" spellcheck="false" placeholder="X-Api-Key: the secret value" {
                @for name in own { (name) ":\n" }
            }
            span.hint { "A name without a value keeps the value that it has; one that is taken out is sent no more." }
        }
    } }
}

fn oauth2(auth: &AuthView) -> Markup {
    let is_chosen = auth.kind == AuthKind::Oauth2;
    let in_form = auth.client_auth == Some(ClientAuth::Post);
    let params = auth.param_names.as_deref().unwrap_or_default();
    html! { fieldset data-for="oauth2" hidden[!is_chosen] disabled[!is_chosen] {
        label { "Token URL" input name="auth.token_url" type="url" spellcheck="false" value=[auth.token_url.as_deref()] placeholder="https://auth.example.com/oauth/token"; }
        div.fields {
            label { "Client id" input name="auth.client_id" autocomplete="off" spellcheck="false" autocapitalize="off" value=[auth.client_id.as_deref()]; }
            label { "Client secret" input name="auth.client_secret" type="password" autocomplete="off" data-empty="leave" placeholder=(kept(auth, AuthKind::Oauth2)); }
        }
        div.fields {
            label { "Scope" input name="auth.scope" spellcheck="false" value=[auth.scope.as_deref()] placeholder="none"; }
            label { "Audience" input name="auth.audience" spellcheck="false" value=[auth.audience.as_deref()] placeholder="none"; }
        }
        label { "The secret is sent"
            select name="auth.client_auth" {
                option value=(ClientAuth::Basic.as_str()) selected[!in_form] { "as Authorization: Basic" }
                option value=(ClientAuth::Post.as_str()) selected[in_form] { "in the body of the request" }
            }
        }
        label { "Further parameters, one a line"
            textarea name="auth.params" data-type="pairs" data-names=(names(params.iter().map(String::as_str))) rows="2" autocomplete="off" spellcheck="false" placeholder="resource: urn:hooks" {
                @for name in params { (name) ":\n" }
            }
            span.hint { "A name without a value keeps the value that it has." }
        }
    } }
}

fn mtls(auth: &AuthView) -> Markup {
    let is_chosen = auth.kind == AuthKind::Mtls;
    html! { fieldset data-for="mtls" hidden[!is_chosen] disabled[!is_chosen] {
        @if let (Some(subject), Some(until)) = (&auth.subject, auth.expires_at) { p { (subject) ", until " (format::exact(until)) } }
        label { "Certificates, your own first"
            textarea name="auth.certificate" data-empty="leave" rows="4" autocomplete="off" spellcheck="false" placeholder="-----BEGIN CERTIFICATE-----" {}
        }
        label { "Private key"
            textarea name="auth.private_key" data-empty="leave" rows="4" autocomplete="off" spellcheck="false" placeholder="-----BEGIN PRIVATE KEY-----" {}
            span.hint { "Both together, or neither: then what is there stays." }
        }
    } }
}

fn aws(auth: &AuthView) -> Markup {
    let is_chosen = auth.kind == AuthKind::AwsSigv4;
    html! { fieldset data-for="aws_sigv4" hidden[!is_chosen] disabled[!is_chosen] {
        div.fields {
            label { "Region" input name="auth.region" spellcheck="false" autocapitalize="off" value=[auth.region.as_deref()] placeholder="eu-central-1"; }
            label { "Service" input name="auth.service" spellcheck="false" autocapitalize="off" value=[auth.service.as_deref()] placeholder="execute-api"; }
        }
        div.fields {
            label { "Access key id" input name="auth.access_key_id" autocomplete="off" spellcheck="false" value=[auth.access_key_id.as_deref()]; }
            label { "Secret access key" input name="auth.secret_access_key" type="password" autocomplete="off" data-empty="leave" placeholder=(kept(auth, AuthKind::AwsSigv4)); }
        }
        label { "Session token" input name="auth.session_token" type="password" autocomplete="off" data-empty="leave" placeholder=(kept(auth, AuthKind::AwsSigv4));
            span.hint { "Only of credentials that are good for a while. It goes with its secret." }
        }
    } }
}
