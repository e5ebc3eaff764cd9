//! What can go wrong, by what a caller can do about it.

use bytes::Bytes;
use http::Response;
use serde::{Deserialize, Serialize};
use std::fmt;

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{0}` is not the URL of a server: expected something like http://127.0.0.1:8080")]
    BadUrl(String),
    #[error("the key has characters that no key has")]
    BadKey,
    #[error("`{0}` is no header, or its value is none")]
    BadHeader(String),
    #[error("TLS cannot be set up: {0}")]
    Tls(#[source] BoxError),
    /// Nobody answered; whether the request arrived is not known.
    #[error("{server} was not reached: {}", chain(source.as_ref()))]
    NotReached {
        server: String,
        #[source]
        source: BoxError,
    },
    /// The server said no, and why.
    #[error("{0}")]
    Refused(Box<Problem>),
    /// The server speaks another language than we do.
    #[error("{0}")]
    Unexpected(String),
}

/// An RFC 9457 problem document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    pub status: u16,
    /// A stable word, such as `not_found`.
    pub code: String,
    pub title: String,
    #[serde(default)]
    pub detail: Option<String>,
    #[serde(default)]
    pub request_id: Option<String>,
    #[serde(default)]
    pub errors: Vec<FieldError>,
    /// From `Retry-After`.
    #[serde(skip)]
    pub retry_after_seconds: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FieldError {
    /// A JSON Pointer into the request.
    pub pointer: String,
    pub code: String,
    pub detail: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { status, code, title, .. } = self;
        let said = self.detail.as_ref().unwrap_or(title);
        write!(f, "{said} ({status} {code})")?;
        for FieldError { pointer, detail, .. } in &self.errors {
            // With one place the detail is often about it already.
            if !said.contains(detail.as_str()) {
                write!(f, "\n  {pointer}: {detail}")?;
            }
        }
        Ok(())
    }
}

impl Error {
    /// The problem, if the server named one.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Refused(problem) => Some(problem),
            _ => None,
        }
    }

    pub(crate) fn refused(response: &Response<Bytes>) -> Self {
        let status = response.status();
        let foreign = || Problem {
            // A proxy's own error page, most likely.
            status: status.as_u16(),
            code: "unknown".into(),
            title: status.canonical_reason().unwrap_or("refused").into(),
            detail: None,
            request_id: None,
            errors: Vec::new(),
            retry_after_seconds: None,
        };
        let mut problem: Problem = serde_json::from_slice(response.body()).unwrap_or_else(|_| foreign());
        let retry_after = response.headers().get(http::header::RETRY_AFTER);
        problem.retry_after_seconds = retry_after.and_then(|value| value.to_str().ok()?.parse().ok());
        Self::Refused(Box::new(problem))
    }
}

/// The error with its causes, each said once.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut said = error.to_string();
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    for cause in causes.map(ToString::to_string) {
        if !said.contains(&cause) {
            said = format!("{said}: {cause}");
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_said_once() {
        let field = |pointer: &str| FieldError {
            pointer: pointer.into(),
            code: "missing_field".into(),
            detail: "is missing".into(),
        };
        let problem = |detail: &str, errors| Problem {
            status: 422,
            code: "validation_failed".into(),
            title: "The request is not valid".into(),
            detail: Some(detail.into()),
            request_id: None,
            errors,
            retry_after_seconds: None,
        };
        let one = problem("/a: is missing", vec![field("/a")]);
        assert_eq!(one.to_string(), "/a: is missing (422 validation_failed)");
        let two = problem("2 fields are not valid", vec![field("/a"), field("/b")]);
        assert_eq!(
            two.to_string(),
            "2 fields are not valid (422 validation_failed)\n  /a: is missing\n  /b: is missing"
        );
    }
}
