//! The queue: windows of many lanes in one read, and the commands that move a single delivery.

use super::{
    PostgresStore, order,
    planned::{self, Planned, Statement},
    pool::{Connection, Param, params},
    rows, settle,
};
use crate::{
    FetchedDelivery, LaneHead, Queue, Settlement, StoreError, TrackHead, Turn, Window, kept, leap::Leap,
    queue::first_track,
};
use async_trait::async_trait;
use domain::{
    delivery::{Delivery, Position},
    event::Event,
    id::{AccountId, AttemptId, DeliveryId, DestinationId, EventId, NodeId},
    limits,
    time::Timestamp,
};
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, LazyLock},
};
use tokio_postgres::{Row, types::Type};
use uuid::Uuid;

pub(super) static FETCH: LazyLock<Planned> = LazyLock::new(|| {
    let statement = Statement {
        name: "fetch",
        sql: include_str!("sql/fetch.sql"),
        kept: true,
        settings: "set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off \
                   set enable_bitmapscan = off",
        gives: "place int8, shard int2, delivery_id uuid, account_id uuid, event_id uuid, destination_id uuid, \
                route_id uuid, replay_id uuid, origin uuid, track int8, rank int8, due_at int8, attempts int4, \
                spent int4, tls_errors int4, last_outcome text, last_http_status int2, created_at int8, \
                available_at int8, payload_bytes int4, sequence int8",
    };
    Planned::new(statement, &Lanes::of(&[]).params())
});
pub(super) const FETCH_EVENTS: &str = include_str!("sql/fetch_events.sql");
pub(super) static LANES: LazyLock<Planned> = LazyLock::new(|| {
    let statement = Statement {
        name: "lanes",
        sql: include_str!("sql/lanes.sql"),
        kept: true,
        settings: planned::IN_ORDER,
        gives: "shard int2, destination_id uuid, track int8, rank int8, delivery_id uuid",
    };
    let leap: Vec<i16> = Vec::new();
    Planned::new(statement, params![leap => INT2_ARRAY, 0_i16 => INT2, Uuid::nil() => UUID, 0_i64 => INT8])
});
pub(super) static BACKLOG: LazyLock<Planned> = LazyLock::new(|| {
    let statement = Statement {
        name: "backlog",
        sql: include_str!("sql/backlog.sql"),
        kept: true,
        settings: planned::IN_ORDER,
        gives: "rows int8, oldest int8",
    };
    let destinations: Vec<Uuid> = Vec::new();
    Planned::new(statement, params![destinations => UUID_ARRAY, 0_i64 => INT8])
});
/// The columns of the payload in `fetch_events`.
const PAYLOAD: usize = 11;
const PAYLOAD_CRC: usize = 12;
const SIZE_BYTES: usize = 13;

#[async_trait]
impl Queue for PostgresStore {
    async fn fetch(&self, windows: &[Window]) -> Result<Vec<Vec<FetchedDelivery>>, StoreError> {
        let mut fetched: Vec<Vec<FetchedDelivery>> = windows.iter().map(|_| Vec::new()).collect();
        let connection = self.pools.engine().await?;
        let read = connection.read(&FETCH.call, &Lanes::of(windows).params()).await?;
        if read.is_empty() {
            return Ok(fetched);
        }
        let waiting: Vec<(usize, u16, Delivery)> = read.iter().map(waiting).collect();
        let ids: HashSet<Uuid> = waiting.iter().map(|(.., delivery)| delivery.event_id.uuid()).collect();
        let (ids, carried) = (Vec::from_iter(ids), limits::CARRIED_BYTES as i32);
        let read = connection.read(FETCH_EVENTS, params![ids => UUID_ARRAY, carried => INT4]).await?;
        let events: HashMap<EventId, Carried> = read.iter().map(Carried::read).collect();
        for (window, shard, delivery) in waiting {
            let carried = events.get(&delivery.event_id);
            fetched[window].push(FetchedDelivery {
                shard,
                delivery,
                event: carried.map(|carried| carried.event.clone()),
                has_payload: carried.is_some_and(|carried| carried.has_payload),
            });
        }
        Ok(fetched)
    }

    async fn payload(&self, event: EventId) -> Result<Option<Arc<Event>>, StoreError> {
        let connection = self.pools.engine().await?;
        let (ids, carried) = (vec![event.uuid()], i32::MAX);
        let row = connection.read_opt(FETCH_EVENTS, params![ids => UUID_ARRAY, carried => INT4]).await?;
        match row.map(|row| Carried::read(&row).1) {
            Some(Carried { altered: true, .. }) => Err(StoreError::Altered),
            found => Ok(found.map(|carried| carried.event)),
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
        self.stir.ring();
        Ok(settled)
    }

    async fn lanes(
        &self,
        shards: &[u16],
        after: Option<(u16, DestinationId)>,
        limit: usize,
    ) -> Result<Vec<LaneHead>, StoreError> {
        let leap = Leap::over(shards);
        let (shard, destination) = leap.start(after);
        let connection = self.pools.engine().await?;
        let params = params![
            leap.table() => INT2_ARRAY, shard => INT2, destination.uuid() => UUID, limit as i64 => INT8,
        ];
        let rows = connection.read(&LANES.call, params).await?;
        Ok(rows.iter().map(head).collect())
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
        turns: &[Turn],
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
    ) -> Result<Option<Delivery>, StoreError> {
        let connection = self.pools.general().await?;
        let params = params![account.uuid() => UUID, id.uuid() => UUID, now.micros() => INT8];
        let rows = connection.write(include_str!("sql/retry_now.sql"), params).await?;
        Ok(rows.first().map(|row| rows::delivery(row, 0).1))
    }

    async fn cancel(
        &self,
        account: AccountId,
        id: DeliveryId,
        fact: AttemptId,
        now: Timestamp,
    ) -> Result<Option<Delivery>, StoreError> {
        let connection = self.pools.general().await?;
        let params =
            params![account.uuid() => UUID, id.uuid() => UUID, fact.uuid() => UUID, now.micros() => INT8];
        let rows = connection.write(include_str!("sql/cancel.sql"), params).await?;
        self.stir.ring();
        Ok(rows.first().map(|row| rows::delivery(row, 0).1))
    }

    async fn backlog(
        &self,
        destinations: &[DestinationId],
        limit: i64,
    ) -> Result<Vec<(i64, Option<Timestamp>)>, StoreError> {
        let connection = self.pools.general().await?;
        let ids: Vec<Uuid> = destinations.iter().map(|id| id.uuid()).collect();
        let params = params![ids => UUID_ARRAY, limit => INT8];
        let rows = connection.read(&BACKLOG.call, params).await?;
        Ok(rows.iter().map(|row| (row.get(0), rows::optional_time(row, 1))).collect())
    }
}

/// Windows, by columns.
pub(super) struct Lanes {
    shard: Vec<i16>,
    destination_id: Vec<Uuid>,
    track: Vec<i64>,
    rank: Vec<i64>,
    delivery_id: Vec<Uuid>,
    last_track: Vec<i64>,
    rows: Vec<i64>,
}

impl Lanes {
    pub(super) fn of(windows: &[Window]) -> Self {
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

    pub(super) fn params(&self) -> [Param<'_>; 7] {
        [
            (&self.shard, Type::INT2_ARRAY),
            (&self.destination_id, Type::UUID_ARRAY),
            (&self.track, Type::INT8_ARRAY),
            (&self.rank, Type::INT8_ARRAY),
            (&self.delivery_id, Type::UUID_ARRAY),
            (&self.last_track, Type::INT8_ARRAY),
            (&self.rows, Type::INT8_ARRAY),
        ]
    }
}

/// The window it was read for (counted from 1 in SQL), its shard and itself.
fn waiting(row: &Row) -> (usize, u16, Delivery) {
    let (shard, delivery) = rows::delivery(row, 1);
    (row.get::<_, i64>(0) as usize - 1, shard, delivery)
}

/// An event, without its payload if that is too large or altered.
struct Carried {
    event: Arc<Event>,
    has_payload: bool,
    altered: bool,
}

impl Carried {
    fn read(row: &Row) -> (EventId, Self) {
        let stored: Option<&[u8]> = row.get(PAYLOAD);
        let payload = stored.and_then(|stored| kept::payload(stored, size(row), row.get(PAYLOAD_CRC)));
        let (has_payload, altered) = (payload.is_some(), stored.is_some() && payload.is_none());
        let event = Event { payload: payload.unwrap_or_default(), ..rows::event(row) };
        (event.id, Self { event: Arc::new(event), has_payload, altered })
    }
}

/// Of its payload, as it was accepted.
fn size(row: &Row) -> usize {
    row.get::<_, i32>(SIZE_BYTES) as usize
}

/// As it is stored, for a person to look at: nobody asks whether that is what was accepted.
pub(super) async fn stored_event(connection: &Connection, id: EventId) -> Result<Option<Event>, StoreError> {
    let ids = vec![id.uuid()];
    let row = connection.read_opt(FETCH_EVENTS, params![ids => UUID_ARRAY, i32::MAX => INT4]).await?;
    Ok(row.map(|row| {
        let payload = kept::shown(row.get(PAYLOAD), size(&row));
        Event { payload, ..rows::event(&row) }
    }))
}

fn head(row: &Row) -> LaneHead {
    let first =
        Position { track: row.get(2), rank: row.get(3), delivery_id: DeliveryId::from_uuid(row.get(4)) };
    LaneHead {
        shard: row.get::<_, i16>(0) as u16,
        destination_id: DestinationId::from_uuid(row.get(1)),
        first,
    }
}
