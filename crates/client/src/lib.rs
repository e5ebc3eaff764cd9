//! A typed client of the public API: what the CLI and the checks speak through. It knows no store and no engine.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = client::Client::new("http://127.0.0.1:8080", "phk_…")?;
//! let destination = client.create_destination(&client::NewDestination::new("Orders", "https://example.com/hook")).await?;
//! client.create_route(&client::NewRoute::to(destination.id)).await?;
//! let accepted = client.publish(&client::Publish::json("order.paid", "{\"total\":12}")?).await?;
//! # let _ = accepted; Ok(()) }
//! ```
//!
//! What is sent and what comes back are the server's own types, of `contract`; [`calls`] has one method per endpoint, [`ChangeStream`]
//! what happens as it happens, [`connect`] the way out. Nothing is tried twice: a producer names an idempotency key and decides.

mod calls;
mod connect;
mod error;
mod stream;

pub use calls::Readiness;
pub use contract::*;
pub use error::Error;
pub use stream::{ChangeStream, StreamFilters, StreamedChange};

use bytes::Bytes;
use connect::Connector;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::{client::legacy, rt::TokioExecutor};
use serde::{Serialize, de::DeserializeOwned};
use std::{fmt, time::Duration};
use url::Url;

/// Longer than any answer the server gives; a server that hangs must not hang the command too.
const DEADLINE: Duration = Duration::from_secs(60);
/// An event with its payload is the largest answer there is.
const ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// A server and the key to speak to it with. Cloning is cheap, and clones share their connections.
#[derive(Clone)]
pub struct Client {
    base: Url,
    key: Option<HeaderValue>,
    account: Option<HeaderValue>,
    http: legacy::Client<Connector, Full<Bytes>>,
}

impl Client {
    /// For everything that needs a key.
    pub fn new(url: &str, key: &str) -> Result<Self, Error> {
        let mut value = HeaderValue::try_from(format!("Bearer {key}")).map_err(|_| Error::BadKey)?;
        value.set_sensitive(true);
        Ok(Self { key: Some(value), ..Self::without_key(url)? })
    }

    /// For what needs none: health, and ingest by a source's own URL.
    pub fn without_key(url: &str) -> Result<Self, Error> {
        let base =
            Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let base = base.ok_or_else(|| Error::BadUrl(url.to_owned()))?;
        let http = legacy::Client::builder(TokioExecutor::new()).build(Connector::new()?);
        Ok(Self { base, key: None, account: None, http })
    }

    /// The same server with another key.
    pub fn with_key(&self, key: &str) -> Result<Self, Error> {
        let key = Self::new(self.base.as_str(), key)?.key;
        Ok(Self { key, ..self.clone() })
    }

    /// The same server and key, which is an operator's or a platform's, acting for an account named by its id or uid.
    pub fn acting_for(&self, account: &str) -> Result<Self, Error> {
        let named = HeaderValue::try_from(account).map_err(|_| Error::BadHeader(account.to_owned()))?;
        Ok(Self { account: Some(named), ..self.clone() })
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        parse(self.accepted(self.request(Method::GET, path, None)).await?)
    }

    async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Error> {
        self.write(Method::POST, path, body).await
    }

    async fn patch<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Error> {
        self.write(Method::PATCH, path, body).await
    }

    async fn write<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Error> {
        let body = serde_json::to_vec(body).map_err(|error| Error::Unexpected(error.to_string()))?;
        parse(self.accepted(self.request(method, path, Some(body.into()))).await?)
    }

    /// An action without arguments.
    async fn act<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        parse(self.accepted(self.request(Method::POST, path, None)).await?)
    }

    async fn delete(&self, path: &str) -> Result<(), Error> {
        self.accepted(self.request(Method::DELETE, path, None)).await.map(|_| ())
    }

    fn request(&self, method: Method, path: &str, json: Option<Bytes>) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(json.clone().unwrap_or_default()));
        *request.method_mut() = method;
        *request.uri_mut() = self.uri(path);
        let headers = request.headers_mut();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let agent = HeaderValue::from_static(concat!("posthaste-client/", env!("CARGO_PKG_VERSION")));
        headers.insert(header::USER_AGENT, agent);
        if json.is_some() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(key) = &self.key {
            headers.insert(header::AUTHORIZATION, key.clone());
        }
        if let Some(account) = &self.account {
            headers.insert("posthaste-account", account.clone());
        }
        request
    }

    /// The server may live below a path of its own. Paths and queries here are ours, and encoded.
    fn uri(&self, path: &str) -> http::Uri {
        let text = format!("{}{path}", self.base.as_str().trim_end_matches('/'));
        text.parse().expect("a URL and an encoded path make a URL")
    }

    /// The whole answer, or the problem it names.
    async fn accepted(&self, request: Request<Full<Bytes>>) -> Result<Response<Bytes>, Error> {
        let response = self.send(request).await?;
        if response.status().is_success() { Ok(response) } else { Err(Error::refused(&response)) }
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Bytes>, Error> {
        let not_reached = |source| Error::NotReached { server: self.base.to_string(), source };
        let exchange = async {
            let (head, body) =
                self.http.request(request).await.map_err(|error| not_reached(error.into()))?.into_parts();
            let body = Limited::new(body, ANSWER_BYTES).collect().await.map_err(not_reached)?;
            Ok(Response::from_parts(head, body.to_bytes()))
        };
        let late = || not_reached(format!("no answer within {} seconds", DEADLINE.as_secs()).into());
        tokio::time::timeout(DEADLINE, exchange).await.map_err(|_| late())?
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("base", &self.base.as_str()).finish_non_exhaustive()
    }
}

fn parse<T: DeserializeOwned>(response: Response<Bytes>) -> Result<T, Error> {
    serde_json::from_slice(response.body()).map_err(|error| {
        let status: StatusCode = response.status();
        Error::Unexpected(format!("the answer ({status}) is not what this version expects: {error}"))
    })
}
