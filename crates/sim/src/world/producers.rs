//! The producers: each sends its event until it has been confirmed.

use super::World;
use crate::{
    intake::EventRequest,
    log::Occurrence,
    time::{MILLISECOND, Moment, SECOND},
    verdict::SentEvent,
};
use domain::id::EventId;
use ingest::{Answer, IngestError};
use tokio::sync::oneshot;

/// A producer with one event: it tries until it has been confirmed.
pub(super) struct Producer {
    pub(super) number: usize,
    pub(super) next: Moment,
    /// Since when, and for what.
    pub(super) waiting: Option<(Moment, oneshot::Receiver<Answer>)>,
    pub(super) confirmed: Option<EventId>,
    /// It has been told that its event will not be stored, and gives up.
    pub(super) refused: bool,
    /// Some answer left open whether the event is there.
    pub(super) unsure: bool,
}

impl World {
    pub(super) fn producers_proceed(&mut self) {
        for at in 0..self.producers.len() {
            if self.producers[at].confirmed.is_some() || self.producers[at].refused {
                continue;
            }
            self.hear(at);
            if self.producers[at].confirmed.is_none()
                && !self.producers[at].refused
                && self.producers[at].waiting.is_none()
                && self.producers[at].next <= self.now
            {
                self.send(at);
            }
        }
    }

    fn hear(&mut self, at: usize) {
        let producer = &mut self.producers[at];
        let Some((since, answer)) = &mut producer.waiting else { return };
        let patience_is_over = self.now - *since > 10 * SECOND;
        let heard = match answer.try_recv() {
            // The answer may get lost between the node and its producer.
            Ok(Ok(_)) if !self.calm && self.chance.happens(0.05) => None,
            Ok(answer) => Some(answer),
            Err(oneshot::error::TryRecvError::Empty) if !patience_is_over => return,
            Err(_) => None,
        };
        producer.waiting = None;
        match heard {
            Some(Ok(accepted)) => {
                producer.confirmed = Some(accepted.id);
                return self.shared.note(Occurrence::Acknowledged { producer: at, event: accepted.id });
            }
            Some(Err(IngestError::FanoutTooLarge { .. })) => {
                producer.refused = true;
                return self.shared.note(Occurrence::Refused { producer: at });
            }
            // Nothing has been written.
            Some(Err(IngestError::Overloaded | IngestError::StaleTooOften)) => {}
            Some(Err(_)) | None => producer.unsure = true,
        }
        producer.next = self.now + self.chance.range(10, 1_000) as Moment * MILLISECOND;
        self.shared.note(Occurrence::Unconfirmed { producer: at });
    }

    fn send(&mut self, at: usize) {
        let planned = &self.plan.events[self.producers[at].number];
        let (answer, answered) = oneshot::channel();
        let request = EventRequest {
            account: self.accounts[planned.account],
            event_type: planned.event_type,
            key: key(at),
            payload: planned.payload,
            ordering_key: planned.ordering_key,
            later: planned.later,
            answer,
        };
        match self.serving_process() {
            Some(process) => {
                process.take(request);
                self.producers[at].waiting = Some((self.now, answered));
            }
            None => self.producers[at].next = self.now + 100 * MILLISECOND,
        }
    }

    pub(super) fn sent(&self) -> Vec<SentEvent> {
        let producers = self.producers.iter().enumerate();
        let sent = producers.map(|(at, producer)| SentEvent {
            producer: at,
            account: self.accounts[self.plan.events[producer.number].account],
            key: key(at),
            confirmed: producer.confirmed,
            refused: producer.refused && !producer.unsure,
        });
        sent.collect()
    }
}

/// The same however often it is sent.
fn key(producer: usize) -> String {
    format!("event-{producer}")
}
