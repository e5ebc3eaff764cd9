//! The read side. A list is one statement that looks at a bounded number of entries, filters them there, and says how
//! far it looked.

mod attempts;
mod deliveries;
mod events;
mod incomplete;
mod tagged;

pub(super) use deliveries::dead_letters_alone;
pub(super) use events::FANOUT_COUNTS;

use super::{
    PostgresStore, queue,
    rows::{Cells, FromColumn, Unreadable},
};
use crate::{
    AttemptRecord, DeliveryFilter, DeliveryRecord, EventFilter, EventRecord, FanoutCounts, History,
    KeptPayload, Listed, Page, PayloadSize, StoreError, StoredEvent, SuccessRate, page_rows::PageRows,
};
use async_trait::async_trait;
use domain::{
    event::Event,
    id::{AccountId, AttemptId, DeliveryId, DestinationId, EventId},
    limits,
    pattern::Pattern,
    time::Timestamp,
};
use uuid::Uuid;

#[async_trait]
impl History for PostgresStore {
    async fn events(
        &self,
        account: AccountId,
        filter: &EventFilter,
        page: Page<EventId>,
    ) -> Result<Listed<EventRecord, EventId>, StoreError> {
        let connection = self.pools.general().await?;
        match filter.fanout_complete {
            _ if !filter.tags.is_empty() => tagged::list(&connection, account, filter, page).await,
            Some(false) => incomplete::list(&connection, account, filter, page).await,
            _ => events::list(&connection, account, filter, page).await,
        }
    }

    async fn event(&self, account: AccountId, id: EventId) -> Result<EventRecord, StoreError> {
        events::get(&self.pools.general().await?, account, id).await
    }

    async fn event_alone(&self, account: AccountId, id: EventId) -> Result<Event, StoreError> {
        events::alone(&self.pools.general().await?, account, id).await
    }

    async fn fanouts(&self, events: &[EventId]) -> Result<Vec<Option<FanoutCounts>>, StoreError> {
        events::fanouts(&self.pools.general().await?, events).await
    }

    async fn payload_size(&self, account: AccountId, id: EventId) -> Result<PayloadSize, StoreError> {
        events::payload_size(&self.pools.general().await?, account, id).await
    }

    async fn kept_payload(&self, account: AccountId, id: EventId) -> Result<KeptPayload, StoreError> {
        events::kept_payload(&self.pools.general().await?, account, id).await
    }

    async fn event_payload(&self, account: AccountId, id: EventId) -> Result<StoredEvent, StoreError> {
        let connection = self.pools.general().await?;
        let found = queue::stored_event(&connection, id).await?;
        let found = found.filter(|event| event.outside().account_id == account);
        found.ok_or(StoreError::NotFound { what: "event" })
    }

    async fn deliveries(
        &self,
        account: AccountId,
        filter: &DeliveryFilter,
        page: Page<DeliveryId>,
    ) -> Result<Listed<DeliveryRecord, DeliveryId>, StoreError> {
        deliveries::list(&self.pools.general().await?, account, filter, page).await
    }

    async fn delivery(&self, account: AccountId, id: DeliveryId) -> Result<DeliveryRecord, StoreError> {
        deliveries::get(&self.pools.general().await?, account, id).await
    }

    async fn attempts_of_delivery(
        &self,
        account: AccountId,
        id: DeliveryId,
        limit: usize,
    ) -> Result<Vec<AttemptRecord>, StoreError> {
        attempts::of_delivery(&self.pools.general().await?, account, id, limit).await
    }

    async fn attempts_of_destination(
        &self,
        account: AccountId,
        id: DestinationId,
        page: Page<(DeliveryId, AttemptId)>,
    ) -> Result<Listed<AttemptRecord, (DeliveryId, AttemptId)>, StoreError> {
        attempts::of_destination(&self.pools.general().await?, account, id, page).await
    }

    async fn success_rates(
        &self,
        destinations: &[DestinationId],
        since: Timestamp,
        limit: usize,
    ) -> Result<Vec<SuccessRate>, StoreError> {
        attempts::success_rates(&self.pools.general().await?, destinations, since, limit).await
    }
}

/// How many entries to look at, and rows to give: with nothing to filter, what is looked at is what is given.
fn bounds(filters: bool, limit: usize) -> (i64, i64) {
    let look_at = if filters { limits::PAGE_SCAN } else { limit };
    (look_at as i64, limit as i64)
}

/// The last there was to look at, and the last that was looked at.
pub(super) fn page_ends<'r, K: FromColumn<'r>>(
    cells: &mut Cells<'r, '_>,
) -> Result<(Option<K>, Option<K>), Unreadable> {
    Ok((cells.get("last_id")?, cells.get("looked_at_id")?))
}

/// A page, and where the next one begins if there is one.
fn listed<T, K: Copy + Ord>(page: PageRows<T, K>, (last, looked_at): (Option<K>, Option<K>)) -> Listed<T, K> {
    // A full page goes on where it stopped, a short one where the scan stopped.
    let stopped = if page.is_full() { page.last() } else { looked_at };
    let rows = page.into_rows();
    let next = stopped.filter(|stopped| last.is_some_and(|last| last < *stopped));
    Listed { rows, next }
}

/// An empty list is no filter.
pub(super) fn some<T: Clone>(values: &[T]) -> Option<Vec<T>> {
    (!values.is_empty()).then(|| values.to_vec())
}

pub(super) fn uuids<K>(ids: &[K], uuid: impl Fn(&K) -> Uuid) -> Option<Vec<Uuid>> {
    (!ids.is_empty()).then(|| ids.iter().map(uuid).collect())
}

pub(super) fn expressions(patterns: &[Pattern]) -> Option<Vec<String>> {
    (!patterns.is_empty()).then(|| patterns.iter().map(|pattern| expression(pattern.as_str())).collect())
}

/// A pattern as a regular expression that matches the same event types. Its words have no letters to escape.
fn expression(pattern: &str) -> String {
    if pattern == "*" {
        return "^.*$".into();
    }
    let segment = |segment| match segment {
        "*" => "[^.]*",
        "**" => ".*",
        word => word,
    };
    let segments: Vec<&str> = pattern.split('.').map(segment).collect();
    format!("^{}$", segments.join("\\."))
}

#[cfg(test)]
mod tests {
    use super::expression;

    #[test]
    fn a_pattern_becomes_the_expression_that_matches_the_same() {
        assert_eq!(expression("*"), "^.*$");
        assert_eq!(expression("payment.succeeded"), "^payment\\.succeeded$");
        assert_eq!(expression("*.failed"), "^[^.]*\\.failed$");
        assert_eq!(expression("payment.**"), "^payment\\..*$");
    }
}
