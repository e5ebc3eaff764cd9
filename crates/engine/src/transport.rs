//! One HTTP request and its answer, as the HTTP sink sees them: a trait, so that the engine can run against a simulated
//! internet, and its real form on hyper's connections.

mod connection;
mod kept;

use crate::{
    egress::{ClientIdentity, Egress, EgressError, Location, TlsFault},
    sink::Permit,
};
use bytes::{Bytes, BytesMut};
use connection::HttpConnection;
use domain::{
    limits,
    outcome::{FailureKind, Fault},
};
use http::{HeaderMap, HeaderValue, Request, Response, Uri, header::HOST};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use kept::{KeptConnections, Obtained, Unobtained};
use std::{error::Error as StdError, io, sync::Arc, time::Duration};
use tokio::time::{Instant, timeout_at};

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
    kept: Arc<KeptConnections>,
    /// Connections that are kept, busy and idle.
    most: usize,
}

impl HttpTransport {
    pub fn new(egress: Egress) -> Self {
        Self::keeping(egress, limits::KEPT_CONNECTIONS)
    }

    /// With so many connections for the next requests, over all hosts.
    pub fn keeping(egress: Egress, most: usize) -> Self {
        Self { egress, kept: Arc::default(), most }
    }

    /// The head of the answer, the connection it came by, and where that leads. What is dropped on the way closes its
    /// connection, whatever is still to be written.
    async fn ask(
        &self,
        uri: &Uri,
        identity: Option<&Arc<ClientIdentity>>,
        mut request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, HttpConnection, Location), HttpFailure> {
        let of_egress = |error| HttpFailure::of_egress(&error);
        let location = self.egress.locate(uri, identity).await.map_err(of_egress)?;
        loop {
            let connect = || self.egress.connect_to(&location);
            let obtained = self.kept.obtain(location.key(), connect, self.most).await;
            let Obtained { mut connection, is_kept } = obtained.map_err(|error| match error {
                Unobtained::Egress(error) => of_egress(error),
                Unobtained::Http(error) => failure(&error),
            })?;
            let mut refused = match connection.send(request).await {
                Ok(head) => return Ok((head, connection, location)),
                Err(refused) => refused,
            };
            // It is handed back only if nothing of it was written, so this cannot double one: the other side has closed a
            // connection that rested.
            if let Some(unwritten) = refused.take_message().filter(|_| is_kept) {
                request = unwritten;
                continue;
            }
            return Err(match connection.facts().refuses_us() {
                true => of_egress(EgressError::Tls(TlsFault::ClientCertificate)),
                false => failure(refused.error()),
            });
        }
    }
}

impl Transport for HttpTransport {
    async fn send(&self, outgoing: HttpRequest) -> HttpAnswer {
        let started = Instant::now();
        let HttpRequest { uri, headers, body, deadline, timeout, identity, room, .. } = outgoing;
        let request = request(&uri, headers, body);
        let (head, mut connection, location) =
            match timeout_at(deadline, self.ask(&uri, identity.as_ref(), request)).await {
                Ok(Ok(answered)) => answered,
                Ok(Err(failure)) => return HttpAnswer::failed(failure),
                Err(_) => return HttpAnswer::failed(HttpFailure::timed_out(timeout)),
            };
        let first_byte = started.elapsed();
        let facts = ConnectionFacts { dns: location.waited, ..connection.facts().take() };
        let (head, body) = head.into_parts();
        let deadline = deadline.min(Instant::now() + room.wait);
        let BodyPrefix { body, truncated, read_to_its_end } =
            read_prefix(&mut connection, body, room.kept_bytes, deadline).await;
        // Otherwise it is closed: what is left of the answer is not worth reading. A destination that answers before it has been
        // told everything, and then does not listen, has answered, and its connection does not rest.
        if read_to_its_end {
            self.kept.give_back(location.key(), connection, self.most);
        }
        let received = HttpResponse { status: head.status.as_u16(), headers: head.headers, body, truncated };
        HttpAnswer { result: Ok(received), connection: Some(facts), first_byte: Some(first_byte) }
    }
}

/// A POST as it is written: the path alone in its first line, and the host in a header.
fn request(uri: &Uri, mut headers: HeaderMap, body: Bytes) -> Request<Full<Bytes>> {
    if let (Some(host), None) = (uri.host(), headers.get(HOST)) {
        let usual = if uri.scheme_str() == Some("https") { 443 } else { 80 };
        let named = match uri.port_u16().filter(|port| *port != usual) {
            Some(port) => HeaderValue::try_from(format!("{host}:{port}")),
            None => HeaderValue::from_str(host),
        };
        headers.extend(named.ok().map(|named| (HOST, named)));
    }
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = http::Method::POST;
    *request.uri_mut() = uri.path_and_query().cloned().map_or_else(Uri::default, Uri::from);
    *request.headers_mut() = headers;
    request
}

impl HttpAnswer {
    pub fn failed(failure: HttpFailure) -> Self {
        Self { result: Err(failure), connection: None, first_byte: None }
    }
}

/// Reads what is worth keeping, and a little more so that the connection can be used again. The status has decided
/// already: whatever goes wrong here only cuts the text short. A body that is dropped unread closes its connection.
async fn read_prefix(
    connection: &mut HttpConnection,
    mut body: Incoming,
    kept_bytes: usize,
    deadline: Instant,
) -> BodyPrefix {
    if body.is_end_stream() {
        return BodyPrefix { body: Bytes::new(), truncated: false, read_to_its_end: true };
    }
    let mut kept = BytesMut::new();
    let mut read = 0;
    loop {
        let frame = match timeout_at(deadline, connection.frame(&mut body)).await {
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

/// What went wrong, in the product's words.
fn failure(error: &hyper::Error) -> HttpFailure {
    let protocol = error.is_parse()
        || error.is_parse_too_large()
        || error.is_parse_status()
        || error.is_body_write_aborted();
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
