//! Erasing.

use super::{MemoryStore, Tables};
use crate::{
    Erased, Erasure, ErasurePhase, ErasureStep, Erasures, ReplayStatus, StoreError, Term, checksum, erasure,
};
use async_trait::async_trait;
use bytes::Bytes;
use domain::{
    audit::AuditEntry,
    event::Event,
    id::{AccountId, DeliveryId, DestinationId, EventId},
    time::Timestamp,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

#[async_trait]
impl Erasures for MemoryStore {
    async fn delete_account(
        &self,
        id: AccountId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<Erasure, StoreError> {
        let mut tables = self.tables();
        if let Some(erasure) = tables.erasures.get(&id) {
            return Ok(*erasure);
        }
        let version = tables.next_version(id)?;
        tables.accounts.remove(&id);
        let own = tables.replays.values_mut().map(|kept| &mut kept.replay);
        for replay in own.filter(|replay| replay.account_id == id && !replay.status.ended()) {
            (replay.status, replay.finished_at) = (ReplayStatus::Cancelled, Some(now));
        }
        let phase = ErasurePhase::FIRST;
        let erasure =
            Erasure { account_id: id, version, requested_at: now, phase, erased_rows: 0, finished_at: None };
        tables.erasures.insert(id, erasure);
        tables.append(Some(id), audit);
        Ok(erasure)
    }

    async fn erasure(&self, id: AccountId) -> Result<Erasure, StoreError> {
        self.tables().erasures.get(&id).copied().ok_or(StoreError::NotFound { what: "account" })
    }

    async fn open_erasures(&self, limit: usize) -> Result<Vec<Erasure>, StoreError> {
        let tables = self.tables();
        let open = tables.erasures.values().filter(|erasure| erasure.finished_at.is_none());
        Ok(open.take(limit).copied().collect())
    }

    async fn erase(&self, term: Term, step: &ErasureStep) -> Result<Option<Erased>, StoreError> {
        let mut tables = self.tables();
        let open = |erasure: &Erasure| erasure.finished_at.is_none();
        if !tables.stands(term) || !tables.erasures.get(&step.account_id).is_some_and(open) {
            return Ok(None);
        }
        let erased = Erased::found(tables.erase(step));
        let erasure = tables.erasures.get_mut(&step.account_id).expect("found above");
        erasure.phase = step.phase;
        erasure.erased_rows += erased.rows as u64;
        Ok(Some(erased))
    }

    async fn end_erasure(&self, term: Term, id: AccountId, now: Timestamp) -> Result<bool, StoreError> {
        let mut tables = self.tables();
        let stands = tables.stands(term);
        if let Some(erasure) = tables.erasures.get_mut(&id).filter(|_| stands) {
            erasure.finished_at.get_or_insert(now);
        }
        Ok(stands)
    }

    async fn erase_payload(
        &self,
        account: AccountId,
        id: EventId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let in_use = tables.is_needed(id);
        let own = tables.events.get_mut(&id).filter(|kept| kept.event.account_id == account);
        let kept = own.ok_or(StoreError::NotFound { what: "event" })?;
        if kept.payload_erased_at.is_some() {
            return Ok(());
        }
        if in_use {
            return Err(StoreError::PayloadInUse);
        }
        let (headers, payload) = (Default::default(), Bytes::new());
        kept.event = Arc::new(Event { headers, payload, ..Event::clone(&kept.event) });
        kept.payload_crc = checksum::of(&[]);
        kept.sealed = None;
        kept.payload_erased_at = Some(now);
        tables.payload_erasures.insert(id, (account, now));
        tables.append(Some(account), audit);
        Ok(())
    }

    async fn erase_answers(
        &self,
        id: EventId,
        after: Option<DeliveryId>,
        deliveries: usize,
    ) -> Result<Option<DeliveryId>, StoreError> {
        let mut tables = self.tables();
        let erased = tables.events.get(&id).is_some_and(|kept| kept.payload_erased_at.is_some());
        if !erased {
            return Ok(None);
        }
        let of_event = tables.ended.iter().filter(|(_, ended)| ended.delivery.event_id == id);
        let behind = of_event.map(|(delivery, _)| *delivery).filter(|delivery| Some(*delivery) > after);
        let some: BTreeSet<DeliveryId> = behind.take(deliveries).collect();
        for kept in tables.attempts.values_mut().filter(|kept| some.contains(&kept.record.delivery_id)) {
            if let Some(left) = erasure::without_answer(kept.record.detail.clone()) {
                kept.record.detail = left;
            }
        }
        Ok(some.last().copied())
    }

    async fn payload_erasures(&self, before: Timestamp, limit: usize) -> Result<Vec<EventId>, StoreError> {
        let tables = self.tables();
        let old = tables.payload_erasures.iter().filter(|(_, (_, erased_at))| *erased_at < before);
        Ok(old.map(|(id, _)| *id).take(limit).collect())
    }

    async fn end_payload_erasure(&self, id: EventId) -> Result<(), StoreError> {
        self.tables().payload_erasures.remove(&id);
        Ok(())
    }
}

impl Tables {
    /// Whether an account was deleted: nothing more is written for it.
    pub(super) fn is_deleted(&self, account: AccountId) -> bool {
        self.erasures.contains_key(&account)
    }

    /// How many rows it removed.
    fn erase(&mut self, step: &ErasureStep) -> usize {
        let (account, most) = (step.account_id, step.rows);
        match step.phase {
            ErasurePhase::Waiting => {
                let waiting = self.waiting.newest_first(None).filter(|row| row.account_id == account);
                let waiting: Vec<DeliveryId> = waiting.map(|row| row.id).take(most).collect();
                for id in &waiting {
                    self.waiting.remove(*id);
                }
                waiting.len() + remove(&mut self.expansions, most, |_, row| row.account_id == account)
            }
            ErasurePhase::Replays => {
                let mut rows = 0;
                for kept in self.replays.values_mut().filter(|kept| kept.replay.account_id == account) {
                    rows += remove(&mut kept.made, most.saturating_sub(rows), |_, _| true);
                }
                let left = most.saturating_sub(rows);
                rows + remove(&mut self.replays, left, |_, kept| {
                    kept.replay.account_id == account && kept.made.is_empty()
                })
            }
            ErasurePhase::Events => {
                let own = |_: &EventId, of: &(AccountId, Timestamp)| of.0 == account;
                remove(&mut self.payload_erasures, most, own)
                    + remove(&mut self.events, most, |_, kept| kept.event.account_id == account)
            }
            ErasurePhase::Routes => {
                remove(&mut self.routes.0, most, |_, kept| kept.row.account_id == account)
            }
            ErasurePhase::Destinations => self.erase_destinations(account, most),
            ErasurePhase::IdempotencyKeys => {
                let sources = self.sources.0.iter().filter(|(_, kept)| kept.row.account_id == account);
                let mut scopes: BTreeSet<uuid::Uuid> = sources.map(|(id, _)| id.uuid()).collect();
                scopes.insert(account.uuid());
                remove(&mut self.used_keys, most, |(scope, _), _| scopes.contains(scope))
            }
            ErasurePhase::Sources => {
                remove(&mut self.sources.0, most, |_, kept| kept.row.account_id == account)
                    + remove(&mut self.api_keys, most, |_, key| key.account_id == Some(account))
                    + remove(&mut self.sessions, most, |_, session| session.account_id == Some(account))
                    + remove(&mut self.portal_links, most, |_, link| link.account_id == account)
                    + remove(&mut self.refused_requests, most, |_, kept| kept.account_id == account)
            }
            ErasurePhase::Sums => {
                self.told_accounts.remove(&account);
                remove(&mut self.rollups, most, |(of, ..), _| *of == account)
                    + remove(&mut self.lane_rollups, most, |(_, _, of, ..), _| *of == account)
                    + remove(&mut self.dead_letter_minutes, most, |_, (of, _)| *of == account)
                    + remove(&mut self.operational_notes, most, |(_, told), note| {
                        *told == account || note.account_id == account
                    })
            }
        }
    }

    fn erase_destinations(&mut self, account: AccountId, most: usize) -> usize {
        let own = self.destinations.0.iter().filter(|(_, kept)| kept.row.account_id == account);
        let own: BTreeSet<DestinationId> = own.map(|(id, _)| *id).collect();
        let ended = self.ended.iter().filter(|(_, ended)| ended.delivery.account_id == account);
        let tried = self.attempts.iter().filter(|(_, kept)| kept.account_id == account);
        let mut deliveries: BTreeSet<DeliveryId> = ended.map(|(id, _)| *id).collect();
        deliveries.extend(tried.map(|((id, _), _)| *id));
        let some: Vec<DeliveryId> = deliveries.into_iter().take(most).collect();
        if !some.is_empty() {
            return some.into_iter().map(|id| self.forget_delivery(id)).sum();
        }
        for id in own.iter().take(most) {
            self.destinations.0.remove(id);
            self.gates.remove(id);
            self.holds.remove(id);
            self.lanes.remove(id);
            self.sequences.remove(id);
        }
        own.len().min(most)
    }
}

/// How many of those that go went: at most so many.
fn remove<K: Ord + Clone, V>(map: &mut BTreeMap<K, V>, most: usize, goes: impl Fn(&K, &V) -> bool) -> usize {
    let going: Vec<K> =
        map.iter().filter(|(key, value)| goes(key, value)).map(|(key, _)| key.clone()).take(most).collect();
    going.iter().for_each(|key| drop(map.remove(key)));
    going.len()
}
