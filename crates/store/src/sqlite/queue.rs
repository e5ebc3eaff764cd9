//! Fetching, and what people ask of single deliveries. Settling has a file of its own.

use super::{
    SqliteStore, Trouble, audit_log, order,
    rows::Columns,
    settle::{self, FlushShare, PreparedSettlement},
    statement::{bound, sql},
    tally,
    trouble::Reach,
    writer::Priority,
};
use crate::{
    FetchedDelivery, LaneHead, Queue, SealedEvent, Settlement, StoreError, StoredEvent, TrackHead, Window,
    payload, queue::first_track, sealed_event, shard_scan::ShardScan,
};
use async_trait::async_trait;
use bytes::Bytes;
use domain::{
    audit::AuditEntry,
    delivery::{CancelReason, Delivery, Ending, Position},
    event::Event,
    id::{AccountId, AttemptId, DeliveryId, DestinationId, EventId, NodeId},
    limits,
    time::Timestamp,
};
use rusqlite::{Connection, types::Value};
use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
};

pub(super) const FETCH: &str = sql!("fetch");
pub(super) const FETCH_EVENTS: &str = sql!("fetch_events");
pub(super) const LANES: &str = sql!("lanes");
pub(super) const BACKLOG: &str = sql!("backlog");
pub(super) const CANCEL: &str = sql!("cancel");
pub(super) const RETRY_NOW: &str = sql!("retry_now");
const WAITING_DELIVERY: &str = sql!("waiting_delivery");

#[async_trait]
impl Queue for SqliteStore {
    async fn fetch(&self, windows: &[Window]) -> Result<Vec<Vec<FetchedDelivery>>, StoreError> {
        let windows = windows.to_owned();
        self.read_for_engine(move |connection| {
            let mut events = HashMap::new();
            windows.iter().map(|window| fetch(connection, window, &mut events)).collect()
        })
        .await
    }

    async fn payload(&self, event: EventId) -> Result<Option<StoredEvent>, StoreError> {
        let found =
            self.read_for_engine(move |connection| fetch_event(connection, event, usize::MAX)).await?;
        match found {
            Some(FetchedEvent { erased: true, .. }) => Ok(None),
            Some(FetchedEvent { altered: true, .. }) => Err(StoreError::Altered),
            Some(FetchedEvent { sealed: Some(sealed), .. }) => {
                Ok(Some(StoredEvent::Sealed(Box::new(Arc::unwrap_or_clone(sealed)))))
            }
            found => Ok(found.map(|found| StoredEvent::Plain(found.event))),
        }
    }

    async fn settle(
        &self,
        _node: NodeId,
        settlements: &[Settlement],
        now: Timestamp,
    ) -> Result<Vec<bool>, StoreError> {
        let settlements: Arc<[_]> = settlements.iter().map(PreparedSettlement::new).collect();
        let mut settled = Vec::with_capacity(settlements.len());
        while settled.len() < settlements.len() {
            settled.extend(self.settle_from(&settlements, settled.len(), now).await?);
        }
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
        self.read_for_engine(move |connection| lanes(connection, &scan, after, limit)).await
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
        turns: &[crate::DueDelivery],
        now: Timestamp,
    ) -> Result<Vec<bool>, StoreError> {
        let turns = turns.to_owned();
        self.write(Priority::Settle, move |connection| {
            turns.iter().map(|turn| order::take_turn(connection, turn, now)).collect()
        })
        .await
    }

    async fn retry_now(
        &self,
        account: AccountId,
        id: DeliveryId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<Option<Delivery>, StoreError> {
        let audit = audit.clone();
        self.write(Priority::Api, move |connection| {
            bound!(RETRY_NOW, account_id: account, delivery_id: id, now: now).execute(connection)?;
            let waiting = waiting_delivery(connection, account, id)?;
            if waiting.is_some() {
                audit_log::append(connection, Some(account), &audit)?;
            }
            Ok(waiting)
        })
        .await
    }

    async fn cancel(
        &self,
        account: AccountId,
        id: DeliveryId,
        fact: AttemptId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<Option<Delivery>, StoreError> {
        let audit = audit.clone();
        let cancelled = self
            .write(Priority::Api, move |connection| {
                let Some(delivery) = waiting_delivery(connection, account, id)? else { return Ok(None) };
                bound!(CANCEL, account_id: account, delivery_id: id).execute(connection)?;
                tally::went(&delivery);
                let ending = Ending::Cancelled(CancelReason::Requested);
                PreparedSettlement::ended_without(&delivery, fact, now, None, ending)
                    .record(connection, true)?;
                audit_log::append(connection, Some(account), &audit)?;
                Ok(Some(delivery))
            })
            .await?;
        self.feed_signal.notify();
        Ok(cancelled)
    }

    async fn backlog(
        &self,
        destinations: &[DestinationId],
        limit: i64,
    ) -> Result<Vec<(i64, Option<Timestamp>)>, StoreError> {
        let destinations = destinations.to_owned();
        self.read(move |connection| {
            let count = |id: &DestinationId| {
                bound!(BACKLOG, shard: id.shard(), destination_id: id, limit: limit.max(0))
                    .one(connection, |columns| Ok((columns.get()?, columns.optional_time()?)))
            };
            destinations.iter().map(count).collect()
        })
        .await
    }
}

impl SqliteStore {
    /// As many of them, from there on, as an event that comes meanwhile may wait for; all, if none has come for a while.
    async fn settle_from(
        &self,
        settlements: &Arc<[PreparedSettlement]>,
        from: usize,
        now: Timestamp,
    ) -> Result<Vec<bool>, StoreError> {
        let settlements = Arc::clone(settlements);
        let ingested_at = Timestamp::from_micros(self.ingested_at.load(Ordering::Relaxed));
        let hurry = now.since(ingested_at) < limits::INGEST_QUIET;
        let mut one_by_one = false;
        self.write(Priority::Settle, move |connection| {
            let share = FlushShare::begin(hurry);
            let settled = settle::settle(connection, &settlements[from..], share, one_by_one, now);
            // The writer rolls back what has failed and asks once more.
            one_by_one |= settled.is_err();
            settled
        })
        .await
    }
}

#[derive(Clone)]
struct FetchedEvent {
    /// Without its payload if that is too large, sealed or altered.
    event: Arc<Event>,
    sealed: Option<Arc<SealedEvent>>,
    has_payload: bool,
    altered: bool,
    erased: bool,
}

fn fetch(
    connection: &Connection,
    window: &Window,
    events: &mut HashMap<EventId, Option<FetchedEvent>>,
) -> Result<Vec<FetchedDelivery>, Trouble> {
    let Window { shard, destination_id, from, last_track, limit } = *window;
    let mut select = connection.prepare_cached(FETCH)?;
    let mut rows = bound!(
        FETCH,
        shard: shard,
        destination_id: destination_id,
        track: from.track,
        rank: from.rank,
        delivery_id: from.delivery_id,
        last_track: last_track,
        limit: limit.saturating_add(limits::WINDOW_MAX), // room for rows to skip; what is not asked for is not read
    )
    .rows(&mut select)?;
    let mut fetched = Vec::with_capacity(limit.min(limits::WINDOW_MAX));
    let mut skipped = None;
    while fetched.len() < limit
        && let Some(row) = rows.next()?
    {
        let delivery = match Columns::of(row).delivery() {
            Ok(delivery) => delivery,
            // It cannot be delivered; it must not keep those behind it.
            Err(trouble) if trouble.reach() == Reach::Row => {
                skipped.get_or_insert((0_usize, trouble)).0 += 1;
                continue;
            }
            Err(trouble) => return Err(trouble),
        };
        let known = match events.get(&delivery.event_id) {
            Some(known) => known.clone(),
            None => {
                let read = fetch_event(connection, delivery.event_id, limits::CARRIED_BYTES)?;
                events.insert(delivery.event_id, read.clone());
                read
            }
        };
        fetched.push(FetchedDelivery {
            shard,
            delivery,
            has_payload: known.as_ref().is_some_and(|known| known.has_payload),
            sealed: known.as_ref().and_then(|known| known.sealed.clone()),
            event: known.map(|known| known.event),
        });
    }
    if let Some((count, trouble)) = skipped {
        let error = StoreError::from(trouble);
        tracing::error!(%destination_id, count, %error, "deliveries do not read back and are left where they are");
    }
    Ok(fetched)
}

/// The event, with its payload if that has no more than so many bytes.
fn fetch_event(
    connection: &Connection,
    id: EventId,
    carried_bytes: usize,
) -> Result<Option<FetchedEvent>, Trouble> {
    let read = |columns: &mut Columns<'_>| -> Result<FetchedEvent, Trouble> {
        let event = columns.event()?;
        let (stored, size, crc) = (columns.optional_blob()?, columns.count()? as usize, columns.get()?);
        let erased = columns.optional_time()?.is_some();
        if let (Some(stored), Some(headers)) = (stored, columns.sealed()?) {
            let altered = sealed_event::check(stored, crc).is_err();
            let sealed = SealedEvent::new(event.clone(), size, Bytes::copy_from_slice(stored), headers);
            let (event, sealed) = (Arc::new(event), (!altered).then(|| Arc::new(sealed)));
            return Ok(FetchedEvent { event, sealed, has_payload: false, altered, erased });
        }
        let payload = stored.and_then(|stored| payload::read(stored, size, crc));
        let (has_payload, altered) = (payload.is_some(), stored.is_some() && payload.is_none());
        let event = Arc::new(Event { payload: payload.unwrap_or_default(), ..event });
        Ok(FetchedEvent { event, sealed: None, has_payload, altered, erased })
    };
    // What goes wrong while it is read is told apart from what keeps it from being found.
    let found = bound!(FETCH_EVENTS, id: id, carried_bytes: carried_bytes)
        .first(connection, |columns| Ok(read(columns)))?;
    match found.transpose() {
        Ok(event) => Ok(event),
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
    scan: &ShardScan,
    after: Option<(u16, DestinationId)>,
    limit: usize,
) -> Result<Vec<LaneHead>, Trouble> {
    let mut select = connection.prepare_cached(LANES)?;
    let mut heads: Vec<LaneHead> = Vec::new();
    let behind = |after| {
        let (shard, id) = scan.start(after);
        (Value::Integer(shard.into()), Value::Blob(id.bytes().to_vec()))
    };
    let mut last = behind(after);
    while heads.len() < limit {
        let found = bound!(LANES, shard: last.0, destination_id: last.1)
            .first_on(&mut select, |columns| Ok((columns.clone().key()?, head(columns))))?;
        let Some((key, head)) = found else { break };
        // As it is kept, whether it reads back or not.
        last = key;
        match head {
            Ok(head) if scan.wants(head.shard) => heads.push(head),
            Ok(head) => last = behind(Some((head.shard, head.destination_id))),
            Err(error) => tracing::error!(%error, "a lane does not read back and is passed over"),
        }
    }
    Ok(heads)
}

impl Columns<'_> {
    /// `shard, destination_id`, whatever they are.
    fn key(mut self) -> rusqlite::Result<(Value, Value)> {
        Ok((self.get()?, self.get()?))
    }
}

fn head(columns: &mut Columns<'_>) -> rusqlite::Result<LaneHead> {
    let (shard, destination_id) = (columns.get()?, columns.id()?);
    let mut first = || -> rusqlite::Result<Position> {
        Ok(Position { track: columns.get()?, rank: columns.get()?, delivery_id: columns.id()? })
    };
    // A first row that does not read back hides none of those behind it.
    Ok(LaneHead { shard, destination_id, first: first().unwrap_or(Position::START) })
}

/// The account's own, if it waits.
pub(super) fn waiting_delivery(
    connection: &Connection,
    account: AccountId,
    id: DeliveryId,
) -> Result<Option<Delivery>, Trouble> {
    bound!(WAITING_DELIVERY, account_id: account, delivery_id: id)
        .first(connection, |columns| columns.delivery())
}
