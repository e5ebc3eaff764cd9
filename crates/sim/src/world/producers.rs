//! Those who send events, each until it has been confirmed.

use super::World;
use crate::{
    intake::Order,
    log::What,
    time::{MILLISECOND, Moment, SECOND},
    verdict::Sent,
};
use domain::id::EventId;
use ingest::{Answer, IngestError};
use tokio::sync::oneshot;

/// A producer with one event: it tries until it has been confirmed.
pub(super) struct Sending {
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
    pub(super) fn orders_proceed(&mut self) {
        for at in 0..self.orders.len() {
            if self.orders[at].confirmed.is_some() || self.orders[at].refused {
                continue;
            }
            self.hear(at);
            if self.orders[at].confirmed.is_none()
                && !self.orders[at].refused
                && self.orders[at].waiting.is_none()
                && self.orders[at].next <= self.now
            {
                self.send(at);
            }
        }
    }

    fn hear(&mut self, at: usize) {
        let order = &mut self.orders[at];
        let Some((since, answer)) = &mut order.waiting else { return };
        let patience_is_over = self.now - *since > 10 * SECOND;
        let heard = match answer.try_recv() {
            // The answer may get lost between the node and its producer.
            Ok(Ok(_)) if !self.calm && self.chance.happens(0.05) => None,
            Ok(answer) => Some(answer),
            Err(oneshot::error::TryRecvError::Empty) if !patience_is_over => return,
            Err(_) => None,
        };
        order.waiting = None;
        match heard {
            Some(Ok(accepted)) => {
                order.confirmed = Some(accepted.id);
                return self.scene.note(What::Acknowledged { order: at, event: accepted.id });
            }
            Some(Err(IngestError::FanoutTooLarge { .. })) => {
                order.refused = true;
                return self.scene.note(What::Refused { order: at });
            }
            // Nothing has been written.
            Some(Err(IngestError::Overloaded | IngestError::StaleTooOften)) => {}
            Some(Err(_)) | None => order.unsure = true,
        }
        order.next = self.now + self.chance.range(10, 1_000) as Moment * MILLISECOND;
        self.scene.note(What::Unconfirmed { order: at });
    }

    fn send(&mut self, at: usize) {
        let planned = &self.plan.orders[self.orders[at].number];
        let (answer, answered) = oneshot::channel();
        let order = Order {
            account: self.accounts[planned.account],
            event_type: planned.event_type,
            key: key(at),
            payload: planned.payload,
            ordering_key: planned.ordering_key,
            later: planned.later,
            answer,
        };
        match self.somebody() {
            Some(process) => {
                process.order(order);
                self.orders[at].waiting = Some((self.now, answered));
            }
            None => self.orders[at].next = self.now + 100 * MILLISECOND,
        }
    }

    pub(super) fn sent(&self) -> Vec<Sent> {
        let orders = self.orders.iter().enumerate();
        let sent = orders.map(|(at, order)| Sent {
            order: at,
            account: self.accounts[self.plan.orders[order.number].account],
            key: key(at),
            confirmed: order.confirmed,
            refused: order.refused && !order.unsure,
        });
        sent.collect()
    }
}

/// The same however often it is sent.
fn key(order: usize) -> String {
    format!("order-{order}")
}
