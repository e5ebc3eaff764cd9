//! Events, with how far their fan-out is.

use super::{
    super::{
        Trouble,
        row::{self, Key as _},
    },
    listed, one_of, within,
};
use crate::{EventFilter, EventRecord, FanoutCounts, Listed, Page, StoreError, kept};
use bytes::Bytes;
use domain::{
    event::Event,
    id::{AccountId, EventId, SourceId},
    limits,
};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

/// The columns of [`row::event`], then those of the record.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "select id, account_id, source_id, type, idempotency_key, content_type, ordering_key, received_at, deliver_at,
               headers, metadata, size_bytes, deliveries from events ",
            $rest
        )
    };
}

pub(super) fn list(
    connection: &Connection,
    account: AccountId,
    filter: &EventFilter,
    page: Page<EventId>,
) -> Result<Listed<EventRecord, EventId>, Trouble> {
    let mut select =
        connection.prepare_cached(select!("where account_id = ?1 and id < ?2 order by id desc limit ?3"))?;
    let before = page.before.unwrap_or(EventId::MAX);
    let mut rows = select.query(params![account.blob(), before.blob(), limits::PAGE_SCAN as i64 + 1])?;
    listed(page.limit, || {
        let Some(row) = rows.next()? else { return Ok(None) };
        let id = row::id(row, 0)?;
        // Judged by its columns first: the counts are looked up for those that are shown, or asked for by them.
        let wanted = wanted(filter, row)?
            && match filter.fanout_complete {
                None => true,
                Some(asked) => asked == is_complete(connection, row)?,
            };
        let record = wanted.then(|| record(connection, row, Some(limits::FANOUT_COUNTED))).transpose()?;
        Ok(Some((id, record)))
    })
}

pub(super) fn get(connection: &Connection, account: AccountId, id: EventId) -> Result<EventRecord, Trouble> {
    let mut select = connection.prepare_cached(select!("where id = ?1 and account_id = ?2"))?;
    let mut rows = select.query(params![id.blob(), account.blob()])?;
    let found = rows.next()?.map(|row| record(connection, row, None)).transpose()?;
    found.ok_or(StoreError::NotFound { what: "event" }.into())
}

pub(super) fn alone(connection: &Connection, account: AccountId, id: EventId) -> Result<Event, Trouble> {
    let mut select = connection.prepare_cached(select!("where id = ?1 and account_id = ?2"))?;
    let mut rows = select.query(params![id.blob(), account.blob()])?;
    let found = rows.next()?.map(|row| row::event(row, Bytes::new())).transpose()?;
    found.ok_or(StoreError::NotFound { what: "event" }.into())
}

/// None: the event is gone.
pub(super) fn fanout_of(connection: &Connection, id: EventId) -> Result<Option<FanoutCounts>, Trouble> {
    let mut select = connection.prepare_cached("select deliveries from events where id = ?1")?;
    let total = select.query_row([id.blob()], |row| row.get::<_, Option<u32>>(0)).optional()?;
    total.map(|total| fanout(connection, id, total, Some(limits::FANOUT_COUNTED))).transpose()
}

/// The record of an event of the account that the filter wants by its columns, and whose fan-out is not complete.
pub(super) fn incomplete_record(
    connection: &Connection,
    account: AccountId,
    filter: &EventFilter,
    id: EventId,
) -> Result<Option<EventRecord>, Trouble> {
    let mut select = connection.prepare_cached(select!("where id = ?1 and account_id = ?2"))?;
    let mut rows = select.query(params![id.blob(), account.blob()])?;
    match rows.next()? {
        Some(row) if wanted(filter, row)? && !is_complete(connection, row)? => {
            record(connection, row, Some(limits::FANOUT_COUNTED)).map(Some)
        }
        _ => Ok(None),
    }
}

pub(super) fn with_payload(
    connection: &Connection,
    account: AccountId,
    id: EventId,
) -> Result<Event, Trouble> {
    let mut select = connection.prepare_cached(
        "select id, account_id, source_id, type, idempotency_key, content_type, ordering_key, received_at, deliver_at,
           headers, metadata, payload, size_bytes
         from events where id = ?1 and account_id = ?2",
    )?;
    let mut rows = select.query(params![id.blob(), account.blob()])?;
    let read = |row: &Row<'_>| -> Result<Event, Trouble> {
        let stored = row.get_ref(11)?.as_blob().map_err(rusqlite::Error::from)?;
        row::event(row, kept::shown(stored, row.get::<_, i64>(12)? as usize))
    };
    let found = rows.next()?.map(read).transpose()?;
    found.ok_or(StoreError::NotFound { what: "event" }.into())
}

fn wanted(filter: &EventFilter, row: &Row<'_>) -> Result<bool, Trouble> {
    let event_type = row.get_ref(3)?.as_str().map_err(rusqlite::Error::from)?;
    let key = row.get_ref(4)?.as_str_or_null().map_err(rusqlite::Error::from)?;
    let source: Option<SourceId> = row::maybe_id(row, 2)?;
    Ok(one_of(&filter.types, |pattern| pattern.matches(event_type))
        && one_of(&filter.source_ids, |id| source == Some(*id))
        && one_of(&filter.idempotency_keys, |wanted| key == Some(wanted))
        && within(filter.since, filter.until, row::time(row, 7)?))
}

/// Whether everything has been made and has ended.
fn is_complete(connection: &Connection, row: &Row<'_>) -> Result<bool, Trouble> {
    let event: EventId = row::id(row, 0)?;
    let mut waiting = connection
        .prepare_cached("select exists (select 1 from queue where event_id = ?1 and replay_id is null)")?;
    let made = row.get::<_, Option<u32>>(12)?.is_some();
    Ok(made && !waiting.query_row([event.blob()], |row| row.get::<_, bool>(0))?)
}

/// `at_most` are counted of what waits, and of what has ended.
fn record(connection: &Connection, row: &Row<'_>, at_most: Option<usize>) -> Result<EventRecord, Trouble> {
    let event = row::event(row, Bytes::new())?;
    let fanout = fanout(connection, event.id, row.get(12)?, at_most)?;
    Ok(EventRecord { event, size_bytes: row.get::<_, i64>(11)?.unsigned_abs(), fanout })
}

/// `total` is null while an expansion makes them.
fn fanout(
    connection: &Connection,
    event: EventId,
    total: Option<u32>,
    at_most: Option<usize>,
) -> Result<FanoutCounts, Trouble> {
    let mut counts = FanoutCounts::default();
    let limit = at_most.map_or(-1, |most| most as i64); // -1: none
    let mut waiting = connection.prepare_cached(
        "select count(*) from (select 1 from queue where event_id = ?1 and replay_id is null limit ?2)",
    )?;
    counts.waiting = waiting.query_row(params![event.blob(), limit], |row| row.get(0))?;
    let mut endings = connection.prepare_cached(include_str!("../sql/fanout.sql"))?;
    let mut rows = endings.query(params![event.blob(), limit])?;
    let mut last = None;
    while let Some(row) = rows.next()? {
        let count = row.get(1)?;
        match row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)? {
            "delivered" => counts.delivered = count,
            "dead_letter" => counts.dead_letter = count,
            _ => counts.cancelled = count,
        }
        last = last.max(Some(row::time(row, 2)?));
    }
    Ok(counts.of(total, at_most, last))
}
