//! The internet as one node meets it: a transport whose receivers behave as planned and write down what they see.

use crate::{
    observations::{Request, RequestEnd},
    planted_bug::PlantedBug,
    shared_world::{ReceiverBehaviour, SharedWorld, count},
    time::{NodeClock, SECOND, moment},
};
use bytes::Bytes;
use domain::{id::DeliveryId, limits, outcome::Fault, time::Clock};
use engine::transport::{HttpAnswer, HttpFailure, HttpRequest, HttpResponse, Transport};
use http::{HeaderMap, HeaderValue, header};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep, timeout_at};

#[derive(Clone)]
pub(crate) struct Internet {
    pub(crate) shared: Arc<SharedWorld>,
    pub(crate) clock: Arc<NodeClock>,
    pub(crate) life: usize,
}

/// Where a destination with this number is found.
pub(crate) fn url(destination: usize) -> String {
    format!("http://receiver.example/{destination}")
}

impl Transport for Internet {
    async fn send(&self, outgoing: HttpRequest) -> HttpAnswer {
        let deadline = Instant::now() + outgoing.timeout;
        let open = self.begin(&outgoing);
        let probing = self.shared.has(PlantedBug::TwoProbes)
            && self.shared.observed().is_probed(open.destination, self.shared.time.now());
        if probing {
            let again = self.begin(&outgoing);
            let twice =
                (self.exchange(&outgoing, &open, deadline), self.exchange(&outgoing, &again, deadline));
            return tokio::join!(twice.0, twice.1).0;
        }
        if self.shared.has(PlantedBug::NoAbort) {
            let internet = self.clone();
            let sent = tokio::spawn(async move { internet.exchange(&outgoing, &open, deadline).await });
            return sent.await.expect("nothing panics in there");
        }
        let answer = self.exchange(&outgoing, &open, deadline).await;
        if self.shared.has(PlantedBug::SlotFreedEarly) && answer.result.is_err() {
            tokio::spawn(async move {
                sleep(Duration::from_secs(1)).await;
                drop(open);
            });
            return answer;
        }
        if self.shared.has(PlantedBug::SentTwice) && answer.result.is_err() {
            drop(open);
            let again = self.begin(&outgoing);
            return self.exchange(&outgoing, &again, Instant::now() + outgoing.timeout).await;
        }
        answer
    }
}

impl Internet {
    fn begin(&self, outgoing: &HttpRequest) -> OpenRequest {
        let destination =
            outgoing.uri.path().trim_start_matches('/').parse().expect("the world made this URL");
        let header = |name| outgoing.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let delivery = header("posthaste-delivery").and_then(|text| text.parse::<DeliveryId>().ok());
        let attempt = header("posthaste-attempt").and_then(|text| text.parse().ok());
        let new = Request {
            life: self.life,
            destination,
            delivery: delivery.expect("every request names its delivery"),
            attempt: attempt.expect("every request numbers its attempt"),
            large: outgoing.body.len() > limits::CARRIED_BYTES,
            began: self.shared.time.now(),
            believed: moment(self.clock.now()),
            first_byte: None,
            over: None,
        };
        count(&self.shared.counts.attempts);
        let request = self.shared.observed().begin(new);
        OpenRequest { shared: Arc::clone(&self.shared), request, destination }
    }

    async fn exchange(&self, outgoing: &HttpRequest, open: &OpenRequest, deadline: Instant) -> HttpAnswer {
        let began = Instant::now();
        // Names, connections and handshakes take their time, and meanwhile the claim may end.
        if self.shared.chance.happens(0.3) {
            sleep(self.shared.chance.millis(1, 40)).await;
        }
        if !outgoing.permit.holds() {
            open.over(RequestEnd::Unsent);
            return HttpAnswer::failed(HttpFailure::new(Fault::Reset, "the lease has ended"));
        }
        self.shared.observed().first_byte(open.request, self.shared.time.now());
        let reply = ReceiverReply::by(&self.shared, open.destination, outgoing.timeout);
        if timeout_at(deadline, sleep(reply.after)).await.is_err() {
            open.over(RequestEnd::TimedOut);
            return HttpAnswer::failed(HttpFailure::new(Fault::ReadTimeout, "no answer"));
        }
        let Some(status) = reply.status else {
            open.over(RequestEnd::Reset);
            return HttpAnswer::failed(HttpFailure::new(Fault::Reset, "closed"));
        };
        open.over(RequestEnd::Answered(status));
        let mut headers = HeaderMap::new();
        if status == 429 {
            let asked = reply.retry_after.map(|seconds| seconds as i64 * SECOND);
            self.shared.observed().throttled(open.request, asked, moment(self.clock.now()));
            if let Some(seconds) =
                reply.retry_after.filter(|_| !self.shared.has(PlantedBug::RetryAfterIgnored))
            {
                headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            }
        }
        let received = HttpResponse { status, headers, body: Bytes::new(), truncated: false };
        HttpAnswer { result: Ok(received), connection: None, first_byte: Some(began.elapsed()) }
    }
}

/// A request that the receiver has in hand. Dropped, its connection is closed.
struct OpenRequest {
    shared: Arc<SharedWorld>,
    request: usize,
    destination: usize,
}

impl OpenRequest {
    fn over(&self, how: RequestEnd) {
        // With the bug planted, the receiver goes on while the sender has forgotten it.
        if !(self.shared.has(PlantedBug::SlotFreedEarly)
            && matches!(how, RequestEnd::TimedOut | RequestEnd::Reset))
        {
            self.shared.observed().over(self.request, how, self.shared.time.now());
        }
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.shared.observed().over(self.request, RequestEnd::Aborted, self.shared.time.now());
    }
}

struct ReceiverReply {
    after: Duration,
    /// None: the connection is closed.
    status: Option<u16>,
    retry_after: Option<u64>,
}

impl ReceiverReply {
    fn by(shared: &SharedWorld, destination: usize, patience: Duration) -> Self {
        let chance = &shared.chance;
        let (quick, never) = (chance.millis(0, 30), Duration::from_secs(3_600));
        let reply = |after, status| Self { after, status: Some(status), retry_after: None };
        match shared.receiver_behaviour(destination) {
            ReceiverBehaviour::Fine => reply(quick, 200),
            ReceiverBehaviour::Slow => reply(patience.mul_f64(chance.range(1, 120) as f64 / 100.0), 200),
            ReceiverBehaviour::Sick => reply(quick, 500),
            ReceiverBehaviour::Busy => {
                let retry_after = chance.happens(0.6).then(|| chance.range(1, 3));
                Self { retry_after, ..reply(quick, 429) }
            }
            ReceiverBehaviour::Hangs => reply(never, 200),
            ReceiverBehaviour::Resets => Self { after: quick, status: None, retry_after: None },
            ReceiverBehaviour::Gone => reply(quick, 410),
            ReceiverBehaviour::Rejects => reply(quick, 400),
            ReceiverBehaviour::Moody => match chance.range(0, 9) {
                0 | 1 => reply(quick, 500),
                2 => Self { after: quick, status: None, retry_after: None },
                3 => reply(never, 200),
                4 => Self { retry_after: Some(1), ..reply(quick, 429) },
                _ => reply(chance.millis(0, 200), 200),
            },
        }
    }
}
