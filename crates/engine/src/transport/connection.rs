//! One connection to a destination, driven by whoever sends over it: it has no task of its own, and nothing stands between the
//! request and the socket. A request that is dropped takes its connection along.

use crate::egress::{Link, LinkFacts};
use bytes::Bytes;
use domain::limits;
use futures_util::FutureExt as _;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    body::{Frame, Incoming},
    client::conn::{
        TrySendError,
        http1::{Builder, Connection, SendRequest},
    },
};
use hyper_util::rt::TokioIo;
use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};
use tokio::task::unconstrained;

/// The other end of `sender`: reads and writes when it is polled.
type Wire = Connection<TokioIo<Link>, Full<Bytes>>;

pub(super) struct HttpConnection {
    sender: SendRequest<Full<Bytes>>,
    /// None once it has ended.
    wire: Option<Box<Wire>>,
    facts: LinkFacts,
    /// Nothing is under way, and the next request may be sent.
    is_at_rest: bool,
}

impl HttpConnection {
    #[expect(clippy::disallowed_methods, reason = "the link was made by the egress")]
    pub(super) async fn over(link: Link) -> Result<Self, hyper::Error> {
        let facts = link.facts();
        let handshake = Builder::new()
            .max_headers(limits::RESPONSE_HEADERS)
            .max_buf_size(limits::RESPONSE_HEAD_BYTES)
            .handshake(TokioIo::new(link));
        let (sender, wire) = handshake.await?;
        Ok(Self { sender, wire: Some(Box::new(wire)), facts, is_at_rest: true })
    }

    pub(super) fn facts(&self) -> &LinkFacts {
        &self.facts
    }

    /// The head of the answer. The request comes back if nothing of it was written.
    pub(super) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Full<Bytes>>>> {
        self.is_at_rest = false;
        let answered = self.sender.try_send_request(request);
        drive(&mut self.wire, answered).await
    }

    /// The next piece of the answer's body.
    pub(super) async fn frame(&mut self, body: &mut Incoming) -> Option<Result<Frame<Bytes>, hyper::Error>> {
        drive(&mut self.wire, body.frame()).await
    }

    /// Whether the request was written and its answer read to the end, both sides keep the connection, and nothing came that was
    /// not asked for.
    pub(super) fn rests(&mut self) -> bool {
        let wire = &mut self.wire;
        // Nobody is to be woken: it is asked again before it is used, and looked at now and then.
        let polled = poll_fn(|cx| {
            let ended = wire.as_mut().is_none_or(|wire| Pin::new(wire).poll(cx).is_ready());
            Poll::Ready(ended)
        });
        let ended = unconstrained(polled).now_or_never().unwrap_or(true);
        if ended {
            self.wire = None;
        }
        self.is_at_rest = !ended && self.sender.is_ready();
        self.is_at_rest
    }

    /// Says goodbye, as far as that can be said at once.
    pub(super) fn close(mut self) {
        let mut wire = self.wire.take();
        // Without a sender it comes to its end.
        drop(self);
        let goodbye =
            poll_fn(|cx| wire.as_mut().map_or(Poll::Ready(()), |wire| Pin::new(wire).poll(cx).map(drop)));
        let _ = unconstrained(goodbye).now_or_never();
    }
}

impl Drop for HttpConnection {
    fn drop(&mut self) {
        if !self.is_at_rest {
            self.facts.give_up();
        }
    }
}

/// Waits for what comes of the wire, and drives it meanwhile. Only the socket wakes the task: what is waited for moves when the
/// wire does, in here.
async fn drive<F: Future>(wire: &mut Option<Box<Wire>>, waits: F) -> F::Output {
    // A budget that is spent would ask to be woken, by a waker that wakes nobody.
    let mut waits = pin!(unconstrained(waits));
    poll_fn(|cx| {
        let ended = wire.as_mut().is_none_or(|wire| Pin::new(wire).poll(cx).is_ready());
        if !ended {
            return waits.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        }
        // What went wrong is told to who waits.
        *wire = None;
        waits.as_mut().poll(cx)
    })
    .await
}
