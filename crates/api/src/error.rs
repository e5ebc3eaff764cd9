//! What goes wrong, as RFC 9457 problem documents of `contract`, which has the codes and their HTTP statuses. Here is
//! decided what is which, and nowhere else.
//!
//! An [`ApiError`] travels in the extensions of an otherwise empty response; the frame (`request.rs`) writes it down,
//! because only there is the request's id known.

pub use contract::{Code, FieldError, Problem};

use crate::rate::RateStatus;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use contract::WaitingForView;
use domain::{id::RequestId, limits};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use ingest::IngestError;
use std::{borrow::Cow, fmt};
use store::StoreError;

/// A refusal or a failure, ready to be told.
#[derive(Debug, Clone)]
pub struct ApiError(Box<Refusal>);

#[derive(Debug, Clone)]
struct Refusal {
    code: Code,
    detail: Cow<'static, str>,
    errors: Vec<FieldError>,
    retry_after: Option<u32>,
    rate: RateStatus,
    /// For the log alone.
    cause: Option<String>,
    closes: bool,
    waiting_for: Option<Box<WaitingForView>>,
}

/// A constructor for each code.
macro_rules! constructors {
    ($($variant:ident $word:ident = $status:literal, $title:literal;)*) => {
        impl ApiError {
            $(pub fn $word(detail: impl Into<Cow<'static, str>>) -> Self { Self::new(Code::$variant, detail) })*
        }
    };
}

contract::problem_codes!(constructors);

/// What comes after such a request on the same connection cannot be trusted, or is not wanted.
const fn closes(code: Code) -> bool {
    matches!(
        code,
        Code::MalformedRequest
            | Code::RequestTimeout
            | Code::PayloadTooLarge
            | Code::UriTooLong
            | Code::HeadersTooLarge
            | Code::Draining
    )
}

/// Worth asking again, and when.
const fn retry_after(code: Code) -> Option<u32> {
    match code.status() {
        429 | 503 => Some(limits::RETRY_AFTER_OVERLOADED_SECONDS),
        _ => None,
    }
}

impl ApiError {
    pub fn new(code: Code, detail: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Refusal {
            code,
            detail: detail.into(),
            errors: Vec::new(),
            retry_after: retry_after(code),
            rate: RateStatus::default(),
            cause: None,
            closes: closes(code),
            waiting_for: None,
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

    /// 404, byte for byte the same for what never existed and for what is another account's.
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
    pub(crate) fn with_rate(mut self, rate_status: RateStatus) -> Self {
        self.0.rate = rate_status;
        self
    }

    /// 409: a test that found no slot in time.
    pub(crate) fn test_waits(waiting_for: WaitingForView) -> Self {
        let detail = format!("it was not sent: {}", waiting_for.detail);
        let mut refused = Self::test_not_sent(detail);
        refused.0.waiting_for = Some(Box::new(waiting_for));
        refused
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
        StatusCode::from_u16(self.0.code.status()).expect("the list has statuses of HTTP")
    }

    pub(crate) fn cause(&self) -> Option<&str> {
        self.0.cause.as_deref()
    }

    pub fn problem(&self, request_id: RequestId) -> Problem {
        let Refusal { code, detail, errors, waiting_for, .. } = &*self.0;
        Problem {
            kind: format!("/docs/errors#{}", code.as_str()),
            title: code.title().into(),
            status: code.status(),
            code: code.as_str().into(),
            detail: detail.clone(),
            request_id: request_id.to_string(),
            errors: errors.clone(),
            waiting_for: waiting_for.clone(),
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
        Self::from(&error)
    }
}

impl From<&StoreError> for ApiError {
    fn from(error: &StoreError) -> Self {
        match *error {
            StoreError::NotFound { what } => Self::no_such(what),
            StoreError::Taken { constraint } => Self::uid_taken(format!("this {constraint} is taken")),
            StoreError::Full { what: "accounts" } => {
                Self::quota_exceeded("there are as many accounts as `limits.accounts` says")
            }
            StoreError::Full { what } => {
                Self::quota_exceeded(format!("the account has as many {what} as it may"))
            }
            StoreError::PayloadInUse => Self::payload_in_use(
                "a delivery of the event waits, is under way or is yet to be made: cancel it, or ask again when it has ended",
            ),
            StoreError::PayloadErased => Self::payload_erased("the payload of the event was erased"),
            StoreError::Changed => Self::version_mismatch("it has changed since it was read: read it again"),
            StoreError::OutcomeUnknown(_) => {
                Self::outcome_unknown("the store did not confirm: ask again, with the same idempotency key")
                    .because(error)
            }
            StoreError::Unreadable(_) => Self::unreadable(
                "what is stored of it does not read; the request id leads to the reason in the log",
            )
            .because(error),
            StoreError::Refused(_) => {
                Self::validation_failed("the store does not take this value").because(error)
            }
            StoreError::Unavailable(_)
            | StoreError::Failed(_)
            | StoreError::Altered
            | StoreError::NodeLost => {
                Self::unavailable("the store is not available: ask again in a moment").because(error)
            }
        }
    }
}

/// What the way of an event says, in HTTP's words.
impl From<IngestError> for ApiError {
    fn from(error: IngestError) -> Self {
        let detail = error.to_string();
        match error {
            IngestError::Overloaded | IngestError::MatchersBusy | IngestError::StaleTooOften => {
                Self::overloaded(detail)
            }
            IngestError::Stopping => Self::draining(detail),
            IngestError::FanoutTooLarge { .. } => Self::quota_exceeded(detail),
            IngestError::KeyConflict { .. } => Self::idempotency_conflict(detail),
            IngestError::NoAccount(account) => Self::no_such("account").because(account),
            IngestError::Refused(why) => Self::validation_failed(detail).because(why),
            IngestError::Unconfirmed => Self::outcome_unknown(detail),
            // A producer must not take damage of ours for a word about its event: it is to send it again.
            IngestError::Store(error) if matches!(*error, StoreError::Unreadable(_)) => {
                Self::unavailable("what is stored of the account does not read").because(error)
            }
            IngestError::Store(error) => Self::from(&*error),
            IngestError::Bug(cause) => Self::from_bug(cause),
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
            let again = matches!(code.status(), 429 | 503);
            assert_eq!(headers.contains_key(header::RETRY_AFTER), again, "{code:?}");
        }
    }

    #[test]
    fn a_row_that_does_not_read_is_said_to_be_so_and_is_no_refusal_of_an_event() {
        let damaged = || StoreError::Unreadable("column x".into());
        let error = ApiError::from(damaged());
        assert_eq!((error.code(), error.status().as_u16()), (Code::Unreadable, 409));
        assert!(!error.to_string().contains("column x"), "the cause is for the log alone");
        assert_eq!(ApiError::from(IngestError::Store(damaged().into())).status(), 503);
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
        for error in
            [StoreError::Unavailable(away()), StoreError::Failed(away()), StoreError::OutcomeUnknown(away())]
        {
            let error = ApiError::from(error);
            assert_eq!(error.status(), 503);
            assert!(!error.to_string().contains("gone"), "the cause is for the log alone");
        }
    }
}
