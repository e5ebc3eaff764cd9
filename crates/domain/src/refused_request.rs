//! A request that a source did not believe, as it is kept for the source's owner to see why.
//!
//! Whoever sent it is a stranger, or a provider with another secret: what could be used again is cut short before it is kept,
//! and the rest is bounded.

use crate::{
    dice::Dice,
    id::{AccountId, SourceId},
    limits,
    seal::{DataKey, SealError, Sealed},
    time::Timestamp,
    verification::RefusalReason,
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RefusedRequest {
    #[serde(skip, default = "no_source")]
    pub source_id: SourceId,
    #[serde(skip, default = "no_account")]
    pub account_id: AccountId,
    #[serde(skip, default = "no_time")]
    pub at: Timestamp,
    pub reason: RefusalReason,
    pub client: IpAddr,
    /// In the order in which they came, values as [`shown`] gives them.
    pub headers: Vec<(String, String)>,
    /// Of the whole body.
    pub body_bytes: u64,
    /// Its beginning.
    #[serde(skip)]
    pub body: Bytes,
    /// Headers and body, of an account that has its payloads encrypted: then both are empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<Sealed>,
}

impl RefusedRequest {
    /// With headers and body sealed by the account's data key.
    pub fn sealed_by(self, key: &DataKey, dice: &dyn Dice) -> Self {
        let headers = serde_json::to_vec(&self.headers).expect("texts are always JSON");
        let length = (headers.len() as u32).to_be_bytes();
        let plain = [&length[..], &headers, &self.body].concat();
        let sealed = key.seal_row(&self.place(), &plain, dice);
        Self { headers: Vec::new(), body: Bytes::new(), sealed: Some(sealed), ..self }
    }

    /// As it was before it was sealed.
    pub fn opened_by(self, key: &DataKey) -> Result<Self, SealError> {
        let Some(sealed) = &self.sealed else { return Ok(self) };
        let plain = key.open_row(&self.place(), sealed.0.clone())?;
        let (length, rest) = plain.split_first_chunk().ok_or(SealError::DoesNotOpen)?;
        let headers = rest.split_at_checked(u32::from_be_bytes(*length) as usize);
        let (headers, body) = headers.ok_or(SealError::DoesNotOpen)?;
        let headers = serde_json::from_slice(headers).map_err(|_| SealError::DoesNotOpen)?;
        Ok(Self { headers, body: Bytes::copy_from_slice(body), sealed: None, ..self })
    }

    fn place(&self) -> String {
        format!("refused_requests|request|{}|{}", self.source_id, self.at.micros())
    }
}

fn no_source() -> SourceId {
    SourceId::MIN
}

fn no_account() -> AccountId {
    AccountId::MIN
}

fn no_time() -> Timestamp {
    Timestamp::MIN
}

/// How many characters of a value that could be used again are kept: enough to tell two apart.
const CLUE: usize = 6;

/// The headers of a request, as they are kept: names in lower case, so many of them, and of values that prove something no
/// more than a clue. The source's own rule may say that it is `proof` which does.
pub fn shown<'h>(
    headers: impl Iterator<Item = (&'h str, &'h [u8])>,
    proof: Option<&str>,
) -> Vec<(String, String)> {
    let shown = headers.take(limits::REFUSED_HEADERS).map(|(name, value)| {
        let name: String = name.chars().take(limits::REFUSED_HEADER_BYTES).collect();
        let name = name.to_ascii_lowercase();
        let value = String::from_utf8_lossy(value);
        let value =
            if is_harmless(&name) && proof != Some(&*name) { beginning(&value) } else { redacted(&value) };
        (name, value)
    });
    shown.collect()
}

/// What says how a request was made, and when, and nothing by which another could be. Every other header may be one that a
/// source goes by.
fn is_harmless(name: &str) -> bool {
    const NAMES: [&str; 14] = [
        "accept",
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "date",
        "expect",
        "host",
        "idempotency-key",
        "transfer-encoding",
        "user-agent",
        "webhook-id",
        "svix-id",
        "traceparent",
    ];
    const ENDS: [&str; 9] = [
        "-timestamp",
        "-time",
        "-event",
        "-topic",
        "-delivery",
        "-event-type",
        "-type",
        "-attempt",
        "-version",
    ];
    NAMES.contains(&name) || ENDS.iter().any(|end| name.ends_with(end))
}

fn beginning(value: &str) -> String {
    let mut text: String = value.chars().take(limits::REFUSED_HEADER_BYTES).collect();
    if text.len() < value.len() {
        text.push('…');
    }
    text
}

/// A clue to each part of it, and how long it is. What stands before a first `=` or space says what it is.
fn redacted(value: &str) -> String {
    let length = value.chars().count();
    let (kind, rest) = match value.find([' ', '=', ',']) {
        Some(at) if at <= CLUE + 4 && at + 1 < value.len() => value.split_at(at + 1),
        _ => ("", value),
    };
    let rest_length = rest.chars().count();
    let clue: String = rest.chars().take(CLUE.min(rest_length / 4)).collect();
    format!("{kind}{clue}… ({length} characters)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_proves_something_is_cut_to_a_clue() {
        let kept = |name: &str, value: &str| shown([(name, value.as_bytes())].into_iter(), None).remove(0).1;
        let hex = "5257a869e7ecebeda32affa62cdca3fa51cad7e77a0e56ff536d0ce8e108d8bd";
        assert_eq!(kept("X-Hub-Signature-256", &format!("sha256={hex}")), "sha256=5257a8… (71 characters)");
        assert_eq!(kept("authorization", "Bearer abcdefgh12345678"), "Bearer abcd… (23 characters)");
        assert_eq!(kept("cookie", "a"), "… (1 characters)");
        assert_eq!(kept("x-custom-token", "äöüäöüäöüäöü"), "äöü… (12 characters)");
        for name in
            ["authorization", "stripe-signature", "x-api-key", "x-secret", "cookie", "webhook-signature"]
        {
            assert!(!kept(name, hex).contains(&hex[..7]), "{name}");
        }
    }

    #[test]
    fn what_helps_to_find_the_mistake_is_kept_whole() {
        for (name, value) in
            [("Content-Type", "application/json"), ("X-Slack-Request-Timestamp", "1700000000")]
        {
            let kept = shown([(name, value.as_bytes())].into_iter(), None);
            assert_eq!(kept, [(name.to_ascii_lowercase(), value.to_owned())]);
            let proof = name.to_ascii_lowercase();
            let kept = shown([(name, value.as_bytes())].into_iter(), Some(&proof));
            assert_ne!(kept[0].1, value, "the rule goes by it");
        }
        let long = "a".repeat(10_000);
        assert!(
            shown([("user-agent", long.as_bytes())].into_iter(), None)[0].1.len()
                <= limits::REFUSED_HEADER_BYTES + 3
        );
    }

    #[test]
    fn there_are_never_more_headers_than_may_be_kept() {
        let many = (0..1_000).map(|_| ("x", &b"1"[..]));
        assert_eq!(shown(many, None).len(), limits::REFUSED_HEADERS);
    }
}
