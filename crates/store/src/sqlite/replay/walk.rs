//! The originals of a replay: what has ended, oldest first, by the index that fits best.

use super::super::{
    Trouble,
    catalog::numbering_of,
    history::{self, EndedWalk},
    statement::{bound, sql},
};
use crate::{
    DeliveryRecord, DeliveryState, OpenReplay, Original, OriginalWalk, Originals, Selection, Survey,
    replay::AsOf,
};
use domain::{
    id::{AccountId, DeliveryId, DestinationId, ReplayId},
    limits,
    time::Timestamp,
};
use rusqlite::Connection;
use std::collections::BTreeMap;

const SURVEY_GIVEN: &str = sql!("survey_given");

/// Counts what a replay that is made at `as_of` will match.
pub(super) fn survey(
    connection: &Connection,
    account: AccountId,
    selection: &Selection,
    as_of: Timestamp,
    limit: usize,
) -> Result<Survey, Trouble> {
    let AsOf { below, ended_by } = AsOf::at(as_of);
    let mut survey = Survey { exact: true, ..Survey::default() };
    let mut by_destination = BTreeMap::<DestinationId, u64>::new();
    match selection {
        Selection::Deliveries(given) => {
            for id in &given.ids {
                let destination = bound!(SURVEY_GIVEN, account_id: account, delivery_id: id)
                    .first(connection, |columns| Ok(columns.id()?))?;
                match destination {
                    Some(destination) => *by_destination.entry(destination).or_default() += 1,
                    None => survey.unknown.push(*id),
                }
            }
        }
        Selection::Events(_) => {}
        Selection::Filter(filter) => {
            let mut walk = EndedWalk::new(connection, account, filter, (below, ended_by), None)?;
            let mut ended = walk.after(None, limit + 1)?;
            for looked_at in 0.. {
                let Some((_, wanted)) = ended.next()? else { break };
                if looked_at == limit {
                    survey.exact = false;
                    break;
                }
                if let Some(record) = wanted {
                    *by_destination.entry(record.destination_id).or_default() += 1;
                }
            }
        }
    }
    survey.matched = by_destination.values().sum();
    survey.by_destination = by_destination.into_iter().collect();
    Ok(survey)
}

pub(super) fn originals(connection: &Connection, walk: &OriginalWalk) -> Result<Originals, Trouble> {
    let OriginalWalk { replay, limit } = walk;
    let AsOf { below, ended_by } = AsOf::at(replay.created_at);
    let mut found = Originals::default();
    let Some(filter) = &replay.filter else { return given(connection, walk) };
    let mut walk = EndedWalk::new(connection, replay.account_id, filter, (below, ended_by), Some(replay.id))?;
    let mut ended = walk.after(replay.cursor, limits::PAGE_SCAN + 1)?;
    let mut last = None;
    for _ in 0..limits::PAGE_SCAN {
        let Some((id, wanted)) = ended.next()? else { return Ok(found) };
        last = Some(id);
        if let Some(record) = wanted {
            found.rows.push(original(connection, record)?);
        }
        if found.rows.len() == *limit {
            break;
        }
    }
    found.next = ended.next()?.and(last);
    Ok(found)
}

/// Of ids that were given.
fn given(connection: &Connection, walk: &OriginalWalk) -> Result<Originals, Trouble> {
    let OriginalWalk { replay, limit } = walk;
    let as_of = AsOf::at(replay.created_at);
    let ids = ids_after(connection, replay.id, replay.cursor)?;
    let mut found = Originals::default();
    for id in ids.iter().take(*limit) {
        match history::ended(connection, replay.account_id, *id)? {
            Some(record) if covers(as_of, &record) && as_asked(replay, &record) => {
                found.rows.push(original(connection, record)?);
            }
            _ => found.missing += 1,
        }
    }
    found.next = ids.get(*limit).and_then(|_| ids.get(limit - 1)).copied();
    Ok(found)
}

fn ids_after(
    connection: &Connection,
    replay: ReplayId,
    cursor: Option<DeliveryId>,
) -> Result<Vec<DeliveryId>, Trouble> {
    let ids = bound!("select delivery_ids from replays where id = :id", id: replay)
        .first(connection, |columns| Ok(columns.get::<Option<Vec<u8>>>()?))?;
    let ids = ids.flatten().unwrap_or_default();
    let (ids, _) = ids.as_chunks::<16>();
    let ids = ids.iter().copied().map(DeliveryId::from_bytes);
    Ok(ids.filter(|id| cursor.is_none_or(|cursor| *id > cursor)).collect())
}

fn covers(as_of: AsOf, record: &DeliveryRecord) -> bool {
    matches!(record.state, DeliveryState::Ended { at, .. } if as_of.covers(record.id, at))
}

/// Settled or not, as was asked for.
fn as_asked(replay: &OpenReplay, record: &DeliveryRecord) -> bool {
    replay.resolved.is_none_or(|resolved| resolved == record.resolution.is_some())
}

fn original(connection: &Connection, record: DeliveryRecord) -> Result<Original, Trouble> {
    let numbering = numbering_of(connection, record.destination_id)?;
    Ok(Original {
        id: record.id,
        origin: record.origin,
        event_id: record.event_id,
        route_id: record.route_id,
        destination_id: record.destination_id,
        ordering_key: record.ordering_key,
        // None once it is deleted.
        numbering: numbering.and_then(|(numbering, deleted)| (!deleted).then_some(numbering)),
    })
}
