//! What goes wrong, as RFC 9457 problem documents. Every code of the product stands in one list, with its HTTP status.

use crate::WaitingForView;
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, fmt};
use utoipa::ToSchema;

/// A problem as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Where the code is explained.
    #[serde(rename = "type", default)]
    #[schema(required, example = "/docs/errors#validation_failed")]
    pub kind: String,
    pub title: Cow<'static, str>,
    pub status: u16,
    /// Stable, for programs.
    pub code: Cow<'static, str>,
    /// What happened this time, for people.
    #[serde(default)]
    #[schema(required)]
    pub detail: Cow<'static, str>,
    #[serde(default)]
    #[schema(required)]
    pub request_id: String,
    #[serde(default)]
    #[schema(required)]
    pub errors: Vec<FieldError>,
    /// What a test of a destination was waiting for when it was given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<Box<WaitingForView>>,
}

/// One thing that is wrong with a request's body or query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FieldError {
    /// JSON pointer into the body, or `/name` of a query parameter.
    pub pointer: String,
    /// A stable word, such as `unknown_field`.
    pub code: Cow<'static, str>,
    pub detail: Cow<'static, str>,
}

impl FieldError {
    pub fn new(
        pointer: impl Into<String>,
        code: impl Into<Cow<'static, str>>,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { pointer: pointer.into(), code: code.into(), detail: detail.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { status, code, .. } = self;
        let said = if self.detail.is_empty() { &self.title } else { &self.detail };
        write!(f, "{said} ({status} {code})")?;
        for FieldError { pointer, detail, .. } in &self.errors {
            // With one place the detail is often about it already.
            if !said.contains(detail.as_ref()) {
                write!(f, "\n  {pointer}: {detail}")?;
            }
        }
        Ok(())
    }
}

/// Hands the list of codes to a macro: the variant, its word, its HTTP status and its title.
#[macro_export]
macro_rules! problem_codes {
    ($define:ident) => {
        $define! {
            InvalidJson invalid_json = 400, "The body is not well-formed JSON";
            InvalidHeader invalid_header = 400, "A header is malformed";
            InvalidCursor invalid_cursor = 400, "The cursor is not of this list";
            InvalidParameter invalid_parameter = 400, "A parameter of the URL is not valid";
            MalformedRequest malformed_request = 400, "The request is not well-formed HTTP";
            CredentialInUrl credential_in_url = 400, "Credentials do not belong into a URL";
            Unauthorized unauthorized = 401, "A valid API key is needed";
            SignInRefused sign_in_refused = 401, "The sign-in was refused";
            SignatureInvalid signature_invalid = 401, "The signature does not verify";
            ScopeMissing scope_missing = 403, "The API key may not do this";
            CrossSite cross_site = 403, "The request comes from another site";
            TlsNeeded tls_needed = 403, "Signing in needs TLS";
            RevealDisabled reveal_disabled = 403, "Secrets are not shown again";
            SourceDisabled source_disabled = 403, "The source is disabled";
            NotFound not_found = 404, "Not found";
            MethodNotAllowed method_not_allowed = 405, "The method is not allowed here";
            NotAcceptable not_acceptable = 406, "Only JSON can be answered";
            RequestTimeout request_timeout = 408, "The request took too long to arrive";
            UidTaken uid_taken = 409, "The uid is taken";
            IdempotencyConflict idempotency_conflict = 409, "The idempotency key was used with another body";
            DeliveryEnded delivery_ended = 409, "The delivery has ended";
            DeliveryWaiting delivery_waiting = 409, "The delivery has not ended";
            ReplayEnded replay_ended = 409, "The replay has ended";
            DestinationBusy destination_busy = 409, "Deliveries wait for the destination";
            PayloadInUse payload_in_use = 409, "The payload is still to be sent";
            AccountInUse account_in_use = 409, "The account is needed";
            NodesBehind nodes_behind = 409, "A node is of a version before";
            NotRotated not_rotated = 409, "The keys cannot be changed now";
            TestNotSent test_not_sent = 409, "The destination takes no test now";
            QuotaExceeded quota_exceeded = 409, "A quota is exhausted";
            Unreadable unreadable = 409, "What is stored of it does not read";
            Pruned pruned = 410, "It is no longer kept";
            PayloadErased payload_erased = 410, "The payload was erased";
            VersionMismatch version_mismatch = 412, "It has changed meanwhile";
            PayloadTooLarge payload_too_large = 413, "The body is too large";
            UriTooLong uri_too_long = 414, "The URI is too long";
            UnsupportedMediaType unsupported_media_type = 415, "The media type is not supported";
            ValidationFailed validation_failed = 422, "The request is not valid";
            RateLimited rate_limited = 429, "Too many requests";
            BacklogFull backlog_full = 429, "Too much is waiting to be delivered";
            HeadersTooLarge headers_too_large = 431, "The headers are too large";
            Internal internal = 500, "Something went wrong on our side";
            Overloaded overloaded = 503, "This node has more to do than it can take";
            Unavailable unavailable = 503, "The store is not available";
            Draining draining = 503, "This node is stopping";
            OnlyDelivers only_delivers = 503, "This node only delivers";
            OutcomeUnknown outcome_unknown = 503, "It is not known whether the event was stored";
        }
    };
}

macro_rules! define_codes {
    ($($variant:ident $word:ident = $status:literal, $title:literal;)*) => {
        /// Every problem code of the product.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code { $($variant,)* }

        impl Code {
            pub const ALL: &[Self] = &[$(Self::$variant,)*];
            pub const fn as_str(self) -> &'static str { match self { $(Self::$variant => stringify!($word),)* } }
            pub const fn title(self) -> &'static str { match self { $(Self::$variant => $title,)* } }
            /// The HTTP status it is answered with.
            pub const fn status(self) -> u16 { match self { $(Self::$variant => $status,)* } }
        }
    };
}

problem_codes!(define_codes);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_said_once() {
        let problem = |detail: &'static str, pointers: &[&str]| Problem {
            kind: String::new(),
            title: Code::ValidationFailed.title().into(),
            status: 422,
            code: Code::ValidationFailed.as_str().into(),
            detail: detail.into(),
            request_id: String::new(),
            errors: pointers.iter().map(|at| FieldError::new(*at, "missing_field", "is missing")).collect(),
            waiting_for: None,
        };
        let one = problem("/a: is missing", &["/a"]);
        assert_eq!(one.to_string(), "/a: is missing (422 validation_failed)");
        let two = problem("2 fields are not valid", &["/a", "/b"]);
        assert_eq!(
            two.to_string(),
            "2 fields are not valid (422 validation_failed)\n  /a: is missing\n  /b: is missing"
        );
        assert_eq!(problem("", &[]).to_string(), "The request is not valid (422 validation_failed)");
    }
}
