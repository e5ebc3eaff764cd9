//! Attempts: facts about deliveries. Immutable, numbered from 1, kept for ever (until retention).

use crate::{
    id::{AttemptId, DeliveryId, NodeId},
    outcome::{FailureKind, Fault, Outcome},
    seal::Sealed,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One HTTP try, as it went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    pub id: AttemptId,
    pub delivery_id: DeliveryId,
    pub number: u32,
    pub started_at: Timestamp,
    pub duration: Duration,
    pub outcome: Outcome,
    pub http_status: Option<u16>,
    pub detail: Detail,
    pub node: NodeId,
}

/// What a person wants to see when something went wrong. Kept as one document: it is read by people, never searched.
/// What is not there is left out: there are as many of these as attempts.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Detail {
    pub url: String,
    /// The request's headers, with credentials redacted; those that every request has are added when it is shown.
    pub request_headers: Vec<(String, String)>,
    pub timing: Timing,
    #[serde(skip_serializing_if = "is_false")]
    pub connection_reused: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<AttemptError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<Response>,
    /// All of it, of an account that has its payloads encrypted: then there is nothing else in here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sealed: Option<Sealed>,
}

#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Timing {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_us: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_us: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_us: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte_us: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptError {
    /// A stable word, such as `connect_error`.
    pub code: String,
    /// A stable word that says more, such as `refused`; a text, because what a later version writes is to be read too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    pub message: String,
}

impl AttemptError {
    pub fn new(fault: Fault, kind: Option<FailureKind>, message: impl Into<String>) -> Self {
        let kind = kind.map(|kind| kind.as_str().to_owned());
        Self { code: fault.error_code().into(), kind, message: message.into() }
    }

    /// An answer that says to ask elsewhere.
    pub fn redirect() -> Self {
        let message = "the destination answered with a redirect: redirects are not followed".into();
        Self { code: "redirect".into(), kind: None, message }
    }
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Response {
    pub headers: Vec<(String, String)>,
    /// The first bytes of the body: text where it is UTF-8, else base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<String>,
    #[serde(skip_serializing_if = "is_false")]
    pub truncated: bool,
}

/// What serde wants for a field that is left out where it is false.
fn is_false(value: &bool) -> bool {
    !value
}
