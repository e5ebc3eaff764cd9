//! Bytes to one URL that the operator has named: by the same way out as everything else, and not judged.

use super::Egress;
use bytes::Bytes;
use domain::limits;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::{client::legacy, rt::TokioExecutor};
use std::fmt;

/// An answer that is not read.
const ANSWER_BYTES: usize = 64 * 1024;

pub struct OperatorClient {
    uri: Uri,
    headers: HeaderMap,
    http: legacy::Client<Egress, Full<Bytes>>,
}

#[derive(Debug, thiserror::Error)]
pub enum OperatorClientError {
    #[error("{0:?} is no http or https URL")]
    BadUrl(String),
    #[error("the header {0:?} cannot be sent")]
    BadHeader(String),
    #[error("TLS cannot be used")]
    Tls(#[from] rustls::Error),
    #[error("{server} was not reached: {}", innermost(source.as_ref()))]
    NotReached { server: String, source: Box<dyn std::error::Error + Send + Sync> },
}

impl OperatorClient {
    /// Everything is posted to this URL with these headers, which may hold a secret.
    #[expect(clippy::disallowed_methods, reason = "it has the egress for its connector")]
    pub fn new(url: &str, headers: &[(String, String)]) -> Result<Self, OperatorClientError> {
        let bad_url = || OperatorClientError::BadUrl(url.to_owned());
        let uri: Uri = url.parse().map_err(|_| bad_url())?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() {
            return Err(bad_url());
        }
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let bad = || OperatorClientError::BadHeader(name.clone());
            let mut value = HeaderValue::try_from(value).map_err(|_| bad())?;
            value.set_sensitive(true);
            map.insert(HeaderName::try_from(name).map_err(|_| bad())?, value);
        }
        let egress = Egress::to_operators_addresses(limits::CONNECT_TIMEOUT)?;
        let http = legacy::Client::builder(TokioExecutor::new()).build(egress);
        Ok(Self { uri, headers: map, http })
    }

    /// The status of the answer. Has no deadline of its own.
    pub async fn post(&self, body: Vec<u8>) -> Result<u16, OperatorClientError> {
        let mut request = Request::new(Full::new(body.into()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        let server = || self.uri.authority().map(ToString::to_string).unwrap_or_default();
        let not_reached = |source| OperatorClientError::NotReached { server: server(), source };
        let answer = self.http.request(request).await.map_err(|error| not_reached(error.into()))?;
        let status = answer.status().as_u16();
        // Read to its end, so that the connection can be used again.
        Limited::new(answer.into_body(), ANSWER_BYTES).collect().await.map_err(not_reached)?;
        Ok(status)
    }
}

impl fmt::Debug for OperatorClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperatorClient").field("server", &self.uri.authority()).finish_non_exhaustive()
    }
}

/// The reason; what is around it only says that there is one.
fn innermost<'e>(mut error: &'e (dyn std::error::Error + 'static)) -> &'e dyn std::error::Error {
    while let Some(source) = error.source() {
        error = source;
    }
    error
}
