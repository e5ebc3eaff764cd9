//! The read side. A list walks an index, newest first, and never more of it than a page may look at; what its filter
//! wants of that is decided by the statement.

mod attempts;
mod deliveries;
mod events;
mod filter;
mod incomplete;
mod tagged;

use super::{SqliteStore, Trouble};
use crate::{
    AttemptRecord, DeliveryFilter, DeliveryRecord, EventFilter, EventRecord, FanoutCounts, History,
    KeptPayload, Listed, Page, PayloadSize, StoreError, StoredEvent, SuccessRate,
    page_rows::{PageRow, PageRows},
};
use async_trait::async_trait;
use domain::{
    event::Event,
    id::{AccountId, AttemptId, DeliveryId, DestinationId, EventId},
    limits,
    time::Timestamp,
};

pub(super) use events::backfill;

#[cfg(test)]
pub(super) use attempts::{ATTEMPTS_OF_DESTINATION, SUCCESS_RATES};
#[cfg(test)]
pub(super) use deliveries::{
    DEAD_AFTER_BY_ACCOUNT, DEAD_BY_ACCOUNT, ENDED_AFTER_BY_ACCOUNT, ENDED_AFTER_BY_DESTINATION,
    ENDED_AFTER_BY_EVENT, ENDED_BY_ACCOUNT, ENDED_BY_DESTINATION, ENDED_BY_EVENT, ENDED_BY_REPLAY,
    WAITING_BY_ACCOUNT, WAITING_BY_EVENT, WAITING_BY_REPLAY,
};
pub(super) use deliveries::{EndedWalk, ended};
#[cfg(test)]
pub(super) use events::EVENTS;
#[cfg(test)]
pub(super) use incomplete::INCOMPLETE_EVENTS;
#[cfg(test)]
pub(super) use tagged::TAGGED_EVENTS;

#[async_trait]
impl History for SqliteStore {
    async fn events(
        &self,
        account: AccountId,
        filter: &EventFilter,
        page: Page<EventId>,
    ) -> Result<Listed<EventRecord, EventId>, StoreError> {
        let filter = filter.clone();
        self.read(move |connection| match filter.fanout_complete {
            _ if !filter.tags.is_empty() => tagged::list(connection, account, &filter, page),
            Some(false) => incomplete::list(connection, account, &filter, page),
            _ => events::list(connection, account, &filter, page),
        })
        .await
    }

    async fn event(&self, account: AccountId, id: EventId) -> Result<EventRecord, StoreError> {
        self.read(move |connection| events::get(connection, account, id)).await
    }

    async fn event_alone(&self, account: AccountId, id: EventId) -> Result<Event, StoreError> {
        self.read(move |connection| events::alone(connection, account, id)).await
    }

    async fn fanouts(&self, events: &[EventId]) -> Result<Vec<Option<FanoutCounts>>, StoreError> {
        let events = events.to_owned();
        self.read(move |connection| events.iter().map(|id| events::fanout_of(connection, *id)).collect())
            .await
    }

    async fn payload_size(&self, account: AccountId, id: EventId) -> Result<PayloadSize, StoreError> {
        self.read(move |connection| events::payload_size(connection, account, id)).await
    }

    async fn kept_payload(&self, account: AccountId, id: EventId) -> Result<KeptPayload, StoreError> {
        self.read(move |connection| events::kept_payload(connection, account, id)).await
    }

    async fn event_payload(&self, account: AccountId, id: EventId) -> Result<StoredEvent, StoreError> {
        self.read(move |connection| events::with_payload(connection, account, id)).await
    }

    async fn deliveries(
        &self,
        account: AccountId,
        filter: &DeliveryFilter,
        page: Page<DeliveryId>,
    ) -> Result<Listed<DeliveryRecord, DeliveryId>, StoreError> {
        let filter = filter.clone();
        self.read(move |connection| deliveries::list(connection, account, &filter, page)).await
    }

    async fn delivery(&self, account: AccountId, id: DeliveryId) -> Result<DeliveryRecord, StoreError> {
        self.read(move |connection| deliveries::get(connection, account, id)).await
    }

    async fn attempts_of_delivery(
        &self,
        account: AccountId,
        id: DeliveryId,
        limit: usize,
    ) -> Result<Vec<AttemptRecord>, StoreError> {
        self.read(move |connection| attempts::of_delivery(connection, account, id, limit)).await
    }

    async fn attempts_of_destination(
        &self,
        account: AccountId,
        id: DestinationId,
        page: Page<(DeliveryId, AttemptId)>,
    ) -> Result<Listed<AttemptRecord, (DeliveryId, AttemptId)>, StoreError> {
        self.read(move |connection| attempts::of_destination(connection, account, id, page)).await
    }

    async fn success_rates(
        &self,
        destinations: &[DestinationId],
        since: Timestamp,
        limit: usize,
    ) -> Result<Vec<SuccessRate>, StoreError> {
        let destinations = destinations.to_owned();
        self.read(move |connection| attempts::success_rates(connection, &destinations, since, limit)).await
    }
}

/// A page of what is wanted, having looked at no more than a page may. `look` gives the next key and, if it is wanted,
/// its row.
fn listed<T: PageRow, K: Copy>(
    limit: usize,
    mut look: impl FnMut() -> Result<Option<(K, Option<T>)>, Trouble>,
) -> Result<Listed<T, K>, Trouble> {
    let (mut rows, mut last) = (PageRows::new(limit), None);
    for _ in 0..limits::PAGE_SCAN {
        let Some((key, wanted)) = look()? else { return Ok(Listed { rows: rows.into_rows(), next: None }) };
        if wanted.is_some_and(|row| rows.add(key, Some(row)).is_break()) {
            return Ok(Listed { rows: rows.into_rows(), next: last });
        }
        last = Some(key);
        if rows.is_full() {
            break;
        }
    }
    let next = look()?.and(last);
    Ok(Listed { rows: rows.into_rows(), next })
}
