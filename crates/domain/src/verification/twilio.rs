//! Twilio signs the URL and the fields of a form; of a body that is no form, the URL with its digest in the query.
//! See www.twilio.com/docs/usage/webhooks/webhooks-security.

use super::{
    Encoding, Inbound, RefusalReason, Verified, Verifier, fitting,
    keys::{self, Algorithm},
    needed, same, single,
};
use aws_lc_rs::digest;
use std::collections::BTreeSet;
use url::form_urlencoded;

const FORM: &str = "application/x-www-form-urlencoded";
const BODY_DIGEST: &str = "bodySHA256";

pub(super) fn verify(verifier: &Verifier, inbound: &Inbound<'_>) -> Result<Verified, RefusalReason> {
    let signature = needed(inbound, "x-twilio-signature")?;
    let id = single(inbound, "i-twilio-idempotency-token")?;
    let presented: Vec<_> =
        Encoding::Base64.decode(signature).into_iter().map(|bytes| (Algorithm::Sha1, bytes)).collect();
    // Whatever of a body no signature covers is not believed.
    let fields = match body_digest(inbound.url) {
        Some(told) => {
            let found = digest::digest(&digest::SHA256, inbound.body);
            if !keys::unhex(&told).is_some_and(|told| same(&told, found.as_ref())) {
                return Err(RefusalReason::WrongSignature);
            }
            Vec::new()
        }
        None if inbound.body.is_empty() => Vec::new(),
        None if is_form(inbound) => fields(inbound.body),
        None => return Err(RefusalReason::WrongSignature),
    };
    // With the port and without: Twilio does both.
    let mut good = false;
    for url in [Some(inbound.url.to_owned()), other_port(inbound.url)].into_iter().flatten() {
        good |= verifier.require_match(&[url.as_bytes(), &fields], &presented).is_ok();
    }
    if !good {
        return Err(RefusalReason::WrongSignature);
    }
    let id = id.filter(|id| !id.is_empty()).map(|id| fitting(id.to_owned()));
    Ok(Verified { id, ..Verified::default() })
}

fn is_form(inbound: &Inbound<'_>) -> bool {
    let [value, _] = inbound.headers.first_two("content-type");
    let text = value.and_then(|value| std::str::from_utf8(value).ok()).unwrap_or_default();
    text.split(';').next().is_some_and(|essence| essence.trim().eq_ignore_ascii_case(FORM))
}

/// Names and values, sorted, with nothing between; the same twice counts once.
fn fields(body: &[u8]) -> Vec<u8> {
    let pairs: BTreeSet<_> = form_urlencoded::parse(body).collect();
    pairs.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]).flatten().copied().collect()
}

fn body_digest(url: &str) -> Option<String> {
    let (_, query) = url.split_once('?')?;
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.find(|(name, _)| name == BODY_DIGEST).map(|(_, value)| value.into_owned())
}

/// With the port of its scheme if it has none, without it if it has.
fn other_port(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let port = if scheme == "http" { ":80" } else { ":443" };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    match host.strip_suffix(port) {
        Some(host) => Some(format!("{scheme}://{host}{path}")),
        None if host.rsplit(']').next().is_some_and(|tail| tail.contains(':')) => None,
        None => Some(format!("{scheme}://{host}{port}{path}")),
    }
}
