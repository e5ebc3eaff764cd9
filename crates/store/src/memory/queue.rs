//! Fetching, settling, and what people ask of single deliveries.

use super::{EndedDelivery, KeptAttempt, MemoryStore, Tables};
use crate::{
    AttemptRecord, Consequence, DueDelivery, Fact, FetchedDelivery, LaneHead, Queue, Settlement, StoreError,
    StoredEvent, TrackHead, Window, queue::first_track,
};
use async_trait::async_trait;
use domain::{
    attempt::Attempt,
    audit::AuditEntry,
    delivery::{CancelReason, Delivery, Ending, Position, Settled},
    destination::{Disabled, DisabledReason},
    event::Event,
    id::{AccountId, AttemptId, DeliveryId, DestinationId, EventId, NodeId},
    limits,
    operations::OperationalNote,
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
        let tables = self.tables();
        let mut carried = BTreeMap::new();
        let lane = |window: &Window| tables.waiting.lane(window.shard, window.destination_id, window.from);
        let read = windows.iter().map(|window| {
            let within = |delivery: &&Delivery| delivery.position.track <= window.last_track;
            let rows = lane(window).take_while(within).take(window.limit);
            rows.map(|delivery| tables.fetched(window.shard, delivery, &mut carried)).collect()
        });
        Ok(read.collect())
    }

    async fn payload(&self, event: EventId) -> Result<Option<StoredEvent>, StoreError> {
        self.interrupted("payload")?;
        match self.tables().events.get(&event) {
            Some(kept) if kept.payload_erased_at.is_some() => Ok(None),
            Some(kept) if !kept.is_whole() => Err(StoreError::Altered),
            kept => Ok(kept.map(super::KeptEvent::stored)),
        }
    }

    async fn settle(
        &self,
        node: NodeId,
        settlements: &[Settlement],
        now: Timestamp,
    ) -> Result<Vec<bool>, StoreError> {
        self.interrupted("settle")?;
        let mut tables = self.tables();
        let owner = tables.nodes.contains_key(&node);
        let (mut answers, mut consequences) = (Vec::new(), BTreeSet::new());
        for settlement in settlements {
            let fact = (settlement.delivery.id, fact_id(&settlement.fact));
            // A fact is written once: the first word about it stays, and is said again.
            let said = tables.facts.get(&fact).copied();
            let moved = said.unwrap_or_else(|| tables.settle(owner, settlement));
            if said.is_none() && moved {
                let destination = settlement.delivery.destination_id;
                consequences.extend(settlement.consequence.map(|consequence| (consequence, destination)));
            }
            if moved || !tables.is_deleted(settlement.delivery.account_id) {
                tables.facts.insert(fact, moved);
            }
            answers.push(moved);
        }
        tables.switch(consequences, now)?;
        self.feed_signal.notify();
        Ok(answers)
    }

    async fn lanes(
        &self,
        shards: &[u16],
        after: Option<(u16, DestinationId)>,
        limit: usize,
    ) -> Result<Vec<LaneHead>, StoreError> {
        Ok(self.tables().waiting.heads(shards, after).take(limit).collect())
    }

    async fn tracks(
        &self,
        shard: u16,
        destination: DestinationId,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Vec<TrackHead>, StoreError> {
        self.interrupted("tracks")?;
        let Some(from) = first_track(after) else { return Ok(Vec::new()) };
        Ok(self.tables().waiting.tracks(shard, destination, from).take(limit).collect())
    }

    async fn take_turns(
        &self,
        node: NodeId,
        turns: &[DueDelivery],
        now: Timestamp,
    ) -> Result<Vec<bool>, StoreError> {
        self.interrupted("take_turns")?;
        let mut tables = self.tables();
        let owner = tables.nodes.contains_key(&node);
        Ok(turns.iter().map(|turn| owner && tables.take_turn(turn, now)).collect())
    }

    async fn retry_now(
        &self,
        account: AccountId,
        id: DeliveryId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<Option<Delivery>, StoreError> {
        let mut tables = self.tables();
        let Some(mut delivery) = tables.waiting.of_account(account, id).cloned() else { return Ok(None) };
        if delivery.due_at > now {
            delivery.due_at = now;
            if delivery.sequence.is_none() || delivery.position.track == Position::UNORDERED {
                delivery.position.rank = now.micros();
            }
            tables.waiting.replace(delivery.clone());
        }
        tables.append(Some(account), audit);
        Ok(Some(delivery))
    }

    async fn cancel(
        &self,
        account: AccountId,
        id: DeliveryId,
        fact: AttemptId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<Option<Delivery>, StoreError> {
        let mut tables = self.tables();
        let Some(delivery) = tables.waiting.of_account(account, id).cloned() else { return Ok(None) };
        tables.end(delivery.clone(), Ending::Cancelled(CancelReason::Requested), now, fact);
        tables.append(Some(account), audit);
        self.feed_signal.notify();
        Ok(Some(delivery))
    }

    async fn backlog(
        &self,
        destinations: &[DestinationId],
        limit: i64,
    ) -> Result<Vec<(i64, Option<Timestamp>)>, StoreError> {
        let tables = self.tables();
        let count = |id: &DestinationId| {
            let lane = tables.waiting.lane(id.shard(), *id, Position::START);
            let created: Vec<Timestamp> =
                lane.take(limit.max(0) as usize).map(|delivery| delivery.created_at).collect();
            (created.len() as i64, created.into_iter().min())
        };
        Ok(destinations.iter().map(count).collect())
    }
}

impl Tables {
    fn fetched(
        &self,
        shard: u16,
        delivery: &Delivery,
        carried: &mut BTreeMap<EventId, Arc<Event>>,
    ) -> FetchedDelivery {
        let kept = self.events.get(&delivery.event_id);
        let has_payload = kept.is_some_and(super::KeptEvent::is_carried);
        let sealed = kept.filter(|kept| kept.event.payload.len() <= limits::CARRIED_BYTES && kept.is_whole());
        let sealed = match sealed.map(super::KeptEvent::stored) {
            Some(StoredEvent::Sealed(sealed)) => Some(Arc::new(*sealed)),
            _ => None,
        };
        let event = kept.map(|kept| {
            let carry = || if has_payload { kept.event.clone() } else { Arc::new(kept.outside()) };
            carried.entry(kept.event.id).or_insert_with(carry).clone()
        });
        FetchedDelivery { shard, delivery: delivery.clone(), event, has_payload, sealed }
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
        let erased = self
            .events
            .get(&settlement.delivery.event_id)
            .is_some_and(|kept| kept.payload_erased_at.is_some());
        if let Fact::Attempted(attempt) = &settlement.fact
            && (moved || !erased && !self.is_deleted(account))
        {
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
            Settled::Ended(ending) => {
                if let Some(replay) = tried.replay_id {
                    self.count_replayed(replay, ending);
                }
                let ended = Delivery { sequence: settlement.delivery.sequence, ..tried };
                self.end(ended, ending, over_at, fact_id(&settlement.fact));
                self.resolve(&settlement.delivery, ending, over_at);
            }
            Settled::Waits { position, due_at, spent } => {
                let waits = Delivery { position, due_at, spent, ..tried };
                if let Fact::Attempted(attempt) = &settlement.fact {
                    self.tell(&waits, attempt.id, None);
                }
                self.waiting.replace(waits);
            }
        }
    }

    fn end(&mut self, delivery: Delivery, ending: Ending, at: Timestamp, fact: AttemptId) {
        self.tell(&delivery, fact, Some((ending, at)));
        if let Ending::DeadLetter(reason) = ending {
            self.count_dead_letter(&delivery, reason, at);
        }
        self.waiting.remove(delivery.id);
        self.ended.insert(delivery.id, EndedDelivery { delivery, ending, at, fact });
    }

    /// Whether it moved. The row decides: it must be there, still wait for its time, and be due.
    fn take_turn(&mut self, turn: &DueDelivery, now: Timestamp) -> bool {
        let (account, id) = (turn.delivery.account_id, turn.delivery.id);
        let due = |row: &&Delivery| row.position.track == Position::AWAITS_TIME && row.due_at <= now;
        let Some(row) = self.waiting.of_account(account, id).filter(due).cloned() else { return false };
        let sequence = self.next_sequence(row.destination_id);
        let position = Position::ordered(turn.track, sequence, id);
        self.waiting.replace(Delivery { position, sequence: Some(sequence), ..row });
        true
    }

    /// One change per account, however many of its destinations it is about. Disabling comes first: what is disabled is
    /// not paused.
    fn switch(
        &mut self,
        consequences: BTreeSet<(Consequence, DestinationId)>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut versions = BTreeMap::new();
        for (consequence, id) in consequences {
            let Some(kept) = self.destinations.0.get(&id) else { continue };
            let switch = &kept.row.switch;
            let changes = switch.disabled.is_none()
                && match consequence {
                    Consequence::Disables => true,
                    Consequence::Pauses => switch.paused_at.is_none() && kept.deleted_at.is_none(),
                };
            if !changes {
                continue;
            }
            let account = kept.row.account_id;
            let version = match versions.get(&account) {
                Some(version) => *version,
                // Nothing of it changes any more.
                None if self.is_deleted(account) => continue,
                None => self.next_version(account)?,
            };
            versions.insert(account, version);
            let kept = self.destinations.0.get_mut(&id).expect("found above");
            let switch = &mut kept.row.switch;
            match consequence {
                Consequence::Disables => {
                    switch.disabled = Some(Disabled { at: now, reason: DisabledReason::Gone });
                }
                Consequence::Pauses => switch.paused_at = Some(now),
            }
            (kept.version, kept.row.version) = (version, version);
            if consequence == Consequence::Disables {
                self.note_operational(&OperationalNote::of_disabled(account, id, "gone", now));
            }
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
