//! Backfills: a chunk is one transaction, which has its replay's row and its events' rows for itself.

use super::{
    PostgresStore,
    history::{expressions, some, uuids},
    new_deliveries::DeliveryColumns,
    planned::{BY_KEY, Definition, Planned},
    pool::Transaction,
    rows,
    statement::{Statement, params, sql, sql_file},
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
    time::Timestamp,
};
use std::sync::LazyLock;
use uuid::Uuid;

static BACKFILL_EVENTS: LazyLock<Statement> = sql!("backfill_events");
static LOCK_BACKFILL: LazyLock<Statement> = sql!("lock_backfill");
static LOCK_BACKFILLED: LazyLock<Statement> = sql!("lock_backfilled");
static WRITE_BACKFILL: LazyLock<Statement> = sql!("write_backfill");
static HAD: LazyLock<Statement> = sql!("had");
/// Planned for its values: they tell in which days deliveries can be.
pub(super) static MAKE_BACKFILLED: LazyLock<Planned> = LazyLock::new(|| {
    let definition = Definition {
        name: "make_backfilled",
        sql: sql_file!("make_backfilled"),
        kept: false,
        settings: BY_KEY,
        gives: "made bigint",
    };
    let (ids, numbers) = (Vec::<Uuid>::new, Vec::<i64>::new);
    let params = params![
        replay_id: Uuid::nil() => UUID, account_id: Uuid::nil() => UUID, from_delivery_id: Uuid::nil() => UUID,
        event_id: ids() => UUID_ARRAY, delivery_id: ids() => UUID_ARRAY, shard: Vec::<i16>::new() => INT2_ARRAY,
        destination_id: ids() => UUID_ARRAY, route_id: ids() => UUID_ARRAY, track: numbers() => INT8_ARRAY,
        rank: numbers() => INT8_ARRAY, due_at: numbers() => INT8_ARRAY, created_at: numbers() => INT8_ARRAY,
        sequenced: Vec::<bool>::new() => BOOL_ARRAY,
    ];
    Planned::new(definition, params)
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
        let (from, below) = walk.range();
        let filter = &walk.selection.filter;
        let connection = self.pools.engine().await?;
        let params = params![
            account_id: walk.account_id.uuid() => UUID, from_event_id: from.uuid() => UUID,
            below_event_id: below.uuid() => UUID, look_at: limits::PAGE_SCAN as i64 => INT8,
            limit: walk.limit as i64 => INT8, types: expressions(&filter.types) => TEXT_ARRAY,
            source_ids: uuids(&filter.source_ids, |id| id.uuid()) => UUID_ARRAY,
            idempotency_keys: some(&filter.idempotency_keys) => TEXT_ARRAY,
            received_since: filter.since.map(Timestamp::micros) => INT8,
            received_before: filter.until.map(Timestamp::micros) => INT8,
            unmatched: filter.unmatched.then_some(true) => BOOL,
        ];
        let read = connection.read(&BACKFILL_EVENTS, params).await?;
        let mut events: Vec<BackfillEvent> = read
            .all(|cells| {
                let there: Option<EventId> = cells.get("id")?;
                let event = |cells: &mut rows::Cells<'_, '_>| {
                    let (expanding, erased) = (cells.get("expanding")?, cells.get("erased")?);
                    let event = Event { tags: tags::read(cells.get("tags")?), ..rows::event(cells)? };
                    Ok(BackfillEvent { event, expanding, erased })
                };
                there.map(|_| event(cells)).transpose()
            })?
            .into_iter()
            .flatten()
            .collect();
        let (last, looked_at) = read.one(|cells| {
            Ok((cells.get::<Option<EventId>>("last_id")?, cells.get::<Option<EventId>>("looked_at_id")?))
        })?;
        // The page is full, or the scan is: the last that counts is where it goes on.
        let taken = events.last().map(|one| one.event.id).filter(|_| events.len() == walk.limit);
        let next = taken.or(looked_at).filter(|next| last.is_some_and(|last| last > *next));
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
        let from = first_delivery(pairs.iter().map(|(event, _)| *event));
        let params = params![
            event_id: events => UUID_ARRAY, destination_id: destinations => UUID_ARRAY,
            from_delivery_id: from => UUID,
        ];
        Ok(connection.read(&HAD, params).await?.all(|cells| cells.get("had"))?)
    }

    async fn write_backfill(&self, chunk: &BackfillChunk) -> Result<Option<u32>, StoreError> {
        let connection = self.pools.engine().await?;
        let transaction = connection.begin().await?;
        let written = write(&transaction, chunk).await;
        Ok(transaction.end(written).await?)
    }
}

/// Its row is locked to the end: a pause or a cancel waits that long, and then nothing more is made.
async fn write(transaction: &Transaction<'_>, chunk: &BackfillChunk) -> Result<Option<u32>, Trouble> {
    let event = |cursor: Option<BackfillCursor>| cursor.map(|cursor| cursor.event_id.uuid());
    let destination =
        |cursor: Option<BackfillCursor>| cursor.and_then(|cursor| cursor.destination_id).map(|id| id.uuid());
    let params = params![
        replay_id: chunk.replay_id.uuid() => UUID, node_id: chunk.node.uuid() => UUID,
        from_cursor: event(chunk.from) => UUID, from_destination: destination(chunk.from) => UUID,
    ];
    if transaction.run(&LOCK_BACKFILL, params).await?.is_empty() {
        return Ok(None);
    }
    let made = make(transaction, chunk).await?;
    let params = params![
        replay_id: chunk.replay_id.uuid() => UUID, cursor: event(chunk.to) => UUID,
        cursor_destination: destination(chunk.to) => UUID, made: i64::from(made) => INT8,
        skipped: i64::from(chunk.skipped) => INT8, done: chunk.done => BOOL, now: chunk.now.micros() => INT8,
        held_until: chunk.until.micros() => INT8,
    ];
    transaction.run(&WRITE_BACKFILL, params).await?;
    Ok(Some(made))
}

/// How many were made.
async fn make(transaction: &Transaction<'_>, chunk: &BackfillChunk) -> Result<u32, Trouble> {
    if chunk.deliveries.is_empty() {
        return Ok(0);
    }
    let events: Vec<Uuid> = chunk.deliveries.iter().map(|one| one.event_id.uuid()).collect();
    let mut locked = events.clone();
    locked.dedup();
    transaction.run(&LOCK_BACKFILLED, params![event_ids: locked => UUID_ARRAY]).await?;
    let from = first_delivery(chunk.deliveries.iter().map(|one| one.event_id));
    let columns = DeliveryColumns::of(chunk.deliveries.iter().map(|Backfilled { delivery, .. }| delivery));
    let params = params![
        replay_id: chunk.replay_id.uuid() => UUID, account_id: chunk.account_id.uuid() => UUID,
        from_delivery_id: from => UUID, event_id: events => UUID_ARRAY, delivery_id: columns.id => UUID_ARRAY,
        shard: columns.shard => INT2_ARRAY, destination_id: columns.destination_id => UUID_ARRAY,
        route_id: columns.route_id => UUID_ARRAY, track: columns.track => INT8_ARRAY,
        rank: columns.rank => INT8_ARRAY, due_at: columns.due_at => INT8_ARRAY,
        created_at: columns.created_at => INT8_ARRAY, sequenced: columns.sequenced => BOOL_ARRAY,
    ];
    let made: u64 = transaction.run(&MAKE_BACKFILLED.call, params).await?.value("made")?;
    Ok(made as u32)
}

/// No delivery of these events is below it.
fn first_delivery(events: impl Iterator<Item = EventId>) -> Uuid {
    let oldest = events.min().unwrap_or(EventId::MIN);
    DeliveryId::at(oldest.made_at().minus(limits::ID_SLACK), 0).uuid()
}
