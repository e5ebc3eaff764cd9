//! The least that anybody who passes requests on can do: answer 202 at once, and send the body on. Nothing is stored,
//! signed or tried again, so it is what the machine, its sockets and hyper cost by themselves, and what the product's
//! figures are told as ratios to.
//!
//! hyper's server takes the requests, hyper-util's pooled client sends them. At most [`OPEN`] are on their way: then a
//! request waits for its answer.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Requests on their way, and connections kept for them.
pub const OPEN: usize = 256;

struct Relay {
    client: Client<HttpConnector, Full<Bytes>>,
    to: Uri,
    places: Arc<Semaphore>,
}

/// Passes everything that is posted on to this URL, for as long as it is polled. A `GET` is answered with 200.
pub async fn serve(listener: TcpListener, to: Uri) -> io::Result<()> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(OPEN).build(connector);
    let relay = Arc::new(Relay { client, to, places: Arc::new(Semaphore::new(OPEN)) });
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors, mostly: let some connections end.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let relay = relay.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| relay.clone().take(request));
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

impl Relay {
    async fn take(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        if request.method() != Method::POST {
            return Ok(answer(StatusCode::OK));
        }
        let content_type = request.headers().get(header::CONTENT_TYPE).cloned();
        let Ok(body) = request.into_body().collect().await else {
            return Ok(answer(StatusCode::BAD_REQUEST));
        };
        let place = self.places.clone().acquire_owned().await.expect("the places are never closed");
        tokio::spawn(async move {
            self.send_on(content_type, body.to_bytes()).await;
            drop(place);
        });
        Ok(answer(StatusCode::ACCEPTED))
    }

    /// What does not arrive is missed by whoever counts.
    async fn send_on(&self, content_type: Option<HeaderValue>, body: Bytes) {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.to.clone();
        if let Some(content_type) = content_type {
            request.headers_mut().insert(header::CONTENT_TYPE, content_type);
        }
        if let Ok(answer) = self.client.request(request).await {
            let _ = answer.into_body().collect().await;
        }
    }
}

fn answer(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PumpConfig, Receiver, Recording, Script, Target, Until};

    #[tokio::test]
    async fn everything_that_is_answered_is_passed_on_once() {
        let receiver =
            Receiver::start_with(([127, 0, 0, 1], 0).into(), Script::ok(), Recording::Counts).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let relay = tokio::spawn(serve(listener, receiver.url("/d/relay").parse().unwrap()));
        let sent = crate::pump::run(PumpConfig::new(Target::Url(url), Until::Count(1_000))).await.unwrap();
        assert_eq!((sent.accepted, sent.retries), (1_000, 0));
        assert!(receiver.wait_for_succeeded(1_000, Duration::from_secs(10)).await);
        assert_eq!((receiver.distinct(), receiver.repeated()), (1_000, 0));
        relay.abort();
    }
}
