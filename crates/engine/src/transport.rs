//! One HTTP request and its answer, as the HTTP sink sees them: a trait, so that the engine can run against a simulated
//! internet, and its real form on hyper.

use crate::{
    egress::{ClientIdentity, Egress, EgressError, LinkFacts, TlsFault},
    sink::Permit,
};
use bytes::{Bytes, BytesMut};
use domain::{
    limits,
    outcome::{FailureKind, Fault},
};
use http::{HeaderMap, Request, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper_util::{
    client::legacy::{
        self, Client,
        connect::{CaptureConnection, capture_connection},
    },
    rt::{TokioExecutor, TokioTimer},
};
use std::{error::Error as StdError, io, sync::Arc, time::Duration};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Sends one request. Never fails: trouble is a [`Fault`] in the answer. It returns when the use of the connection has
/// ended or the connection is closed.
pub trait Transport: Send + Sync {
    fn send(&self, request: HttpRequest) -> impl Future<Output = HttpAnswer> + Send;
}

#[derive(Debug)]
pub struct HttpRequest {
    pub uri: Uri,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// For everything: name, connection, TLS, request, answer …
    pub deadline: Instant,
    /// … and how long that was when the attempt began.
    pub timeout: Duration,
    /// For an internet without sockets, which asks it before the first byte. The real one has the lease in the socket
    /// (`egress::Fence`), and an attempt whose node's lease ends is dropped.
    pub permit: Permit,
    /// The certificate to be shown. Its connections are its own.
    pub identity: Option<Arc<ClientIdentity>>,
    pub room: AnswerRoom,
}

/// How much of an answer's body is kept, and how long it is waited for after the head.
#[derive(Debug, Clone, Copy)]
pub struct AnswerRoom {
    pub kept_bytes: usize,
    pub wait: Duration,
}

impl AnswerRoom {
    /// Of a destination's answer the status has said everything.
    pub const DESTINATION: Self =
        Self { kept_bytes: limits::RESPONSE_BODY_KEPT_BYTES, wait: limits::RESPONSE_BODY_WAIT };
    /// What a token endpoint has to say stands in the body.
    pub const TOKEN: Self = Self { kept_bytes: limits::TOKEN_ANSWER_BYTES, wait: limits::TOKEN_TIMEOUT };
}

#[derive(Debug)]
pub struct HttpAnswer {
    pub result: Result<HttpResponse, HttpFailure>,
    pub connection: Option<ConnectionFacts>,
    /// From the start to the head of the answer.
    pub first_byte: Option<Duration>,
}

#[derive(Debug)]
pub struct HttpResponse {
    pub status: u16,
    pub headers: HeaderMap,
    /// As much of it as there was room for.
    pub body: Bytes,
    pub truncated: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct HttpFailure {
    pub fault: Fault,
    pub kind: Option<FailureKind>,
    /// For the account's eyes: no address, no resolver text.
    pub message: String,
}

impl HttpFailure {
    pub fn new(fault: Fault, message: impl Into<String>) -> Self {
        Self { fault, kind: fault.kind(), message: message.into() }
    }

    fn of_egress(error: &EgressError) -> Self {
        Self { fault: error.fault(), kind: error.kind(), message: error.to_string() }
    }

    pub(crate) fn timed_out(timeout: Duration) -> Self {
        Self::new(Fault::ReadTimeout, format!("no answer within {} s", timeout.as_secs_f64()))
    }
}

/// How the connection came about; of a reused one at most the name had to be asked for again.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ConnectionFacts {
    pub reused: bool,
    pub dns: Option<Duration>,
    pub connect: Option<Duration>,
    pub tls: Option<Duration>,
}

/// The real one: HTTP/1.1 with keep-alive.
pub struct HttpTransport {
    egress: Egress,
    client: Client<Egress, Full<Bytes>>,
    /// Connections that are kept, busy and idle.
    kept: usize,
}

impl HttpTransport {
    pub fn new(egress: Egress) -> Self {
        Self::keeping(egress, limits::KEPT_CONNECTIONS)
    }

    /// With so many connections for the next requests, over all hosts.
    #[expect(clippy::disallowed_methods, reason = "it has the egress for its connector")]
    pub fn keeping(egress: Egress, kept: usize) -> Self {
        let client = Client::builder(TokioExecutor::new())
            // How many there are is counted over all hosts: those that the pool has got back when they turn out to be too many
            // are not used again, and must not stand in the way of others.
            .pool_idle_timeout(limits::IDLE_TIMEOUT)
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .http1_max_headers(limits::RESPONSE_HEADERS)
            .http1_max_buf_size(limits::RESPONSE_HEAD_BYTES)
            // hyper hands back only requests it never began to write, so this cannot double one.
            .retry_canceled_requests(true)
            .build(egress.clone());
        Self { egress, client, kept }
    }
}

impl Transport for HttpTransport {
    async fn send(&self, outgoing: HttpRequest) -> HttpAnswer {
        let started = Instant::now();
        let deadline = outgoing.deadline;
        let (uri, dns) =
            match timeout_at(deadline, self.egress.located(outgoing.uri, outgoing.identity.as_ref())).await {
                Ok(Ok(located)) => located,
                Ok(Err(error)) => return HttpAnswer::failed(HttpFailure::of_egress(&error)),
                Err(_) => return HttpAnswer::failed(HttpFailure::timed_out(outgoing.timeout)),
            };
        let (body, is_written) = watched(outgoing.body);
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = uri;
        *request.headers_mut() = outgoing.headers;
        let open = OpenRequest { link: capture_connection(&mut request), has_ended: false };
        let sent = timeout_at(deadline, self.client.request(request)).await;
        let response = match sent {
            Ok(Ok(response)) => response,
            Ok(Err(_)) if open.link().is_some_and(|link| link.refuses_us()) => {
                let refused = EgressError::Tls(TlsFault::ClientCertificate);
                return HttpAnswer::failed(HttpFailure::of_egress(&refused));
            }
            Ok(Err(error)) => return HttpAnswer::failed(failure(&error)),
            Err(_) => {
                open.close().await;
                return HttpAnswer::failed(HttpFailure::timed_out(outgoing.timeout));
            }
        };
        let first_byte = started.elapsed();
        let link = response.extensions().get::<LinkFacts>();
        let connection = link.map(|link| ConnectionFacts { dns, ..link.take() });
        // Before its body is read: until then the pool has not got it back.
        if link.is_some_and(|link| link.is_worn_out() || link.is_one_too_many(self.kept)) {
            open.retire();
        }
        let (head, body) = response.into_parts();
        let room = outgoing.room;
        let deadline = deadline.min(Instant::now() + room.wait);
        let BodyPrefix { body, truncated, read_to_its_end } =
            read_prefix(body, room.kept_bytes, deadline).await;
        // A destination that answers before it has been told everything, and then does not listen, has answered. What is
        // still to be written would wait for it for ever, with its slot and its memory.
        if !read_to_its_end || is_written.is_some_and(|is_written| !is_written.is_cancelled()) {
            open.close().await;
        }
        open.ended();
        let received = HttpResponse { status: head.status.as_u16(), headers: head.headers, body, truncated };
        HttpAnswer { result: Ok(received), connection, first_byte: Some(first_byte) }
    }
}

impl HttpAnswer {
    pub fn failed(failure: HttpFailure) -> Self {
        Self { result: Err(failure), connection: None, first_byte: None }
    }
}

/// Reads what is worth keeping, and a little more so that the connection can be used again. The status has decided
/// already: whatever goes wrong here only cuts the text short. A body that is dropped unread closes its connection.
async fn read_prefix(mut body: Incoming, kept_bytes: usize, deadline: Instant) -> BodyPrefix {
    if body.is_end_stream() {
        return BodyPrefix { body: Bytes::new(), truncated: false, read_to_its_end: true };
    }
    let mut kept = BytesMut::new();
    let mut read = 0;
    loop {
        let frame = match timeout_at(deadline, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(None) => {
                let truncated = read > kept_bytes;
                return BodyPrefix { body: kept.freeze(), truncated, read_to_its_end: true };
            }
            Ok(Some(Err(_))) | Err(_) => return BodyPrefix::cut_short(kept),
        };
        let Ok(data) = frame.into_data() else { continue };
        read += data.len();
        let room = kept_bytes - kept.len();
        kept.extend_from_slice(&data[..data.len().min(room)]);
        if read > limits::RESPONSE_BODY_READ_BYTES.max(kept_bytes) {
            return BodyPrefix::cut_short(kept);
        }
    }
}

/// The beginning of a body, and whether it was all.
struct BodyPrefix {
    body: Bytes,
    truncated: bool,
    read_to_its_end: bool,
}

impl BodyPrefix {
    fn cut_short(kept: BytesMut) -> Self {
        Self { body: kept.freeze(), truncated: true, read_to_its_end: false }
    }
}

/// A request under way. If it is dropped before it has ended, its connection is closed, whatever is still to be written.
struct OpenRequest {
    link: CaptureConnection,
    has_ended: bool,
}

impl OpenRequest {
    /// The connection it was written to, if it came that far.
    fn link(&self) -> Option<LinkFacts> {
        let mut extras = http::Extensions::new();
        self.link.connection_metadata().as_ref()?.get_extras(&mut extras);
        extras.remove()
    }

    /// Closes its connection, and waits until it is.
    async fn close(&self) {
        if let Some(link) = self.link() {
            link.give_up();
            link.closed().await;
        }
    }

    /// Its connection is not used again.
    fn retire(&self) {
        if let Some(connection) = self.link.connection_metadata().as_ref() {
            connection.poison();
        }
    }

    /// Its connection may be used again.
    fn ended(mut self) {
        self.has_ended = true;
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        if let Some(link) = self.link().filter(|_| !self.has_ended) {
            link.give_up();
        }
    }
}

/// A body, and when all of it has been written. What fits into the buffers of a socket is not watched.
fn watched(body: Bytes) -> (Bytes, Option<CancellationToken>) {
    if body.len() <= limits::CARRIED_BYTES {
        return (body, None);
    }
    let written = CancellationToken::new();
    let watched = WatchedBody { body, _written: written.clone().drop_guard() };
    (Bytes::from_owner(watched), Some(written))
}

/// hyper drops it with its last byte, or with the connection.
struct WatchedBody {
    body: Bytes,
    _written: DropGuard,
}

impl AsRef<[u8]> for WatchedBody {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

/// What went wrong, in the product's words.
fn failure(error: &legacy::Error) -> HttpFailure {
    if let Some(egress) = in_chain::<EgressError>(error) {
        return HttpFailure::of_egress(egress);
    }
    let protocol = in_chain::<hyper::Error>(error).is_some_and(|hyper| {
        hyper.is_parse()
            || hyper.is_parse_too_large()
            || hyper.is_parse_status()
            || hyper.is_body_write_aborted()
    });
    if protocol {
        return HttpFailure::new(Fault::Protocol, "the answer is not well-formed HTTP");
    }
    let (kind, message) = match in_chain::<io::Error>(error).map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionReset) => {
            (FailureKind::Reset, "the destination reset the connection before the answer was complete")
        }
        Some(io::ErrorKind::InvalidData) => {
            (FailureKind::Protocol, "what came is no answer that can be read")
        }
        _ => (FailureKind::ClosedEarly, "the connection was closed before the answer was complete"),
    };
    HttpFailure { kind: Some(kind), ..HttpFailure::new(Fault::Reset, message) }
}

fn in_chain<'e, T: StdError + 'static>(error: &'e (dyn StdError + 'static)) -> Option<&'e T> {
    let mut next = Some(error);
    while let Some(error) = next {
        // A boxed error inside another one hides behind Arc or Box; ours travels as itself.
        if let Some(found) = error.downcast_ref::<T>() {
            return Some(found);
        }
        next = error.source();
    }
    None
}
