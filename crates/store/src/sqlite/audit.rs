//! What must never be, a step at a time, each in one snapshot.

use super::{
    catalog, lanes, membership,
    row::{self, Key as _},
    trouble::Trouble,
};
use crate::{
    FactKey, KnownLane, Roll, StrayFact, TrackPlace, UnevenFanOut, WaitingHead, Walked,
    audit::{FactWord, after_event, after_fact, after_track, walked},
};
use domain::{
    id::{DestinationId, EventId},
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

pub(super) const HEADS: &str = include_str!("sql/audit_heads.sql");
pub(super) const FAN_OUTS: &str = include_str!("sql/audit_fan_outs.sql");
pub(super) const FACTS: &str = include_str!("sql/audit_facts.sql");

pub(super) fn roll(connection: &Connection) -> Result<Roll, Trouble> {
    membership::roll(connection)
}

pub(super) fn heads(
    connection: &Connection,
    from: TrackPlace,
    limit: usize,
) -> Result<Walked<TrackPlace, WaitingHead>, Trouble> {
    let mut select = connection.prepare_cached(HEADS)?;
    let (mut heads, mut next) = (Vec::new(), Some(from));
    while heads.len() < limit
        && let Some((shard, id, track)) = next
    {
        let found = select.query_row(params![shard, id.blob(), track], head).optional()?;
        let Some(head) = found else { break };
        heads.push(head);
        next = after_track(head.place);
    }
    Ok(walked(heads.len(), limit, heads.last().map(|head| head.place), after_track, heads))
}

fn head(row: &Row<'_>) -> rusqlite::Result<WaitingHead> {
    Ok(WaitingHead {
        place: (row.get(0)?, row::id(row, 1)?, row.get(2)?),
        delivery_id: row::id(row, 3)?,
        due_at: row::time(row, 4)?,
        attempts: row.get(5)?,
    })
}

pub(super) fn known(
    connection: &Connection,
    ids: &[DestinationId],
    newer_than: Timestamp,
) -> Result<Vec<KnownLane>, Trouble> {
    let known = |id: &DestinationId| {
        let published = lanes::published(connection, *id, newer_than)?;
        Ok(KnownLane { target: catalog::target(connection, *id)?, published })
    };
    ids.iter().map(known).collect()
}

pub(super) fn fan_outs(
    connection: &Connection,
    from: EventId,
    limit: usize,
    deliveries: u64,
) -> Result<Walked<EventId, UnevenFanOut>, Trouble> {
    let mut select = connection.prepare_cached(FAN_OUTS)?;
    let deliveries = i64::try_from(deliveries).unwrap_or(i64::MAX);
    let mut rows = select.query(params![from.blob(), limit as i64, deliveries])?;
    let (mut found, mut looked_at, mut last) = (Vec::new(), 0, None);
    while let Some(row) = rows.next()? {
        looked_at += 1;
        let event_id = row::id(row, 0)?;
        last = Some(event_id);
        let (promised, there): (Option<u32>, u32) = (row.get(2)?, row.get(3)?);
        if promised != Some(there) {
            found.push(UnevenFanOut { event_id, account_id: row::id(row, 1)?, promised, found: there });
        }
    }
    // A short step may have been cut by its deliveries: only one that sees nothing is the last.
    Ok(Walked { looked_at, found, next: last.and_then(after_event) })
}

pub(super) fn facts(
    connection: &Connection,
    from: FactKey,
    limit: usize,
) -> Result<Walked<FactKey, StrayFact>, Trouble> {
    let mut select = connection.prepare_cached(FACTS)?;
    let mut rows = select.query(params![from.0.blob(), from.1.blob(), limit as i64])?;
    let (mut found, mut looked_at, mut last) = (Vec::new(), 0, None);
    while let Some(row) = rows.next()? {
        looked_at += 1;
        let key = (row::id(row, 0)?, row::id(row, 1)?);
        last = Some(key);
        let text = |column| row.get_ref(column)?.as_str_or_null().map_err(rusqlite::Error::from);
        let word = FactWord {
            key,
            event_id: row::id(row, 2)?,
            ending: text(3)?,
            reason: text(4)?,
            has_event: row.get(5)?,
            has_delivery: row.get(6)?,
            has_attempts: row.get(7)?,
        };
        found.extend(word.stray());
    }
    Ok(walked(looked_at, limit, last, after_fact, found))
}
