//! Events with how far their fan-outs are.

use super::{
    super::{
        planned::{Definition, Planned},
        pool::Connection,
        rows::{self, Cells, Unreadable},
        statement::{Statement, params, sql, sql_file},
    },
    bounds, expressions, listed, page_ends, some, uuids,
};
use crate::{
    EventFilter, EventRecord, FanoutCounts, KeptPayload, Listed, Page, PayloadSize, StoreError, other_routes,
    page_rows::PageRow, tags,
};
use bytes::Bytes;
use domain::{
    event::Event,
    id::{AccountId, DeliveryId, EventId, RouteId},
    limits,
    time::Timestamp,
};
use std::{collections::HashMap, sync::LazyLock};
use uuid::Uuid;

static EVENTS: LazyLock<Statement> = sql!("events" + "events_page");
static EVENT: LazyLock<Statement> = sql!("event");
static PAYLOAD_SIZE: LazyLock<Statement> = sql!("payload_size");
static KEPT_PAYLOAD: LazyLock<Statement> = sql!("kept_payload");
static FANOUT_TOTALS: LazyLock<Statement> = sql!("fanout_totals");
/// In a busy hour one large fan-out is all that the statistics know, and the planner would look for every other event by
/// reading the table.
pub(in super::super) static FANOUT_COUNTS: LazyLock<Planned> = LazyLock::new(|| {
    let definition = Definition {
        name: "fanout_counts",
        sql: sql_file!("fanout_counts"),
        kept: false,
        settings: "set enable_seqscan = off set enable_bitmapscan = off",
        gives: "waiting bigint, delivered bigint, dead_letter bigint, dismissed bigint, cancelled bigint, \
                last_at bigint",
    };
    let params = params![
        event_ids: Vec::<Uuid>::new() => UUID_ARRAY, from_delivery_id: Uuid::nil() => UUID,
        limit: None::<i64> => INT8,
    ];
    Planned::new(definition, params)
});

pub(super) async fn list(
    connection: &Connection,
    account: AccountId,
    filter: &EventFilter,
    page: Page<EventId>,
) -> Result<Listed<EventRecord, EventId>, StoreError> {
    list_by(connection, &EVENTS, account, filter, page).await
}

/// By a statement that scans them one way or another.
pub(super) async fn list_by(
    connection: &Connection,
    statement: &Statement,
    account: AccountId,
    filter: &EventFilter,
    page: Page<EventId>,
) -> Result<Listed<EventRecord, EventId>, StoreError> {
    let (from, below) = filter.ids(page.before);
    let filters = !filter.types.is_empty()
        || !filter.source_ids.is_empty()
        || !filter.idempotency_keys.is_empty()
        || filter.since.is_some()
        || filter.until.is_some()
        || filter.fanout_complete.is_some()
        || filter.unmatched
        || !filter.metadata.is_empty();
    let (look_at, limit) = bounds(filters, page.limit);
    let params = params![
        account_id: account.uuid() => UUID, below_event_id: below.uuid() => UUID,
        from_event_id: from.uuid() => UUID, look_at: look_at => INT8,
        limit: limit => INT8, types: expressions(&filter.types) => TEXT_ARRAY,
        source_ids: uuids(&filter.source_ids, |id| id.uuid()) => UUID_ARRAY,
        idempotency_keys: some(&filter.idempotency_keys) => TEXT_ARRAY,
        received_since: filter.since.map(Timestamp::micros) => INT8,
        received_before: filter.until.map(Timestamp::micros) => INT8,
        fanout_complete: filter.fanout_complete => BOOL,
        unmatched: filter.unmatched.then_some(true) => BOOL,
        metadata_parts: some(&filter.metadata_parts()) => TEXT_ARRAY, tags: filter.tags => TEXT_ARRAY,
    ];
    let params = match (filter.tags.is_empty(), filter.fanout_complete) {
        (false, _) => params,
        // Of incomplete ones there is nothing left to ask.
        (true, Some(false)) => params.without(&["fanout_complete", "unmatched", "tags"]),
        (true, _) => params.without(&["tags"]),
    };
    let read = connection.read(statement, params).await?;
    let found = read.joined_page::<EventId, _>("event", "id", page.limit, sized)?;
    let Listed { rows, next } = listed(found, read.one(page_ends)?);
    let mut rows = records(connection, rows, Some(limits::FANOUT_COUNTED)).await?;
    rows.retain(|record| filter.wants(record));
    Ok(Listed { rows, next })
}

pub(super) async fn get(
    connection: &Connection,
    account: AccountId,
    id: EventId,
) -> Result<EventRecord, StoreError> {
    let params = params![account_id: account.uuid() => UUID, event_id: id.uuid() => UUID];
    let read = connection.read(&EVENT, params).await?;
    let sealed_headers = read.first(rows::sealed)?.flatten();
    let found = records(connection, read.all(sized)?, None).await?.pop();
    let record = found.ok_or(StoreError::NotFound { what: "event" })?;
    Ok(EventRecord { sealed_headers, ..record })
}

pub(super) async fn alone(
    connection: &Connection,
    account: AccountId,
    id: EventId,
) -> Result<Event, StoreError> {
    let params = params![account_id: account.uuid() => UUID, event_id: id.uuid() => UUID];
    let read = connection.read(&EVENT, params).await?;
    read.first(rows::event)?.ok_or(StoreError::NotFound { what: "event" })
}

pub(super) async fn payload_size(
    connection: &Connection,
    account: AccountId,
    id: EventId,
) -> Result<PayloadSize, StoreError> {
    let params = params![account_id: account.uuid() => UUID, event_id: id.uuid() => UUID];
    let found = connection.read(&PAYLOAD_SIZE, params).await?.first(|cells| {
        let (accepted, kept): (u32, u32) = (cells.get("size_bytes")?, cells.get("kept_bytes")?);
        let size = PayloadSize { accepted: accepted as usize, kept: kept as usize };
        Ok(is_there(cells)?.map(|()| size))
    })?;
    found.ok_or(StoreError::NotFound { what: "event" })?
}

/// Whether the payload was not erased.
fn is_there(cells: &mut Cells<'_, '_>) -> Result<Result<(), StoreError>, Unreadable> {
    let erased_at: Option<Timestamp> = cells.get("payload_erased_at")?;
    Ok(erased_at.map_or(Ok(()), |_| Err(StoreError::PayloadErased)))
}

pub(super) async fn kept_payload(
    connection: &Connection,
    account: AccountId,
    id: EventId,
) -> Result<KeptPayload, StoreError> {
    let params = params![account_id: account.uuid() => UUID, event_id: id.uuid() => UUID];
    let found = connection.read(&KEPT_PAYLOAD, params).await?.first(|cells| {
        let (content_type, size): (_, u32) = (cells.get("content_type")?, cells.get("size_bytes")?);
        let kept = Bytes::copy_from_slice(cells.get("payload")?);
        let crc = cells.get("payload_crc")?;
        let seal = (id, rows::sealed(cells)?);
        Ok(is_there(cells)?.and_then(|()| KeptPayload::new(seal, content_type, size as usize, kept, crc)))
    })?;
    found.ok_or(StoreError::NotFound { what: "event" })?
}

pub(super) async fn fanouts(
    connection: &Connection,
    events: &[EventId],
) -> Result<Vec<Option<FanoutCounts>>, StoreError> {
    let ids: Vec<Uuid> = events.iter().map(|id| id.uuid()).collect();
    let totals = connection.read(&FANOUT_TOTALS, params![event_ids: ids => UUID_ARRAY]).await?;
    let totals = totals.all(|cells| Ok((cells.get("id")?, cells.get("deliveries")?)))?;
    let totals: HashMap<EventId, Option<u32>> = totals.into_iter().collect();
    let at_most = Some(limits::FANOUT_COUNTED);
    let counts = fanout_counts(connection, events, at_most).await?;
    let of = |(id, counts): (&EventId, CountedFanout)| Some(counts.of(*totals.get(id)?, at_most));
    Ok(events.iter().zip(counts).map(of).collect())
}

/// Without its payload, but with how large that is.
struct SizedEvent {
    event: Event,
    size_bytes: u32,
    /// None while an expansion makes them.
    deliveries: Option<u32>,
    other_routes: Vec<RouteId>,
    payload_erased_at: Option<Timestamp>,
}

impl PageRow for SizedEvent {
    fn text_bytes(&self) -> usize {
        self.event.text_bytes()
    }
}

fn sized(cells: &mut Cells<'_, '_>) -> Result<SizedEvent, Unreadable> {
    let (size_bytes, deliveries) = (cells.get("size_bytes")?, cells.get("deliveries")?);
    let other_routes = other_routes::unpacked(cells.get("other_routes")?);
    let event = Event { tags: tags::read(cells.get("tags")?), ..rows::event(cells)? };
    let payload_erased_at = cells.get("payload_erased_at")?;
    Ok(SizedEvent { event, size_bytes, deliveries, other_routes, payload_erased_at })
}

/// With how far their fan-outs are. In a statement of its own: the events tell in which days their deliveries can be,
/// and a plan for all days of a long retention takes longer than the reading.
async fn records(
    connection: &Connection,
    found: Vec<SizedEvent>,
    at_most: Option<usize>,
) -> Result<Vec<EventRecord>, StoreError> {
    let ids: Vec<EventId> = found.iter().map(|sized| sized.event.id).collect();
    let counts = fanout_counts(connection, &ids, at_most).await?;
    let record = |(sized, counts): (SizedEvent, CountedFanout)| EventRecord {
        event: sized.event,
        size_bytes: sized.size_bytes.into(),
        fanout: counts.of(sized.deliveries, at_most),
        other_routes: sized.other_routes,
        payload_erased_at: sized.payload_erased_at,
        sealed_headers: None,
    };
    Ok(found.into_iter().zip(counts).map(record).collect())
}

/// One row per event. Of what waits at most so many are counted, and of what has ended.
async fn fanout_counts(
    connection: &Connection,
    events: &[EventId],
    at_most: Option<usize>,
) -> Result<Vec<CountedFanout>, StoreError> {
    let Some(oldest) = events.iter().min() else { return Ok(Vec::new()) };
    let from = DeliveryId::at(oldest.made_at().minus(limits::ID_SLACK), 0).uuid();
    let ids: Vec<Uuid> = events.iter().map(|id| id.uuid()).collect();
    let params = params![
        event_ids: ids => UUID_ARRAY, from_delivery_id: from => UUID,
        limit: at_most.map(|most| most as i64) => INT8,
    ];
    Ok(connection.read(&FANOUT_COUNTS.call, params).await?.all(CountedFanout::read)?)
}

/// What was counted, and when the last of it ended.
struct CountedFanout {
    counts: FanoutCounts,
    last_at: Option<Timestamp>,
}

impl CountedFanout {
    fn read(cells: &mut Cells<'_, '_>) -> Result<Self, Unreadable> {
        let counts = FanoutCounts {
            waiting: cells.get::<u64>("waiting")? as u32,
            delivered: cells.get::<u64>("delivered")? as u32,
            dead_letter: cells.get::<u64>("dead_letter")? as u32,
            dismissed: cells.get::<u64>("dismissed")? as u32,
            cancelled: cells.get::<u64>("cancelled")? as u32,
            ..FanoutCounts::default()
        };
        Ok(Self { counts, last_at: cells.get("last_at")? })
    }

    /// `total` is None while an expansion makes them.
    fn of(self, total: Option<u32>, at_most: Option<usize>) -> FanoutCounts {
        self.counts.of(total, at_most, self.last_at)
    }
}
