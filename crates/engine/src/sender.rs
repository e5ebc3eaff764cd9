//! One attempt: build the request, sign it, send it, and say what it met and what follows.
//!
//! No transaction and no connection to the store is held meanwhile. Whatever happens in here, a panic included, comes
//! out as a settlement or as "abandoned".

use crate::{
    budget::Cargo,
    claim::Claim,
    target::Prepared,
    transport::{Answer, Failure, Outgoing, Permit, Received, SharedTransport},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use domain::{
    attempt::{Attempt, AttemptError, Detail, Response, Timing},
    delivery::{Circumstances, Delivery, Ending, Settled, settle},
    destination::Ordering,
    dice::Dice,
    event::Event,
    gate::Met,
    id::AttemptId,
    limits,
    outcome::{Classified, Fault, Next, Outcome, ResponseFacts, classify, classify_fault},
    retry::{RetryPolicy, parse_retry_after},
    time::{Clock, Timestamp},
    trace::{Span, SpanKind, TRACEPARENT, TraceContext, Tracer, span_of_event},
};
use futures_util::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use std::{fmt, panic::AssertUnwindSafe, sync::Arc, time::Duration};
use store::{Consequence, Fact, Settlement, Store, StoreError, failpoint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(crate) struct Sender {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) transport: SharedTransport,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) dice: Arc<dyn Dice>,
    /// Kibibytes of large payloads that may be in memory.
    pub(crate) large_payloads: Arc<Semaphore>,
    pub(crate) tracer: Tracer,
}

/// What became of a started delivery.
#[derive(Debug)]
pub(crate) enum Sent {
    Attempted {
        settlement: Box<Settlement>,
        met: Met,
    },
    /// Nothing is to be recorded, and nobody knows how much was sent: the row is as it was.
    Abandoned(Delivery),
}

impl Sender {
    /// Makes one attempt under this claim and decides what follows from it.
    pub(crate) async fn deliver(
        &self,
        claim: &Arc<Claim>,
        target: &Prepared,
        delivery: Delivery,
        cargo: Cargo,
    ) -> Sent {
        let room = self.room_for(&delivery, &cargo).await;
        let started_at = self.clock.now();
        let id = AttemptId::at(started_at, self.dice.bits());
        let attempt = self.attempt(claim, target, &delivery, (&cargo, room), id, started_at);
        let attempted = AssertUnwindSafe(attempt).catch_unwind().await;
        let attempted = match attempted {
            Ok(Some(attempted)) => attempted,
            Ok(None) => return Sent::Abandoned(delivery),
            Err(_) => {
                tracing::error!(delivery_id = %delivery.id, "an attempt panicked; it is recorded and retried");
                Attempted::of_fault(Fault::Panic, "an internal fault".into())
            }
        };
        let now = self.clock.now();
        let policy = target.policy(delivery.route_id);
        let on = Circumstances {
            policy,
            now,
            resumed_at: target.lane.resumed_at,
            ordered: target.lane.ordering != Ordering::None,
            jitter: self.dice.unit(),
        };
        let settled = settle(&delivery, &attempted.classified, on);
        let Classified { outcome, next } = attempted.classified;
        let retry_after = match next {
            Next::Hold { retry_after } | Next::Retry { not_before: retry_after } => retry_after,
            _ => None,
        };
        let attempt = Attempt {
            id,
            delivery_id: delivery.id,
            number: delivery.attempts + 1,
            started_at,
            duration: now.since(started_at),
            outcome,
            http_status: attempted.http_status,
            detail: Detail { url: target.url.clone(), ..attempted.detail },
            node: claim.node,
        };
        log(&delivery, &attempt, settled, attempted.trace);
        self.trace(&delivery, &attempt, attempted.trace);
        let settlement = Settlement {
            shard: delivery.destination_id.shard(),
            delivery,
            fact: Fact::Attempted(Box::new(attempt)),
            settled,
            consequence: match next {
                Next::Disable => Some(Consequence::Disables),
                _ => target.consequence(settled),
            },
        };
        Sent::Attempted { settlement: Box::new(settlement), met: Met { outcome, started_at, retry_after } }
    }

    /// None: given up before anything was sent (the store or our claim on the lane is away).
    async fn attempt(
        &self,
        claim: &Arc<Claim>,
        target: &Prepared,
        delivery: &Delivery,
        (cargo, room): (&Cargo, Option<OwnedSemaphorePermit>),
        id: AttemptId,
        started_at: Timestamp,
    ) -> Option<Attempted> {
        failpoint::hit("send.before");
        let event = match &cargo.event {
            Some(event) if cargo.has_payload => Arc::clone(event),
            _ => match self.store.payload(delivery.event_id).await {
                Ok(Some(event)) => event,
                Ok(None) => return Some(Attempted::unbuildable("its event is gone".into())),
                Err(StoreError::Altered) => {
                    tracing::error!(event_id = %delivery.event_id, delivery_id = %delivery.id, "payload.altered");
                    let message = "the stored payload is not what was accepted; it is not sent";
                    return Some(Attempted::of_fault(Fault::Altered, message.into()));
                }
                Err(error) => {
                    tracing::warn!(delivery_id = %delivery.id, %error, "a payload could not be read; trying again");
                    tokio::time::sleep(limits::ABANDONED_PAUSE).await;
                    return None;
                }
            },
        };
        let policy = target.policy(delivery.route_id);
        let trace = TraceContext::of_attempt(&event, id);
        let (mut request, shown) = match build(claim, target, delivery, &event, trace, started_at) {
            Ok(built) => built,
            Err(reason) => return Some(Attempted::unbuildable(reason)),
        };
        if let Some(room) = room {
            request.body = Bytes::from_owner(Roomed { payload: request.body, _room: room });
        }
        // A large payload is the request's alone: when that has been written, the answer is waited for without it.
        drop(event);
        // The last look before the first byte: a node that has lost its claim sends nothing.
        if !claim.may_start() {
            return None;
        }
        failpoint::hit("send.first_byte");
        let answer = self.transport.send(request).await;
        failpoint::hit("send.answered");
        // What fails once our time is up was cut off by ourselves, or may have been: that is no fault of theirs.
        if answer.result.is_err() && !claim.stands() {
            return None;
        }
        let attempted = Attempted::of_answer(answer, shown, policy, self.clock.now());
        Some(Attempted { trace: Some(trace), ..attempted })
    }

    /// Tells of the attempt, if anybody collects that.
    fn trace(&self, delivery: &Delivery, attempt: &Attempt, context: Option<TraceContext>) {
        let Some(context) = context.filter(|_| self.tracer.is_on()) else { return };
        self.tracer.tell(context, || {
            let mut attributes = vec![
                ("posthaste.event_id", delivery.event_id.to_string().into()),
                ("posthaste.delivery_id", delivery.id.to_string().into()),
                ("posthaste.attempt_id", attempt.id.to_string().into()),
                ("posthaste.destination_id", delivery.destination_id.to_string().into()),
                ("posthaste.attempt", i64::from(attempt.number).into()),
                ("posthaste.outcome", attempt.outcome.as_str().into()),
                ("http.request.method", "POST".into()),
            ];
            attributes.extend(
                attempt.http_status.map(|status| ("http.response.status_code", i64::from(status).into())),
            );
            Span {
                context,
                parent: Some(span_of_event(delivery.event_id)),
                name: "posthaste.attempt",
                kind: SpanKind::Client,
                started_at: attempt.started_at,
                ended_at: attempt.started_at.plus(attempt.duration),
                attributes,
                error: (attempt.outcome != Outcome::Success).then(|| attempt.outcome.as_str()),
            }
        });
    }

    /// Waits, in its slot, until there is memory for a payload that was too large to carry.
    async fn room_for(&self, delivery: &Delivery, cargo: &Cargo) -> Option<OwnedSemaphorePermit> {
        if cargo.has_payload {
            return None;
        }
        let kibibytes = (delivery.payload_bytes as usize).min(limits::LARGE_PAYLOADS_BYTES).div_ceil(1024);
        Arc::clone(&self.large_payloads).acquire_many_owned(kibibytes as u32).await.ok()
    }
}

/// A large payload with its share of the memory, which it gives back when the last byte has been written.
struct Roomed {
    payload: Bytes,
    _room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Roomed {
    fn as_ref(&self) -> &[u8] {
        &self.payload
    }
}

/// An attempt, judged but not yet written.
struct Attempted {
    classified: Classified,
    http_status: Option<u16>,
    detail: Detail,
    /// What the destination was told; None if nothing was sent.
    trace: Option<TraceContext>,
}

impl Attempted {
    fn of_fault(fault: Fault, message: String) -> Self {
        let error = Some(AttemptError { code: fault.error_code().into(), message });
        let detail = Detail { error, ..Detail::default() };
        Self { classified: classify_fault(fault), http_status: None, detail, trace: None }
    }

    fn unbuildable(reason: String) -> Self {
        Self::of_fault(Fault::Unbuildable, reason)
    }

    fn of_answer(answer: Answer, shown: Vec<(String, String)>, policy: &RetryPolicy, now: Timestamp) -> Self {
        let timing = timing(&answer);
        let reused = answer.connection.is_some_and(|connection| connection.reused);
        let mut attempted = match answer.result {
            Ok(received) => Self::of_response(received, policy, now),
            Err(Failure { fault, message }) => Self::of_fault(fault, message),
        };
        attempted.detail.request_headers = shown;
        attempted.detail.timing = timing;
        attempted.detail.connection_reused = reused;
        attempted
    }

    fn of_response(received: Received, policy: &RetryPolicy, now: Timestamp) -> Self {
        let asked: Vec<&str> = received
            .headers
            .get_all(header::RETRY_AFTER)
            .iter()
            .map(|value| value.to_str().unwrap_or(""))
            .collect();
        let retry_after = parse_retry_after(&asked, now.seconds());
        let control = received.headers.get("webhook-delivery").and_then(|value| value.to_str().ok());
        let facts = ResponseFacts { status: received.status, retry_after, delivery_control: control };
        let classified = classify(&facts, policy);
        let response = Some(response_shown(&received));
        let detail = Detail {
            retry_after_seconds: retry_after.map(|pause| pause.as_secs()),
            response,
            ..Detail::default()
        };
        Self { classified, http_status: Some(received.status), detail, trace: None }
    }
}

/// The request, and the headers of it that are kept with the attempt.
fn build(
    claim: &Arc<Claim>,
    target: &Prepared,
    delivery: &Delivery,
    event: &Event,
    trace: TraceContext,
    now: Timestamp,
) -> Result<(Outgoing, Vec<(String, String)>), String> {
    let ready = target.ready.as_ref().map_err(String::clone)?;
    let mut headers = HeaderMap::with_capacity(ready.headers.len() + 12);
    let mut shown = ready.shown.clone();
    let id = event.id.to_string();
    let mut set = |name: HeaderName, value: &str| match HeaderValue::from_str(value) {
        Ok(value) => {
            headers.insert(name, value);
            Ok(())
        }
        Err(_) => Err(format!("the value of header `{name}` is not valid")),
    };
    set(header::CONTENT_TYPE, &event.content_type)?;
    set(HeaderName::from_static("webhook-id"), &id)?;
    set(HeaderName::from_static("webhook-timestamp"), &now.seconds().to_string())?;
    set(HeaderName::from_static("posthaste-event-type"), event.event_type.as_str())?;
    set(HeaderName::from_static("posthaste-delivery"), &delivery.id.to_string())?;
    set(HeaderName::from_static("posthaste-attempt"), &(delivery.attempts + 1).to_string())?;
    if let Some(sequence) = delivery.sequence {
        set(HeaderName::from_static("posthaste-sequence"), &sequence.to_string())?;
    }
    if let Some(replay) = delivery.replay_id {
        set(HeaderName::from_static("posthaste-replay"), &replay.to_string())?;
    }
    if let Some(signature) = ready.signature(target.signing(delivery.route_id), &id, now, &event.payload) {
        set(HeaderName::from_static("webhook-signature"), &signature)?;
        shown.push(("webhook-signature".into(), signature));
    }
    let trace = trace.to_string();
    set(HeaderName::from_static(TRACEPARENT), &trace)?;
    for (name, value) in &event.headers {
        // The trace goes on, with the attempt as its next span.
        if name == TRACEPARENT {
            shown.push((name.clone(), trace.clone()));
            continue;
        }
        let forwarded = ready.forward.iter().any(|wanted| wanted == name.as_str());
        if forwarded && let Ok(name) = name.parse::<HeaderName>() {
            set(name.clone(), value)?;
            shown.push((name.to_string(), value.clone()));
        }
    }
    for (name, value) in &ready.headers {
        headers.entry(name).or_insert_with(|| value.clone());
    }
    let timeout = target.timeout(delivery.route_id);
    let (uri, body) = (ready.uri.clone(), event.payload.clone());
    Ok((Outgoing { uri, headers, body, timeout, permit: Permit::of(claim) }, shown))
}

fn timing(answer: &Answer) -> Timing {
    let micros = |pause: Duration| u32::try_from(pause.as_micros()).unwrap_or(u32::MAX);
    let connection = answer.connection.unwrap_or_default();
    Timing {
        dns_us: connection.dns.map(micros),
        connect_us: connection.connect.map(micros),
        tls_us: connection.tls.map(micros),
        first_byte_us: answer.first_byte.map(micros),
    }
}

/// The answer as it is kept: bounded, and text where it is text.
fn response_shown(received: &Received) -> Response {
    let mut room = limits::RESPONSE_HEADERS_KEPT_BYTES;
    let mut headers = Vec::with_capacity(received.headers.len());
    for (name, value) in &received.headers {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        let Some(left) = room.checked_sub(name.as_str().len() + value.len()) else { break };
        room = left;
        headers.push((name.to_string(), value));
    }
    let text = std::str::from_utf8(&received.body).ok().map(str::to_owned);
    let body_base64 = text.is_none().then(|| STANDARD.encode(&received.body));
    Response { headers, body: text, body_base64, truncated: received.truncated }
}

/// The one wide line per attempt: who, where, how it went, how long it took, and what comes next. Never a payload, a
/// header, or a URL, which may hold a secret.
fn log(delivery: &Delivery, attempt: &Attempt, settled: Settled, trace: Option<TraceContext>) {
    let (ending, next_attempt_at) = match settled {
        Settled::Ended(ending) => (Some(ending), None),
        Settled::Waits { due_at, .. } => (None, Some(due_at)),
    };
    let timing = &attempt.detail.timing;
    tracing::info!(
        target: "posthaste::attempt",
        account_id = %delivery.account_id,
        event_id = %delivery.event_id,
        delivery_id = %delivery.id,
        destination_id = %delivery.destination_id,
        attempt_id = %attempt.id,
        attempt = attempt.number,
        trace_id = trace.map(|trace| tracing::field::display(TraceId(trace))),
        outcome = attempt.outcome.as_str(),
        http_status = attempt.http_status,
        duration_us = attempt.duration.as_micros() as u64,
        dns_us = timing.dns_us,
        connect_us = timing.connect_us,
        tls_us = timing.tls_us,
        first_byte_us = timing.first_byte_us,
        reused = attempt.detail.connection_reused,
        error_code = attempt.detail.error.as_ref().map(|error| error.code.as_str()),
        error = attempt.detail.error.as_ref().map(|error| error.message.as_str()),
        ending = ending.map(|ending| ending.status().as_str()),
        reason = ending.and_then(Ending::reason),
        next_attempt_at = next_attempt_at.map(tracing::field::display),
        "delivery.attempted"
    );
}

struct TraceId(TraceContext);

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0.trace_id)
    }
}
