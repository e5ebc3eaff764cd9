//! Events, with how far their fan-out is.

use super::{
    super::{
        Trouble,
        rows::Columns,
        statement::{bound, sql},
    },
    filter, listed,
};
use crate::{
    BackfillEvent, BackfillEvents, BackfillWalk, EventFilter, EventRecord, FanoutCounts, KeptPayload, Listed,
    Page, PayloadSize, SealedEvent, StoreError, StoredEvent, other_routes, payload, tags,
};
use bytes::Bytes;
use domain::{
    event::Event,
    id::{AccountId, EventId},
    limits,
    time::Timestamp,
};
use rusqlite::Connection;
use std::{ops::ControlFlow, sync::Arc};

pub(in super::super) const EVENTS: &str = concat!(
    sql!("events"),
    "where e.account_id = :account_id and e.id < :before and e.id >= :from order by e.id desc limit :limit"
);
const BACKFILL_EVENTS: &str = concat!(
    sql!("events"),
    "where e.account_id = :account_id and e.id >= :from and e.id < :below order by e.id limit :limit"
);
const WANTED_EVENT: &str = concat!(sql!("events"), "where e.id = :id and e.account_id = :account_id");
const EVENT: &str = sql!("event");
const EVENT_PAYLOAD: &str = sql!("event_payload");
const PAYLOAD_SIZE: &str = sql!("payload_size");
const KEPT_PAYLOAD: &str = sql!("kept_payload");
const WAITING_OF_EVENT: &str = sql!("waiting_of_event");
const FANOUT_COUNTS: &str = sql!("fanout_counts");

/// Nothing is as small.
const NO_PAYLOAD: i64 = -1;

/// A filter as the statements take it.
struct EventQuery {
    types: Option<String>,
    source_ids: Option<String>,
    idempotency_keys: Option<String>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    fanout_complete: Option<bool>,
    unmatched: bool,
    metadata_parts: Option<String>,
}

impl EventQuery {
    fn new(filter: &EventFilter) -> Self {
        Self {
            types: filter::patterns(&filter.types),
            source_ids: filter::ids(&filter.source_ids, |id| id.uuid()),
            idempotency_keys: filter::list(&filter.idempotency_keys, String::clone),
            since: filter.since,
            until: filter.until,
            fanout_complete: filter.fanout_complete,
            unmatched: filter.unmatched,
            metadata_parts: filter::list(&filter.metadata_parts(), String::clone),
        }
    }
}

pub(super) fn list(
    connection: &Connection,
    account: AccountId,
    filter: &EventFilter,
    page: Page<EventId>,
) -> Result<Listed<EventRecord, EventId>, Trouble> {
    let query = EventQuery::new(filter);
    let (from, before) = filter.ids(page.before);
    let mut select = connection.prepare_cached(EVENTS)?;
    let mut rows = bound!(
        EVENTS,
        account_id: account,
        before: before,
        from: from,
        limit: limits::PAGE_SCAN + 1,
        types: query.types,
        source_ids: query.source_ids,
        idempotency_keys: query.idempotency_keys,
        since: query.since,
        until: query.until,
        fanout_complete: query.fanout_complete,
        unmatched: query.unmatched,
        metadata_parts: query.metadata_parts,
        payload_bytes: NO_PAYLOAD,
    )
    .rows(&mut select)?;
    listed(page.limit, || {
        let Some(row) = rows.next()? else { return Ok(None) };
        let mut columns = Columns::of(row);
        let wanted: bool = columns.get()?;
        let id: EventId = columns.clone().id()?;
        if !wanted {
            return Ok(Some((id, None)));
        }
        // The counts are looked up for those that are shown.
        let record = record(connection, &mut columns, Some(limits::FANOUT_COUNTED));
        let record = Trouble::leave_out("event", id, record)?;
        Ok(Some((id, record.filter(|record| filter.wants(record)))))
    })
}

pub(super) fn get(connection: &Connection, account: AccountId, id: EventId) -> Result<EventRecord, Trouble> {
    bound!(EVENT, id: id, account_id: account)
        .first(connection, |columns| {
            let record = record(connection, columns, None)?;
            Ok(EventRecord { sealed_headers: columns.sealed()?, ..record })
        })?
        .ok_or(StoreError::NotFound { what: "event" }.into())
}

pub(super) fn alone(connection: &Connection, account: AccountId, id: EventId) -> Result<Event, Trouble> {
    bound!(EVENT, id: id, account_id: account)
        .first(connection, |columns| columns.event())?
        .ok_or(StoreError::NotFound { what: "event" }.into())
}

/// The next events that a backfill is about, oldest first.
pub(in super::super) fn backfill(
    connection: &Connection,
    walk: &BackfillWalk,
) -> Result<BackfillEvents, Trouble> {
    let (query, (from, below)) = (EventQuery::new(&walk.selection.filter), walk.range());
    let (mut found, mut last, mut looked_at) = (BackfillEvents::default(), None, 0);
    bound!(
        BACKFILL_EVENTS,
        account_id: walk.account_id,
        from: from,
        below: below,
        limit: limits::PAGE_SCAN + 1,
        types: query.types,
        source_ids: query.source_ids,
        idempotency_keys: query.idempotency_keys,
        since: query.since,
        until: query.until,
        fanout_complete: query.fanout_complete,
        unmatched: query.unmatched,
        metadata_parts: query.metadata_parts,
        payload_bytes: if walk.payloads { limits::CARRIED_BYTES as i64 } else { NO_PAYLOAD },
    )
    .each(connection, |columns| {
        if found.events.len() == walk.limit || looked_at == limits::PAGE_SCAN {
            found.next = last;
            return Ok(ControlFlow::Break(()));
        }
        looked_at += 1;
        let wanted: bool = columns.get()?;
        let id: EventId = columns.clone().id()?;
        last = Some(id);
        if wanted {
            let (event, payload_bytes) = (columns.event()?, columns.count()? as u32);
            let expanding = columns.get::<Option<u32>>()?.is_none();
            let _other_routes = columns.optional_blob()?;
            let event = Event { tags: tags::read(columns.optional_text()?), ..event };
            let erased = columns.optional_time()?.is_some();
            if walk.selection.wants(&event) {
                let (stored, crc) = (columns.optional_blob()?, columns.get()?);
                let payload = stored.and_then(|stored| payload::read(stored, payload_bytes as usize, crc));
                let has_payload = payload.is_some();
                let event = Arc::new(Event { payload: payload.unwrap_or_default(), ..event });
                found.events.push(BackfillEvent { event, has_payload, payload_bytes, expanding, erased });
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

/// None: the event is gone.
pub(super) fn fanout_of(connection: &Connection, id: EventId) -> Result<Option<FanoutCounts>, Trouble> {
    let total = bound!("select deliveries from events where id = :id", id: id)
        .first(connection, |columns| Ok(columns.get::<Option<u32>>()?))?;
    total.map(|total| fanout(connection, id, total, Some(limits::FANOUT_COUNTED))).transpose()
}

/// The record of the account's event, if the filter wants it.
pub(super) fn wanted(
    connection: &Connection,
    account: AccountId,
    filter: &EventFilter,
    id: EventId,
) -> Result<Option<EventRecord>, Trouble> {
    let query = EventQuery::new(filter);
    let found = bound!(
        WANTED_EVENT,
        id: id,
        account_id: account,
        types: query.types,
        source_ids: query.source_ids,
        idempotency_keys: query.idempotency_keys,
        since: query.since,
        until: query.until,
        fanout_complete: query.fanout_complete,
        unmatched: query.unmatched,
        metadata_parts: query.metadata_parts,
        payload_bytes: NO_PAYLOAD,
    )
    .first(connection, |columns| {
        let wanted: bool = columns.get()?;
        wanted.then(|| record(connection, columns, Some(limits::FANOUT_COUNTED))).transpose()
    })?;
    Ok(found.flatten().filter(|record| filter.wants(record)))
}

pub(super) fn payload_size(
    connection: &Connection,
    account: AccountId,
    id: EventId,
) -> Result<PayloadSize, Trouble> {
    bound!(PAYLOAD_SIZE, id: id, account_id: account)
        .first(connection, |columns| {
            let size = PayloadSize { accepted: columns.count()? as usize, kept: columns.count()? as usize };
            is_there(columns).map(|()| size)
        })?
        .ok_or(StoreError::NotFound { what: "event" }.into())
}

pub(super) fn kept_payload(
    connection: &Connection,
    account: AccountId,
    id: EventId,
) -> Result<KeptPayload, Trouble> {
    bound!(KEPT_PAYLOAD, id: id, account_id: account)
        .first(connection, |columns| {
            let (content_type, size) = (columns.get()?, columns.count()? as usize);
            let (kept, crc) = (Bytes::copy_from_slice(columns.blob()?), columns.get()?);
            is_there(columns)?;
            Ok(KeptPayload::new((id, columns.sealed()?), content_type, size, kept, crc)?)
        })?
        .ok_or(StoreError::NotFound { what: "event" }.into())
}

/// `payload_erased_at`
fn is_there(columns: &mut Columns<'_>) -> Result<(), Trouble> {
    match columns.optional_time()? {
        None => Ok(()),
        Some(_) => Err(StoreError::PayloadErased.into()),
    }
}

pub(super) fn with_payload(
    connection: &Connection,
    account: AccountId,
    id: EventId,
) -> Result<StoredEvent, Trouble> {
    bound!(EVENT_PAYLOAD, id: id, account_id: account)
        .first(connection, |columns| {
            let event = columns.event()?;
            let (size, stored) = (columns.count()? as usize, columns.blob()?);
            Ok(match columns.sealed()? {
                None => {
                    let payload = payload::shown(stored, size);
                    StoredEvent::Plain(Arc::new(Event { payload, ..event }))
                }
                Some(headers) => {
                    let payload = Bytes::copy_from_slice(stored);
                    StoredEvent::Sealed(Box::new(SealedEvent::new(event, size, payload, headers)))
                }
            })
        })?
        .ok_or(StoreError::NotFound { what: "event" }.into())
}

/// `at_most` are counted of what waits, and of what has ended.
fn record(
    connection: &Connection,
    columns: &mut Columns<'_>,
    at_most: Option<usize>,
) -> Result<EventRecord, Trouble> {
    let event = columns.event()?;
    let (size_bytes, total) = (columns.count()?, columns.get()?);
    let other_routes = other_routes::unpacked(columns.optional_blob()?);
    let event = Event { tags: tags::read(columns.optional_text()?), ..event };
    let payload_erased_at = columns.optional_time()?;
    let fanout = fanout(connection, event.id, total, at_most)?;
    Ok(EventRecord { event, size_bytes, fanout, other_routes, payload_erased_at, sealed_headers: None })
}

/// `total` is null while an expansion makes them.
fn fanout(
    connection: &Connection,
    event: EventId,
    total: Option<u32>,
    at_most: Option<usize>,
) -> Result<FanoutCounts, Trouble> {
    let limit = at_most.map_or(-1, |most| most as i64); // -1: none
    let waiting = bound!(WAITING_OF_EVENT, event_id: event, limit: limit)
        .one(connection, |columns| Ok(columns.get()?))?;
    let (mut counts, mut last) = (FanoutCounts { waiting, ..FanoutCounts::default() }, None);
    bound!(FANOUT_COUNTS, event_id: event, limit: limit).each(connection, |columns| {
        let (ending, count) = (columns.text()?, columns.get()?);
        match ending {
            "delivered" => counts.delivered = count,
            "dead_letter" => counts.dead_letter = count,
            "dismissed" => counts.dismissed = count,
            _ => counts.cancelled = count,
        }
        last = last.max(Some(columns.time()?));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(counts.of(total, at_most, last))
}
