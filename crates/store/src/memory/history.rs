//! The read side.

use super::{EndedDelivery, KeptEvent, MemoryStore, Tables, newest_first};
use crate::{
    AttemptRecord, DeliveryFilter, DeliveryRecord, DeliveryState, EventFilter, EventRecord, FanoutCounts,
    History, KeptPayload, Listed, Page, PayloadSize, ResolvedBy, StoreError, StoredEvent, SuccessRate,
    history::first_counted,
    page_rows::{PageRoom, PageRow, PageRows},
};
use async_trait::async_trait;
use domain::{
    delivery::{Delivery, Ending, Status},
    event::Event,
    id::{AccountId, AttemptId, DeliveryId, DestinationId, EventId},
    limits,
    outcome::Outcome,
    time::Timestamp,
};
#[async_trait]
impl History for MemoryStore {
    async fn events(
        &self,
        account: AccountId,
        filter: &EventFilter,
        page: Page<EventId>,
    ) -> Result<Listed<EventRecord, EventId>, StoreError> {
        let tables = self.tables();
        let (from, below) = filter.ids(page.before);
        let of_account = newest_first(&tables.events, Some(below))
            .take_while(|(id, _)| *id >= from)
            .filter(|(_, kept)| kept.event.account_id == account)
            .filter(|(_, kept)| one_of(&filter.tags, |tag| kept.event.tags.contains(tag)));
        let records =
            of_account.map(|(id, kept)| (id, tables.event_record(kept, Some(limits::FANOUT_COUNTED))));
        Ok(listed(
            records.map(|(id, record)| (id, wanted_event(filter, &record).then_some(record))),
            page.limit,
        ))
    }

    async fn event(&self, account: AccountId, id: EventId) -> Result<EventRecord, StoreError> {
        let tables = self.tables();
        let kept = tables.event(account, id)?;
        let sealed_headers = kept.sealed.as_ref().map(|(_, headers)| headers.clone());
        Ok(EventRecord { sealed_headers, ..tables.event_record(kept, None) })
    }

    async fn event_alone(&self, account: AccountId, id: EventId) -> Result<Event, StoreError> {
        let tables = self.tables();
        tables.event(account, id).map(|kept| tables.event_record(kept, None).event)
    }

    async fn fanouts(&self, events: &[EventId]) -> Result<Vec<Option<FanoutCounts>>, StoreError> {
        let tables = self.tables();
        let of = |id| tables.events.get(id).map(|kept| tables.fanout(kept, Some(limits::FANOUT_COUNTED)));
        Ok(events.iter().map(of).collect())
    }

    async fn payload_size(&self, account: AccountId, id: EventId) -> Result<PayloadSize, StoreError> {
        let tables = self.tables();
        let kept = tables.unerased(account, id)?;
        let accepted = kept.event.payload.len();
        Ok(PayloadSize {
            accepted,
            kept: kept.sealed.as_ref().map_or(accepted, |(payload, _)| payload.len()),
        })
    }

    async fn kept_payload(&self, account: AccountId, id: EventId) -> Result<KeptPayload, StoreError> {
        let tables = self.tables();
        let kept = tables.unerased(account, id)?;
        let (event, crc) = (&kept.event, Some(kept.payload_crc));
        let (payload, headers) = match &kept.sealed {
            None => (event.payload.clone(), None),
            Some((payload, headers)) => (payload.clone(), Some(headers.clone())),
        };
        KeptPayload::new((id, headers), event.content_type.clone(), event.payload.len(), payload, crc)
    }

    async fn event_payload(&self, account: AccountId, id: EventId) -> Result<StoredEvent, StoreError> {
        self.tables().event(account, id).map(KeptEvent::stored)
    }

    async fn deliveries(
        &self,
        account: AccountId,
        filter: &DeliveryFilter,
        page: Page<DeliveryId>,
    ) -> Result<Listed<DeliveryRecord, DeliveryId>, StoreError> {
        let tables = self.tables();
        let records = tables.deliveries_newest_first(account, page.before).map(|record| (record.id, record));
        Ok(listed(
            records.map(|(id, record)| (id, wanted_delivery(filter, &record).then_some(record))),
            page.limit,
        ))
    }

    async fn delivery(&self, account: AccountId, id: DeliveryId) -> Result<DeliveryRecord, StoreError> {
        let tables = self.tables();
        let waiting = tables.waiting.get(id).map(|delivery| tables.waiting_record(delivery));
        let found = waiting.or_else(|| tables.ended.get(&id).map(|ended| tables.ended_record(ended)));
        found.filter(|record| record.account_id == account).ok_or(StoreError::NotFound { what: "delivery" })
    }

    async fn attempts_of_delivery(
        &self,
        account: AccountId,
        id: DeliveryId,
        limit: usize,
    ) -> Result<Vec<AttemptRecord>, StoreError> {
        let tables = self.tables();
        let of_delivery =
            tables.attempts.range((id, AttemptId::MIN)..=(id, AttemptId::MAX)).map(|(_, kept)| kept);
        let own = of_delivery.filter(|kept| kept.account_id == account);
        let mut room = PageRoom::default();
        Ok(own.take(limit).map(|kept| room.fit(kept.record.clone())).collect())
    }

    async fn attempts_of_destination(
        &self,
        account: AccountId,
        id: DestinationId,
        page: Page<(DeliveryId, AttemptId)>,
    ) -> Result<Listed<AttemptRecord, (DeliveryId, AttemptId)>, StoreError> {
        let tables = self.tables();
        let attempts = newest_first(&tables.attempts, page.before).map(|(_, kept)| kept);
        let mut wanted =
            attempts.filter(|kept| kept.account_id == account && kept.record.destination_id == id);
        let mut rows = PageRows::new(page.limit);
        let _ = wanted.try_for_each(|kept| {
            rows.add((kept.record.delivery_id, kept.record.id), Some(kept.record.clone()))
        });
        Ok(rows.listed())
    }

    async fn success_rates(
        &self,
        destinations: &[DestinationId],
        since: Timestamp,
        limit: usize,
    ) -> Result<Vec<SuccessRate>, StoreError> {
        let tables = self.tables();
        let rate = |id: &DestinationId| {
            let attempts = newest_first(&tables.attempts, None).map(|(_, kept)| &kept.record);
            let counted =
                |it: &&AttemptRecord| it.destination_id == *id && it.delivery_id >= first_counted(since);
            let newest = attempts.filter(counted).take(limit);
            let counted = newest
                .filter(|it| it.started_at >= since && it.outcome != Outcome::Throttled)
                .map(|it| it.outcome);
            let outcomes: Vec<Outcome> = counted.collect();
            let successes = outcomes.iter().filter(|outcome| **outcome == Outcome::Success).count() as u32;
            SuccessRate { successes, attempts: outcomes.len() as u32 }
        };
        Ok(destinations.iter().map(rate).collect())
    }
}

/// A page of the entries that are wanted, having looked at no more than a page may.
fn listed<T: PageRow, K: Copy>(
    mut entries: impl Iterator<Item = (K, Option<T>)>,
    limit: usize,
) -> Listed<T, K> {
    let (mut rows, mut last) = (PageRows::new(limit), None);
    for (key, wanted) in entries.by_ref().take(limits::PAGE_SCAN) {
        if wanted.is_some_and(|row| rows.add(key, Some(row)).is_break()) {
            return Listed { rows: rows.into_rows(), next: last };
        }
        last = Some(key);
        if rows.is_full() {
            break;
        }
    }
    let next = entries.next().and(last);
    Listed { rows: rows.into_rows(), next }
}

impl Tables {
    fn event(&self, account: AccountId, id: EventId) -> Result<&KeptEvent, StoreError> {
        let found = self.events.get(&id).filter(|kept| kept.event.account_id == account);
        found.ok_or(StoreError::NotFound { what: "event" })
    }

    pub(super) fn event_record(&self, kept: &KeptEvent, at_most: Option<usize>) -> EventRecord {
        EventRecord {
            event: kept.outside(),
            size_bytes: kept.size_bytes as u64,
            fanout: self.fanout(kept, at_most),
            other_routes: kept.other_routes.clone(),
            payload_erased_at: kept.payload_erased_at,
            sealed_headers: None,
        }
    }

    /// One that has its payload.
    fn unerased(&self, account: AccountId, id: EventId) -> Result<&KeptEvent, StoreError> {
        let kept = self.event(account, id)?;
        if kept.payload_erased_at.is_none() { Ok(kept) } else { Err(StoreError::PayloadErased) }
    }

    /// `at_most` are counted of what waits, and of what has ended.
    pub(super) fn fanout(&self, kept: &KeptEvent, at_most: Option<usize>) -> FanoutCounts {
        let (mut counts, mut last, mut counted) = (FanoutCounts::default(), None, 0);
        for id in kept.deliveries.iter().chain(&kept.backfilled) {
            let room = |counted: usize| at_most.is_none_or(|most| counted < most);
            let Some(ended) = self.ended.get(id) else {
                counts.waiting += u32::from(room(counts.waiting as usize));
                continue;
            };
            if !room(counted) {
                continue;
            }
            counted += 1;
            last = last.max(Some(ended.at));
            match ended.ending {
                Ending::Delivered => counts.delivered += 1,
                Ending::DeadLetter(_) => match self.settled.get(id).map(|resolution| &resolution.by) {
                    None => counts.dead_letter += 1,
                    Some(ResolvedBy::Delivery(_)) => counts.delivered += 1,
                    Some(ResolvedBy::Dismissal { .. }) => counts.dismissed += 1,
                },
                Ending::Cancelled(_) => counts.cancelled += 1,
            }
        }
        let made = !self.expansions.contains_key(&kept.event.id);
        counts.of(made.then_some(kept.deliveries.len() as u32), at_most, last)
    }

    /// Waiting and ended ones in one list.
    fn deliveries_newest_first(
        &self,
        account: AccountId,
        before: Option<DeliveryId>,
    ) -> impl Iterator<Item = DeliveryRecord> {
        let mut waiting =
            self.waiting.newest_first(before).filter(move |row| row.account_id == account).peekable();
        let mut ended = newest_first(&self.ended, before)
            .filter(move |(_, ended)| ended.delivery.account_id == account)
            .peekable();
        std::iter::from_fn(move || {
            let newest_waits = match (waiting.peek(), ended.peek()) {
                (Some(row), Some((id, _))) => row.id > *id,
                (row, _) => row.is_some(),
            };
            if newest_waits {
                waiting.next().map(|row| self.waiting_record(row))
            } else {
                ended.next().map(|(_, row)| self.ended_record(row))
            }
        })
    }

    /// Whether an ended delivery is one of those that are asked for.
    pub(super) fn matches(&self, filter: &DeliveryFilter, ended: &EndedDelivery) -> bool {
        wanted_delivery(filter, &self.ended_record(ended))
    }

    fn waiting_record(&self, row: &Delivery) -> DeliveryRecord {
        self.delivery_record(row, DeliveryState::Waiting(Box::new(row.clone())))
    }

    fn ended_record(&self, row: &EndedDelivery) -> DeliveryRecord {
        self.delivery_record(&row.delivery, DeliveryState::Ended { ending: row.ending, at: row.at })
    }

    fn delivery_record(&self, row: &Delivery, state: DeliveryState) -> DeliveryRecord {
        // None: it has had its time.
        let event = self.events.get(&row.event_id).map(|kept| &kept.event);
        DeliveryRecord {
            id: row.id,
            account_id: row.account_id,
            event_id: row.event_id,
            event_type: event.map_or("unknown".into(), |event| event.event_type.to_string()),
            source_id: event.and_then(|event| event.source_id),
            route_id: row.route_id,
            destination_id: row.destination_id,
            replay_id: row.replay_id,
            origin: row.origin,
            attempts: row.attempts,
            spent: row.spent,
            last_outcome: row.last_outcome,
            last_http_status: row.last_http_status,
            ordering_key: event.and_then(|event| event.ordering_key.clone()),
            sequence: row.sequence,
            created_at: row.created_at,
            state,
            resolution: self.settled.get(&row.id).cloned(),
        }
    }
}

pub(super) fn wanted_event(filter: &EventFilter, record: &EventRecord) -> bool {
    let EventRecord { event, fanout, .. } = record;
    one_of(&filter.types, |pattern| pattern.matches(event.event_type.as_str()))
        && one_of(&filter.source_ids, |id| event.source_id == Some(*id))
        && one_of(&filter.idempotency_keys, |key| event.idempotency_key.as_ref() == Some(key))
        && within(filter.since, filter.until, event.received_at)
        && filter.fanout_complete.is_none_or(|complete| complete == fanout.is_complete())
        && filter.wants(record)
}

fn wanted_delivery(filter: &DeliveryFilter, record: &DeliveryRecord) -> bool {
    let reason = match &record.state {
        DeliveryState::Ended { ending, .. } => ending.reason(),
        DeliveryState::Waiting(_) => None,
    };
    one_of(&filter.statuses, |status| has_status(record, *status))
        && one_of(&filter.reasons, |wanted| reason == Some(wanted))
        && one_of(&filter.event_ids, |id| record.event_id == *id)
        && one_of(&filter.destination_ids, |id| record.destination_id == *id)
        && one_of(&filter.route_ids, |id| record.route_id == *id)
        && one_of(&filter.source_ids, |id| record.source_id == Some(*id))
        && one_of(&filter.types, |pattern| pattern.matches(&record.event_type))
        && one_of(&filter.http_statuses, |status| record.last_http_status == Some(*status))
        && one_of(&filter.replay_ids, |id| record.replay_id == Some(*id))
        && within(filter.since, filter.until, record.id.made_at())
        && filter.resolved.is_none_or(|resolved| resolved == record.resolution.is_some())
}

/// Whether a delivery is being tried just now is its owner's knowledge: here it waits.
fn has_status(record: &DeliveryRecord, status: Status) -> bool {
    match (&record.state, status) {
        (DeliveryState::Ended { ending, .. }, status) => ending.status() == status,
        (DeliveryState::Waiting(_), Status::Delivering) => true,
        (DeliveryState::Waiting(_), Status::Queued) => record.attempts == 0,
        (DeliveryState::Waiting(_), Status::RetryScheduled) => record.attempts > 0,
        (DeliveryState::Waiting(_), _) => false,
    }
}

/// An empty list is no filter.
fn one_of<T>(wanted: &[T], is: impl Fn(&T) -> bool) -> bool {
    wanted.is_empty() || wanted.iter().any(is)
}

fn within(since: Option<Timestamp>, until: Option<Timestamp>, at: Timestamp) -> bool {
    since.is_none_or(|since| since <= at) && until.is_none_or(|until| at < until)
}
