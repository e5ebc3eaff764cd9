//! How a source verifies who sends, as a part of its form: the fields of the way that is chosen, and what to do at the provider.
//! Secrets are written here and never shown. The fields stand in the page once, whatever the number of sources: the browser puts
//! them where they are asked for.

use crate::provider::{self, Provider};
use contract::VerificationView;
use domain::{
    limits,
    verification::{Encoding, HmacAlgorithm, VerificationKind},
};
use maud::{Markup, html};

/// Where the fields are put; of a source that is there with what it says.
pub(crate) fn place(current: Option<&VerificationView>) -> Markup {
    let said = current.map(|current| {
        let usual = current.kind.tolerance_seconds();
        let tolerance_seconds = current.tolerance_seconds.filter(|own| Some(*own) != usual);
        let own = VerificationView { tolerance_seconds, ..current.clone() };
        serde_json::to_string(&own).expect("a view is plain data")
    });
    html! { div data-ways=(said.unwrap_or_default()) {} }
}

/// The fields, once for all forms of the page.
pub(crate) fn template() -> Markup {
    html! { template #ways {
        fieldset.choice {
            label { "Verified"
                select name="verification.type" data-chooses {
                    option value="none" { "no: whoever knows its URL may send" }
                    @for (kind, provider) in providers() { option value=(kind.as_str()) { (provider.name) } }
                }
            }
            @for (kind, provider) in providers() { (of_provider(kind, &provider)) }
            (of_hmac())
            (beside())
        }
    } }
}

fn providers() -> impl Iterator<Item = (VerificationKind, Provider)> {
    VerificationKind::ALL.into_iter().filter_map(|kind| Some((kind, provider::of(kind)?)))
}

fn of_provider(kind: VerificationKind, provider: &Provider) -> Markup {
    html! {
        fieldset data-for=(kind.as_str()) {
            p.hint { (provider.steps)
                @if provider.url_first { span data-new { " Its secret comes after the URL: make the source without it, not taking anything yet, and enter the secret when you have it." } } }
            label { (provider.secret)
                textarea name="verification.secrets" data-type="lines" data-empty="leave" rows="1" autocomplete="off" spellcheck="false" autocapitalize="off" placeholder=(provider.example) {}
                span.hint { span data-kept {} "Never shown again. Up to " (limits::VERIFICATION_SECRETS) ", one a line: while one takes the place of another, either is good." }
            }
        }
    }
}

fn of_hmac() -> Markup {
    html! {
        fieldset data-for="hmac" {
            div.fields {
                label { "Header of the signature" input name="verification.header" required spellcheck="false" placeholder="X-Signature"; }
                label { "What stands before it" input name="verification.prefix" spellcheck="false" placeholder="sha256="; }
                label { "Written as" select name="verification.encoding" { @for each in Encoding::ALL { option value=(each.as_str()) { (each.as_str()) } } } }
                label { "HMAC with" select name="verification.algorithm" { @for each in HmacAlgorithm::ALL { option value=(each.as_str()) { (each.as_str()) } } } }
                label { "Header of the time" input name="verification.timestamp_header" spellcheck="false" placeholder="none"; }
                label { "Header of the id" input name="verification.id_header" spellcheck="false" placeholder="none"; }
                label.grow { "What is signed" input name="verification.signed_content" spellcheck="false" placeholder="{body}, or with a time {timestamp}.{body}"; }
            }
        }
    }
}

/// What may be said beside a way to verify.
fn beside() -> Markup {
    let words = |kinds: &mut dyn Iterator<Item = VerificationKind>| {
        kinds.map(VerificationKind::as_str).collect::<Vec<_>>().join(" ")
    };
    let all = words(&mut providers().map(|(kind, _)| kind));
    // Of `hmac` it depends on what else is said whether there is a time; the API tells.
    let timed =
        words(&mut VerificationKind::ALL.into_iter().filter(|kind| kind.tolerance_seconds().is_some()));
    html! {
        div.fields {
            fieldset data-for=(timed) { label { "Good for, seconds" input type="number" name="verification.tolerance_seconds" data-type="number" min="1" max=(limits::VERIFICATION_TOLERANCE_MAX_SECONDS) placeholder="as is usual with it"; } }
            fieldset.grow data-for=(all) { label.grow { "Only from these addresses" input name="verification.allowed_addresses" data-type="list" spellcheck="false" placeholder="any; or 192.0.2.0/24, 2001:db8::/32"; } }
        }
        fieldset data-for=(all) data-new { label.check { input type="checkbox" name="enabled" data-type="off"; " Not taking anything yet: the secret comes later" } }
    }
}
