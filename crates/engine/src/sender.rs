//! One attempt: read what is to be sent, have the destination's sink send it, and say what it met and what follows.
//!
//! No transaction and no connection to the store is held meanwhile. Whatever happens in here, a panic included, comes
//! out as a settlement or as "abandoned".

use crate::{
    attempt_log::{AttemptLine, AttemptLogger},
    carried::CarriedEvent,
    data_keys::{DataKeys, Shut},
    destination::PreparedDestination,
    large_payloads::LargePayloads,
    membership::Membership,
    sink::{self, AttemptFacts, Permit, SinkAttempt, Sinks},
};
use bytes::Bytes;
use domain::{
    attempt::{Attempt, Detail},
    delivery::{Circumstances, Delivery, settle},
    destination::Ordering,
    dice::Dice,
    gate::MetOutcome,
    id::AttemptId,
    limits,
    outcome::{Classified, Fault, Next, Outcome},
    seal::DataKey,
    time::{Clock, Timestamp},
    trace::{Span, SpanKind, TraceContext, Tracer, span_of_event},
};
use futures_util::FutureExt;
use sharing::Share;
use std::{panic::AssertUnwindSafe, sync::Arc};
use store::{Consequence, Fact, Settlement, Store, StoreError, failpoint, seal_detail};
use tokio::time::Instant;

pub(crate) struct Sender {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) data_keys: Arc<DataKeys>,
    pub(crate) sinks: Arc<Sinks>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) dice: Arc<dyn Dice>,
    pub(crate) large_payloads: LargePayloads,
    pub(crate) tracer: Tracer,
    pub(crate) attempt_log: AttemptLogger,
}

/// What became of a started delivery.
#[derive(Debug)]
pub(crate) enum AttemptEnd {
    Attempted {
        settlement: Box<Settlement>,
        met: MetOutcome,
    },
    /// Nothing is to be recorded, and it is not known how much was sent: the row is as it was.
    Abandoned(Delivery),
}

/// An attempt that was made, or could not be.
struct AttemptMade {
    facts: AttemptFacts,
    /// What the destination was told of the trace.
    trace: Option<TraceContext>,
    /// What is kept of it is sealed by this.
    sealing: Option<Arc<DataKey>>,
}

impl From<AttemptFacts> for AttemptMade {
    fn from(facts: AttemptFacts) -> Self {
        Self { facts, trace: None, sealing: None }
    }
}

impl Sender {
    /// Makes one attempt under this membership and decides what follows from it.
    pub(crate) async fn deliver(
        &self,
        membership: &Arc<Membership>,
        destination: &PreparedDestination,
        delivery: Delivery,
        carried: Arc<CarriedEvent>,
    ) -> AttemptEnd {
        let room = match carried.has_payload {
            true => None,
            false => {
                let bytes = destination.memory_for(delivery.payload_bytes as usize);
                Some(self.large_payloads.room_for(&delivery, bytes, self.clock.now()).await)
            }
        };
        let started_at = self.clock.now();
        let id = AttemptId::at(started_at, self.dice.bits());
        let attempt = self.attempt(membership, destination, &delivery, (&carried, room), id, started_at);
        let attempted = AssertUnwindSafe(attempt).catch_unwind().await;
        let AttemptMade { facts, trace, sealing } = match attempted {
            Ok(Some(attempted)) => attempted,
            Ok(None) => return AttemptEnd::Abandoned(delivery),
            Err(_) => AttemptFacts::of_panic(&delivery).into(),
        };
        let now = self.clock.now();
        let policy = destination.policy(delivery.route_id);
        let on = Circumstances {
            policy,
            now,
            resumed_at: destination.lane.resumed_at,
            ordered: destination.lane.ordering != Ordering::None,
            jitter: self.dice.unit(),
        };
        let settled = settle(&delivery, &facts.classified, on);
        let Classified { outcome, next } = facts.classified;
        let retry_after = match next {
            Next::Hold { retry_after } | Next::Retry { not_before: retry_after } => retry_after,
            _ => None,
        };
        let mut attempt = Attempt {
            id,
            delivery_id: delivery.id,
            number: delivery.attempts + 1,
            started_at,
            duration: now.since(started_at),
            outcome,
            http_status: facts.http_status,
            detail: Detail { url: destination.url.clone(), ..facts.detail },
            node: membership.node,
        };
        self.attempt_log.attempted(&AttemptLine { delivery: &delivery, attempt: &attempt, settled, trace });
        self.trace(destination, &delivery, &attempt, trace);
        if let Some(key) = sealing {
            attempt.detail = seal_detail(&attempt.detail, (delivery.id, id), &key, &*self.dice);
        }
        let settlement = Settlement {
            shard: delivery.destination_id.shard(),
            delivery,
            fact: Fact::Attempted(Box::new(attempt)),
            settled,
            consequence: match next {
                Next::Disable => Some(Consequence::Disables),
                _ => destination.consequence(settled),
            },
        };
        AttemptEnd::Attempted {
            settlement: Box::new(settlement),
            met: MetOutcome { outcome, started_at, retry_after },
        }
    }

    /// What was met. None: given up, because the store is away or our lease has ended.
    async fn attempt(
        &self,
        membership: &Arc<Membership>,
        destination: &PreparedDestination,
        delivery: &Delivery,
        (carried, room): (&Arc<CarriedEvent>, Option<Share>),
        id: AttemptId,
        started_at: Timestamp,
    ) -> Option<AttemptMade> {
        failpoint::hit("send.before");
        // Before anything is sent: what cannot be kept as it must be is not tried.
        let sealing = match destination.encrypts {
            false => None,
            true => match self.data_keys.of(delivery.account_id).await {
                Ok(key) => Some(key),
                Err(shut) => return self.shut(delivery, shut).await,
            },
        };
        let event = match &carried.event {
            Some(event) if carried.has_payload => Arc::clone(event),
            _ => match self.store.payload(delivery.event_id).await {
                Ok(Some(stored)) => match self.data_keys.open(stored).await {
                    Ok(event) => event,
                    Err(shut) => return self.shut(delivery, shut).await,
                },
                Ok(None) => {
                    let message = "its event is gone".into();
                    return Some(AttemptFacts::of_fault(Fault::Unbuildable, message).into());
                }
                Err(StoreError::Altered) => {
                    tracing::error!(event_id = %delivery.event_id, delivery_id = %delivery.id, "payload.altered");
                    let message = "the stored payload is not what was accepted; it is not sent";
                    return Some(AttemptFacts::of_fault(Fault::Altered, message.into()).into());
                }
                Err(error) => return self.shut(delivery, Shut::Store(error)).await,
            },
        };
        let trace = TraceContext::of_attempt(&event, id);
        let sink = match &destination.sink {
            Ok(sink) => sink.as_ref(),
            Err(unready) => return Some(AttemptMade { sealing, ..unready.facts().into() }),
        };
        let mut payload = event.payload.clone();
        if let Some(room) = room {
            payload = Bytes::from_owner(BudgetedPayload { payload, _room: room });
        }
        let timeout = destination.timeout(delivery.route_id);
        let attempt = SinkAttempt {
            id,
            number: delivery.attempts + 1,
            delivery,
            event,
            payload,
            trace,
            started_at,
            deadline: Instant::now() + timeout,
            timeout,
            signing: destination.signing(delivery.route_id),
            policy: destination.policy(delivery.route_id),
            credential: None,
            permit: Permit::of(membership),
            clock: self.clock.as_ref(),
        };
        let facts = sink::attempt(sink, self.sinks.egress(), membership, attempt).await?;
        // What broke here, or could not be built, never reached the destination.
        let untold = matches!(
            facts.classified.outcome,
            Outcome::Undeliverable | Outcome::InternalError | Outcome::TokenError
        );
        Some(AttemptMade { facts, trace: (!untold).then_some(trace), sealing })
    }

    /// What is to be sent, or the key for what is to be kept, cannot be had.
    async fn shut(&self, delivery: &Delivery, shut: Shut) -> Option<AttemptMade> {
        match shut {
            Shut::Store(error) => {
                tracing::warn!(delivery_id = %delivery.id, %error, "a payload could not be read; trying again");
                tokio::time::sleep(limits::ABANDONED_PAUSE).await;
                None
            }
            Shut::ForGood(reason) => {
                tracing::error!(event_id = %delivery.event_id, delivery_id = %delivery.id, reason, "payload.shut");
                Some(AttemptFacts::of_fault(Fault::Unbuildable, reason).into())
            }
        }
    }

    /// Tells of the attempt, if traces are collected.
    fn trace(
        &self,
        destination: &PreparedDestination,
        delivery: &Delivery,
        attempt: &Attempt,
        context: Option<TraceContext>,
    ) {
        let Some(context) = context.filter(|_| self.tracer.is_on()) else { return };
        self.tracer.tell(context, || {
            let mut attributes = vec![
                ("posthaste.event_id", delivery.event_id.to_string().into()),
                ("posthaste.delivery_id", delivery.id.to_string().into()),
                ("posthaste.attempt_id", attempt.id.to_string().into()),
                ("posthaste.destination_id", delivery.destination_id.to_string().into()),
                ("posthaste.attempt", i64::from(attempt.number).into()),
                ("posthaste.outcome", attempt.outcome.as_str().into()),
            ];
            if let Ok(sink) = &destination.sink {
                sink.describe(&mut attributes);
            }
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
}

/// A large payload with its share of the memory, which it gives back when the last byte has been written.
struct BudgetedPayload {
    payload: Bytes,
    _room: Share,
}

impl AsRef<[u8]> for BudgetedPayload {
    fn as_ref(&self) -> &[u8] {
        &self.payload
    }
}
