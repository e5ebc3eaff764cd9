//! Fetching, and what people ask of single deliveries. Settling has a file of its own.

use super::{
    SqliteStore, Trouble, order,
    row::{self, DELIVERY_COLUMNS, Key as _},
    settle, tally,
    trouble::Reach,
    writer::Turn,
};
use crate::{
    FetchedDelivery, LaneHead, Queue, Settlement, StoreError, TrackHead, Window, kept, leap::Leap,
    queue::first_track,
};
use async_trait::async_trait;
use domain::{
    delivery::{CancelReason, Delivery, Ending, Position},
    event::Event,
    id::{AccountId, AttemptId, DeliveryId, DestinationId, EventId, NodeId},
    limits,
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension as _, Row, params, types::Value};
use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
};

pub(super) const FETCH: &str = include_str!("sql/fetch.sql");
pub(super) const LANES: &str = include_str!("sql/lanes.sql");
pub(super) const BACKLOG: &str = include_str!("sql/backlog.sql");
pub(super) const CANCEL: &str = include_str!("sql/cancel.sql");
pub(super) const RETRY_NOW: &str = include_str!("sql/retry_now.sql");
pub(super) const CARRIED: &str = include_str!("sql/carried.sql");

#[async_trait]
impl Queue for SqliteStore {
    async fn fetch(&self, windows: &[Window]) -> Result<Vec<Vec<FetchedDelivery>>, StoreError> {
        let windows = windows.to_owned();
        self.read_for_engine(move |connection| {
            let mut carried = HashMap::new();
            windows.iter().map(|window| fetch(connection, window, &mut carried)).collect()
        })
        .await
    }

    async fn payload(&self, event: EventId) -> Result<Option<Arc<Event>>, StoreError> {
        // No limit: this is for those that were too large to carry.
        let found = self.read_for_engine(move |connection| carry(connection, event, i64::MAX)).await?;
        match found {
            Some(Carried { altered: true, .. }) => Err(StoreError::Altered),
            found => Ok(found.map(|carried| carried.event)),
        }
    }

    async fn settle(
        &self,
        _node: NodeId,
        settlements: &[Settlement],
        now: Timestamp,
    ) -> Result<Vec<bool>, StoreError> {
        let entries: Arc<[_]> = settlements.iter().map(settle::Entry::new).collect();
        let mut settled = Vec::with_capacity(entries.len());
        while settled.len() < entries.len() {
            settled.extend(self.settle_part(&entries, settled.len(), now).await?);
        }
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
        self.read_for_engine(move |connection| lanes(connection, &leap, after, limit)).await
    }

    async fn tracks(
        &self,
        shard: u16,
        destination: DestinationId,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Vec<TrackHead>, StoreError> {
        let Some(from) = first_track(after) else { return Ok(Vec::new()) };
        self.read_for_engine(move |connection| order::tracks(connection, shard, destination, from, limit))
            .await
    }

    async fn take_turns(
        &self,
        _node: NodeId,
        turns: &[crate::Turn],
        now: Timestamp,
    ) -> Result<Vec<bool>, StoreError> {
        let turns = turns.to_owned();
        self.write(Turn::Settle, move |connection| {
            turns.iter().map(|turn| order::take_turn(connection, turn, now)).collect()
        })
        .await
    }

    async fn retry_now(
        &self,
        account: AccountId,
        id: DeliveryId,
        now: Timestamp,
    ) -> Result<Option<Delivery>, StoreError> {
        self.write(Turn::Api, move |connection| {
            let mut update = connection.prepare_cached(RETRY_NOW)?;
            update.execute(params![account.blob(), id.blob(), now.micros()])?;
            waiting(connection, account, id)
        })
        .await
    }

    async fn cancel(
        &self,
        account: AccountId,
        id: DeliveryId,
        fact: AttemptId,
        now: Timestamp,
    ) -> Result<Option<Delivery>, StoreError> {
        let cancelled = self
            .write(Turn::Api, move |connection| {
                let Some(delivery) = waiting(connection, account, id)? else { return Ok(None) };
                connection.prepare_cached(CANCEL)?.execute(params![account.blob(), id.blob()])?;
                tally::went(&delivery);
                let ending = Ending::Cancelled(CancelReason::Requested);
                settle::Entry::ended_without(&delivery, fact, now, None, ending).record(connection, true)?;
                Ok(Some(delivery))
            })
            .await?;
        self.stir.ring();
        Ok(cancelled)
    }

    async fn backlog(
        &self,
        destinations: &[DestinationId],
        limit: i64,
    ) -> Result<Vec<(i64, Option<Timestamp>)>, StoreError> {
        let destinations = destinations.to_owned();
        self.read(move |connection| {
            let mut count = connection.prepare_cached(BACKLOG)?;
            let mut count = |id: &DestinationId| {
                let row = params![id.shard(), id.blob(), limit.max(0)];
                Ok(count.query_row(row, |row| Ok((row.get(0)?, row::maybe_time(row, 1)?)))?)
            };
            destinations.iter().map(&mut count).collect()
        })
        .await
    }
}

impl SqliteStore {
    /// As many of them, from there on, as an event that comes meanwhile may wait for; all, if none has come for a while.
    async fn settle_part(
        &self,
        entries: &Arc<[settle::Entry]>,
        from: usize,
        now: Timestamp,
    ) -> Result<Vec<bool>, StoreError> {
        let entries = Arc::clone(entries);
        let ingested_at = Timestamp::from_micros(self.ingested_at.load(Ordering::Relaxed));
        let quiet = now.since(ingested_at) >= limits::INGEST_QUIET;
        let part = if quiet { from..entries.len() } else { from..from + settle::part(&entries[from..]) };
        let mut one_by_one = false;
        self.write(Turn::Settle, move |connection| {
            let settled = settle::settle(connection, &entries[part.clone()], one_by_one, now);
            // The writer rolls back what has failed and asks once more.
            one_by_one |= settled.is_err();
            settled
        })
        .await
    }
}

#[derive(Clone)]
struct Carried {
    /// Without its payload if that is too large or altered.
    event: Arc<Event>,
    has_payload: bool,
    altered: bool,
}

fn fetch(
    connection: &Connection,
    window: &Window,
    carried: &mut HashMap<EventId, Option<Carried>>,
) -> Result<Vec<FetchedDelivery>, Trouble> {
    let Window { shard, destination_id, from, last_track, limit } = *window;
    let mut select = connection.prepare_cached(FETCH)?;
    let mut rows = select.query(params![
        shard,
        destination_id.blob(),
        from.track,
        from.rank,
        from.delivery_id.blob(),
        last_track,
        limit.saturating_add(limits::WINDOW_MAX) as i64 // room for rows to skip; what is not asked for is not read
    ])?;
    let mut fetched = Vec::with_capacity(limit.min(limits::WINDOW_MAX));
    let mut skipped = None;
    while fetched.len() < limit
        && let Some(row) = rows.next()?
    {
        let delivery = match row::delivery(row) {
            Ok(delivery) => delivery,
            // Nobody can deliver it; it must not keep those behind it.
            Err(trouble) if trouble.reach() == Reach::Row => {
                skipped.get_or_insert((0_usize, trouble)).0 += 1;
                continue;
            }
            Err(trouble) => return Err(trouble),
        };
        let known = match carried.get(&delivery.event_id) {
            Some(known) => known.clone(),
            None => {
                let read = carry(connection, delivery.event_id, limits::CARRIED_BYTES as i64)?;
                carried.insert(delivery.event_id, read.clone());
                read
            }
        };
        fetched.push(FetchedDelivery {
            shard,
            delivery,
            has_payload: known.as_ref().is_some_and(|known| known.has_payload),
            event: known.map(|known| known.event),
        });
    }
    if let Some((count, trouble)) = skipped {
        let error = StoreError::from(trouble);
        tracing::error!(%destination_id, count, %error, "deliveries do not read back and are left where they are");
    }
    Ok(fetched)
}

/// The event, with its payload if that is no larger than `most`.
fn carry(connection: &Connection, id: EventId, most: i64) -> Result<Option<Carried>, Trouble> {
    let mut select = connection.prepare_cached(CARRIED)?;
    let mut rows = select.query(params![id.blob(), most])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let read = || -> Result<Carried, Trouble> {
        let stored = row.get_ref(11)?.as_blob_or_null().map_err(rusqlite::Error::from)?;
        let (size, crc) = (row.get::<_, i64>(12)? as usize, row.get(13)?);
        let payload = stored.and_then(|stored| kept::payload(stored, size, crc));
        let (has_payload, altered) = (payload.is_some(), stored.is_some() && payload.is_none());
        let event = row::event(row, payload.unwrap_or_default())?;
        Ok(Carried { event: Arc::new(event), has_payload, altered })
    };
    match read() {
        Ok(carried) => Ok(Some(carried)),
        // One that does not read back is as good as missing: its deliveries must end, and the others go on.
        Err(trouble) if trouble.reach() == Reach::Row => {
            tracing::error!(event_id = %id, error = %StoreError::from(trouble), "an event does not read back");
            Ok(None)
        }
        Err(trouble) => Err(trouble),
    }
}

/// From lane to lane by the key, and over shards that are not asked for: what waits behind a lane's first row is never
/// looked at.
fn lanes(
    connection: &Connection,
    leap: &Leap,
    after: Option<(u16, DestinationId)>,
    limit: usize,
) -> Result<Vec<LaneHead>, Trouble> {
    let mut select = connection.prepare_cached(LANES)?;
    let mut heads: Vec<LaneHead> = Vec::new();
    let behind = |after| {
        let (shard, id) = leap.start(after);
        (Value::Integer(shard.into()), Value::Blob(id.blob().to_vec()))
    };
    let mut last = behind(after);
    while heads.len() < limit {
        let row = params![last.0, last.1];
        let found = select.query_row(row, |row| Ok((row.get(0)?, row.get(1)?, head(row)))).optional()?;
        let Some((shard, destination, head)) = found else { break };
        last = (shard, destination);
        match head {
            Ok(head) if leap.wants(head.shard) => heads.push(head),
            Ok(head) => last = behind(Some((head.shard, head.destination_id))),
            Err(error) => tracing::error!(%error, "a lane does not read back and is passed over"),
        }
    }
    Ok(heads)
}

fn head(row: &Row<'_>) -> rusqlite::Result<LaneHead> {
    let first = || -> rusqlite::Result<Position> {
        Ok(Position { track: row.get(2)?, rank: row.get(3)?, delivery_id: row::id(row, 4)? })
    };
    // A first row that does not read back hides none of those behind it.
    let first = first().unwrap_or(Position::START);
    Ok(LaneHead { shard: row.get(0)?, destination_id: row::id(row, 1)?, first })
}

/// The account's own, if it waits.
pub(super) fn waiting(
    connection: &Connection,
    account: AccountId,
    id: DeliveryId,
) -> Result<Option<Delivery>, Trouble> {
    let mut select = connection.prepare_cached(include_str!("sql/waiting.sql"))?;
    debug_assert_eq!(select.column_count(), DELIVERY_COLUMNS);
    let mut rows = select.query(params![account.blob(), id.blob()])?;
    rows.next()?.map(row::delivery).transpose()
}
