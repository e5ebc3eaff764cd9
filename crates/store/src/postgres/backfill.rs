//! Backfills: a chunk is one transaction and one round trip, which has its replay's row and its events' rows for itself.

use super::{
    PostgresStore,
    history::{expressions, some, uuids},
    new_deliveries::DeliveryColumns,
    operational_events,
    planned::{BY_KEY, Definition, IN_ORDER, Planned},
    pool::Transaction,
    queue::CarriedEvent,
    rows::{Rows, Unreadable},
    statement::{Params, Statement, params, sql, sql_file},
    trouble::Trouble,
};
use crate::{
    BackfillChunk, BackfillCursor, BackfillEvent, BackfillEvents, BackfillWalk, Backfilled, Backfills,
    ReplayStatus, StoreError, tags,
};
use async_trait::async_trait;
use domain::{
    event::Event,
    id::{DeliveryId, DestinationId, EventId},
    limits,
    operations::OperationalNote,
    time::Timestamp,
};
use std::{
    collections::BTreeSet,
    sync::{Arc, LazyLock},
};
use uuid::Uuid;

static HAD: LazyLock<Statement> = sql!("had");
/// Planned for its values: they tell in which days the events are. Read in order, or an account that was never counted
/// would be read from end to end for each page.
pub(super) static BACKFILL_EVENTS: LazyLock<Planned> = LazyLock::new(|| {
    let definition = Definition {
        name: "backfill_events",
        sql: sql_file!("backfill_events"),
        kept: false,
        settings: IN_ORDER,
        gives: "id uuid, account_id uuid, source_id uuid, event_type text, idempotency_key text, content_type text, \
                headers text, ordering_key text, metadata text, received_at int8, deliver_at int8, expanding bool, \
                erased bool, tags text, payload bytea, payload_crc int4, size_bytes int4, next uuid",
    };
    Planned::new(definition, WalkColumns::default().params())
});
/// Planned for its values: they tell in which days deliveries can be.
pub(super) static BACKFILL: LazyLock<Planned> = LazyLock::new(|| {
    let definition = Definition {
        name: "backfill",
        sql: sql_file!("backfill"),
        kept: false,
        settings: BY_KEY,
        gives: "made uuid[]",
    };
    Planned::of_several(definition, ChunkColumns::default().params())
});

/// The word of the table: nodes of the version before leave alone what they do not know.
pub(super) fn stored_status(status: ReplayStatus) -> &'static str {
    match status {
        ReplayStatus::Running => "backfilling",
        ReplayStatus::Paused => "backfill_paused",
        ended => ended.as_str(),
    }
}

pub(super) fn read_status(word: &str) -> ReplayStatus {
    match word {
        "backfilling" => ReplayStatus::Running,
        "backfill_paused" => ReplayStatus::Paused,
        other => ReplayStatus::read(other),
    }
}

#[async_trait]
impl Backfills for PostgresStore {
    async fn backfill_events(&self, walk: &BackfillWalk) -> Result<BackfillEvents, StoreError> {
        let columns = WalkColumns::of(walk);
        let connection = self.pools.engine().await?;
        let read = connection.read(&BACKFILL_EVENTS.call, columns.params()).await?;
        // Where nothing is found there is a row of nulls, and where the look ended.
        let next = read.one(|cells| cells.get("next"))?;
        let mut events = read.joined("id", |cells| {
            let (expanding, payload_bytes) = (cells.get("expanding")?, cells.get("size_bytes")?);
            let tags = tags::read(cells.get("tags")?);
            let CarriedEvent { event, has_payload, erased, .. } = CarriedEvent::read(cells)?;
            let event =
                if tags.is_empty() { event } else { Arc::new(Event { tags, ..Event::clone(&event) }) };
            Ok(BackfillEvent { event, has_payload, payload_bytes, expanding, erased })
        })?;
        events.retain(|found| walk.selection.wants(&found.event));
        Ok(BackfillEvents { events, next })
    }

    async fn had(&self, pairs: &[(EventId, DestinationId)]) -> Result<Vec<bool>, StoreError> {
        if pairs.is_empty() {
            return Ok(Vec::new());
        }
        let connection = self.pools.general().await?;
        let (events, destinations): (Vec<Uuid>, Vec<Uuid>) =
            pairs.iter().map(|(event, destination)| (event.uuid(), destination.uuid())).unzip();
        let from = first_delivery(pairs.iter().copied());
        let params = params![
            event_id: events => UUID_ARRAY, destination_id: destinations => UUID_ARRAY,
            from_delivery_id: from => UUID,
        ];
        Ok(connection.read(&HAD, params).await?.all(|cells| cells.get("had"))?)
    }

    async fn write_backfill(&self, chunk: &BackfillChunk) -> Result<Option<Vec<DeliveryId>>, StoreError> {
        let columns = ChunkColumns::of(chunk);
        let connection = self.pools.engine().await?;
        if !chunk.done {
            let written = connection.write(&BACKFILL.call, columns.params()).await?;
            return Ok(made(&written).map_err(Trouble::after_write)?);
        }
        let transaction = connection.begin().await?;
        let written = write_last(&transaction, chunk, &columns).await;
        let made = transaction.end(written).await?;
        self.note_signal.notify();
        Ok(made)
    }
}

/// The end of a backfill is told.
async fn write_last(
    transaction: &Transaction<'_>,
    chunk: &BackfillChunk,
    columns: &ChunkColumns,
) -> Result<Option<Vec<DeliveryId>>, Trouble> {
    let made = made(&transaction.run(&BACKFILL.call, columns.params()).await?)?;
    if made.is_some() {
        let note = OperationalNote::of_replay(chunk.account_id, chunk.replay_id, chunk.now);
        operational_events::note(transaction, [&note]).await?;
    }
    Ok(made)
}

/// Those that were made; None where nothing was written.
fn made(written: &Rows) -> Result<Option<Vec<DeliveryId>>, Unreadable> {
    let made: Option<Vec<Uuid>> = written.first_value("made")?;
    Ok(made.map(|made| made.into_iter().map(DeliveryId::from_uuid).collect()))
}

/// A walk, as its statement takes it.
#[derive(Default)]
pub(super) struct WalkColumns {
    account_id: Uuid,
    from: Uuid,
    below: Uuid,
    look_at: i64,
    limit: i64,
    types: Option<Vec<String>>,
    source_ids: Option<Vec<Uuid>>,
    idempotency_keys: Option<Vec<String>>,
    since: Option<i64>,
    until: Option<i64>,
    unmatched: Option<bool>,
    max_payload_bytes: i32,
}

impl WalkColumns {
    pub(super) fn of(walk: &BackfillWalk) -> Self {
        let (from, below) = walk.range();
        let filter = &walk.selection.filter;
        Self {
            account_id: walk.account_id.uuid(),
            from: from.uuid(),
            below: below.uuid(),
            look_at: limits::PAGE_SCAN as i64,
            limit: walk.limit as i64,
            types: expressions(&filter.types),
            source_ids: uuids(&filter.source_ids, |id| id.uuid()),
            idempotency_keys: some(&filter.idempotency_keys),
            since: filter.since.map(Timestamp::micros),
            until: filter.until.map(Timestamp::micros),
            unmatched: filter.unmatched.then_some(true),
            // None has less than nothing.
            max_payload_bytes: if walk.payloads { limits::CARRIED_BYTES as i32 } else { -1 },
        }
    }

    pub(super) fn params(&self) -> Params<'_, '_> {
        params![
            account_id: self.account_id => UUID, from_event_id: self.from => UUID, below_event_id: self.below => UUID,
            look_at: self.look_at => INT8, limit: self.limit => INT8, types: self.types => TEXT_ARRAY,
            source_ids: self.source_ids => UUID_ARRAY, idempotency_keys: self.idempotency_keys => TEXT_ARRAY,
            received_since: self.since => INT8, received_before: self.until => INT8,
            unmatched: self.unmatched => BOOL, max_payload_bytes: self.max_payload_bytes => INT4,
        ]
        .owned()
    }
}

/// A chunk, as its statement takes it.
#[derive(Default)]
pub(super) struct ChunkColumns {
    replay_id: Uuid,
    account_id: Uuid,
    node_id: Uuid,
    from: (Option<Uuid>, Option<Uuid>),
    to: (Option<Uuid>, Option<Uuid>),
    skipped: i64,
    done: bool,
    now: i64,
    until: i64,
    /// No delivery that the destinations had is below it.
    from_delivery_id: Uuid,
    /// Each once.
    locked: Vec<Uuid>,
    event_id: Vec<Uuid>,
    deliveries: DeliveryColumns,
}

impl ChunkColumns {
    pub(super) fn of(chunk: &BackfillChunk) -> Self {
        let made = &chunk.deliveries;
        let locked: BTreeSet<EventId> = made.iter().map(|one| one.event_id).collect();
        Self {
            replay_id: chunk.replay_id.uuid(),
            account_id: chunk.account_id.uuid(),
            node_id: chunk.node.uuid(),
            from: stored(chunk.from),
            to: stored(chunk.to),
            skipped: i64::from(chunk.skipped),
            done: chunk.done,
            now: chunk.now.micros(),
            until: chunk.until.micros(),
            from_delivery_id: first_delivery(
                made.iter().map(|one| (one.event_id, one.delivery.destination_id)),
            ),
            locked: locked.into_iter().map(|id| id.uuid()).collect(),
            event_id: made.iter().map(|one| one.event_id.uuid()).collect(),
            deliveries: DeliveryColumns::of(made.iter().map(|Backfilled { delivery, .. }| delivery)),
        }
    }

    pub(super) fn params(&self) -> Params<'_, '_> {
        let d = &self.deliveries;
        params![
            replay_id: self.replay_id => UUID, account_id: self.account_id => UUID, node_id: self.node_id => UUID,
            from_cursor: self.from.0 => UUID, from_destination: self.from.1 => UUID,
            cursor: self.to.0 => UUID, cursor_destination: self.to.1 => UUID, skipped: self.skipped => INT8,
            done: self.done => BOOL, now: self.now => INT8, held_until: self.until => INT8,
            from_delivery_id: self.from_delivery_id => UUID, locked_event_id: self.locked => UUID_ARRAY,
            event_id: self.event_id => UUID_ARRAY, delivery_id: d.id => UUID_ARRAY, shard: d.shard => INT2_ARRAY,
            destination_id: d.destination_id => UUID_ARRAY, route_id: d.route_id => UUID_ARRAY,
            track: d.track => INT8_ARRAY, rank: d.rank => INT8_ARRAY, due_at: d.due_at => INT8_ARRAY,
            created_at: d.created_at => INT8_ARRAY, sequenced: d.sequenced => BOOL_ARRAY,
        ]
        .owned()
    }
}

fn stored(cursor: Option<BackfillCursor>) -> (Option<Uuid>, Option<Uuid>) {
    let destination = cursor.and_then(|cursor| cursor.destination_id).map(|id| id.uuid());
    (cursor.map(|cursor| cursor.event_id.uuid()), destination)
}

/// No delivery of one of these events to its destination is below it: it is not older than either.
fn first_delivery(pairs: impl Iterator<Item = (EventId, DestinationId)>) -> Uuid {
    let since = |(event, destination): (EventId, DestinationId)| event.made_at().max(destination.made_at());
    let oldest = pairs.map(since).min().unwrap_or(Timestamp::MIN);
    DeliveryId::at(oldest.minus(limits::ID_SLACK), 0).uuid()
}
