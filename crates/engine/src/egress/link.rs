//! A connection that was made by egress: who may still write to it, how it came about, and when it is closed.

use super::tls::refuses_the_client;
use crate::{
    membership::{Lease, Membership},
    transport::ConnectionFacts,
};
use domain::limits;
use hyper_util::client::legacy::connect::{Connected, Connection};
use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, timeout},
};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Both directions of a connection.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {
    /// Whatever has not been sent when it is closed is thrown away. Otherwise the kernel keeps it, megabytes of it, for as
    /// long as the other side does not read.
    fn discard_unsent(&self) {}
}

impl Duplex for TcpStream {
    fn discard_unsent(&self) {
        // It fails only on a socket that is closed already.
        let _ = self.set_zero_linger();
    }
}

impl Duplex for tokio_rustls::client::TlsStream<Box<dyn Duplex>> {
    fn discard_unsent(&self) {
        self.get_ref().0.discard_unsent();
    }
}

#[cfg(test)]
impl Duplex for tokio::io::DuplexStream {}

/// What a connection must not outlive: nothing is written once it has ended.
#[derive(Clone)]
pub(crate) enum Fence {
    /// Of a connection that is kept for whatever is sent next.
    Lease(Arc<Lease>),
    /// Of a connection that is made for one attempt.
    Membership(Arc<Membership>),
}

impl Fence {
    fn has_ended(&self) -> bool {
        match self {
            Self::Lease(lease) => lease.has_ended(),
            Self::Membership(membership) => !membership.stands(),
        }
    }
}

/// What a request can know of its connection: how it came about, whether it was used before, when it is closed.
#[derive(Clone)]
pub struct LinkFacts {
    facts: ConnectionFacts,
    made_at: Instant,
    used: Arc<AtomicBool>,
    /// The request has no more use for it, however much of it is still unwritten.
    given_up: Arc<AtomicBool>,
    closed: CancellationToken,
    /// The other side did not accept our certificate, or wants one.
    refuses_us: Arc<AtomicBool>,
    counted: Arc<CountedLink>,
}

/// How many connections are open and may be used again.
#[derive(Debug, Default)]
pub(crate) struct LinkCount(AtomicUsize);

impl LinkCount {
    #[cfg(test)]
    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// One of them, as long as it is.
#[derive(Debug)]
struct CountedLink {
    count: Arc<LinkCount>,
    counts: AtomicBool,
}

impl CountedLink {
    fn new(count: Arc<LinkCount>) -> Self {
        count.0.fetch_add(1, Ordering::Relaxed);
        Self { count, counts: AtomicBool::new(true) }
    }

    fn release(&self) {
        if self.counts.swap(false, Ordering::Relaxed) {
            self.count.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Counts no more if there are more than so many.
    fn release_if_above(&self, most: usize) -> bool {
        let fewer = |count: usize| (count > most).then(|| count - 1);
        if !self.counts.swap(false, Ordering::Relaxed) {
            return false;
        }
        let released = self.count.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer).is_ok();
        self.counts.store(!released, Ordering::Relaxed);
        released
    }
}

impl Drop for CountedLink {
    fn drop(&mut self) {
        self.release();
    }
}

/// A connection.
pub struct Link {
    stream: Box<dyn Duplex>,
    facts: LinkFacts,
    fence: Option<Fence>,
    /// What the other side said before it took no more is an answer: so it is with HTTP.
    reads_early_answers: bool,
    /// The other side takes no more.
    is_deaf: bool,
    /// Bytes that were read since something was written.
    answered: usize,
    /// A write has to wait.
    has_unwritten: bool,
    /// Dropped after the stream: a request that waits for the end finds the socket closed.
    _closed: DropGuard,
}

impl Link {
    pub(super) fn new(
        stream: Box<dyn Duplex>,
        facts: ConnectionFacts,
        fence: Option<Fence>,
        count: &Arc<LinkCount>,
    ) -> Self {
        let closed = CancellationToken::new();
        let made_at = Instant::now();
        let facts = LinkFacts {
            facts,
            made_at,
            used: Arc::default(),
            given_up: Arc::default(),
            closed: closed.clone(),
            refuses_us: Arc::default(),
            counted: Arc::new(CountedLink::new(Arc::clone(count))),
        };
        let _closed = closed.drop_guard();
        let (reads_early_answers, is_deaf, has_unwritten, answered) = (false, false, false, 0);
        Self { stream, facts, fence, reads_early_answers, is_deaf, answered, has_unwritten, _closed }
    }

    /// Waits for an answer where the other side takes no more, instead of failing.
    pub(super) fn reading_early_answers(mut self) -> Self {
        self.reads_early_answers = true;
        self
    }

    pub(crate) fn facts(&self) -> LinkFacts {
        self.facts.clone()
    }

    fn may_write(&self) -> io::Result<()> {
        let ended = self.fence.as_ref().is_some_and(Fence::has_ended);
        if ended { Err(io::Error::other("the lease has ended")) } else { Ok(()) }
    }

    /// A write.
    ///
    /// That the other side takes no more is no end of an HTTP request: it may have answered before, as one does that will not
    /// have a body so large. What it said is read first, and where that ends the request ends.
    fn poll_out<T>(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut dyn Duplex>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if !self.is_deaf {
            match write(Pin::new(self.stream.as_mut()), cx) {
                Poll::Ready(Err(error)) if self.reads_early_answers && takes_no_more(&error) => {
                    self.is_deaf = true;
                }
                Poll::Ready(written) => {
                    (self.answered, self.has_unwritten) = (0, false);
                    return Poll::Ready(written);
                }
                Poll::Pending => {}
            }
        }
        self.has_unwritten = true;
        Poll::Pending
    }
}

fn takes_no_more(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset)
}

impl LinkFacts {
    /// What this request has cost; the first one pays for the connection.
    pub(crate) fn take(&self) -> ConnectionFacts {
        if self.used.swap(true, Ordering::Relaxed) {
            ConnectionFacts { reused: true, ..ConnectionFacts::default() }
        } else {
            self.facts
        }
    }

    /// Whether the next request should have another: left idle for as long as the pool keeps it, this one would be older
    /// than a connection may be.
    pub(crate) fn is_worn_out(&self) -> bool {
        self.made_at.elapsed() >= limits::CONNECTION_AGE_MAX - limits::IDLE_TIMEOUT
    }

    /// Whether it is one of more than are to be kept, and the one that is not. It is asked when its request has ended.
    pub(crate) fn is_one_too_many(&self, kept: usize) -> bool {
        self.counted.release_if_above(kept)
    }

    /// Its request is dropped, and the socket is to be closed with it, whatever is still to be written.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }

    fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }

    /// Whether it ended over a client certificate. In TLS 1.3 that is said after the handshake: before our request, and then
    /// whoever waits for its answer only hears that the connection is gone.
    pub(crate) fn refuses_us(&self) -> bool {
        self.refuses_us.load(Ordering::Relaxed)
    }

    /// Waits until the socket is closed: until then the destination still counts it as open, and so must we.
    pub(crate) async fn closed(&self) {
        // Closing is a matter of one poll: this bound is for a runtime that is choked.
        let _ = timeout(limits::CLOSE_PATIENCE, self.closed.cancelled()).await;
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if self.has_unwritten && self.facts.is_given_up() {
            self.stream.discard_unsent();
        }
        self.facts.counted.release();
    }
}

impl Connection for Link {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Link {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, buffer));
        if read.as_ref().is_err_and(refuses_the_client) {
            self.facts.refuses_us.store(true, Ordering::Relaxed);
        }
        read?;
        self.answered += buffer.filled().len() - before;
        // Interim answers have no end of their own.
        let too_much = self.answered > limits::ANSWER_BYTES;
        Poll::Ready(if too_much { Err(io::ErrorKind::InvalidData.into()) } else { Ok(()) })
    }
}

impl AsyncWrite for Link {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.may_write()?;
        self.poll_out(cx, |stream, cx| stream.poll_write(cx, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let answered = self.answered;
        let flushed = self.poll_out(cx, |stream, cx| stream.poll_flush(cx));
        // To flush is not to say something new.
        self.answered = answered;
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_deaf || self.facts.is_given_up() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.may_write()?;
        self.poll_out(cx, |stream, cx| stream.poll_write_vectored(cx, slices))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use tokio::io::AsyncWriteExt;

    /// Takes nothing.
    struct Broken;

    impl Duplex for Broken {}

    impl AsyncRead for Broken {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    impl AsyncWrite for Broken {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
        }
        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn link() -> Link {
        Link::new(Box::new(Broken), ConnectionFacts::default(), None, &Arc::default())
    }

    #[test]
    fn of_more_links_than_are_kept_the_first_to_end_go_and_each_counts_once() {
        let count = Arc::<LinkCount>::default();
        let link = || Link::new(Box::new(Broken), ConnectionFacts::default(), None, &count);
        let links: Vec<Link> = (0..5).map(|_| link()).collect();
        let facts: Vec<LinkFacts> = links.iter().map(Link::facts).collect();
        let too_many: Vec<bool> = facts.iter().map(|facts| facts.is_one_too_many(3)).collect();
        assert_eq!(too_many, [true, true, false, false, false]);
        assert!(!facts[0].is_one_too_many(0), "it counts no more");
        assert_eq!(count.get(), 3);
        drop(links);
        assert_eq!(count.get(), 0, "whoever still has their facts");
        drop(facts);
        assert_eq!(count.get(), 0);
    }

    #[tokio::test]
    async fn one_that_takes_no_more_fails_at_once_unless_it_may_have_answered() {
        let written = link().write_all(b"line").now_or_never().expect("there is nothing to wait for");
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::BrokenPipe);

        let mut http = link().reading_early_answers();
        assert!(http.write_all(b"POST").now_or_never().is_none(), "its answer may be on the way");
    }
}
