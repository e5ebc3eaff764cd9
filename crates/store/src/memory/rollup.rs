//! Summing up.

use super::{MemoryStore, Tables};
use crate::{
    EventCount, FreshSums, Rollup, RollupKind, RollupMark, Rollups, StoreError, SumPlace, Summed, SummedTail,
    Term,
    rollup::{Fanned, SumProgress},
};
use async_trait::async_trait;
use domain::{
    delivery::Ending,
    id::{AccountId, AttemptId, DestinationId, EventId},
    rollup::{FanoutSums, Span, Sums},
    time::Timestamp,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

#[async_trait]
impl Rollups for MemoryStore {
    async fn sum_facts(
        &self,
        _span: Span,
        from: Timestamp,
        to: Timestamp,
        _at: Option<i64>,
    ) -> Result<Summed, StoreError> {
        let sums = self.tables().sum(from, to);
        Ok(Summed { sums: sums.into_iter().collect(), next: None })
    }

    async fn sum_fresh(
        &self,
        from: Timestamp,
        to: Timestamp,
        after: Option<SumPlace>,
    ) -> Result<FreshSums, StoreError> {
        let mut seen = match after.map(|place| place.0) {
            None => BTreeSet::new(),
            Some(SumProgress::Facts(seen)) => seen,
            Some(_) => return Err(SumProgress::foreign()),
        };
        let tables = self.tables();
        let is_fresh = |fact: &AttemptId| (from..to).contains(&fact.made_at()) && !seen.contains(fact);
        let sums = tables.sum_by(|fact| is_fresh(&fact).then(|| Span::Minute.start_of(fact.made_at())));
        seen.extend(tables.facts().into_iter().filter(|fact| (from..to).contains(&fact.made_at())));
        let place = SumPlace(SumProgress::Facts(seen));
        Ok(FreshSums { sums: sums.into_iter().collect(), place, more: false })
    }

    async fn count_events(&self, from: Timestamp, to: Timestamp) -> Result<Vec<EventCount>, StoreError> {
        let tables = self.tables();
        let mut counts: BTreeMap<AccountId, (u64, u64)> = BTreeMap::new();
        for (id, kept) in tables.events.range(EventId::at(from, 0)..EventId::at(to, 0)) {
            let count = counts.entry(kept.event.account_id).or_default();
            count.0 += 1;
            count.1 += if tables.expansions.contains_key(id) { 0 } else { kept.deliveries.len() as u64 };
        }
        let told = |(account_id, (events, deliveries))| EventCount { account_id, events, deliveries };
        Ok(counts.into_iter().map(told).collect())
    }

    async fn sum_fanouts(
        &self,
        from: EventId,
        to: Timestamp,
        limit: usize,
    ) -> Result<(Vec<(AccountId, FanoutSums)>, Option<EventId>), StoreError> {
        let tables = self.tables();
        let mut sums: BTreeMap<AccountId, FanoutSums> = BTreeMap::new();
        let mut events = tables.events.range(from..EventId::at(to, 0));
        for (_, kept) in events.by_ref().take(limit) {
            let counts = tables.fanout(kept, None);
            let fanned = Fanned {
                deliveries: (!counts.expanding).then_some(counts.total),
                received_at: kept.event.received_at,
                waits: counts.waiting > 0,
                delivered: counts.delivered,
                not_delivered: counts.dead_letter + counts.cancelled,
                last_at: counts.completed_at,
            };
            fanned.add_to(sums.entry(kept.event.account_id).or_default());
        }
        Ok((sums.into_iter().collect(), events.next().map(|(id, _)| *id)))
    }

    async fn write_rollups(&self, term: Term, rows: &[Rollup]) -> Result<bool, StoreError> {
        let mut tables = self.tables();
        if !tables.stands(term) {
            return Ok(false);
        }
        for row in rows {
            if tables.is_deleted(row.account_id) {
                continue;
            }
            tables.rollups.insert((row.account_id, row.place(), row.kind, row.starts_at), row.doc.clone());
        }
        Ok(true)
    }

    async fn write_mark(&self, term: Term, mark: RollupMark, until: Timestamp) -> Result<bool, StoreError> {
        let mut tables = self.tables();
        let stands = tables.stands(term);
        if stands {
            tables.marks.insert(mark, until);
        }
        Ok(stands)
    }

    async fn mark(&self, mark: RollupMark) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.tables().marks.get(&mark).copied())
    }

    async fn oldest_event(&self) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.tables().events.keys().next().map(|id| id.made_at()))
    }

    async fn prune_rollups(
        &self,
        term: Term,
        kind: RollupKind,
        before: Timestamp,
        limit: usize,
    ) -> Result<Option<usize>, StoreError> {
        let mut tables = self.tables();
        if !tables.stands(term) {
            return Ok(None);
        }
        let old = tables.rollups.keys().filter(|(_, _, of, at)| *of == kind && *at < before);
        let old: Vec<_> = old.take(limit).copied().collect();
        for place in &old {
            tables.rollups.remove(place);
        }
        Ok(Some(old.len()))
    }

    async fn rollups(
        &self,
        account: AccountId,
        destination: Option<DestinationId>,
        kind: RollupKind,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<(Timestamp, String)>, StoreError> {
        let tables = self.tables();
        let place = |at| (account, destination.unwrap_or(DestinationId::MIN), kind, at);
        Ok(tables.rollups.range(place(from)..place(to)).map(|(place, doc)| (place.3, doc.clone())).collect())
    }

    async fn rollups_of_destinations(
        &self,
        account: AccountId,
        destinations: &[DestinationId],
        kind: RollupKind,
        from: Timestamp,
        to: Timestamp,
        limit: usize,
    ) -> Result<Vec<(DestinationId, Timestamp, String)>, StoreError> {
        let tables = self.tables();
        let of = |id: &DestinationId| {
            let range = (account, *id, kind, from)..(account, *id, kind, to);
            tables.rollups.range(range).map(|((_, id, _, at), doc)| (*id, *at, doc.clone()))
        };
        Ok(destinations.iter().flat_map(of).take(limit).collect())
    }

    async fn sum_tail(
        &self,
        account: AccountId,
        destination: Option<DestinationId>,
        from: Timestamp,
        limit: usize,
    ) -> Result<SummedTail, StoreError> {
        let tables = self.tables();
        let facts = tables.facts();
        let last = facts.range(AttemptId::at(from, 0)..).nth(limit.saturating_sub(1));
        let mut until = last.map(|last| last.made_at());
        let mut tail = Sums::default();
        let after_last = until.map_or(Timestamp::MAX, |until| until.plus(Duration::from_micros(1)));
        for ((of, at), sums) in tables.sum(from, after_last) {
            if of == account && destination.is_none_or(|destination| destination == at) {
                tail.add(&sums);
            }
        }
        if destination.is_none() {
            let below = last.map_or(EventId::MAX, |last| EventId::from_uuid(last.uuid()));
            let events = tables.events.range(EventId::at(from, 0)..below).map(|(_, kept)| kept);
            for kept in events.filter(|kept| kept.event.account_id == account).take(limit) {
                tail.events += 1;
                let expanding = tables.expansions.contains_key(&kept.event.id);
                tail.deliveries += if expanding { 0 } else { kept.deliveries.len() as u64 };
                if tail.events == limit as u64 {
                    let event_at = kept.event.id.made_at();
                    until = Some(until.map_or(event_at, |until| until.min(event_at)));
                }
            }
        }
        Ok(SummedTail { sums: tail, until })
    }

    async fn count_waiting(&self, account: AccountId, limit: usize) -> Result<u64, StoreError> {
        let tables = self.tables();
        let waiting = tables.waiting.newest_first(None).filter(|row| row.account_id == account);
        Ok(waiting.take(limit).count() as u64)
    }

    async fn oldest_due(
        &self,
        account: AccountId,
        now: Timestamp,
        limit: usize,
    ) -> Result<Option<Timestamp>, StoreError> {
        let tables = self.tables();
        let waiting = tables.waiting.newest_first(None).filter(|row| row.account_id == account);
        let mut oldest: Vec<_> = waiting.map(|row| (row.position.delivery_id, row.due_at)).collect();
        oldest.sort();
        oldest.truncate(limit);
        Ok(oldest.into_iter().map(|(_, due_at)| due_at).filter(|due_at| *due_at <= now).min())
    }
}

impl Tables {
    fn facts(&self) -> BTreeSet<AttemptId> {
        let attempts = self.attempts.values().map(|kept| kept.record.id);
        attempts.chain(self.ended.values().map(|ended| ended.fact)).collect()
    }

    fn sum(&self, from: Timestamp, to: Timestamp) -> BTreeMap<(AccountId, DestinationId), Sums> {
        let sums = self.sum_by(|fact| (from..to).contains(&fact.made_at()).then_some(()));
        sums.into_iter().map(|(((), account, destination), sums)| ((account, destination), sums)).collect()
    }

    /// Facts that have a key, by it and by where they happened.
    fn sum_by<K: Ord>(
        &self,
        key: impl Fn(AttemptId) -> Option<K>,
    ) -> BTreeMap<(K, AccountId, DestinationId), Sums> {
        let mut sums: BTreeMap<_, Sums> = BTreeMap::new();
        for kept in self.attempts.values() {
            let record = &kept.record;
            let Some(key) = key(record.id) else { continue };
            let sum = sums.entry((key, kept.account_id, record.destination_id)).or_default();
            sum.note_attempts(record.outcome, record.http_status, record.duration, 1);
        }
        for ended in self.ended.values() {
            let Some(key) = key(ended.fact) else { continue };
            let (delivery, ending): (_, Ending) = (&ended.delivery, ended.ending);
            let sum = sums.entry((key, delivery.account_id, delivery.destination_id)).or_default();
            sum.note_endings(ending, 1);
            if let (Ending::Delivered, Some(last)) = (ending, self.attempts.get(&(delivery.id, ended.fact))) {
                sum.note_delivered(delivery.id, last.record.started_at.plus(last.record.duration));
            }
        }
        sums
    }
}
