//! The accept loop: HTTP/1.1 with a limit and a deadline on everything a client can make us wait for.
//!
//! hyper parses what has been judged before (`guard.rs`, `head.rs`); the deadlines of the head, of rest and of a client
//! that does not read are kept here, because hyper has one timer for head and rest together and answers nothing when
//! it fires. Those of the body are kept where it is read (`body.rs`).

mod guard;
mod head;
mod linger;
mod pace;
mod permits;

/// The length of the head that these bytes begin with, if it is taken.
#[cfg(fuzzing)]
pub(crate) fn fuzzed_head(bytes: &[u8]) -> Option<usize> {
    let end = head::end(bytes, &mut 0).ok()??;
    head::judge(&bytes[..end]).ok().map(|_| end)
}

use crate::{
    app::{App, Deadlines},
    client_address::{ClientAddress, forwarded_scheme},
    error::ApiError,
    hang_up::HangUp,
    request,
    service::ApiService,
};
use axum::body::Body;
use domain::{id::RequestId, limits};
use futures_util::FutureExt as _;
use guard::RequestGuard;
use http::{HeaderMap, HeaderValue, Request, Response, header};
use hyper::{body::Incoming, server::conn::http1};
use hyper_util::rt::TokioIo;
use pace::WritePace;
use permits::ConnectionPermits;
use std::{
    convert::Infallible,
    future::{Future, poll_fn},
    io,
    net::IpAddr,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Serves until `stop`; then accepts no connection, lets open requests finish within `grace`, and drops the rest.
pub async fn serve(listener: TcpListener, service: ApiService, stop: CancellationToken, grace: Duration) {
    let app = service.app().clone();
    let permits = ConnectionPermits::new(app.config.connections);
    let connections = TaskTracker::new();
    let refusals = Arc::new(Semaphore::new(limits::REFUSED_CONNECTIONS));
    let mut let_in = limits::LET_IN_AT_STOP;
    loop {
        let accepted = match stop.run_until_cancelled(listener.accept()).await {
            Some(accepted) => accepted,
            // Whom the system has let in already is answered too: closing on them would be a reset.
            None => match listener.accept().now_or_never() {
                Some(Ok(accepted)) if let_in > 0 => {
                    let_in -= 1;
                    Ok(accepted)
                }
                _ => break,
            },
        };
        supervisor::failpoint();
        let (stream, address) = match accepted {
            Ok((stream, address)) => (stream, address.ip()),
            Err(error) => {
                // Out of file descriptors, most likely: wait for some to be closed instead of spinning.
                tracing::warn!(%error, "connection.not_accepted");
                sleep(limits::BACKOFF_MIN).await;
                continue;
            }
        };
        let is_proxy = app.config.trusted_proxies.contain(address);
        let Some(permit) = permits.take(address, is_proxy) else {
            refuse_connection(stream, &app, &refusals);
            continue;
        };
        let connection = connection(stream, address, service.clone(), app.clone(), stop.clone());
        connections.spawn(async move {
            connection.await;
            drop(permit);
        });
    }
    app.drain();
    drop(listener);
    connections.close();
    if timeout(grace, connections.wait()).await.is_err() {
        tracing::warn!(open = connections.len(), "server.stopped_with_open_connections");
    }
}

/// Said in one write that never waits, and closed; as long as there are not too many of them, so that it is heard.
fn refuse_connection(stream: TcpStream, app: &App, refusals: &Arc<Semaphore>) {
    let _ = stream.try_write(&raw_answer(app, &ApiError::overloaded("too many connections are open")));
    if let Ok(permit) = refusals.clone().try_acquire_owned() {
        tokio::spawn(async move {
            linger::close(stream).await;
            drop(permit);
        });
    }
}

/// An answer to a client whose request never reached a handler; its connection ends.
fn last_answer(app: &App, error: &ApiError) -> (HeaderMap, bytes::Bytes) {
    let mut headers = HeaderMap::new();
    let id = RequestId::at(app.now(), app.dice.bits());
    let body = error.write(id, &mut headers);
    headers.insert(request::X_REQUEST_ID, request::shown_id(id));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    headers.insert(header::CONTENT_LENGTH, body.len().into());
    tracing::debug!(request_id = %id, status = error.status().as_u16(), %error, "request.refused");
    (headers, body)
}

/// The same, past hyper.
fn raw_answer(app: &App, error: &ApiError) -> Vec<u8> {
    let (headers, body) = last_answer(app, error);
    let mut answer = format!("HTTP/1.1 {}\r\n", error.status()).into_bytes();
    for (name, value) in &headers {
        answer.extend_from_slice(&[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    answer.extend_from_slice(b"\r\n");
    answer.extend_from_slice(&body);
    answer
}

async fn connection(stream: TcpStream, peer: IpAddr, service: ApiService, app: App, stop: CancellationToken) {
    let _ = stream.set_nodelay(true);
    let watch = Arc::new(ConnectionWatch::new(app.config.deadlines));
    let hang_up = HangUp::default();
    let guard = RequestGuard::default();
    let io = TokioIo::new(WatchedStream { stream, watch: watch.clone(), guard, hang_up: hang_up.clone() });
    let service = RequestService { service, watch: watch.clone(), app: app.clone(), peer, hang_up };
    let mut connection = http1::Builder::new()
        // A client that has said all it wants to say may close its side, and still hears the answer.
        .half_close(true)
        .max_buf_size(limits::HEAD_BYTES)
        .serve_connection(io, service);
    let mut stopping = pin!(closes_after(&stop, &watch));
    let mut told_to_stop = false;
    let mut armed = watch.deadline().unwrap_or_else(Instant::now);
    let mut alarm = pin!(sleep_until(armed));

    let late = poll_fn(|cx| {
        if !told_to_stop && stopping.as_mut().poll(cx).is_ready() {
            told_to_stop = true;
            // Closes at once if it rests, else after the answer.
            Pin::new(&mut connection).graceful_shutdown();
        }
        if Pin::new(&mut connection).poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        loop {
            // The alarm is only moved when it would ring too late: under load that is never.
            let Some(deadline) = watch.deadline() else { return Poll::Pending };
            if deadline < armed {
                armed = deadline;
                alarm.as_mut().reset(armed);
            }
            ready!(alarm.as_mut().poll(cx));
            if Instant::now() >= deadline {
                return Poll::Ready(Some(watch.in_head()));
            }
            armed = deadline;
            alarm.as_mut().reset(armed);
        }
    })
    .await;

    let WatchedStream { mut stream, guard, .. } = connection.into_parts().io.into_inner();
    let refusal = match late {
        Some(false) => {
            // Nothing that is said would be read. What the system holds for a client that does not read is thrown away
            // too: it would wait for minutes.
            if watch.is_too_slow() {
                let _ = stream.set_zero_linger();
            }
            return;
        }
        Some(true) => Some(ApiError::request_timeout("the head was not sent in time")),
        None => guard.fault().map(ApiError::from),
    };
    if let Some(refusal) = &refusal {
        let answer = raw_answer(&app, refusal);
        let _ = timeout(limits::LINGER, stream.write_all(&answer)).await;
    }
    if refusal.is_some() || guard.is_unread() {
        linger::close(stream).await;
    }
}

/// Ends when a connection is to be closed because the node stops. One that rests is kept for a moment: a proxy that uses
/// it just now, as the node closes it, would find a reset where the answer was. Whoever asks in that time is turned away,
/// and told that the connection ends.
async fn closes_after(stop: &CancellationToken, watch: &ConnectionWatch) {
    stop.cancelled().await;
    if !watch.is_busy() {
        sleep(limits::REST_AT_STOP).await;
    }
}

/// Where a connection is, so that it is known what it may be waited for.
struct ConnectionWatch {
    deadlines: Deadlines,
    state: Mutex<WatchedConnection>,
    /// Heads that were judged, and whose requests have not come out of hyper yet.
    heads: AtomicU32,
    /// The client has not sent all of its request.
    midway: AtomicBool,
}

struct WatchedConnection {
    phase: ConnectionPhase,
    /// How fast the client takes what we send.
    pace: WritePace,
}

enum ConnectionPhase {
    /// Between requests.
    Rest { until: Instant },
    /// A head has begun.
    Head { until: Instant },
    /// From the head until the answer's last byte: ours to end.
    Busy,
}

impl ConnectionWatch {
    fn new(deadlines: Deadlines) -> Self {
        // A new connection is made to ask something: it gets the time of a head, not that of a rest.
        let phase = ConnectionPhase::Rest { until: Instant::now() + deadlines.head };
        let state = Mutex::new(WatchedConnection { phase, pace: WritePace::default() });
        Self { deadlines, state, heads: AtomicU32::new(0), midway: AtomicBool::new(false) }
    }

    fn state(&self) -> MutexGuard<'_, WatchedConnection> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn deadline(&self) -> Option<Instant> {
        let state = self.state();
        match (state.pace.deadline(self.deadlines.answer_grace, self.deadlines.body), &state.phase) {
            // The body of an answer is handed over before its last bytes are taken: until then it is no rest.
            (Some(too_slow), _) => Some(too_slow),
            (None, ConnectionPhase::Rest { until } | ConnectionPhase::Head { until }) => Some(*until),
            (None, ConnectionPhase::Busy) => None,
        }
    }

    /// It was cut off in the middle of an answer.
    fn is_too_slow(&self) -> bool {
        let state = self.state();
        state.pace.deadline(self.deadlines.answer_grace, self.deadlines.body).is_some()
    }

    fn in_head(&self) -> bool {
        matches!(self.state().phase, ConnectionPhase::Head { .. })
    }

    fn is_busy(&self) -> bool {
        matches!(self.state().phase, ConnectionPhase::Busy)
    }

    fn heard(&self) {
        let mut state = self.state();
        if matches!(state.phase, ConnectionPhase::Rest { .. }) {
            state.phase = ConnectionPhase::Head { until: Instant::now() + self.deadlines.head };
        }
    }

    /// False if hyper has found a request where none was judged: the two read the bytes before it differently.
    fn asked(&self) -> bool {
        *self.state() = WatchedConnection { phase: ConnectionPhase::Busy, pace: WritePace::default() };
        self.heads.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |heads| heads.checked_sub(1)).is_ok()
    }

    fn answered(&self) {
        self.state().phase = ConnectionPhase::Rest { until: Instant::now() + self.deadlines.idle };
    }

    fn written(&self, wrote: &Poll<io::Result<usize>>) {
        let mut state = self.state();
        match wrote {
            Poll::Ready(wrote) => {
                let goes_on = state.pace.took(*wrote.as_ref().unwrap_or(&0), Instant::now);
                if goes_on && let ConnectionPhase::Rest { until } = &mut state.phase {
                    *until = Instant::now() + self.deadlines.idle;
                }
            }
            Poll::Pending => state.pace.block(Instant::now()),
        }
    }
}

/// A socket that tells its connection's watch what happens on it.
struct WatchedStream {
    stream: TcpStream,
    watch: Arc<ConnectionWatch>,
    guard: RequestGuard,
    hang_up: HangUp,
}

impl AsyncRead for WatchedStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, watch, guard, .. } = self.get_mut();
        let (passed, read) = guard.poll_read(stream, cx, buffer);
        if passed.heard {
            watch.heard();
        }
        if passed.head {
            watch.heads.fetch_add(1, Ordering::Relaxed);
        }
        watch.midway.store(guard.is_midway(), Ordering::Relaxed);
        read
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch.written(&wrote);
        wrote
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.watch.written(&wrote);
        wrote
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // hyper comes by here whenever a handler has been asked. What a client says early is left where it is, and hides
        // whether it goes.
        if self.hang_up.is_wanted()
            && let Poll::Ready(Ok(0) | Err(_)) = self.stream.poll_peek(cx, &mut ReadBuf::new(&mut [0]))
        {
            self.hang_up.happened();
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.guard.fault().is_some() {
            // It is still to be said what was wrong.
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Hands on the requests of one connection.
struct RequestService {
    service: ApiService,
    watch: Arc<ConnectionWatch>,
    app: App,
    peer: IpAddr,
    hang_up: HangUp,
}

impl hyper::service::Service<Request<Incoming>> for RequestService {
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let watch = self.watch.clone();
        if !watch.asked() {
            let error =
                ApiError::malformed_request("it cannot be told where the request before this one ends");
            let (headers, body) = last_answer(&self.app, &error);
            let mut refused = Response::new(AnswerBody { body: body.into(), watch });
            *refused.status_mut() = error.status();
            *refused.headers_mut() = headers;
            return Box::pin(std::future::ready(Ok(refused)));
        }
        let client = ClientAddress::of(self.peer, request.headers(), &self.app.config.trusted_proxies);
        request.extensions_mut().insert(client);
        if self.app.config.trusted_proxies.contain(self.peer)
            && let Some(scheme) = forwarded_scheme(request.headers())
        {
            request.extensions_mut().insert(scheme);
        }
        request.extensions_mut().insert(self.hang_up.clone());
        let (service, app) = (self.service.clone(), self.app.clone());
        Box::pin(async move {
            // Asked for in here: what an async block is given takes its room twice over.
            let mut answer = service.answer(request.map(Body::new)).await;
            // hyper does not read the rest of a body that nobody wants, and closes. A node that stops has its connections
            // given up one by one, while it still answers, so that none is in use when the door shuts.
            if watch.midway.load(Ordering::Relaxed) || app.health.is_retiring() {
                answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok(answer.map(|body| AnswerBody { body, watch }))
        })
    }
}

/// A body that says when it has been sent, or dropped.
struct AnswerBody {
    body: Body,
    watch: Arc<ConnectionWatch>,
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        self.watch.answered();
    }
}

impl hyper::body::Body for AnswerBody {
    type Data = bytes::Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<bytes::Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        hyper::body::Body::is_end_stream(&self.body)
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        hyper::body::Body::size_hint(&self.body)
    }
}
