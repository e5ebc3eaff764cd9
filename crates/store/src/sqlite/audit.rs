//! What must never be, a step at a time, each in one snapshot.

use super::{
    catalog, lanes, membership,
    rows::Columns,
    statement::{bound, sql},
    trouble::Trouble,
};
use crate::{
    FactKey, KnownLane, Roster, StrayFact, TrackPlace, UnevenFanOut, WaitingHead, Walked,
    audit::{FactWord, after_event, after_fact, after_track, walked},
};
use domain::{
    id::{DestinationId, EventId},
    time::Timestamp,
};
use rusqlite::Connection;
use std::ops::ControlFlow;

pub(super) const AUDIT_HEADS: &str = sql!("audit_heads");
pub(super) const AUDIT_FAN_OUTS: &str = sql!("audit_fan_outs");
pub(super) const AUDIT_FACTS: &str = sql!("audit_facts");

pub(super) fn roster(connection: &Connection) -> Result<Roster, Trouble> {
    membership::roster(connection)
}

pub(super) fn heads(
    connection: &Connection,
    from: TrackPlace,
    limit: usize,
) -> Result<Walked<TrackPlace, WaitingHead>, Trouble> {
    let mut select = connection.prepare_cached(AUDIT_HEADS)?;
    let (mut heads, mut next) = (Vec::new(), Some(from));
    while heads.len() < limit
        && let Some((shard, id, track)) = next
    {
        let found = bound!(AUDIT_HEADS, shard: shard, destination_id: id, track: track);
        let Some(head) = found.first_on(&mut select, head)? else { break };
        heads.push(head);
        next = after_track(head.place);
    }
    Ok(walked(heads.len(), limit, heads.last().map(|head| head.place), after_track, heads))
}

fn head(columns: &mut Columns<'_>) -> Result<WaitingHead, Trouble> {
    Ok(WaitingHead {
        place: (columns.get()?, columns.id()?, columns.get()?),
        delivery_id: columns.id()?,
        due_at: columns.time()?,
        attempts: columns.get()?,
    })
}

pub(super) fn known(
    connection: &Connection,
    ids: &[DestinationId],
    newer_than: Timestamp,
) -> Result<Vec<KnownLane>, Trouble> {
    let known = |id: &DestinationId| {
        let published = lanes::published(connection, *id, newer_than)?;
        Ok(KnownLane { record: catalog::destination_record(connection, *id)?, published })
    };
    ids.iter().map(known).collect()
}

pub(super) fn fan_outs(
    connection: &Connection,
    from: EventId,
    limit: usize,
    deliveries: u64,
) -> Result<Walked<EventId, UnevenFanOut>, Trouble> {
    let deliveries = i64::try_from(deliveries).unwrap_or(i64::MAX);
    let (mut found, mut looked_at, mut last) = (Vec::new(), 0, None);
    bound!(AUDIT_FAN_OUTS, from: from, limit: limit, deliveries: deliveries).each(connection, |columns| {
        looked_at += 1;
        let (event_id, account_id) = (columns.id()?, columns.id()?);
        last = Some(event_id);
        let (promised, there): (Option<u32>, u32) = (columns.get()?, columns.get()?);
        if promised != Some(there) {
            found.push(UnevenFanOut { event_id, account_id, promised, found: there });
        }
        Ok(ControlFlow::Continue(()))
    })?;
    // A short step may have been cut by its deliveries: only one that sees nothing is the last.
    Ok(Walked { looked_at, found, next: last.and_then(after_event) })
}

pub(super) fn facts(
    connection: &Connection,
    from: FactKey,
    limit: usize,
) -> Result<Walked<FactKey, StrayFact>, Trouble> {
    let (mut found, mut looked_at, mut last) = (Vec::new(), 0, None);
    bound!(AUDIT_FACTS, delivery_id: from.0, attempt_id: from.1, limit: limit).each(
        connection,
        |columns| {
            looked_at += 1;
            let key = (columns.id()?, columns.id()?);
            last = Some(key);
            let word = FactWord {
                key,
                event_id: columns.id()?,
                ending: columns.optional_text()?,
                reason: columns.optional_text()?,
                has_event: columns.get()?,
                has_delivery: columns.get()?,
                has_attempts: columns.get()?,
            };
            found.extend(word.stray());
            Ok(ControlFlow::Continue(()))
        },
    )?;
    Ok(walked(looked_at, limit, last, after_fact, found))
}
