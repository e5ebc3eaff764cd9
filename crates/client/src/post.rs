//! Bytes to one URL of another server, by the same way out: for what is no call of the API.

use crate::{Error, connect::Connector};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::{client::legacy, rt::TokioExecutor};
use std::fmt;

/// An answer that is not read.
const ANSWER_BYTES: usize = 64 * 1024;

pub struct PostClient {
    uri: Uri,
    headers: HeaderMap,
    http: legacy::Client<Connector, Full<Bytes>>,
}

impl PostClient {
    /// Everything is posted to this URL with these headers, which may hold a secret.
    pub fn new(url: &str, headers: &[(String, String)]) -> Result<Self, Error> {
        let bad_url = || Error::BadUrl(url.to_owned());
        let uri: Uri = url.parse().map_err(|_| bad_url())?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() {
            return Err(bad_url());
        }
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name = HeaderName::try_from(name).map_err(|_| Error::BadHeader(name.clone()))?;
            let mut value = HeaderValue::try_from(value).map_err(|_| Error::BadHeader(name.to_string()))?;
            value.set_sensitive(true);
            map.insert(name, value);
        }
        let http = legacy::Client::builder(TokioExecutor::new()).build(Connector::new()?);
        Ok(Self { uri, headers: map, http })
    }

    /// The status of the answer. Has no deadline of its own.
    pub async fn post(&self, body: Vec<u8>) -> Result<u16, Error> {
        let mut request = Request::new(Full::new(body.into()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        let server = || self.uri.authority().map(ToString::to_string).unwrap_or_default();
        let not_reached = |source| Error::NotReached { server: server(), source };
        let answer = self.http.request(request).await.map_err(|error| not_reached(error.into()))?;
        let status = answer.status().as_u16();
        // Read to its end, so that the connection can be used again.
        Limited::new(answer.into_body(), ANSWER_BYTES).collect().await.map_err(not_reached)?;
        Ok(status)
    }
}

impl fmt::Debug for PostClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostClient").field("server", &self.uri.authority()).finish_non_exhaustive()
    }
}
