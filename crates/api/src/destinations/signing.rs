//! How requests to a destination are signed, as it is written; the secret has a file of its own.

use crate::validate::{CREDENTIALS, Checks};
use contract::SigningInput;
use domain::destination::Signing;
use serde_json::Value;

/// What would make it as it is.
pub(crate) fn form(signing: &Signing) -> SigningInput {
    let Signing { scheme, ed25519, svix_headers, header } = signing.clone();
    SigningInput { scheme, ed25519, svix_headers, header, secret: None }
}

/// Another scheme has another header: nothing is kept of the old one in what a patch is merged into.
pub(crate) fn forget_header(form: &mut Value, patch: &Value) {
    let scheme = patch.pointer("/signing/scheme");
    if scheme.is_some() && scheme != form.pointer("/signing/scheme") && form["signing"].is_object() {
        form["signing"]["header"] = Value::Null;
    }
}

pub(crate) fn check(input: &SigningInput, checks: &mut Checks, pointer: &str) {
    if let Some(header) = &input.header {
        let place = format!("{pointer}/header");
        if input.scheme.own_header().is_none() {
            let detail = "only the schemes `stripe` and `github` have a header of their own";
            checks.refuse(&place, "not_allowed", detail);
        } else {
            checks.header_name(&place, header, CREDENTIALS);
        }
    }
    if input.svix_headers && !read(input).has_standard_signature() {
        let detail = "`svix-*` headers repeat those of Standard Webhooks: they need the scheme `standard`, or `ed25519`";
        checks.refuse(format!("{pointer}/svix_headers"), "not_allowed", detail);
    }
    if let Some(Err(detail)) = input.secret.as_deref().map(|secret| input.scheme.check_secret(secret)) {
        checks.refuse(format!("{pointer}/secret"), "invalid_secret", detail);
    }
}

pub(crate) fn read(input: &SigningInput) -> Signing {
    let SigningInput { scheme, ed25519, svix_headers, .. } = *input;
    // What is said and is usual is not kept, so that one and the same is written in one way.
    let header = input.header.as_ref().map(|header| header.to_ascii_lowercase());
    let header = header.filter(|header| scheme.own_header() != Some(header));
    Signing { scheme, ed25519, svix_headers, header }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::destination::Scheme;
    use serde_json::json;

    #[test]
    fn another_scheme_forgets_the_header() {
        for (patch, kept) in [
            (json!({ "signing": { "scheme": "github" } }), false),
            (json!({ "signing": { "scheme": "stripe" } }), true),
            (json!({ "signing": { "ed25519": true } }), true),
            (json!({ "signing": null }), true),
            (json!({}), true),
        ] {
            let mut form = json!({ "signing": { "scheme": "stripe", "header": "acme-signature" } });
            forget_header(&mut form, &patch);
            assert_eq!(form["signing"]["header"] == "acme-signature", kept, "{patch}");
        }
        let mut none = json!({ "signing": null });
        forget_header(&mut none, &json!({ "signing": { "scheme": "github" } }));
        assert_eq!(none, json!({ "signing": null }));
    }

    #[test]
    fn a_usual_header_is_not_kept() {
        let read = |header: &str| {
            read(&SigningInput {
                scheme: Scheme::Stripe,
                header: Some(header.into()),
                ..SigningInput::default()
            })
            .header
        };
        assert_eq!(read("Stripe-Signature"), None);
        assert_eq!(read("Acme-Signature").as_deref(), Some("acme-signature"));
    }
}
