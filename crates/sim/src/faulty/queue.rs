//! Fetching and settling, as one node meets them.

use super::{FaultyStore, TrueStore, finish};
use crate::{planted_bug::PlantedBug, shared_world::count, time::moment};
use async_trait::async_trait;
use domain::{
    audit::AuditEntry,
    delivery::{CancelReason, Delivery, Ending, Settled},
    id::{AccountId, AttemptId, DeliveryId, DestinationId, EventId, NodeId},
    time::Timestamp,
};
use store::{
    DeliveryState, DueDelivery, Fact, FetchedDelivery, LaneHead, NewDelivery, Queue, Settlement, StoreError,
    StoredEvent, TrackHead, Window,
};

#[async_trait]
impl Queue for FaultyStore {
    async fn fetch(&self, windows: &[Window]) -> Result<Vec<Vec<FetchedDelivery>>, StoreError> {
        let mut fetched = self.read("fetch", self.inner.fetch(windows)).await?;
        for row in fetched.iter_mut().flatten() {
            if self.has(PlantedBug::RetryForgetsAttempts) {
                row.delivery.attempts = 0;
            }
            if self.has(PlantedBug::RetryTooEarly) && row.delivery.attempts > 0 {
                row.delivery.due_at = Timestamp::MIN;
            }
        }
        if self.has(PlantedBug::OrderByDueTime) {
            let now = self.shared.time.now();
            let due = |row: &FetchedDelivery| moment(row.delivery.due_at) <= now;
            fetched
                .iter_mut()
                .for_each(|rows| rows.retain(|row| row.delivery.sequence.is_none() || due(row)));
        }
        Ok(fetched)
    }

    async fn payload(&self, event: EventId) -> Result<Option<StoredEvent>, StoreError> {
        self.read("payload", self.inner.payload(event)).await
    }

    async fn settle(
        &self,
        node: NodeId,
        settlements: &[Settlement],
        now: Timestamp,
    ) -> Result<Vec<bool>, StoreError> {
        let mut settlements = settlements.to_vec();
        if self.has(PlantedBug::EndingWithoutFact) {
            settlements.iter_mut().for_each(forget_attempt);
        }
        if self.has(PlantedBug::ChainLeftUnresolved) {
            let delivered = |it: &&mut Settlement| it.settled == Settled::Ended(Ending::Delivered);
            settlements.iter_mut().filter(delivered).for_each(|it| it.delivery.origin = it.delivery.id);
        }
        let count_of = settlements.len();
        let settle = move |TrueStore { store, shared, .. }: &TrueStore| {
            let fence =
                shared.has(PlantedBug::NoFence).then(|| shared.observed().members.first().copied()).flatten();
            let moved = finish(store.settle(fence.unwrap_or(node), &settlements, now))?;
            let (at, mut observed) = (shared.time.now(), shared.observed());
            for (settlement, moved) in settlements.iter().zip(&moved) {
                count(&shared.counts.settlements);
                observed.settled(node, settlement, *moved, at);
            }
            Ok(moved)
        };
        match self.write("settle", settle).await {
            Err(_) if self.has(PlantedBug::LostFlush) => Ok(vec![true; count_of]),
            result => result,
        }
    }

    async fn lanes(
        &self,
        shards: &[u16],
        after: Option<(u16, DestinationId)>,
        limit: usize,
    ) -> Result<Vec<LaneHead>, StoreError> {
        self.read("lanes", self.inner.lanes(shards, after, limit)).await
    }

    async fn tracks(
        &self,
        shard: u16,
        destination: DestinationId,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Vec<TrackHead>, StoreError> {
        self.read("tracks", self.inner.tracks(shard, destination, after, limit)).await
    }

    async fn take_turns(
        &self,
        node: NodeId,
        turns: &[DueDelivery],
        now: Timestamp,
    ) -> Result<Vec<bool>, StoreError> {
        let turns = turns.to_vec();
        let take = move |true_store: &TrueStore| {
            let moved = finish(true_store.store.take_turns(node, &turns, now))?;
            for (turn, _) in turns.iter().zip(&moved).filter(|(_, moved)| **moved) {
                true_store.note_number(turn.delivery.account_id, turn.delivery.id);
            }
            Ok(moved)
        };
        self.write("take_turns", take).await
    }

    async fn retry_now(
        &self,
        account: AccountId,
        id: DeliveryId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<Option<Delivery>, StoreError> {
        let audit = audit.clone();
        let retry = move |TrueStore { store, shared, .. }: &TrueStore| {
            let moved = finish(store.retry_now(account, id, now, &audit))?;
            if let Some(delivery) = &moved {
                shared.observed().commanded(id, Some(moment(delivery.due_at)), None, shared.time.now());
            }
            Ok(moved)
        };
        self.write("retry_now", retry).await
    }

    async fn cancel(
        &self,
        account: AccountId,
        id: DeliveryId,
        fact: AttemptId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<Option<Delivery>, StoreError> {
        let audit = audit.clone();
        let cancel = move |TrueStore { store, shared, .. }: &TrueStore| {
            let ended = finish(store.cancel(account, id, fact, now, &audit))?;
            if ended.is_some() {
                let ending = Ending::Cancelled(CancelReason::Requested);
                shared.observed().commanded(id, None, Some(ending), shared.time.now());
            }
            Ok(ended)
        };
        self.write("cancel", cancel).await
    }

    async fn backlog(
        &self,
        destinations: &[DestinationId],
        limit: i64,
    ) -> Result<Vec<(i64, Option<Timestamp>)>, StoreError> {
        self.read("backlog", self.inner.backlog(destinations, limit)).await
    }
}

impl TrueStore {
    /// Notes a delivery that is there now.
    pub(super) fn promised(&self, account: AccountId, delivery: &NewDelivery) {
        self.shared.observed().promised(account, delivery);
        if delivery.sequenced {
            self.note_number(account, delivery.id);
        }
    }

    /// Notes the number that the store has given.
    pub(super) fn note_number(&self, account: AccountId, id: DeliveryId) {
        let record = finish(self.store.delivery(account, id)).expect("just written");
        if let DeliveryState::Waiting(row) = record.state {
            self.shared.observed().numbered(id, row.position.track, row.sequence);
        }
    }
}

fn forget_attempt(settlement: &mut Settlement) {
    if let (Fact::Attempted(attempt), Settled::Ended(ending)) = (&settlement.fact, settlement.settled) {
        let at = attempt.started_at.plus(attempt.duration);
        settlement.fact = Fact::EndedWithout { id: attempt.id, at, node: attempt.node, ending };
    }
}
