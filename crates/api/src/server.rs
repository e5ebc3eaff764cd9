//! The accept loop: HTTP/1.1 with a limit and a deadline on everything a client can make us wait for.
//!
//! hyper parses (and answers 400, 414 and 431 to what it cannot); the deadlines of the head, of rest and of a client
//! that does not read are kept here, because hyper has one timer for head and rest together and answers nothing when
//! it fires. Those of the body are kept where it is read (`body.rs`).

mod permits;

use crate::{
    app::{App, Deadlines},
    error::ApiError,
    router::router,
};
use axum::{Router, body::Body};
use domain::{id::RequestId, limits};
use http::{HeaderMap, HeaderValue, Request, Response, header};
use hyper::{body::Incoming, server::conn::http1};
use hyper_util::rt::TokioIo;
use permits::ConnectionPermits;
use std::{
    convert::Infallible,
    future::{Future, poll_fn},
    io,
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf},
    net::{TcpListener, TcpStream},
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::Service as _;

/// Serves until `stop`; then accepts no connection, lets open requests finish within `grace`, and drops the rest.
pub async fn serve(listener: TcpListener, app: App, stop: CancellationToken, grace: Duration) {
    serve_router(listener, router(app.clone()), app, stop, grace).await;
}

/// The same with pages beside the API.
pub async fn serve_router(
    listener: TcpListener,
    router: Router,
    app: App,
    stop: CancellationToken,
    grace: Duration,
) {
    let permits = ConnectionPermits::new(app.config.connections);
    let connections = TaskTracker::new();
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
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
        let Some(permit) = permits.take(address) else {
            refuse_connection(&stream, &app);
            continue;
        };
        let connection = connection(stream, router.clone(), app.clone(), stop.clone());
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

/// Said in one write that never waits, and closed.
fn refuse_connection(stream: &TcpStream, app: &App) {
    let _ = stream.try_write(&raw_answer(app, &ApiError::overloaded("too many connections are open")));
}

/// An answer to a client whose request never reached hyper, or never got through it.
fn raw_answer(app: &App, error: &ApiError) -> Vec<u8> {
    let mut headers = HeaderMap::new();
    let body = error.write(RequestId::at(app.now(), app.dice.bits()), &mut headers);
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    headers.insert(header::CONTENT_LENGTH, body.len().into());
    let mut answer = format!("HTTP/1.1 {}\r\n", error.status()).into_bytes();
    for (name, value) in &headers {
        answer.extend_from_slice(&[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    answer.extend_from_slice(b"\r\n");
    answer.extend_from_slice(&body);
    answer
}

async fn connection(stream: TcpStream, router: Router, app: App, stop: CancellationToken) {
    let _ = stream.set_nodelay(true);
    let watch = Arc::new(ConnectionWatch::new(app.config.deadlines));
    let io = TokioIo::new(WatchedStream { stream, watch: watch.clone() });
    let service = RequestService { router, watch: watch.clone() };
    let mut connection = http1::Builder::new()
        // A client that has said all it wants to say may close its side, and still hears the answer.
        .half_close(true)
        .max_buf_size(limits::HEAD_BYTES)
        .serve_connection(io, service);
    let mut stopping = pin!(stop.cancelled());
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

    if late == Some(true) {
        let mut stream = connection.into_parts().io.into_inner().stream;
        let answer = raw_answer(&app, &ApiError::request_timeout("the head was not sent in time"));
        let _ = timeout(limits::LINGER, async {
            stream.write_all(&answer).await?;
            stream.shutdown().await
        })
        .await;
    }
}

/// Where a connection is, so that it is known what it may be waited for.
struct ConnectionWatch {
    deadlines: Deadlines,
    state: Mutex<WatchedConnection>,
}

struct WatchedConnection {
    phase: ConnectionPhase,
    /// Since when the client does not take what we send.
    stalled: Option<Instant>,
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
        Self { deadlines, state: Mutex::new(WatchedConnection { phase, stalled: None }) }
    }

    fn state(&self) -> MutexGuard<'_, WatchedConnection> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn deadline(&self) -> Option<Instant> {
        let state = self.state();
        let stalled = state.stalled.map(|since| since + self.deadlines.body);
        let phase = match state.phase {
            ConnectionPhase::Rest { until } | ConnectionPhase::Head { until } => Some(until),
            ConnectionPhase::Busy => None,
        };
        [stalled, phase].into_iter().flatten().min()
    }

    fn in_head(&self) -> bool {
        matches!(self.state().phase, ConnectionPhase::Head { .. })
    }

    fn heard(&self) {
        let mut state = self.state();
        if matches!(state.phase, ConnectionPhase::Rest { .. }) {
            state.phase = ConnectionPhase::Head { until: Instant::now() + self.deadlines.head };
        }
    }

    fn asked(&self) {
        self.state().phase = ConnectionPhase::Busy;
    }

    fn answered(&self) {
        self.state().phase = ConnectionPhase::Rest { until: Instant::now() + self.deadlines.idle };
    }

    fn written<T>(&self, wrote: &Poll<T>) {
        let mut state = self.state();
        match wrote {
            Poll::Ready(_) => state.stalled = None,
            Poll::Pending => drop(state.stalled.get_or_insert_with(Instant::now)),
        }
    }
}

/// A socket that tells its connection's watch what happens on it.
struct WatchedStream {
    stream: TcpStream,
    watch: Arc<ConnectionWatch>,
}

impl AsyncRead for WatchedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        if buffer.filled().len() > before {
            self.watch.heard();
        }
        Poll::Ready(Ok(()))
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
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Hands the requests of one connection to the router.
struct RequestService {
    router: Router,
    watch: Arc<ConnectionWatch>,
}

impl hyper::service::Service<Request<Incoming>> for RequestService {
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.watch.asked();
        let watch = self.watch.clone();
        let answer = self.router.clone().call(request);
        Box::pin(async move { Ok(answer.await?.map(|body| AnswerBody { body, watch })) })
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
