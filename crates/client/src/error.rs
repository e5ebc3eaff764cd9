//! What can go wrong, by what a caller can do about it.

use bytes::Bytes;
use contract::Problem;
use http::Response;

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
    /// There was no answer; whether the request arrived is not known.
    #[error("{server} was not reached: {}", chain(source.as_ref()))]
    NotReached {
        server: String,
        #[source]
        source: BoxError,
    },
    /// The server said no, and why.
    #[error("{problem}")]
    Refused {
        problem: Box<Problem>,
        /// When to ask again.
        retry_after_seconds: Option<u64>,
    },
    /// The server speaks another language than we do.
    #[error("{0}")]
    Unexpected(String),
}

impl Error {
    /// The problem, if the server named one.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Refused { problem, .. } => Some(problem),
            _ => None,
        }
    }

    pub(crate) fn refused(response: &Response<Bytes>) -> Self {
        let status = response.status();
        let foreign = || Problem {
            // A proxy's own error page, most likely.
            kind: String::new(),
            status: status.as_u16(),
            code: "unknown".into(),
            title: status.canonical_reason().unwrap_or("refused").into(),
            detail: "".into(),
            request_id: String::new(),
            errors: Vec::new(),
            waiting_for: None,
        };
        let problem = serde_json::from_slice(response.body()).unwrap_or_else(|_| foreign());
        let retry_after = response.headers().get(http::header::RETRY_AFTER);
        let retry_after_seconds = retry_after.and_then(|value| value.to_str().ok()?.parse().ok());
        Self::Refused { problem: Box::new(problem), retry_after_seconds }
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
