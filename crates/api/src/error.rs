//! What goes wrong, as RFC 9457 problem documents. HTTP statuses are chosen here and nowhere else.
//!
//! An [`ApiError`] travels in the extensions of an otherwise empty response; the frame (`request.rs`) writes it down,
//! because only there is the request's id known.

use crate::rate::Standing;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use domain::{id::RequestId, limits};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Serialize;
use std::{borrow::Cow, fmt};
use store::StoreError;
use utoipa::ToSchema;

/// A refusal or a failure, ready to be told.
#[derive(Debug, Clone)]
pub struct ApiError(Box<Inner>);

#[derive(Debug, Clone)]
struct Inner {
    code: Code,
    detail: Cow<'static, str>,
    errors: Vec<FieldError>,
    retry_after: Option<u32>,
    rate: Standing,
    /// For the log alone.
    cause: Option<String>,
    closes: bool,
}

/// One thing that is wrong with a request's body or query.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
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

/// A problem as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Problem {
    /// Where the code is explained.
    #[serde(rename = "type")]
    #[schema(example = "/docs/errors#validation_failed")]
    pub kind: String,
    pub title: Cow<'static, str>,
    pub status: u16,
    /// Stable, for programs.
    pub code: Cow<'static, str>,
    /// What happened this time, for people.
    pub detail: Cow<'static, str>,
    pub request_id: String,
    pub errors: Vec<FieldError>,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident $constructor:ident = $status:literal, $title:literal;)*) => {
        /// Every problem code of the product.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code { $($variant,)* }

        impl Code {
            pub const ALL: &[Self] = &[$(Self::$variant,)*];
            pub const fn as_str(self) -> &'static str { match self { $(Self::$variant => stringify!($constructor),)* } }
            pub const fn title(self) -> &'static str { match self { $(Self::$variant => $title,)* } }
            const fn number(self) -> u16 { match self { $(Self::$variant => $status,)* } }
        }

        impl ApiError {
            $($(#[$doc])* pub fn $constructor(detail: impl Into<Cow<'static, str>>) -> Self { Self::new(Code::$variant, detail) })*
        }
    };
}

codes! {
    InvalidJson invalid_json = 400, "The body is not well-formed JSON";
    InvalidHeader invalid_header = 400, "A header is malformed";
    InvalidCursor invalid_cursor = 400, "The cursor is not of this list";
    MalformedRequest malformed_request = 400, "The request is not well-formed HTTP";
    CredentialInUrl credential_in_url = 400, "Credentials do not belong into a URL";
    Unauthorized unauthorized = 401, "A valid API key is needed";
    SignatureInvalid signature_invalid = 401, "The signature does not verify";
    ScopeMissing scope_missing = 403, "The API key may not do this";
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
    QuotaExceeded quota_exceeded = 409, "A quota is exhausted";
    Pruned pruned = 410, "It is no longer kept";
    VersionMismatch version_mismatch = 412, "It has changed meanwhile";
    PayloadTooLarge payload_too_large = 413, "The body is too large";
    UriTooLong uri_too_long = 414, "The URI is too long";
    UnsupportedMediaType unsupported_media_type = 415, "The media type is not supported";
    /// Prefer [`ApiError::invalid`], which says where.
    ValidationFailed validation_failed = 422, "The request is not valid";
    RateLimited rate_limited = 429, "Too many requests";
    BacklogFull backlog_full = 429, "Too much is waiting to be delivered";
    HeadersTooLarge headers_too_large = 431, "The headers are too large";
    Internal internal = 500, "Something went wrong on our side";
    Overloaded overloaded = 503, "This node has more to do than it can take";
    Unavailable unavailable = 503, "The store is not available";
    Draining draining = 503, "This node is stopping";
    OutcomeUnknown outcome_unknown = 503, "It is not known whether the event was stored";
}

impl Code {
    pub fn status(self) -> StatusCode {
        StatusCode::from_u16(self.number()).expect("the table holds valid statuses")
    }

    /// What comes after such a request on the same connection cannot be trusted, or is not wanted.
    const fn closes(self) -> bool {
        matches!(
            self,
            Self::MalformedRequest
                | Self::RequestTimeout
                | Self::PayloadTooLarge
                | Self::UriTooLong
                | Self::HeadersTooLarge
                | Self::Draining
        )
    }

    /// Worth asking again, and when.
    const fn retry_after(self) -> Option<u32> {
        match self.number() {
            429 | 503 => Some(limits::RETRY_AFTER_OVERLOADED_SECONDS),
            _ => None,
        }
    }
}

impl ApiError {
    pub fn new(code: Code, detail: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner {
            code,
            detail: detail.into(),
            errors: Vec::new(),
            retry_after: code.retry_after(),
            rate: Standing::default(),
            cause: None,
            closes: code.closes(),
        }))
    }

    /// 422 with the places that are wrong.
    pub fn invalid(errors: Vec<FieldError>) -> Self {
        let detail = match errors.as_slice() {
            [one] if one.pointer.is_empty() => one.detail.clone(),
            [one] => format!("{}: {}", one.pointer, one.detail).into(),
            many => format!("{} fields are not valid", many.len()).into(),
        };
        Self::validation_failed(detail).at(errors)
    }

    /// 422 with the one place that is wrong.
    pub fn invalid_field(
        pointer: impl Into<String>,
        code: impl Into<Cow<'static, str>>,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::invalid(vec![FieldError::new(pointer, code, detail)])
    }

    /// 404, byte for byte the same for what never existed and for what is somebody else's.
    pub fn no_such(what: &'static str) -> Self {
        Self::not_found(format!("no such {what}"))
    }

    /// 500: what must not happen did. The cause is logged, and not told.
    pub fn from_bug(cause: impl fmt::Display) -> Self {
        Self::internal("the request could not be completed; the request id leads to the reason in the log")
            .because(cause)
    }

    /// With the places it is about.
    pub fn at(mut self, errors: Vec<FieldError>) -> Self {
        self.0.errors = errors;
        self
    }

    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.0.retry_after = Some(seconds);
        self
    }

    /// With what is left of the limits it did not keep.
    pub(crate) fn rated(mut self, standing: Standing) -> Self {
        self.0.rate = standing;
        self
    }

    /// What the log says besides.
    pub fn because(mut self, cause: impl fmt::Display) -> Self {
        self.0.cause = Some(cause.to_string());
        self
    }

    pub fn code(&self) -> Code {
        self.0.code
    }

    pub(crate) fn detail(&self) -> Cow<'static, str> {
        self.0.detail.clone()
    }

    pub fn status(&self) -> StatusCode {
        self.0.code.status()
    }

    pub(crate) fn cause(&self) -> Option<&str> {
        self.0.cause.as_deref()
    }

    pub fn problem(&self, request_id: RequestId) -> Problem {
        let Inner { code, detail, errors, .. } = &*self.0;
        Problem {
            kind: format!("/docs/errors#{}", code.as_str()),
            title: code.title().into(),
            status: code.number(),
            code: code.as_str().into(),
            detail: detail.clone(),
            request_id: request_id.to_string(),
            errors: errors.clone(),
        }
    }

    /// The body and the headers that go with it.
    pub(crate) fn write(&self, request_id: RequestId, headers: &mut HeaderMap) -> Bytes {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.0.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        self.0.rate.write(headers);
        if self.0.code == Code::Unauthorized {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.0.closes {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        serde_json::to_vec(&self.problem(request_id)).expect("a problem is plain data").into()
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.code.as_str(), self.0.detail)
    }
}

impl std::error::Error for ApiError {}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound { what } => Self::no_such(what),
            StoreError::Taken { constraint } => Self::uid_taken(format!("this {constraint} is taken")),
            StoreError::Full { what } => {
                Self::quota_exceeded(format!("the account has as many {what} as it may"))
            }
            StoreError::Changed => Self::version_mismatch("it has changed since it was read: read it again"),
            StoreError::OutcomeUnknown(_) => {
                Self::outcome_unknown("the store did not confirm: ask again, with the same idempotency key")
                    .because(error)
            }
            StoreError::Refused(_) => {
                Self::validation_failed("the store does not take this value").because(error)
            }
            StoreError::Unavailable(_)
            | StoreError::Failed(_)
            | StoreError::Altered
            | StoreError::Unreadable(_)
            | StoreError::NodeLost => {
                Self::unavailable("the store is not available: ask again in a moment").because(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_has_the_members_of_the_contract() {
        let error = ApiError::invalid_field("/url", "invalid_url", "not a URL");
        let mut headers = HeaderMap::new();
        let body = error.write(RequestId::MIN, &mut headers);
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            body,
            serde_json::json!({
                "type": "/docs/errors#validation_failed", "title": "The request is not valid", "status": 422,
                "code": "validation_failed", "detail": "/url: not a URL", "request_id": RequestId::MIN.to_string(),
                "errors": [{"pointer": "/url", "code": "invalid_url", "detail": "not a URL"}],
            })
        );
        assert_eq!(headers[header::CONTENT_TYPE], "application/problem+json");
    }

    #[test]
    fn who_should_ask_again_is_told_when() {
        for code in Code::ALL {
            let mut headers = HeaderMap::new();
            ApiError::new(*code, "").write(RequestId::MIN, &mut headers);
            let again = matches!(code.status().as_u16(), 429 | 503);
            assert_eq!(headers.contains_key(header::RETRY_AFTER), again, "{code:?}");
        }
    }

    #[test]
    fn an_account_that_is_full_is_a_conflict() {
        let error = ApiError::from(StoreError::Full { what: "destinations" });
        assert_eq!((error.code(), error.status().as_u16()), (Code::QuotaExceeded, 409));
        assert!(error.to_string().contains("destinations"));
    }

    #[test]
    fn a_store_that_is_away_is_never_a_refusal() {
        let away = || "gone".into();
        for error in [
            StoreError::Unavailable(away()),
            StoreError::Failed(away()),
            StoreError::OutcomeUnknown(away()),
            StoreError::Unreadable(away()),
        ] {
            let error = ApiError::from(error);
            assert_eq!(error.status(), 503);
            assert!(!error.to_string().contains("gone"), "the cause is for the log alone");
        }
    }
}
