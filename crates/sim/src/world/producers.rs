//! Those who send events, each until it has been confirmed.

use super::World;
use crate::{
    door::{Asked, Order},
    log::What,
    time::{MILLISECOND, Moment, SECOND},
};
use domain::id::EventId;
use tokio::sync::oneshot;

/// A producer with one event: it tries until it has been confirmed.
pub(super) struct Sending {
    pub(super) number: usize,
    pub(super) next: Moment,
    /// Since when, and for what.
    pub(super) waiting: Option<(Moment, oneshot::Receiver<Heard>)>,
    pub(super) confirmed: Option<EventId>,
}

type Heard = Result<EventId, ()>;

impl World {
    pub(super) fn orders_proceed(&mut self) {
        for at in 0..self.orders.len() {
            if self.orders[at].confirmed.is_some() {
                continue;
            }
            self.hear(at);
            if self.orders[at].confirmed.is_none()
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
            Ok(Ok(_)) if !self.calm && self.chance.happens(0.05) => Err(()),
            Ok(answer) => answer,
            Err(oneshot::error::TryRecvError::Empty) if !patience_is_over => return,
            Err(_) => Err(()),
        };
        order.waiting = None;
        match heard {
            Ok(event) => {
                order.confirmed = Some(event);
                self.scene.note(What::Acknowledged { order: at, event });
            }
            Err(()) => {
                order.next = self.now + self.chance.range(10, 1_000) as Moment * MILLISECOND;
                self.scene.note(What::Unconfirmed { order: at });
            }
        }
    }

    fn send(&mut self, at: usize) {
        let planned = &self.plan.orders[self.orders[at].number];
        let (answer, answered) = oneshot::channel();
        let order = Order {
            account: self.accounts[planned.account],
            event_type: planned.event_type,
            key: format!("order-{at}"),
            payload: planned.payload,
            ordering_key: planned.ordering_key,
            later: planned.later,
            answer,
        };
        match self.somebody() {
            Some(process) => {
                process.ask(Asked::Event(order));
                self.orders[at].waiting = Some((self.now, answered));
            }
            None => self.orders[at].next = self.now + 100 * MILLISECOND,
        }
    }

    pub(super) fn confirmed(&self) -> Vec<(usize, EventId)> {
        self.orders.iter().filter_map(|order| Some((order.number, order.confirmed?))).collect()
    }
}
