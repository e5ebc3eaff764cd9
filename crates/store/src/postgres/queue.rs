//! The queue: windows of many lanes in one read, and the commands that move a single delivery.

use super::{
    PostgresStore, audit_log, order,
    planned::{self, Definition, Planned},
    pool::Connection,
    rows::{self, Cells, Rows, Unreadable},
    settle,
    statement::{Params, Statement, params, sql, sql_file},
};
use crate::{
    DueDelivery, FetchedDelivery, LaneHead, Queue, SealedEvent, Settlement, StoreError, StoredEvent,
    TrackHead, Window, payload, queue::first_track, sealed_event, shard_scan::ShardScan,
};
use async_trait::async_trait;
use bytes::Bytes;
use domain::{
    audit::AuditEntry,
    delivery::Delivery,
    event::Event,
    id::{AccountId, AttemptId, DeliveryId, DestinationId, EventId, NodeId},
    limits,
    time::Timestamp,
};
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, LazyLock},
};
use uuid::Uuid;

pub(super) static FETCH: LazyLock<Planned> = LazyLock::new(|| {
    let definition = Definition {
        name: "fetch",
        sql: sql_file!("fetch"),
        kept: true,
        settings: "set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off \
                   set enable_bitmapscan = off",
        gives: "place int8, shard int2, delivery_id uuid, account_id uuid, event_id uuid, destination_id uuid, \
                route_id uuid, replay_id uuid, origin uuid, track int8, rank int8, due_at int8, attempts int4, \
                spent int4, tls_errors int4, last_outcome text, last_http_status int2, created_at int8, \
                available_at int8, payload_bytes int4, sequence int8",
    };
    Planned::new(definition, WindowColumns::of(&[]).params())
});
/// Planned for its values: they tell in which days the events are. By their key: of a small day all rows would be read for
/// each window.
pub(super) static FETCH_EVENTS: LazyLock<Planned> = LazyLock::new(|| {
    let definition = Definition {
        name: "fetch_events",
        sql: sql_file!("fetch_events"),
        kept: false,
        settings: planned::BY_KEY,
        gives: "id uuid, account_id uuid, source_id uuid, event_type text, idempotency_key text, content_type text, \
                headers text, ordering_key text, metadata text, received_at int8, deliver_at int8, payload bytea, \
                payload_crc int4, size_bytes int4, erased bool, sealed_headers bytea",
    };
    let params = params![
        event_ids: Vec::<Uuid>::new() => UUID_ARRAY, max_payload_bytes: 0_i32 => INT4,
    ];
    Planned::new(definition, params)
});
pub(super) static LANES: LazyLock<Planned> = LazyLock::new(|| {
    let definition = Definition {
        name: "lanes",
        sql: sql_file!("lanes"),
        kept: true,
        settings: planned::IN_ORDER,
        gives: "shard int2, destination_id uuid, track int8, rank int8, delivery_id uuid",
    };
    let params = params![
        next_shards: Vec::<i16>::new() => INT2_ARRAY, after_shard: 0_i16 => INT2,
        after_destination_id: Uuid::nil() => UUID, limit: 0_i64 => INT8,
    ];
    Planned::new(definition, params)
});
pub(super) static BACKLOG: LazyLock<Planned> = LazyLock::new(|| {
    let definition = Definition {
        name: "backlog",
        sql: sql_file!("backlog"),
        kept: true,
        settings: planned::IN_ORDER,
        gives: "rows int8, oldest int8",
    };
    let params = params![destination_ids: Vec::<Uuid>::new() => UUID_ARRAY, limit: 0_i64 => INT8];
    Planned::new(definition, params)
});
static RETRY_NOW: LazyLock<Statement> = sql!("retry_now");
static CANCEL: LazyLock<Statement> = sql!("cancel");

#[async_trait]
impl Queue for PostgresStore {
    async fn fetch(&self, windows: &[Window]) -> Result<Vec<Vec<FetchedDelivery>>, StoreError> {
        let mut fetched: Vec<Vec<FetchedDelivery>> = windows.iter().map(|_| Vec::new()).collect();
        let connection = self.pools.engine().await?;
        let waiting = waiting(&connection, windows).await?;
        if waiting.is_empty() {
            return Ok(fetched);
        }
        let ids: HashSet<Uuid> = waiting.iter().map(|row| row.delivery.event_id.uuid()).collect();
        let params = params![
            event_ids: Vec::from_iter(ids) => UUID_ARRAY,
            max_payload_bytes: limits::CARRIED_BYTES as i32 => INT4,
        ];
        let events = carried(&connection.read(&FETCH_EVENTS.call, params).await?);
        for WindowDelivery { window, shard, delivery } in waiting {
            let carried = events.get(&delivery.event_id);
            fetched[window].push(FetchedDelivery {
                shard,
                delivery,
                event: carried.map(|carried| carried.event.clone()),
                has_payload: carried.is_some_and(|carried| carried.has_payload),
                sealed: carried.and_then(|carried| carried.sealed.clone()),
            });
        }
        Ok(fetched)
    }

    async fn payload(&self, event: EventId) -> Result<Option<StoredEvent>, StoreError> {
        let connection = self.pools.engine().await?;
        let params = params![
            event_ids: vec![event.uuid()] => UUID_ARRAY, max_payload_bytes: i32::MAX => INT4,
        ];
        let mut found = carried(&connection.read(&FETCH_EVENTS.call, params).await?);
        match found.remove(&event) {
            Some(CarriedEvent { erased: true, .. }) => Ok(None),
            Some(CarriedEvent { altered: true, .. }) => Err(StoreError::Altered),
            Some(CarriedEvent { sealed: Some(sealed), .. }) => {
                Ok(Some(StoredEvent::Sealed(Box::new(Arc::unwrap_or_clone(sealed)))))
            }
            found => Ok(found.map(|carried| StoredEvent::Plain(carried.event))),
        }
    }

    async fn settle(
        &self,
        node: NodeId,
        settlements: &[Settlement],
        now: Timestamp,
    ) -> Result<Vec<bool>, StoreError> {
        if settlements.is_empty() {
            return Ok(Vec::new());
        }
        let connection = self.pools.settle().await?;
        let settled = settle::settle(&connection, node, settlements, now).await?;
        self.feed_signal.notify();
        Ok(settled)
    }

    async fn lanes(
        &self,
        shards: &[u16],
        after: Option<(u16, DestinationId)>,
        limit: usize,
    ) -> Result<Vec<LaneHead>, StoreError> {
        let scan = ShardScan::over(shards);
        let (shard, destination) = scan.start(after);
        let connection = self.pools.engine().await?;
        let params = params![
            next_shards: scan.next_shards() => INT2_ARRAY, after_shard: shard => INT2,
            after_destination_id: destination.uuid() => UUID, limit: limit as i64 => INT8,
        ];
        let heads = connection.read(&LANES.call, params).await?;
        Ok(heads.all(|cells| {
            Ok(LaneHead {
                shard: cells.get("shard")?,
                destination_id: cells.get("destination_id")?,
                first: rows::position(cells)?,
            })
        })?)
    }

    async fn tracks(
        &self,
        shard: u16,
        destination: DestinationId,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Vec<TrackHead>, StoreError> {
        let Some(from) = first_track(after) else { return Ok(Vec::new()) };
        let connection = self.pools.engine().await?;
        order::tracks(&connection, shard, destination, from, limit).await
    }

    async fn take_turns(
        &self,
        node: NodeId,
        turns: &[DueDelivery],
        now: Timestamp,
    ) -> Result<Vec<bool>, StoreError> {
        if turns.is_empty() {
            return Ok(Vec::new());
        }
        let connection = self.pools.settle().await?;
        order::take_turns(&connection, node, turns, now).await
    }

    async fn retry_now(
        &self,
        account: AccountId,
        id: DeliveryId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<Option<Delivery>, StoreError> {
        let connection = self.pools.general().await?;
        let params = params![
            account_id: account.uuid() => UUID, delivery_id: id.uuid() => UUID, now: now.micros() => INT8,
        ];
        moved(&connection, &RETRY_NOW, params, account, audit).await
    }

    async fn cancel(
        &self,
        account: AccountId,
        id: DeliveryId,
        fact: AttemptId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<Option<Delivery>, StoreError> {
        let connection = self.pools.general().await?;
        let params = params![
            account_id: account.uuid() => UUID, delivery_id: id.uuid() => UUID, attempt_id: fact.uuid() => UUID,
            now: now.micros() => INT8,
        ];
        let cancelled = moved(&connection, &CANCEL, params, account, audit).await;
        self.feed_signal.notify();
        cancelled
    }

    async fn backlog(
        &self,
        destinations: &[DestinationId],
        limit: i64,
    ) -> Result<Vec<(i64, Option<Timestamp>)>, StoreError> {
        let connection = self.pools.general().await?;
        let ids: Vec<Uuid> = destinations.iter().map(|id| id.uuid()).collect();
        let params = params![destination_ids: ids => UUID_ARRAY, limit: limit => INT8];
        let backlogs = connection.read(&BACKLOG.call, params).await?;
        Ok(backlogs.all(|cells| Ok((cells.get("rows")?, cells.get("oldest")?)))?)
    }
}

/// Moves one delivery that waits, and writes down who asked for it.
async fn moved(
    connection: &Connection,
    statement: &Statement,
    params: Params<'_, '_>,
    account: AccountId,
    audit: &AuditEntry,
) -> Result<Option<Delivery>, StoreError> {
    let transaction = connection.begin().await?;
    let moved = async {
        let moved = transaction.run(statement, params).await?.first(rows::waiting)?;
        if moved.is_some() {
            audit_log::append(&transaction, Some(account), audit).await?;
        }
        Ok(moved)
    };
    let moved = moved.await;
    transaction.end(moved).await
}

/// What waits, with its shard and the window it was read for.
struct WindowDelivery {
    window: usize,
    shard: u16,
    delivery: Delivery,
}

/// What waits in these windows. What does not read cannot be delivered; it stays where it is and does not keep the
/// deliveries behind it.
async fn waiting(connection: &Connection, windows: &[Window]) -> Result<Vec<WindowDelivery>, StoreError> {
    let read = connection.read(&FETCH.call, WindowColumns::of(windows).params()).await?;
    let (mut waiting, unreadable) = readable(&read, windows)?;
    let short = |window: &usize| unreadable[*window] > 0;
    let short: Vec<usize> = (0..windows.len()).filter(short).collect();
    if !short.is_empty() {
        // As many more as there may be to pass over.
        let longer = |window: &usize| {
            let window = &windows[*window];
            Window { limit: window.limit.saturating_add(limits::WINDOW_MAX), ..*window }
        };
        let longer: Vec<Window> = short.iter().map(longer).collect();
        let read = connection.read(&FETCH.call, WindowColumns::of(&longer).params()).await?;
        waiting.retain(|row| unreadable[row.window] == 0);
        let mut room: Vec<usize> = short.iter().map(|window| windows[*window].limit).collect();
        for WindowDelivery { window: place, shard, delivery } in readable(&read, &longer)?.0 {
            if room[place] > 0 {
                room[place] -= 1;
                waiting.push(WindowDelivery { window: short[place], shard, delivery });
            }
        }
    }
    Ok(waiting)
}

/// What reads, and how much does not, by window.
fn readable(read: &Rows, windows: &[Window]) -> Result<(Vec<WindowDelivery>, Vec<usize>), Unreadable> {
    let (mut waiting, mut unreadable) = (Vec::with_capacity(read.len()), vec![0; windows.len()]);
    let places: Vec<usize> = read.column("place")?;
    let rows = read.each(|cells| Ok((cells.get("shard")?, rows::waiting(cells)?)));
    for (place, row) in places.into_iter().zip(rows) {
        let window = place - 1; // counted from 1 in SQL
        match row {
            Ok((shard, delivery)) => waiting.push(WindowDelivery { window, shard, delivery }),
            Err(error) => {
                let destination_id = windows[window].destination_id;
                tracing::error!(%destination_id, %error, "a delivery does not read back and is left where it is");
                unreadable[window] += 1;
            }
        }
    }
    Ok((waiting, unreadable))
}

/// Windows, by columns.
struct WindowColumns {
    shard: Vec<i16>,
    destination_id: Vec<Uuid>,
    track: Vec<i64>,
    rank: Vec<i64>,
    delivery_id: Vec<Uuid>,
    last_track: Vec<i64>,
    rows: Vec<i64>,
}

impl WindowColumns {
    fn of(windows: &[Window]) -> Self {
        Self {
            shard: windows.iter().map(|window| window.shard as i16).collect(),
            destination_id: windows.iter().map(|window| window.destination_id.uuid()).collect(),
            track: windows.iter().map(|window| window.from.track).collect(),
            rank: windows.iter().map(|window| window.from.rank).collect(),
            delivery_id: windows.iter().map(|window| window.from.delivery_id.uuid()).collect(),
            last_track: windows.iter().map(|window| window.last_track).collect(),
            rows: windows.iter().map(|window| window.limit as i64).collect(),
        }
    }

    fn params(&self) -> Params<'_, '_> {
        params![
            shard: self.shard => INT2_ARRAY, destination_id: self.destination_id => UUID_ARRAY,
            track: self.track => INT8_ARRAY, rank: self.rank => INT8_ARRAY,
            delivery_id: self.delivery_id => UUID_ARRAY, last_track: self.last_track => INT8_ARRAY,
            rows: self.rows => INT8_ARRAY,
        ]
        .owned()
    }
}

/// An event, without its payload if that is too large, sealed or altered.
pub(super) struct CarriedEvent {
    pub(super) event: Arc<Event>,
    sealed: Option<Arc<SealedEvent>>,
    pub(super) has_payload: bool,
    altered: bool,
    pub(super) erased: bool,
}

impl CarriedEvent {
    pub(super) fn read(cells: &mut Cells<'_, '_>) -> Result<Self, Unreadable> {
        let stored: Option<&[u8]> = cells.get("payload")?;
        // The size is that of the payload as it was accepted.
        let (size_bytes, payload_crc): (u32, _) = (cells.get("size_bytes")?, cells.get("payload_crc")?);
        let payload = stored.and_then(|stored| payload::read(stored, size_bytes as usize, payload_crc));
        let (has_payload, altered) = (payload.is_some(), stored.is_some() && payload.is_none());
        let erased = cells.get("erased")?;
        let event = Event { payload: payload.unwrap_or_default(), ..rows::event(cells)? };
        Ok(Self { event: Arc::new(event), sealed: None, has_payload, altered, erased })
    }

    /// The same where it may be sealed.
    fn read_sealed(cells: &mut Cells<'_, '_>) -> Result<Self, Unreadable> {
        let (stored, headers): (Option<&[u8]>, _) = (cells.get("payload")?, rows::sealed(cells)?);
        let (Some(stored), Some(headers)) = (stored, headers) else { return Self::read(cells) };
        let (size_bytes, crc): (u32, _) = (cells.get("size_bytes")?, cells.get("payload_crc")?);
        let (event, erased) = (rows::event(cells)?, cells.get("erased")?);
        let altered = sealed_event::check(stored, crc).is_err();
        let payload = Bytes::copy_from_slice(stored);
        let sealed = SealedEvent::new(event.clone(), size_bytes as usize, payload, headers);
        let sealed = (!altered).then(|| Arc::new(sealed));
        Ok(Self { event: Arc::new(event), sealed, has_payload: false, altered, erased })
    }
}

/// One that does not read back is as good as missing: its deliveries must end, and the others go on.
fn carried(read: &Rows) -> HashMap<EventId, CarriedEvent> {
    let mut events = HashMap::with_capacity(read.len());
    for carried in read.each(CarriedEvent::read_sealed) {
        match carried {
            Ok(carried) => {
                events.insert(carried.event.id, carried);
            }
            Err(error) => tracing::error!(%error, "an event does not read back"),
        }
    }
    events
}

/// As it is stored, for a person to look at: nothing asks whether that is what was accepted.
pub(super) async fn stored_event(
    connection: &Connection,
    id: EventId,
) -> Result<Option<StoredEvent>, StoreError> {
    let params = params![
        event_ids: vec![id.uuid()] => UUID_ARRAY, max_payload_bytes: i32::MAX => INT4,
    ];
    let rows = connection.read(&FETCH_EVENTS.call, params).await?;
    Ok(rows.first(|cells| {
        let (stored, size_bytes): (Option<&[u8]>, u32) = (cells.get("payload")?, cells.get("size_bytes")?);
        let (stored, size) = (stored.unwrap_or_default(), size_bytes as usize);
        let event = rows::event(cells)?;
        Ok(match rows::sealed(cells)? {
            None => StoredEvent::Plain(Arc::new(Event { payload: payload::shown(stored, size), ..event })),
            Some(headers) => {
                let payload = Bytes::copy_from_slice(stored);
                StoredEvent::Sealed(Box::new(SealedEvent::new(event, size, payload, headers)))
            }
        })
    })?)
}
