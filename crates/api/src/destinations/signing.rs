//! How requests to a destination are signed, as it is written; the secret has a file of its own.

use crate::validate::Checks;
use contract::{SchemeInput, SigningInput};
use domain::{
    destination::{Scheme, Signing},
    signature::SigningSecret,
};

/// What would make it as it is.
pub(crate) fn form(signing: &Signing) -> SigningInput {
    let scheme = match signing.scheme {
        Scheme::Standard => SchemeInput::Standard,
        Scheme::None => SchemeInput::None,
    };
    SigningInput { scheme, ed25519: signing.ed25519, svix_headers: signing.svix_headers, secret: None }
}

pub(crate) fn check(input: &SigningInput, checks: &mut Checks, pointer: &str) {
    if matches!(input.scheme, SchemeInput::Stripe | SchemeInput::Github) {
        let detail = "this scheme is not available yet: `standard` and `none` are";
        checks.not_available(&format!("{pointer}/scheme"), detail);
    }
    if input.ed25519 {
        checks.not_available(&format!("{pointer}/ed25519"), "Ed25519 signatures are not available yet");
    }
    if input.svix_headers {
        checks.not_available(&format!("{pointer}/svix_headers"), "`svix-*` headers are not available yet");
    }
    if let Some(Err(error)) = input.secret.as_deref().map(str::parse::<SigningSecret>) {
        checks.refuse(format!("{pointer}/secret"), "invalid_secret", error.to_string());
    }
}

pub(crate) fn read(input: &SigningInput) -> Signing {
    let scheme = match input.scheme {
        SchemeInput::None => Scheme::None,
        SchemeInput::Standard | SchemeInput::Stripe | SchemeInput::Github => Scheme::Standard,
    };
    Signing { scheme, ed25519: input.ed25519, svix_headers: input.svix_headers }
}
