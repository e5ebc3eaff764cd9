//! What is sent with every request to a destination: how it is proven who calls, and headers of one's own. The values of `auth`
//! are written here and never shown: what is left empty stays as it is.

use crate::visit::Visit;
use contract::{AuthKind, AuthView, DestinationView};
use domain::account::Scope;
use maud::{Markup, html};

const KINDS: [(AuthKind, &str, &str); 4] = [
    (AuthKind::None, "none", "nothing"),
    (AuthKind::Bearer, "bearer", "a bearer token"),
    (AuthKind::Basic, "basic", "a user name and a password"),
    (AuthKind::Headers, "headers", "headers with secret values"),
];

/// Sent with the version it was read at, as all settings are.
pub(crate) fn panel(visit: &Visit, destination: &DestinationView, version: i64) -> Markup {
    let auth = &destination.auth;
    if !visit.may(Scope::DestinationsWrite) {
        return html! { p { "Sent as proof: " (said(auth)) "." } p.quiet { "You may look at this and not change it." } };
    }
    let own = &destination.headers;
    html! {
        form.sheet data-form={ "/v1/destinations/" (destination.id) } data-method="PATCH" data-version=(version) data-done="Saved" {
            div.choice {
                label { "Sent as proof"
                    select name="auth.type" data-chooses { @for (kind, word, name) in KINDS { option value=(word) selected[kind == auth.kind] { (name) } } }
                }
                (bearer(auth)) (basic(auth)) (headers(auth))
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
