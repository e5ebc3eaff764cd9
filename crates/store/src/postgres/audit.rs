//! What must never be, a step at a time, each one statement and so one snapshot.

use super::{
    PostgresStore,
    rows::{Cells, Unreadable},
    statement::{Statement, params, sql},
};
use crate::{
    Audit, Catalog as _, FactKey, KnownLane, Membership as _, PublishedLanes as _, Roster, StoreError,
    StrayFact, TrackPlace, UnevenFanOut, WaitingHead, Walked,
    audit::{FactWord, after_event, after_fact, after_track, walked},
};
use async_trait::async_trait;
use domain::{
    id::{DestinationId, EventId},
    time::Timestamp,
};
use std::sync::LazyLock;

pub(super) static AUDIT_HEADS: LazyLock<Statement> = sql!("audit_heads");
pub(super) static AUDIT_FAN_OUTS: LazyLock<Statement> = sql!("audit_fan_outs");
pub(super) static AUDIT_FACTS: LazyLock<Statement> = sql!("audit_facts");

#[async_trait]
impl Audit for PostgresStore {
    async fn audit_roster(&self) -> Result<Roster, StoreError> {
        self.roster().await
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
        let heads = connection.read(&AUDIT_HEADS, params).await?.all(head)?;
        Ok(walked(heads.len(), limit, heads.last().map(|head| head.place), after_track, heads))
    }

    async fn audit_lanes(
        &self,
        ids: &[DestinationId],
        newer_than: Timestamp,
    ) -> Result<Vec<KnownLane>, StoreError> {
        let published = self.published_lanes(ids, newer_than).await?;
        let known = self.destination_records(ids).await?.into_iter().zip(published);
        Ok(known.map(|(record, published)| KnownLane { record, published }).collect())
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
        let fan_outs = rows.all(fan_out)?;
        let last = fan_outs.last().map(|fan_out| fan_out.event_id);
        let uneven = |fan_out: &UnevenFanOut| fan_out.promised != Some(fan_out.found);
        let found = fan_outs.into_iter().filter(uneven).collect();
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
        let facts = rows.all(fact)?;
        let found = facts.iter().filter_map(FactWord::stray).collect();
        Ok(walked(rows.len(), limit, facts.last().map(|fact| fact.key), after_fact, found))
    }
}

fn head(cells: &mut Cells<'_, '_>) -> Result<WaitingHead, Unreadable> {
    Ok(WaitingHead {
        place: (cells.get("shard")?, cells.get("destination_id")?, cells.get("track")?),
        delivery_id: cells.get("delivery_id")?,
        due_at: cells.get("due_at")?,
        attempts: cells.get("attempts")?,
    })
}

/// Even or not.
fn fan_out(cells: &mut Cells<'_, '_>) -> Result<UnevenFanOut, Unreadable> {
    let promised: Option<i32> = cells.get("promised")?;
    Ok(UnevenFanOut {
        event_id: cells.get("id")?,
        account_id: cells.get("account_id")?,
        // Whatever is wrong with a number, it is told and not stumbled over.
        promised: promised.map(|promised| promised.max(0) as u32),
        found: cells.get::<u64>("found")? as u32,
    })
}

fn fact<'r>(cells: &mut Cells<'r, '_>) -> Result<FactWord<'r>, Unreadable> {
    Ok(FactWord {
        key: (cells.get("delivery_id")?, cells.get("attempt_id")?),
        event_id: cells.get("event_id")?,
        ending: cells.get("ending")?,
        reason: cells.get("reason")?,
        has_event: cells.get("has_event")?,
        has_delivery: cells.get("has_delivery")?,
        has_attempts: cells.get("has_attempts")?,
    })
}
