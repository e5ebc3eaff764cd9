//! The internet as one node meets it: a transport whose receivers answer by their temper and write down what they see.

use crate::{
    book::{Beginning, How},
    plant::Plant,
    scene::{Scene, Temper, count},
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
    pub(crate) scene: Arc<Scene>,
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
        let probing = self.scene.has(Plant::TwoProbes)
            && self.scene.book().is_probed(open.destination, self.scene.time.now());
        if probing {
            let again = self.begin(&outgoing);
            let twice =
                (self.exchange(&outgoing, &open, deadline), self.exchange(&outgoing, &again, deadline));
            return tokio::join!(twice.0, twice.1).0;
        }
        if self.scene.has(Plant::NoAbort) {
            let internet = self.clone();
            let sent = tokio::spawn(async move { internet.exchange(&outgoing, &open, deadline).await });
            return sent.await.expect("nothing panics in there");
        }
        let answer = self.exchange(&outgoing, &open, deadline).await;
        if self.scene.has(Plant::SlotFreedEarly) && answer.result.is_err() {
            tokio::spawn(async move {
                sleep(Duration::from_secs(1)).await;
                drop(open);
            });
            return answer;
        }
        if self.scene.has(Plant::SentTwice) && answer.result.is_err() {
            drop(open);
            let again = self.begin(&outgoing);
            return self.exchange(&outgoing, &again, Instant::now() + outgoing.timeout).await;
        }
        answer
    }
}

impl Internet {
    fn begin(&self, outgoing: &HttpRequest) -> Open {
        let destination =
            outgoing.uri.path().trim_start_matches('/').parse().expect("the world made this URL");
        let header = |name| outgoing.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let delivery = header("posthaste-delivery").and_then(|text| text.parse::<DeliveryId>().ok());
        let attempt = header("posthaste-attempt").and_then(|text| text.parse().ok());
        let beginning = Beginning {
            life: self.life,
            destination,
            delivery: delivery.expect("every request names its delivery"),
            attempt: attempt.expect("every request numbers its attempt"),
            believed: moment(self.clock.now()),
            large: outgoing.body.len() > limits::CARRIED_BYTES,
        };
        let now = self.scene.time.now();
        count(&self.scene.counts.attempts);
        let request = self.scene.book().begin(beginning, now);
        Open { scene: Arc::clone(&self.scene), request, destination }
    }

    async fn exchange(&self, outgoing: &HttpRequest, open: &Open, deadline: Instant) -> HttpAnswer {
        let began = Instant::now();
        // Names, connections and handshakes take their time, and meanwhile the claim may end.
        if self.scene.chance.happens(0.3) {
            sleep(self.scene.chance.millis(1, 40)).await;
        }
        if !outgoing.permit.holds() {
            open.over(How::Unsent);
            return HttpAnswer::failed(HttpFailure {
                fault: Fault::Reset,
                message: "the lease has ended".to_owned(),
            });
        }
        self.scene.book().first_byte(open.request, self.scene.time.now());
        let reply = Reply::by(&self.scene, open.destination, outgoing.timeout);
        if timeout_at(deadline, sleep(reply.after)).await.is_err() {
            open.over(How::TimedOut);
            let message = "no answer".to_owned();
            return HttpAnswer::failed(HttpFailure { fault: Fault::ReadTimeout, message });
        }
        let Some(status) = reply.status else {
            open.over(How::Reset);
            return HttpAnswer::failed(HttpFailure { fault: Fault::Reset, message: "closed".to_owned() });
        };
        open.over(How::Answered(status));
        let mut headers = HeaderMap::new();
        if status == 429 {
            let asked = reply.retry_after.map(|seconds| seconds as i64 * SECOND);
            self.scene.book().throttled(open.request, asked, moment(self.clock.now()));
            if let Some(seconds) = reply.retry_after.filter(|_| !self.scene.has(Plant::RetryAfterIgnored)) {
                headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            }
        }
        let received = HttpResponse { status, headers, body: Bytes::new(), truncated: false };
        HttpAnswer { result: Ok(received), connection: None, first_byte: Some(began.elapsed()) }
    }
}

/// A request that the receiver has in hand. Whoever drops it has closed its connection.
struct Open {
    scene: Arc<Scene>,
    request: usize,
    destination: usize,
}

impl Open {
    fn over(&self, how: How) {
        // With the bug planted, the receiver goes on while the sender has forgotten it.
        if !(self.scene.has(Plant::SlotFreedEarly) && matches!(how, How::TimedOut | How::Reset)) {
            self.scene.book().over(self.request, how, self.scene.time.now());
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.scene.book().over(self.request, How::Aborted, self.scene.time.now());
    }
}

struct Reply {
    after: Duration,
    /// None: the connection is closed.
    status: Option<u16>,
    retry_after: Option<u64>,
}

impl Reply {
    fn by(scene: &Scene, destination: usize, patience: Duration) -> Self {
        let chance = &scene.chance;
        let (quick, never) = (chance.millis(0, 30), Duration::from_secs(3_600));
        let reply = |after, status| Self { after, status: Some(status), retry_after: None };
        match scene.temper(destination) {
            Temper::Fine => reply(quick, 200),
            Temper::Slow => reply(patience.mul_f64(chance.range(1, 120) as f64 / 100.0), 200),
            Temper::Sick => reply(quick, 500),
            Temper::Busy => {
                let retry_after = chance.happens(0.6).then(|| chance.range(1, 3));
                Self { retry_after, ..reply(quick, 429) }
            }
            Temper::Hangs => reply(never, 200),
            Temper::Resets => Self { after: quick, status: None, retry_after: None },
            Temper::Gone => reply(quick, 410),
            Temper::Rejects => reply(quick, 400),
            Temper::Moody => match chance.range(0, 9) {
                0 | 1 => reply(quick, 500),
                2 => Self { after: quick, status: None, retry_after: None },
                3 => reply(never, 200),
                4 => Self { retry_after: Some(1), ..reply(quick, 429) },
                _ => reply(chance.millis(0, 200), 200),
            },
        }
    }
}
