//! Expansions: a chunk is one job of the writer, after all that a caller waits for.

use super::{
    SqliteStore, Trouble, catalog,
    new_deliveries::{DeliveredEvent, DeliveryInserter},
    rows::Columns,
    statement::{bound, sql},
    writer::Priority,
};
use crate::{Chunk, Expansion, Expansions, RoutePage, RouteWalk, StoreError, other_routes};
use async_trait::async_trait;
use domain::{
    id::{DestinationId, EventId, RouteId},
    limits,
};
use rusqlite::Connection;

pub(super) const ROUTES_AFTER: &str = sql!("routes_after");
const OPEN_EXPANSIONS: &str = sql!("open_expansions");
const EXPANSION: &str = sql!("expansion");
const MOVE_CURSOR: &str = sql!("move_cursor");
const END_EXPANSION: &str = sql!("end_expansion");
const TAKE_OVER_EXPANSION: &str = sql!("take_over_expansion");

#[async_trait]
impl Expansions for SqliteStore {
    fn chunk_routes(&self) -> usize {
        limits::EXPANSION_CHUNK_ONE_WRITER
    }

    async fn open_expansions(
        &self,
        after: Option<EventId>,
        limit: usize,
    ) -> Result<Vec<Expansion>, StoreError> {
        self.read_for_engine(move |connection| {
            bound!(OPEN_EXPANSIONS, after: after.unwrap_or(EventId::MIN), limit: limit)
                .all(connection, expansion)
        })
        .await
    }

    async fn expansion(&self, event: EventId) -> Result<Option<Expansion>, StoreError> {
        self.read_for_engine(move |connection| {
            bound!(EXPANSION, event_id: event).first(connection, expansion)
        })
        .await
    }

    async fn take_over_expansion(&self) -> Result<bool, StoreError> {
        let oldest = self.read_for_engine(|connection| {
            bound!("select event_id from expansions order by event_id limit 1")
                .first(connection, |columns| Ok(columns.id()?))
        });
        let Some(event) = oldest.await? else { return Ok(false) };
        self.write(Priority::Expand, move |connection| take_over(connection, event)).await?;
        Ok(true)
    }

    async fn routes_after(&self, walk: &RouteWalk) -> Result<RoutePage, StoreError> {
        let walk = *walk;
        self.read_for_engine(move |connection| routes_after(connection, &walk)).await
    }

    async fn expand(&self, chunk: &Chunk) -> Result<bool, StoreError> {
        let chunk = chunk.clone();
        self.write(Priority::Expand, move |connection| expand(connection, &chunk)).await
    }
}

fn expansion(columns: &mut Columns<'_>) -> Result<Expansion, Trouble> {
    Ok(Expansion {
        event_id: columns.id()?,
        account_id: columns.id()?,
        account_version: columns.get()?,
        cursor: columns.optional_id()?,
        deliveries: columns.get()?,
        inline_destinations: inline_destinations(columns.blob()?),
        other_routes: other_routes::unpacked(columns.optional_blob()?),
        created_at: columns.time()?,
    })
}

/// One id after the other.
fn inline_destinations(ids: &[u8]) -> Vec<DestinationId> {
    let (ids, _) = ids.as_chunks::<16>();
    ids.iter().copied().map(DestinationId::from_bytes).collect()
}

fn take_over(connection: &Connection, event: EventId) -> Result<(), Trouble> {
    bound!(TAKE_OVER_EXPANSION, event_id: event).execute(connection)?;
    bound!("delete from expansions where event_id = :event_id", event_id: event).execute(connection)?;
    Ok(())
}

fn routes_after(connection: &Connection, walk: &RouteWalk) -> Result<RoutePage, Trouble> {
    let Some(version) = catalog::version(connection, walk.account_id)? else {
        return Ok(RoutePage::Read { version: 0, routes: Vec::new(), numberings: Vec::new() });
    };
    if walk.known == Some(version) {
        return Ok(RoutePage::Unchanged);
    }
    let (after_destination, after) = walk.after.unwrap_or((DestinationId::MIN, RouteId::MIN));
    let routes = bound!(
        ROUTES_AFTER,
        account_id: walk.account_id,
        after_destination: after_destination,
        after: after,
        source_id: walk.source_id,
        limit: walk.limit,
    )
    .all(connection, catalog::route)?;
    let numberings = catalog::numberings_of(connection, &routes)?;
    Ok(RoutePage::Read { version, routes, numberings })
}

fn expand(connection: &Connection, chunk: &Chunk) -> Result<bool, Trouble> {
    if !move_cursor(connection, chunk)? {
        return Ok(false);
    }
    if let Some(event) = DeliveredEvent::read(connection, chunk.event_id)? {
        let mut deliveries = DeliveryInserter::new(connection)?;
        for delivery in &chunk.deliveries {
            deliveries.insert(&event, delivery)?;
        }
    }
    if chunk.done {
        bound!(END_EXPANSION, event_id: chunk.event_id).execute(connection)?;
        bound!("delete from expanding_events where event_id = :event_id", event_id: chunk.event_id)
            .execute(connection)?;
    }
    Ok(true)
}

/// False if it does not stand where this chunk begins.
fn move_cursor(connection: &Connection, chunk: &Chunk) -> Result<bool, Trouble> {
    let moved = bound!(
        MOVE_CURSOR,
        event_id: chunk.event_id,
        from: chunk.from,
        to: chunk.to,
        deliveries: chunk.deliveries.len(),
        other_routes: other_routes::packed(&chunk.other_routes),
    )
    .execute(connection)?;
    Ok(moved == 1)
}
