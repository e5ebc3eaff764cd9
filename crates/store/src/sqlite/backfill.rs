//! Backfills: a chunk is one job of the writer, after all that a caller waits for.

use super::{
    SqliteStore, Trouble, history, operational_events, order,
    statement::{bound, sql},
    tally,
    writer::Priority,
};
use crate::{
    BackfillChunk, BackfillCursor, BackfillEvents, BackfillWalk, Backfilled, Backfills, NewDelivery,
    StoreError,
};
use async_trait::async_trait;
use domain::{
    id::{AccountId, DeliveryId, DestinationId, EventId, ReplayId},
    operations::OperationalNote,
    time::Timestamp,
};
use rusqlite::Connection;
use std::{collections::HashSet, ops::ControlFlow};

const HAD: &str = sql!("had");
const BACKFILL_IS_HELD: &str = sql!("backfill_is_held");
const WRITE_BACKFILL: &str = sql!("write_backfill");
const NOTE_REPLAYED: &str = sql!("note_replayed");
const MAKE_BACKFILLED: &str = sql!("make_backfilled");

#[async_trait]
impl Backfills for SqliteStore {
    async fn backfill_events(&self, walk: &BackfillWalk) -> Result<BackfillEvents, StoreError> {
        let walk = walk.clone();
        self.read_for_engine(move |connection| history::backfill(connection, &walk)).await
    }

    async fn had(&self, pairs: &[(EventId, DestinationId)]) -> Result<Vec<bool>, StoreError> {
        let pairs = pairs.to_vec();
        self.read(move |connection| {
            let mut fan_out = EventFanOut::default();
            let had = pairs.iter().map(|(event, to)| Ok(fan_out.of(connection, *event)?.contains(to)));
            had.collect()
        })
        .await
    }

    async fn write_backfill(&self, chunk: &BackfillChunk) -> Result<Option<Vec<DeliveryId>>, StoreError> {
        let (chunk, done) = (chunk.clone(), chunk.done);
        let written = self.write(Priority::Expand, move |connection| write(connection, &chunk)).await?;
        if done {
            self.note_signal.notify();
        }
        Ok(written)
    }
}

/// The destinations that had the event asked for last: it is read once, however many of its destinations are asked for.
#[derive(Default)]
struct EventFanOut {
    event: Option<EventId>,
    had: HashSet<DestinationId>,
}

impl EventFanOut {
    fn of(
        &mut self,
        connection: &Connection,
        event: EventId,
    ) -> Result<&mut HashSet<DestinationId>, Trouble> {
        if self.event != Some(event) {
            self.had.clear();
            let had = &mut self.had;
            bound!(HAD, event_id: event).each(connection, |columns| {
                had.insert(columns.id()?);
                Ok(ControlFlow::Continue(()))
            })?;
            self.event = Some(event);
        }
        Ok(&mut self.had)
    }
}

fn write(connection: &Connection, chunk: &BackfillChunk) -> Result<Option<Vec<DeliveryId>>, Trouble> {
    let event = |cursor: Option<BackfillCursor>| cursor.map(|cursor| cursor.event_id);
    let destination = |cursor: Option<BackfillCursor>| cursor.and_then(|cursor| cursor.destination_id);
    let (from, from_destination) = (event(chunk.from), destination(chunk.from));
    let held = bound!(
        BACKFILL_IS_HELD,
        id: chunk.replay_id,
        node_id: chunk.node,
        from: from,
        from_destination: from_destination,
    );
    if !held.exists(connection)? {
        return Ok(None);
    }
    let (mut made, mut fan_out) = (Vec::with_capacity(chunk.deliveries.len()), EventFanOut::default());
    for Backfilled { event_id, delivery } in &chunk.deliveries {
        let Some(event) = LateEvent::read(connection, chunk.account_id, *event_id)? else { continue };
        if fan_out.of(connection, *event_id)?.insert(delivery.destination_id) {
            make(connection, chunk.replay_id, &event, delivery)?;
            made.push(delivery.id);
        }
    }
    bound!(
        WRITE_BACKFILL,
        id: chunk.replay_id,
        to: event(chunk.to),
        to_destination: destination(chunk.to),
        made: made.len(),
        skipped: chunk.skipped,
        done: chunk.done,
        now: chunk.now,
        held_until: chunk.until,
    )
    .execute(connection)?;
    if chunk.done {
        let note = OperationalNote::of_replay(chunk.account_id, chunk.replay_id, chunk.now);
        operational_events::note(connection, &note)?;
    }
    Ok(Some(made))
}

/// What a delivery takes over from its event.
struct LateEvent {
    id: EventId,
    account_id: AccountId,
    deliver_at: Option<Timestamp>,
    size_bytes: usize,
}

impl LateEvent {
    /// None if it has had its time, or its expansion is under way.
    fn read(connection: &Connection, account_id: AccountId, id: EventId) -> Result<Option<Self>, Trouble> {
        bound!(
            "select deliver_at, size_bytes from events
             where id = :id and account_id = :account_id and deliveries is not null
               and payload_erased_at is null",
            id: id,
            account_id: account_id,
        )
        .first(connection, |columns| {
            let (deliver_at, size_bytes) = (columns.optional_time()?, columns.count()? as usize);
            Ok(Self { id, account_id, deliver_at, size_bytes })
        })
    }
}

fn make(
    connection: &Connection,
    replay: ReplayId,
    event: &LateEvent,
    delivery: &NewDelivery,
) -> Result<(), Trouble> {
    let NewDelivery { id, route_id, destination_id, shard, position, due_at, sequenced } = delivery;
    bound!(NOTE_REPLAYED, replay_id: replay, origin: id, delivery_id: id).execute(connection)?;
    let sequence = sequenced.then(|| order::next_sequence(connection, *destination_id)).transpose()?;
    bound!(
        MAKE_BACKFILLED,
        shard: shard,
        destination_id: destination_id,
        track: position.track,
        rank: sequence.map_or(position.rank, |sequence| position.numbered(sequence).rank),
        delivery_id: id,
        account_id: event.account_id,
        event_id: event.id,
        route_id: route_id,
        replay_id: replay,
        due_at: due_at,
        created_at: id.made_at(),
        deliver_at: event.deliver_at,
        payload_bytes: event.size_bytes,
        sequence: sequence,
    )
    .execute(connection)?;
    tally::came(event.account_id, event.size_bytes);
    Ok(())
}
