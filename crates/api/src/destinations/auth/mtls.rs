//! A client certificate with its key, as they are written: together, since one is nothing without the other.

use super::{AuthSurroundings, Sealer, missing};
use crate::validate::Checks;
use contract::AuthInput;
use domain::{
    client_certificate::{self, ClientCertificate},
    destination::Auth,
};

pub(super) fn check(input: &AuthInput, checks: &mut Checks, around: &AuthSurroundings<'_>) {
    if around.url.starts_with("http:") {
        let detail = "a client certificate is shown over TLS alone: the URL must be one of https";
        checks.refuse("/url", "not_allowed", detail);
    }
    match (&input.certificate, &input.private_key) {
        (None, None) if matches!(around.current, Some(Auth::Mtls(_))) => {}
        (Some(certificate), Some(key)) => {
            if let Err(error) = client_certificate::check(certificate, key, around.rules.now) {
                let member = if error.is_of_the_key() { "private_key" } else { "certificate" };
                checks.refuse(format!("/auth/{member}"), "invalid_value", error.to_string());
            }
        }
        (certificate, key) => {
            for (member, given) in [("certificate", certificate), ("private_key", key)] {
                if given.is_none() {
                    missing(checks, member);
                }
            }
        }
    }
}

pub(super) fn read(input: &AuthInput, current: Option<&Auth>, sealer: &Sealer<'_>) -> Auth {
    let (Some(certificate), Some(key)) = (&input.certificate, &input.private_key) else {
        return current.cloned().unwrap_or_default();
    };
    let facts = client_certificate::check(certificate, key, sealer.now).expect("it has been checked");
    Auth::Mtls(ClientCertificate {
        certificate: facts.certificate,
        private_key: sealer.seal(key),
        subject: facts.subject,
        expires_at: facts.expires_at,
    })
}
