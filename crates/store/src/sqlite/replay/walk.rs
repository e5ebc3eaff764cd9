//! The originals of a replay: what has ended, oldest first, by the index that fits best.

use super::super::{
    Trouble,
    history::{self, EndedIndex},
    row::{self, Key as _},
};
use crate::{
    DeliveryRecord, DeliveryState, Original, OriginalWalk, Originals, Selection, Survey, replay::AsOf,
};
use domain::{
    destination::Ordering,
    id::{AccountId, DeliveryId, DestinationId, ReplayId},
    limits,
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension as _, params};
use std::collections::BTreeMap;

/// Counts what a replay that is made at `as_of` will match.
pub(super) fn survey(
    connection: &Connection,
    account: AccountId,
    selection: &Selection,
    as_of: Timestamp,
    limit: usize,
) -> Result<Survey, Trouble> {
    let as_of = AsOf::at(as_of);
    let mut survey = Survey { exact: true, ..Survey::default() };
    let mut by_destination = BTreeMap::<DestinationId, u64>::new();
    match selection {
        Selection::Deliveries(ids) => {
            for id in ids {
                match destination_of(connection, account, *id)? {
                    Some(destination) => *by_destination.entry(destination).or_default() += 1,
                    None => survey.unknown.push(*id),
                }
            }
        }
        Selection::Filter(filter) => {
            let mut index = EndedIndex::of(connection, account, filter, as_of.below)?;
            let mut ended = index.after(None, limit + 1)?;
            for looked_at in 0.. {
                let Some(record) = ended.next()? else { break };
                if looked_at == limit {
                    survey.exact = false;
                    break;
                }
                if record.account_id == account && covers(as_of, &record) && history::wanted(filter, &record)
                {
                    *by_destination.entry(record.destination_id).or_default() += 1;
                }
            }
        }
    }
    survey.matched = by_destination.values().sum();
    survey.by_destination = by_destination.into_iter().collect();
    Ok(survey)
}

/// Waiting or ended.
fn destination_of(
    connection: &Connection,
    account: AccountId,
    id: DeliveryId,
) -> Result<Option<DestinationId>, Trouble> {
    let mut select = connection.prepare_cached(
        "select destination_id from queue where account_id = ?1 and delivery_id = ?2
         union all
         select destination_id from attempts
         where delivery_id = ?2 and account_id = ?1 and ending is not null
         limit 1",
    )?;
    Ok(select.query_row(params![account.blob(), id.blob()], |row| row::id(row, 0)).optional()?)
}

pub(super) fn originals(connection: &Connection, walk: &OriginalWalk) -> Result<Originals, Trouble> {
    let OriginalWalk { replay, limit } = walk;
    let as_of = AsOf::at(replay.created_at);
    let mut found = Originals::default();
    let Some(filter) = &replay.filter else { return given(connection, walk) };
    let mut index = EndedIndex::of(connection, replay.account_id, filter, as_of.below)?;
    let mut ended = index.after(replay.cursor, limits::PAGE_SCAN + 1)?;
    let mut last = None;
    for _ in 0..limits::PAGE_SCAN {
        let Some(record) = ended.next()? else { return Ok(found) };
        last = Some(record.id);
        let earlier = covers(as_of, &record) && record.replay_id != Some(replay.id);
        if record.account_id == replay.account_id && earlier && history::wanted(filter, &record) {
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
            Some(record) if covers(as_of, &record) => {
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
    let mut select = connection.prepare_cached("select delivery_ids from replays where id = ?1")?;
    let ids: Option<Vec<u8>> = select.query_row([replay.blob()], |row| row.get(0)).optional()?.flatten();
    let ids = ids.unwrap_or_default();
    let (ids, _) = ids.as_chunks::<16>();
    let ids = ids.iter().copied().map(DeliveryId::from_bytes);
    Ok(ids.filter(|id| cursor.is_none_or(|cursor| *id > cursor)).collect())
}

fn covers(as_of: AsOf, record: &DeliveryRecord) -> bool {
    matches!(record.state, DeliveryState::Ended { at, .. } if as_of.covers(record.id, at))
}

fn original(connection: &Connection, record: DeliveryRecord) -> Result<Original, Trouble> {
    let mut select = connection.prepare_cached(
        "select case
                    when instr(doc, '\"ordering\":\"strict\"') > 0 then 'strict'
                    when instr(doc, '\"ordering\":\"key\"') > 0 then 'key'
                    else 'none'
                end
         from destinations where id = ?1 and deleted_at is null",
    )?;
    let word: Option<String> =
        select.query_row([record.destination_id.blob()], |row| row.get(0)).optional()?;
    Ok(Original {
        id: record.id,
        origin: record.origin,
        event_id: record.event_id,
        route_id: record.route_id,
        destination_id: record.destination_id,
        ordering_key: record.ordering_key,
        ordering: word.map(|word| Ordering::read(&word)),
    })
}
