//! What must never be, a step at a time, each one statement and so one snapshot.

use super::{PostgresStore, pool::params, rows};
use crate::{
    Audit, Catalog as _, FactKey, KnownLane, Membership as _, PublishedLanes as _, Roll, StoreError,
    StrayFact, TrackPlace, UnevenFanOut, WaitingHead, Walked,
    audit::{FactWord, after_event, after_fact, after_track, walked},
};
use async_trait::async_trait;
use domain::{
    id::{AccountId, AttemptId, DeliveryId, DestinationId, EventId},
    time::Timestamp,
};
use tokio_postgres::Row;

pub(super) const HEADS: &str = include_str!("sql/audit_heads.sql");
pub(super) const FAN_OUTS: &str = include_str!("sql/audit_fan_outs.sql");
pub(super) const FACTS: &str = include_str!("sql/audit_facts.sql");

#[async_trait]
impl Audit for PostgresStore {
    async fn audit_roll(&self) -> Result<Roll, StoreError> {
        self.roll().await
    }

    async fn audit_heads(
        &self,
        (shard, id, track): TrackPlace,
        limit: usize,
    ) -> Result<Walked<TrackPlace, WaitingHead>, StoreError> {
        let connection = self.pools.general().await?;
        let params = params![shard as i16 => INT2, id.uuid() => UUID, track => INT8, limit as i64 => INT8];
        let heads: Vec<WaitingHead> = connection.read(HEADS, params).await?.iter().map(head).collect();
        Ok(walked(heads.len(), limit, heads.last().map(|head| head.place), after_track, heads))
    }

    async fn audit_lanes(
        &self,
        ids: &[DestinationId],
        newer_than: Timestamp,
    ) -> Result<Vec<KnownLane>, StoreError> {
        let published = self.published_lanes(ids, newer_than).await?;
        let known = self.targets(ids).await?.into_iter().zip(published);
        Ok(known.map(|(target, published)| KnownLane { target, published }).collect())
    }

    async fn audit_fan_outs(
        &self,
        from: EventId,
        limit: usize,
        deliveries: u64,
    ) -> Result<Walked<EventId, UnevenFanOut>, StoreError> {
        let connection = self.pools.general().await?;
        let deliveries = i64::try_from(deliveries).unwrap_or(i64::MAX);
        let params = params![from.uuid() => UUID, limit as i64 => INT8, deliveries => INT8];
        let rows = connection.read(FAN_OUTS, params).await?;
        let last = rows.last().map(|row| EventId::from_uuid(row.get(0)));
        let found = rows.iter().filter_map(uneven).collect();
        // A short step may have been cut by its deliveries: only one that sees nothing is the last.
        Ok(Walked { looked_at: rows.len(), found, next: last.and_then(after_event) })
    }

    async fn audit_facts(
        &self,
        (delivery, attempt): FactKey,
        limit: usize,
    ) -> Result<Walked<FactKey, StrayFact>, StoreError> {
        let connection = self.pools.general().await?;
        let params = params![delivery.uuid() => UUID, attempt.uuid() => UUID, limit as i64 => INT8];
        let rows = connection.read(FACTS, params).await?;
        let found = rows.iter().filter_map(|row| fact(row).stray()).collect();
        Ok(walked(rows.len(), limit, rows.last().map(|row| fact(row).key), after_fact, found))
    }
}

fn head(row: &Row) -> WaitingHead {
    WaitingHead {
        place: (row.get::<_, i16>(0) as u16, DestinationId::from_uuid(row.get(1)), row.get(2)),
        delivery_id: DeliveryId::from_uuid(row.get(3)),
        due_at: rows::time(row, 4),
        attempts: rows::count(row, 5),
    }
}

fn uneven(row: &Row) -> Option<UnevenFanOut> {
    let promised = row.get::<_, Option<i32>>(2).map(|promised| promised.max(0) as u32);
    let found = row.get::<_, i64>(3).max(0) as u32;
    let (event_id, account_id) = (EventId::from_uuid(row.get(0)), AccountId::from_uuid(row.get(1)));
    (promised != Some(found)).then_some(UnevenFanOut { event_id, account_id, promised, found })
}

fn fact(row: &Row) -> FactWord<'_> {
    FactWord {
        key: (DeliveryId::from_uuid(row.get(0)), AttemptId::from_uuid(row.get(1))),
        event_id: EventId::from_uuid(row.get(2)),
        ending: row.get(3),
        reason: row.get(4),
        has_event: row.get(5),
        has_delivery: row.get(6),
        has_attempts: row.get(7),
    }
}
