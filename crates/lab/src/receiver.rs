//! A scripted HTTP/1.1 destination on loopback or elsewhere, cheap enough to share two cores with what it
//! measures.
//!
//! A request to `/d/<destination>` plays that destination's script, `/d/<destination>/<behaviour>` plays the
//! behaviour instead (see [`Reply::parse`]); any other path is a destination by itself. It checks no
//! signatures: a test that wants to, does so in a custom script or on the kept bodies.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use crate::log::{KeptRequest, Log, OpenRequest, Record, Recording, RequestEnd};
use crate::script::{Answer, Reply, Script, ScriptedRequest};
use crate::socket::Socket;
use crate::stats::Histogram;
use crate::thread::OwnThread;

/// Far above any payload limit of the product; a body longer than this ends its connection.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;

/// A running receiver; dropping it closes its port and all its connections.
#[derive(Debug)]
pub struct Receiver {
    addr: SocketAddr,
    log: Arc<Log>,
    _thread: OwnThread,
}

/// Connections that may wait to be accepted. The standard library's 128 are fewer than several nodes open at once, and
/// a connection that finds no place there waits for a second.
const BACKLOG: i32 = 4_096;

impl Receiver {
    /// Listens on `addr` (port 0 for any) and records every request in full.
    pub fn start(addr: SocketAddr, default: impl Into<Script>) -> io::Result<Receiver> {
        Receiver::start_with(addr, default, Recording::Full)
    }

    pub fn start_with(
        addr: SocketAddr,
        default: impl Into<Script>,
        recording: Recording,
    ) -> io::Result<Receiver> {
        let listener = std::net::TcpListener::bind(addr)?;
        rustix::net::listen(&listener, BACKLOG)?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let log = Arc::new(Log::new(addr.port(), default.into(), recording));
        let thread = OwnThread::run("lab-receiver", {
            let log = log.clone();
            move || accept(listener, log)
        })?;
        Ok(Receiver { addr, log, _thread: thread })
    }

    /// On a free port of the loopback address.
    ///
    /// # Panics
    /// If no port is free; for tests, where there is nothing better to do.
    pub fn local(default: impl Into<Script>) -> Receiver {
        Receiver::start(([127, 0, 0, 1], 0).into(), default).expect("a free port on loopback")
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The URL of a path that begins with `/`.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    /// From now on this destination plays this script.
    pub fn script(&self, destination: &str, script: impl Into<Script>) {
        self.log.of(destination).state().script = Some(Arc::new(script.into()));
    }

    /// Replaces the script of all destinations that have none of their own.
    pub fn default_script(&self, script: impl Into<Script>) {
        *self.log.default.write().expect("no panic while the default is locked") = Arc::new(script.into());
    }

    pub fn recording(&self, recording: Recording) {
        self.log.set_recording(recording);
    }

    /// From now on, requests of this process are logged as its own. Worth it where several nodes send.
    pub fn know_sender(&self, pid: u32) {
        self.log.peers.know(pid);
    }

    /// Now on the clock of the log, for kill moments and windows.
    pub fn now_us(&self) -> u64 {
        self.log.now_us()
    }

    /// Requests read in full, over all destinations.
    pub fn total(&self) -> u64 {
        self.log.arrived.get()
    }

    /// Requests answered 2xx, over all destinations.
    pub fn succeeded(&self) -> u64 {
        self.log.succeeded.get()
    }

    pub fn arrivals(&self, destination: &str) -> u64 {
        self.log.known(destination).map_or(0, |destination| destination.arrived.get())
    }

    pub fn succeeded_at(&self, destination: &str) -> u64 {
        self.log.known(destination).map_or(0, |destination| destination.succeeded.get())
    }

    /// Stamped events that have come, each counted once for every destination it came to.
    pub fn distinct(&self) -> u64 {
        self.log.destinations().iter().map(|destination| destination.state().seen.distinct()).sum()
    }

    /// Requests with a stamped event that had come to the same destination before.
    pub fn repeated(&self) -> u64 {
        self.log.destinations().iter().map(|destination| destination.state().seen.again()).sum()
    }

    /// Whether this event has come to this destination.
    pub fn has_seen(&self, destination: &str, n: u64) -> bool {
        self.log.known(destination).is_some_and(|destination| destination.state().seen.has(n))
    }

    /// Requests open now.
    pub fn open(&self, destination: &str) -> u32 {
        self.log.known(destination).map_or(0, |destination| destination.state().open)
    }

    pub fn max_open(&self, destination: &str) -> u32 {
        self.log.known(destination).map_or(0, |destination| destination.state().max_open)
    }

    /// Every destination that was called or scripted.
    pub fn destinations(&self) -> Vec<Arc<str>> {
        self.log.destinations().iter().map(|destination| destination.name.clone()).collect()
    }

    /// The part of `slots` × `window` in which a request was open, from the records (so not with
    /// [`Recording::Counts`]). The window is on the log's clock.
    pub fn busy_fraction(&self, destination: &str, slots: u32, window: Range<u64>) -> f64 {
        let now_us = self.log.now_us();
        let width = window.end.saturating_sub(window.start) * u64::from(slots);
        let Some(destination) = self.log.known(destination).filter(|_| width > 0) else { return 0.0 };
        let inside = |record: &Record| {
            let end = record.end_us.unwrap_or(now_us).min(window.end);
            end.saturating_sub(record.start_us.max(window.start))
        };
        destination.state().records.iter().map(inside).sum::<u64>() as f64 / width as f64
    }

    /// First and last arrival on the log's clock.
    pub fn span_us(&self) -> Option<Range<u64>> {
        self.log.span_us()
    }

    /// From the pump's send to the arrival here, of every request with a stamped body, repeats included.
    pub fn end_to_end(&self) -> Histogram {
        self.log.end_to_end.lock().expect("no panic while recording").clone()
    }

    /// The same for the first attempts at one destination, from the records.
    pub fn end_to_end_of(&self, destination: &str) -> Histogram {
        let Some(destination) = self.log.known(destination) else { return Histogram::default() };
        let state = destination.state();
        let first = state.records.iter().filter(|record| record.attempt <= 1);
        first.filter_map(|record| record.end_to_end_us).collect()
    }

    /// Waits until [`Receiver::total`] is at least `count`. The answers may still be on their way.
    pub async fn wait_for(&self, count: u64, timeout: Duration) -> bool {
        self.log.arrived.wait(count, timeout).await
    }

    /// Waits until so many requests were answered 2xx.
    pub async fn wait_for_succeeded(&self, count: u64, timeout: Duration) -> bool {
        self.log.succeeded.wait(count, timeout).await
    }

    /// Waits until so many requests have ended in whatever way.
    pub async fn wait_for_ended(&self, count: u64, timeout: Duration) -> bool {
        self.log.ended.wait(count, timeout).await
    }

    pub async fn wait_for_arrivals(&self, destination: &str, count: u64, timeout: Duration) -> bool {
        self.log.of(destination).arrived.wait(count, timeout).await
    }

    /// Waits until this destination has answered so many requests with 2xx.
    pub async fn wait_for_succeeded_at(&self, destination: &str, count: u64, timeout: Duration) -> bool {
        self.log.of(destination).succeeded.wait(count, timeout).await
    }

    /// All records, in the order of their start.
    pub fn snapshot(&self) -> Vec<Record> {
        let mut all = Vec::new();
        for destination in self.log.destinations() {
            all.extend(destination.state().records.iter().cloned());
        }
        all.sort_by_key(|record| record.start_us);
        all
    }

    pub fn records(&self, destination: &str) -> Vec<Record> {
        self.log.known(destination).map_or_else(Vec::new, |destination| destination.state().records.clone())
    }

    /// Forgets what was logged; scripts and open requests stay, and what is open goes on counting as open.
    pub fn clear(&self) {
        self.log.clear();
    }
}

async fn accept(listener: std::net::TcpListener, log: Arc<Log>) {
    let listener = TcpListener::from_std(listener).expect("a non-blocking listener inside a runtime");
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                tokio::spawn(connection(stream, peer.port(), log.clone()));
            }
            // Out of file descriptors, mostly: let some connections end.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn connection(stream: TcpStream, port: u16, log: Arc<Log>) {
    let _ = stream.set_nodelay(true);
    // Only records name their sender, and asking for it costs more than a request does.
    let sender = match log.recording() {
        Recording::Counts => None,
        Recording::Full | Recording::FullWithBodies => log.peers.opened(port),
    };
    let peers = log.clone();
    // Boxed because the connection wants an Unpin future to be polled without its own shutdown.
    let mut socket = Socket::new(stream);
    let asked = socket.clone();
    let service = service_fn(move |request| Box::pin(serve(log.clone(), sender, asked.clone(), request)));
    let mut connection = http1::Builder::new()
        .auto_date_header(false)
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(socket.clone()), service);
    let result = poll_fn(|cx| connection.poll_without_shutdown(cx)).await;
    drop(connection);
    match result {
        Ok(()) => {
            let _ = socket.shutdown().await;
        }
        Err(error) if matches!(error.source().and_then(|cut| cut.downcast_ref()), Some(Cut::Reset)) => {
            let _ = socket.stream().set_zero_linger();
        }
        Err(_) => {}
    }
    // Before the socket goes, and with it the peer's right to its port.
    peers.peers.closed(port);
}

async fn serve(
    log: Arc<Log>,
    sender: Option<u32>,
    socket: Socket,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Cut> {
    let (head, incoming) = request.into_parts();
    let (destination, behaviour) = address(head.uri.path());
    let own_log = log.of(destination);
    let (mut open, own_script) = OpenRequest::begin(log.clone(), own_log, &head.headers, sender, socket);
    let script = own_script
        .unwrap_or_else(|| log.default.read().expect("no panic while the default is locked").clone());

    if let (Script::Early(answer), None) = (&*script, behaviour) {
        open.arrived(None, || None);
        tokio::time::sleep(answer.after.draw()).await;
        open.end(RequestEnd::Answered(answer.status.as_u16()));
        let mut response = respond(answer.clone());
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        return Ok(response);
    }

    let body = read(incoming).await?;
    open.arrived(Some(&body), || {
        (log.recording() == Recording::FullWithBodies).then(|| {
            Arc::new(KeptRequest {
                method: head.method.clone(),
                path: head.uri.path().to_owned(),
                headers: head.headers.clone(),
                body: body.clone(),
            })
        })
    });
    let reply = match behaviour {
        Some(behaviour) => Reply::parse(behaviour).unwrap_or_else(|| unknown(behaviour)),
        None => script.choose(&ScriptedRequest {
            destination,
            arrival: open.arrival,
            open: open.open_at_start,
            attempt: open.attempt,
            method: &head.method,
            path: head.uri.path(),
            headers: &head.headers,
            body: &body,
        }),
    };
    play(reply, open).await
}

async fn play(reply: Reply, open: OpenRequest) -> Result<Response<Full<Bytes>>, Cut> {
    match reply {
        Reply::Answer(answer) => {
            let latency = answer.after.draw();
            if !latency.is_zero() {
                tokio::time::sleep(latency).await;
            }
            open.end(RequestEnd::Answered(answer.status.as_u16()));
            Ok(respond(answer))
        }
        Reply::Hang => {
            // hyper drops us, and `open` with us, when the other side closes.
            let never: Infallible = std::future::pending().await;
            drop(open);
            match never {}
        }
        Reply::Close => {
            open.end(RequestEnd::Closed);
            Err(Cut::Close)
        }
        Reply::Reset => {
            open.end(RequestEnd::Reset);
            Err(Cut::Reset)
        }
    }
}

fn respond(answer: Answer) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(answer.body));
    *response.status_mut() = answer.status;
    for (name, value) in answer.headers {
        response.headers_mut().append(name, value);
    }
    response
}

fn unknown(behaviour: &str) -> Reply {
    let text =
        format!("no behaviour is called {behaviour:?}: ok slow-MS status-N 429[-S] hang close reset\n");
    Reply::status(StatusCode::NOT_FOUND.as_u16()).body(text)
}

/// The body in one piece; nearly always it is one already.
async fn read(mut incoming: Incoming) -> Result<Bytes, Cut> {
    let mut whole = Bytes::new();
    let mut more: Option<BytesMut> = None;
    while let Some(frame) = incoming.frame().await {
        let Ok(data) = frame.map_err(|_| Cut::Close)?.into_data() else { continue };
        match &mut more {
            None if whole.is_empty() => whole = data,
            None => {
                let mut joined = BytesMut::from(&whole[..]);
                joined.extend_from_slice(&data);
                more = Some(joined);
            }
            Some(joined) => joined.extend_from_slice(&data),
        }
        if more.as_ref().is_some_and(|joined| joined.len() > MAX_BODY_BYTES) {
            return Err(Cut::Close);
        }
    }
    Ok(more.map_or(whole, BytesMut::freeze))
}

/// Destination and behaviour of a path.
fn address(path: &str) -> (&str, Option<&str>) {
    match path.strip_prefix("/d/") {
        None | Some("") => (path, None),
        Some(rest) => match rest.split_once('/') {
            Some((destination, behaviour)) => (destination, Some(behaviour)),
            None => (rest, None),
        },
    }
}

/// Why a connection ends without an answer.
#[derive(Debug)]
enum Cut {
    Close,
    Reset,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cut on purpose: {self:?}")
    }
}

impl Error for Cut {}
