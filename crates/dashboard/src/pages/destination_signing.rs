//! How a destination's requests are signed and what they have in them; its secret and its key pair, shown and changed.

use crate::{moment, name, visit::Visit};
use contract::{DestinationView, SigningView};
use domain::{
    account::Scope,
    destination::{Format, Scheme},
    id::DestinationId,
};
use maud::{Markup, html};

pub(crate) fn panel(visit: &Visit, destination: &DestinationView, version: i64) -> Markup {
    let (id, signing) = (destination.id, &destination.signing);
    let may = visit.may(Scope::DestinationsWrite);
    html! {
        (rotated(visit, signing))
        p { (said(signing)) }
        @if let Some(key) = &signing.public_key { p { "What receivers verify " code { "v1a" } " with:" } (name::command(key)) }
        @if !visit.app.reveals() {
            p.quiet { "A secret is shown when it is made, and not again: the operator has switched that off." }
        } @else if visit.visitor.may_reveal_signing_secrets() {
            p { button.button type="button" data-reveal={ "/v1/destinations/" (id) "/secret" } data-member="secret" { "Reveal the secret" } " " span.quiet { "It is written into the audit log who did." } }
            div.revealed data-revealed hidden {}
        } @else { p.quiet { "You may not reveal the secret." } }
        @if may {
            (rotate(id))
            h3 { "How requests are signed" }
            (form(destination, version))
        }
    }
}

/// What signs beside the present secret and key pair.
fn rotated(visit: &Visit, signing: &SigningView) -> Markup {
    html! {
        @if let Some(until) = signing.previous_until.filter(|until| *until > visit.now()) {
            p.note { "Two secrets sign at present: the one before as well, for another " (moment::countdown(visit.now(), until)) ", until " (moment::exact(until)) ". Receivers take either." }
        }
        @if let (Some(until), Some(key)) = (signing.previous_public_key_until.filter(|until| *until > visit.now()), &signing.previous_public_key) {
            p.note { "Two key pairs sign at present: the one before (" code.clip { (key) } ") as well, for another " (moment::countdown(visit.now(), until)) "." }
        }
    }
}

fn said(signing: &SigningView) -> Markup {
    let header = signing.header.as_deref().unwrap_or_default();
    html! {
        @match signing.scheme {
            Scheme::Standard => { "Requests are signed as " strong { "Standard Webhooks" } " has it: " code { "webhook-id" } ", " code { "webhook-timestamp" } " and " code { "webhook-signature" } "." },
            Scheme::Stripe => { "Requests are signed as " strong { "Stripe" } " does it, in " code { (header) } "." },
            Scheme::Github => { "Requests are signed as " strong { "GitHub" } " does it, in " code { (header) } "." },
            Scheme::None => "No signature is made with the secret.",
        }
        @if signing.ed25519 { " There is an Ed25519 signature, " code { "v1a" } ", in " code { "webhook-signature" } "." }
        @if signing.svix_headers { " The headers come a second time as " code { "svix-…" } "." }
    }
}

fn rotate(id: DestinationId) -> Markup {
    html! {
        form.inline data-form={ "/v1/destinations/" (id) "/rotate-secret" } data-method="POST" data-done="It was changed" {
            label { "Change "
                select name="which" { option value="secret" { "the secret" } option value="key_pair" { "the key pair of Ed25519" } } }
            label { "The old one signs as well for "
                select name="overlap_seconds" data-type="number" { option value="3600" { "1 hour" } option value="86400" selected { "24 hours" } option value="604800" { "7 days" } option value="0" { "no time at all" } } }
            button.button type="submit" { "Rotate" }
        }
    }
}

const FORMATS: [(Format, &str); 3] = [
    (Format::Standard, "the payload as it is"),
    (Format::CloudeventsBinary, "the payload, with the attributes of a CloudEvent as headers"),
    (Format::CloudeventsStructured, "a CloudEvent as one JSON document"),
];

const SCHEMES: [(Scheme, &str); 4] = [
    (Scheme::Standard, "Standard Webhooks"),
    (Scheme::Stripe, "as Stripe: t=…,v1=…"),
    (Scheme::Github, "as GitHub: sha256=…"),
    (Scheme::None, "none"),
];

const USUAL_HEADERS: [&str; 2] = ["stripe-signature", "x-hub-signature-256"];

fn form(destination: &DestinationView, version: i64) -> Markup {
    let signing = &destination.signing;
    let has_header = matches!(signing.scheme, Scheme::Stripe | Scheme::Github);
    // What a scheme is used to is left to it: another scheme is used to another.
    let header = signing.header.as_deref().filter(|header| !USUAL_HEADERS.contains(header));
    html! {
        form.sheet #signing-form data-form={ "/v1/destinations/" (destination.id) } data-method="PATCH" data-version=(version) data-done="Saved" {
            div.fields.choice {
                label { "With the secret" select name="signing.scheme" data-chooses { @for (scheme, name) in SCHEMES { option value=(scheme.as_str()) selected[scheme == signing.scheme] { (name) } } } }
                fieldset data-for="stripe github" hidden[!has_header] disabled[!has_header] {
                    label { "In the header" input name="signing.header" spellcheck="false" value=[header] placeholder="as they call it"; }
                }
                label { "What is sent" select name="format" { @for (format, name) in FORMATS { option value=(format.as_str()) selected[format == destination.format] { (name) } } } }
            }
            label.check { input type="checkbox" name="signing.ed25519" data-unchecked="false" checked[signing.ed25519]; span { "An Ed25519 signature as well, which receivers verify with a public key" } }
            label.check { input type="checkbox" name="signing.svix_headers" data-unchecked="false" checked[signing.svix_headers]; span { "The headers a second time as " code { "svix-…" } ", for receivers that look for those" } }
            div data-form-problems role="alert" {}
            button.button.primary type="submit" { "Save" }
        }
    }
}
