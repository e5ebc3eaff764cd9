//! What must never be, a step at a time, each one statement and so one snapshot.

use super::{
    PostgresStore,
    rows::row,
    statement::{Statement, params, sql},
};
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
use std::sync::LazyLock;

pub(super) static AUDIT_HEADS: LazyLock<Statement> = sql!("audit_heads");
pub(super) static AUDIT_FAN_OUTS: LazyLock<Statement> = sql!("audit_fan_outs");
pub(super) static AUDIT_FACTS: LazyLock<Statement> = sql!("audit_facts");

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
        let params = params![
            from_shard: shard as i16 => INT2, from_destination_id: id.uuid() => UUID, from_track: track => INT8,
            limit: limit as i64 => INT8,
        ];
        let heads = connection.read(&AUDIT_HEADS, params).await?;
        let heads: Vec<WaitingHead> = heads.all()?.into_iter().map(HeadRow::head).collect();
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
        let params = params![
            from_event_id: from.uuid() => UUID, limit: limit as i64 => INT8, max_deliveries: deliveries => INT8,
        ];
        let rows = connection.read(&AUDIT_FAN_OUTS, params).await?;
        let fan_outs: Vec<FanOutRow> = rows.all()?;
        let last = fan_outs.last().map(|row| row.id);
        let found = fan_outs.into_iter().filter_map(FanOutRow::uneven).collect();
        // A short step may have been cut by its deliveries: only one that sees nothing is the last.
        Ok(Walked { looked_at: rows.len(), found, next: last.and_then(after_event) })
    }

    async fn audit_facts(
        &self,
        (delivery, attempt): FactKey,
        limit: usize,
    ) -> Result<Walked<FactKey, StrayFact>, StoreError> {
        let connection = self.pools.general().await?;
        let params = params![
            from_delivery_id: delivery.uuid() => UUID, from_attempt_id: attempt.uuid() => UUID,
            limit: limit as i64 => INT8,
        ];
        let rows = connection.read(&AUDIT_FACTS, params).await?;
        let facts: Vec<FactWord<'_>> = rows.all()?.into_iter().map(FactRow::fact).collect();
        let found = facts.iter().filter_map(FactWord::stray).collect();
        Ok(walked(rows.len(), limit, facts.last().map(|fact| fact.key), after_fact, found))
    }
}

row! {
    struct HeadRow {
        shard: u16,
        destination_id: DestinationId,
        track: i64,
        delivery_id: DeliveryId,
        due_at: Timestamp,
        attempts: u32,
    }
}

impl HeadRow {
    fn head(self) -> WaitingHead {
        WaitingHead {
            place: (self.shard, self.destination_id, self.track),
            delivery_id: self.delivery_id,
            due_at: self.due_at,
            attempts: self.attempts,
        }
    }
}

row! {
    struct FanOutRow {
        id: EventId,
        account_id: AccountId,
        promised: Option<i32>,
        found: u64,
    }
}

impl FanOutRow {
    fn uneven(self) -> Option<UnevenFanOut> {
        let Self { id: event_id, account_id, .. } = self;
        // Whatever is wrong with a number, it is told and not stumbled over.
        let promised = self.promised.map(|promised| promised.max(0) as u32);
        let found = self.found as u32;
        (promised != Some(found)).then_some(UnevenFanOut { event_id, account_id, promised, found })
    }
}

row! {
    struct FactRow<'r> {
        delivery_id: DeliveryId,
        attempt_id: AttemptId,
        event_id: EventId,
        ending: Option<&'r str>,
        reason: Option<&'r str>,
        has_event: bool,
        has_delivery: bool,
        has_attempts: bool,
    }
}

impl<'r> FactRow<'r> {
    fn fact(self) -> FactWord<'r> {
        FactWord {
            key: (self.delivery_id, self.attempt_id),
            event_id: self.event_id,
            ending: self.ending,
            reason: self.reason,
            has_event: self.has_event,
            has_delivery: self.has_delivery,
            has_attempts: self.has_attempts,
        }
    }
}
