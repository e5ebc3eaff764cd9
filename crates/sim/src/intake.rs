//! How events come in: what the API's handlers do, without HTTP around it. All that comes after is the product's own:
//! the crate `ingest` matches, commits, announces and answers.

use crate::{
    commands::Handlers, log::Occurrence, plan::IngestPlan, planted_bug::PlantedBug, shared_world::count,
};
use domain::{
    dice::Dice,
    event::Event,
    id::{AccountId, EventId},
};
use ingest::{Accepted, Answer, IngestError, IngestSettings, LongWork, idempotency_key};
use std::time::Duration;
use store::{IdempotencyKey, NewEvent};
use tokio::sync::oneshot;

/// An event that a producer wants to send.
pub(crate) struct EventRequest {
    pub(crate) account: AccountId,
    pub(crate) event_type: &'static str,
    pub(crate) key: String,
    pub(crate) payload: usize,
    pub(crate) ordering_key: Option<&'static str>,
    pub(crate) later: Option<Duration>,
    pub(crate) answer: oneshot::Sender<Answer>,
}

impl Handlers {
    /// One request, from its arrival to its answer.
    pub(crate) async fn take(self, request: EventRequest) {
        let now = self.clock.now();
        let id = EventId::at(now, self.dice.bits());
        let event_type = request.event_type.parse().expect("the world's types are well-formed");
        let event = Event {
            idempotency_key: Some(request.key.clone()),
            ordering_key: request.ordering_key.map(Into::into),
            deliver_at: request.later.map(|later| now.plus(later)),
            ..Event::new(id, request.account, event_type, vec![b'x'; request.payload].into(), now)
        };
        let key = idempotency_key(request.account.uuid(), &request.key, &event);
        if self.shared.has(PlantedBug::AnswerBeforeFlush) {
            return self.answer_at_once(event, key, request.answer).await;
        }
        let answer = self.admit(event, key).await;
        self.tally(&answer);
        // The producer may have lost its patience.
        let _ = request.answer.send(answer);
    }

    async fn admit(&self, event: Event, key: IdempotencyKey) -> Answer {
        self.admission.check_wait_of(event.account_id)?;
        let reserved = self.admission.budget().reserve(event.account_id, event.payload.len())?;
        self.admission.admit(event, Some(key), reserved).await
    }

    /// The bug: what waits for the committer is taken for what it has flushed.
    async fn answer_at_once(&self, event: Event, key: IdempotencyKey, answer: oneshot::Sender<Answer>) {
        let id = event.id;
        let budget = self.admission.budget();
        let Ok(reserved) = budget.reserve(event.account_id, event.payload.len()) else { return };
        if self.admission.submit(event, Some(key), reserved).await.is_ok() {
            let _ = answer.send(Ok(Accepted { id, duplicate: false, deliveries: None }));
        }
    }

    fn tally(&self, answer: &Answer) {
        let counts = &self.shared.counts;
        match answer {
            Ok(Accepted { duplicate: true, .. }) => count(&counts.repeats),
            Ok(_) => {}
            Err(error) => {
                match error {
                    IngestError::Overloaded => count(&counts.overloaded),
                    IngestError::FanoutTooLarge { .. } => count(&counts.quota_refusals),
                    IngestError::StaleTooOften => count(&counts.stale_refusals),
                    IngestError::Unconfirmed => count(&counts.unconfirmed),
                    _ => {}
                }
                self.shared.note(Occurrence::NotAccepted { why: error.to_string() });
            }
        }
    }
}

/// The product's settings, small enough for a world of a few routes and producers.
pub(crate) fn settings(planned: &IngestPlan) -> IngestSettings {
    let product = IngestSettings::default();
    IngestSettings {
        queue: planned.queue.unwrap_or(product.queue),
        fanout_inline: planned.fanout_inline.unwrap_or(product.fanout_inline),
        fanout: planned.fanout.unwrap_or(product.fanout),
        fanout_ordered: planned.fanout_ordered.unwrap_or(product.fanout_ordered),
        match_rounds: planned.match_rounds.unwrap_or(product.match_rounds),
        // A thread of its own would finish when it likes.
        long_work: LongWork::InPlace,
    }
}

/// The world counts by what really happens in the store.
pub(crate) struct Unobserved;

impl ingest::Observer for Unobserved {
    fn committed(&self, _: &NewEvent) {}
    fn store_failed(&self) {}
}
