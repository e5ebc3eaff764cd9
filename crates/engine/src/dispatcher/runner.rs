//! Runs the attempts of all lanes, and has what they share: capacity, the byte budget, the way to the sender and to the
//! settler.

use crate::{
    backoff::Backoff,
    carried::{CarriedBytes, CarriedEvent},
    destination::PreparedDestination,
    membership::Membership,
    sender::{AttemptEnd, Sender},
    settler::{DurableSettlement, PendingSettlement, SettlerHandle},
    test_sends::{AskedTest, TestEnd},
};
use domain::{
    delivery::{Delivery, Ending, Settled},
    dice::Dice,
    event::Event,
    gate::GateSettings,
    id::{AccountId, AttemptId, NodeId},
    lane::{LoadedDelivery, TestSlot},
    limits,
    time::{Clock, Timestamp},
};
use std::{sync::Arc, time::Duration};
use store::{Fact, FetchedDelivery, Settlement, StoreError};
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::{
    EndedTest, Message,
    capacity::{Capacity, OpenPlace},
};

pub(crate) struct AttemptRunner {
    sender: Arc<Sender>,
    settler: SettlerHandle,
    inbox: mpsc::Sender<Message>,
    clock: Arc<dyn Clock>,
    dice: Arc<dyn Dice>,
    membership: Arc<Membership>,
    gate: GateSettings,
    budget: Arc<CarriedBytes>,
    capacity: Capacity,
    /// Being ended without an attempt and not yet durable.
    ending: usize,
    /// Since when something has been waiting to be flushed.
    unflushed_since: Option<Timestamp>,
    requests: TaskTracker,
}

impl AttemptRunner {
    pub(crate) fn new(
        sender: Arc<Sender>,
        settler: SettlerHandle,
        inbox: mpsc::Sender<Message>,
        membership: Arc<Membership>,
        gate: GateSettings,
        max_in_flight: usize,
    ) -> Self {
        Self {
            clock: Arc::clone(&sender.clock),
            dice: Arc::clone(&sender.dice),
            membership,
            sender,
            settler,
            inbox,
            gate,
            budget: CarriedBytes::new(limits::CARRIED_BUDGET_BYTES),
            capacity: Capacity::new(max_in_flight),
            ending: 0,
            unflushed_since: None,
            requests: TaskTracker::new(),
        }
    }

    /// We have another id from now on; what is open was aborted with the old membership.
    pub(super) fn joined(&mut self, membership: Arc<Membership>) {
        self.membership = membership;
    }

    pub(super) fn id(&self) -> NodeId {
        self.membership.node
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) fn gate(&self) -> &GateSettings {
        &self.gate
    }

    pub(super) fn in_flight(&self) -> usize {
        self.capacity.in_flight()
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.capacity.in_flight() == 0 && self.capacity.unflushed() == 0 && self.ending == 0
    }

    pub(super) fn has_room(&self, account: AccountId) -> bool {
        self.budget.has_room(account)
    }

    /// Whether anything may start at all: our lease is good, and results become durable as fast as they come.
    pub(super) fn may_start(&self, now: Timestamp) -> bool {
        let flushing = self.unflushed_since.is_none_or(|since| now.since(since) < limits::FLUSH_PATIENCE);
        flushing && self.capacity.unflushed() < limits::UNFLUSHED && self.membership.may_start()
    }

    /// The same of one account.
    pub(super) fn may_start_of(&self, account: AccountId) -> bool {
        self.capacity.may_start(account)
    }

    /// Whether one more delivery may be ended without an attempt: millions may have to, and results come first.
    pub(super) fn may_end(&self) -> bool {
        self.ending < limits::ENDING_UNFLUSHED_NODE
    }

    pub(super) fn is_full(&self) -> bool {
        self.capacity.is_full()
    }

    /// How many requests one lane of this account may have open.
    pub(super) fn share(&self, account: AccountId) -> u32 {
        self.capacity.share(account)
    }

    /// Starts an attempt; its end comes back as a message, whatever happens to it. One that is aborted with the membership
    /// counts as abandoned: it is not known what became of it, and its row is as it was.
    pub(super) fn start(
        &mut self,
        destination: Arc<PreparedDestination>,
        loaded: LoadedDelivery<Arc<CarriedEvent>>,
    ) {
        let place = self.capacity.open(destination.account_id);
        let (sender, inbox, membership) =
            (Arc::clone(&self.sender), self.inbox.clone(), Arc::clone(&self.membership));
        let abort = membership.abort_token();
        self.requests.spawn(async move {
            let delivery = loaded.delivery.clone();
            let attempt = sender.deliver(&membership, &destination, loaded.delivery, loaded.carried);
            let sent = abort.run_until_cancelled(attempt).await.unwrap_or(AttemptEnd::Abandoned(delivery));
            // A dispatcher that has stopped no longer counts.
            let _ = inbox.send(Message::Ended(sent, place)).await;
        });
    }

    /// Makes the one attempt of a test, which ends when nobody waits for it any more. Its slot is free when it has ended.
    pub(super) fn start_test(
        &mut self,
        destination: Arc<PreparedDestination>,
        test: AskedTest,
        slot: TestSlot,
    ) {
        let place = self.capacity.open(destination.account_id);
        let (sender, inbox, membership) =
            (Arc::clone(&self.sender), self.inbox.clone(), Arc::clone(&self.membership));
        let (abort, carried) =
            (membership.abort_token(), self.budget.carry(destination.account_id, Some(test.event), true));
        self.requests.spawn(async move {
            let (delivery, mut answer) = (test.delivery, test.answer);
            let ended = EndedTest { destination_id: delivery.destination_id, id: delivery.id, slot, place };
            let attempt = sender.deliver(&membership, &destination, delivery, carried);
            let end = tokio::select! {
                biased;
                sent = abort.run_until_cancelled(attempt) => TestEnd::of(sent),
                () = answer.closed() => TestEnd::of(None),
            };
            if answer.is_closed() {
                tokio::time::sleep(limits::TEST_CLOSES).await;
            }
            let _ = inbox.send(Message::TestEnded(ended)).await;
            let _ = answer.send(end);
        });
    }

    /// Ends a delivery without an attempt.
    pub(super) fn end(
        &mut self,
        destination: &PreparedDestination,
        delivery: Delivery,
        ending: Ending,
        now: Timestamp,
    ) {
        let id = AttemptId::at(now, self.dice.bits());
        let fact = Fact::EndedWithout { id, at: now, node: self.membership.node, ending };
        let settlement = Settlement {
            shard: delivery.destination_id.shard(),
            delivery,
            fact,
            settled: Settled::Ended(ending),
            consequence: destination.consequence(Settled::Ended(ending)),
        };
        self.ending += 1;
        // Bounded by `may_end`.
        self.settler.ended(PendingSettlement { settlement, gate_word: None, hurry: false });
    }

    pub(super) fn closed(&mut self, place: OpenPlace) {
        self.capacity.close(place);
    }

    pub(super) fn finished(&mut self, pending: PendingSettlement, now: Timestamp) {
        self.capacity.ended(pending.settlement.delivery.account_id);
        self.unflushed_since.get_or_insert(now);
        // Bounded by `may_start`: what is unflushed, and what was open when it said no.
        self.settler.finished(pending);
    }

    pub(super) fn flushed(&mut self, flushed: &[DurableSettlement], now: Timestamp) {
        for settlement in flushed {
            match settlement.attempted {
                true => self.capacity.flushed(settlement.account),
                false => self.ending -= 1,
            }
        }
        self.unflushed_since = (self.capacity.unflushed() > 0).then_some(now);
    }

    pub(super) fn abort_all(&self) {
        self.membership.abort_open();
    }

    pub(super) fn loader(&self) -> Loader {
        Loader { budget: Arc::clone(&self.budget), last: None }
    }

    pub(super) fn pause_after(&self, backoff: &mut Backoff, error: &StoreError, what: &str) -> Duration {
        if backoff.worth_telling() {
            tracing::warn!(%error, "{what} could not be read; trying again");
        }
        backoff.pause(self.dice.as_ref())
    }
}

/// Carries events: one for all of its deliveries that come together.
pub(super) struct Loader {
    budget: Arc<CarriedBytes>,
    last: Option<(Arc<Event>, Arc<CarriedEvent>)>,
}

impl Loader {
    pub(super) fn load(&mut self, row: &FetchedDelivery) -> Arc<CarriedEvent> {
        let small = row.has_payload && row.delivery.payload_bytes as usize <= limits::CARRIED_BYTES;
        let Some(event) = row.event.as_ref().filter(|_| small) else {
            return self.budget.carry(row.delivery.account_id, None, false);
        };
        match &self.last {
            Some((last, carried)) if Arc::ptr_eq(last, event) => Arc::clone(carried),
            _ => {
                let carried = self.budget.carry(row.delivery.account_id, Some(Arc::clone(event)), true);
                self.last = Some((Arc::clone(event), Arc::clone(&carried)));
                carried
            }
        }
    }
}
