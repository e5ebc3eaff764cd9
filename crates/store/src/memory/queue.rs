//! Fetching, settling, and what people ask of single deliveries.

use super::{Ended, KeptAttempt, MemoryStore, State};
use crate::{AttemptRecord, Fact, FetchedDelivery, LaneHead, Queue, Settlement, StoreError, Window};
use async_trait::async_trait;
use domain::{
    attempt::Attempt,
    delivery::{CancelReason, Delivery, Ending, Position, Settled},
    destination::{Disabled, DisabledReason},
    event::Event,
    id::{AccountId, AttemptId, DeliveryId, DestinationId, EventId, NodeId},
    limits,
    outcome::Outcome,
    time::Timestamp,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

#[async_trait]
impl Queue for MemoryStore {
    async fn fetch(&self, windows: &[Window]) -> Result<Vec<Vec<FetchedDelivery>>, StoreError> {
        self.interrupted("fetch")?;
        let state = self.state();
        let mut carried = BTreeMap::new();
        let lane = |window: &Window| state.waiting.lane(window.shard, window.destination_id, window.from);
        let read = windows.iter().map(|window| {
            let rows = lane(window).take(window.limit);
            rows.map(|delivery| state.fetched(window.shard, delivery, &mut carried)).collect()
        });
        Ok(read.collect())
    }

    async fn payload(&self, event: EventId) -> Result<Option<Arc<Event>>, StoreError> {
        self.interrupted("payload")?;
        Ok(self.state().events.get(&event).map(|kept| kept.event.clone()))
    }

    async fn settle(
        &self,
        node: NodeId,
        settlements: &[Settlement],
        now: Timestamp,
    ) -> Result<Vec<bool>, StoreError> {
        self.interrupted("settle")?;
        let mut state = self.state();
        let owner = state.nodes.contains_key(&node);
        let (mut answers, mut gone) = (Vec::new(), BTreeSet::new());
        for settlement in settlements {
            let fact = (settlement.delivery.id, fact_id(&settlement.fact));
            // A fact is written once: the first word about it stays, and is said again.
            let said = state.facts.get(&fact).copied();
            let moved = said.unwrap_or_else(|| state.settle(owner, settlement));
            if said.is_none() && moved && settlement.disables_destination {
                gone.insert(settlement.delivery.destination_id);
            }
            state.facts.insert(fact, moved);
            answers.push(moved);
        }
        state.disable(gone, now)?;
        Ok(answers)
    }

    async fn lanes(
        &self,
        shards: &[u16],
        after: Option<(u16, DestinationId)>,
        limit: usize,
    ) -> Result<Vec<LaneHead>, StoreError> {
        Ok(self.state().waiting.heads(shards, after).take(limit).collect())
    }

    async fn retry_now(
        &self,
        account: AccountId,
        id: DeliveryId,
        now: Timestamp,
    ) -> Result<Option<Delivery>, StoreError> {
        let mut state = self.state();
        let Some(mut delivery) = state.waiting.of_account(account, id).cloned() else { return Ok(None) };
        if delivery.due_at > now {
            delivery.due_at = now;
            delivery.position = Position::due(now, id);
            state.waiting.replace(delivery.clone());
        }
        Ok(Some(delivery))
    }

    async fn cancel(
        &self,
        account: AccountId,
        id: DeliveryId,
        _fact: AttemptId,
        now: Timestamp,
    ) -> Result<Option<Delivery>, StoreError> {
        let mut state = self.state();
        let Some(delivery) = state.waiting.of_account(account, id).cloned() else { return Ok(None) };
        state.end(delivery.clone(), Ending::Cancelled(CancelReason::Requested), now);
        Ok(Some(delivery))
    }

    async fn backlog(
        &self,
        destinations: &[DestinationId],
        limit: i64,
    ) -> Result<Vec<(i64, Option<Timestamp>)>, StoreError> {
        let state = self.state();
        let count = |id: &DestinationId| {
            let lane = state.waiting.lane(id.shard(), *id, Position::START);
            let created: Vec<Timestamp> =
                lane.take(limit.max(0) as usize).map(|delivery| delivery.created_at).collect();
            (created.len() as i64, created.into_iter().min())
        };
        Ok(destinations.iter().map(count).collect())
    }
}

impl State {
    fn fetched(
        &self,
        shard: u16,
        delivery: &Delivery,
        carried: &mut BTreeMap<EventId, Arc<Event>>,
    ) -> FetchedDelivery {
        let kept = self.events.get(&delivery.event_id).map(|kept| &kept.event);
        let has_payload = kept.is_some_and(|event| event.payload.len() <= limits::CARRIED_BYTES);
        let event = kept.map(|event| {
            let carry = || if has_payload { event.clone() } else { Arc::new(without_payload(event)) };
            carried.entry(event.id).or_insert_with(carry).clone()
        });
        FetchedDelivery { shard, delivery: delivery.clone(), event, has_payload }
    }

    /// Whether it moved its delivery. The row decides: it must be there, and as it was when the attempt started.
    fn settle(&mut self, owner: bool, settlement: &Settlement) -> bool {
        let (id, account) = (settlement.delivery.id, settlement.delivery.account_id);
        let unmoved = |row: &&Delivery| owner && row.attempts == settlement.delivery.attempts;
        let row = self.waiting.of_account(account, id).filter(unmoved).cloned();
        let moved = row.is_some();
        if let Some(row) = row {
            self.move_on(row, settlement);
        }
        if let Fact::Attempted(attempt) = &settlement.fact {
            let record = record(attempt, &settlement.delivery, !moved);
            self.attempts.insert((id, attempt.id), KeptAttempt { account_id: account, record });
        }
        moved
    }

    fn move_on(&mut self, row: Delivery, settlement: &Settlement) {
        let (tried, over_at) = match &settlement.fact {
            Fact::Attempted(attempt) => (after(row, attempt), attempt.started_at.plus(attempt.duration)),
            Fact::EndedWithout { at, .. } => (row, *at),
        };
        match settlement.settled {
            Settled::Ended(ending) => self.end(tried, ending, over_at),
            Settled::Waits { position, due_at, spent } => {
                self.waiting.replace(Delivery { position, due_at, spent, ..tried });
            }
        }
    }

    fn end(&mut self, delivery: Delivery, ending: Ending, at: Timestamp) {
        self.waiting.remove(delivery.id);
        self.ended.insert(delivery.id, Ended { delivery, ending, at });
    }

    /// One change per account, however many of its destinations are gone.
    fn disable(&mut self, gone: BTreeSet<DestinationId>, now: Timestamp) -> Result<(), StoreError> {
        let mut versions = BTreeMap::new();
        for id in gone {
            let Some(kept) = self.destinations.0.get(&id) else { continue };
            if kept.row.switch.disabled.is_some() {
                continue;
            }
            let account = kept.row.account_id;
            let version = match versions.get(&account) {
                Some(version) => *version,
                None => self.next_version(account)?,
            };
            versions.insert(account, version);
            let kept = self.destinations.0.get_mut(&id).expect("found above");
            kept.row.switch.disabled = Some(Disabled { at: now, reason: DisabledReason::Gone });
            (kept.version, kept.row.version) = (version, version);
        }
        Ok(())
    }
}

fn fact_id(fact: &Fact) -> AttemptId {
    match fact {
        Fact::Attempted(attempt) => attempt.id,
        Fact::EndedWithout { id, .. } => *id,
    }
}

/// The delivery with one attempt more behind it.
fn after(row: Delivery, attempt: &Attempt) -> Delivery {
    Delivery {
        attempts: row.attempts + 1,
        tls_errors: row.tls_errors + u32::from(attempt.outcome == Outcome::TlsError),
        last_outcome: Some(attempt.outcome),
        last_http_status: attempt.http_status,
        ..row
    }
}

fn record(attempt: &Attempt, delivery: &Delivery, late: bool) -> AttemptRecord {
    AttemptRecord {
        id: attempt.id,
        delivery_id: delivery.id,
        event_id: delivery.event_id,
        destination_id: delivery.destination_id,
        number: attempt.number,
        started_at: attempt.started_at,
        duration: attempt.duration,
        outcome: attempt.outcome,
        http_status: attempt.http_status,
        detail: attempt.detail.clone(),
        node: attempt.node,
        late,
    }
}

pub(super) fn without_payload(event: &Event) -> Event {
    Event { payload: bytes::Bytes::new(), ..event.clone() }
}
