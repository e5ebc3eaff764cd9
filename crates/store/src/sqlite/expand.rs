//! Expansions: a chunk is one job of the writer, after everything that somebody waits for.

use super::{
    SqliteStore, Trouble, catalog,
    promise::{Facts, Promises},
    row::{self, Key as _, blob},
    writer::Turn,
};
use crate::{Chunk, Expansion, Expansions, RoutePage, RouteWalk, StoreError};
use async_trait::async_trait;
use domain::{
    id::{EventId, RouteId},
    limits,
};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

pub(super) const ROUTES_AFTER: &str = include_str!("sql/routes_after.sql");

/// What a cursor is above when it has not moved yet.
const START: [u8; 16] = [0; 16];

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
            let mut select = connection.prepare_cached(include_str!("sql/open_expansions.sql"))?;
            let after = blob(after).unwrap_or(START);
            let rows = select.query_map(params![after, limit as i64], expansion)?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    async fn expansion(&self, event: EventId) -> Result<Option<Expansion>, StoreError> {
        self.read_for_engine(move |connection| {
            let mut select = connection.prepare_cached(
                "select event_id, account_id, account_version, cursor, deliveries, inline_routes, created_at
                 from expansions where event_id = ?1",
            )?;
            Ok(select.query_row([event.blob()], expansion).optional()?)
        })
        .await
    }

    async fn routes_after(&self, walk: &RouteWalk) -> Result<RoutePage, StoreError> {
        let walk = *walk;
        self.read_for_engine(move |connection| routes_after(connection, &walk)).await
    }

    async fn expand(&self, chunk: &Chunk) -> Result<bool, StoreError> {
        let chunk = chunk.clone();
        self.write(Turn::Expand, move |connection| expand(connection, &chunk)).await
    }
}

fn expansion(row: &Row<'_>) -> rusqlite::Result<Expansion> {
    Ok(Expansion {
        event_id: row::id(row, 0)?,
        account_id: row::id(row, 1)?,
        account_version: row.get(2)?,
        cursor: row::maybe_id(row, 3)?,
        deliveries: row.get(4)?,
        inline_routes: inline_routes(row.get_ref(5)?.as_blob()?),
        created_at: row::time(row, 6)?,
    })
}

/// One id after the other.
fn inline_routes(ids: &[u8]) -> Vec<RouteId> {
    let (ids, _) = ids.as_chunks::<16>();
    ids.iter().copied().map(RouteId::from_bytes).collect()
}

fn routes_after(connection: &Connection, walk: &RouteWalk) -> Result<RoutePage, Trouble> {
    let mut select =
        connection.prepare_cached("select version from accounts where id = ?1 and deleted_at is null")?;
    let version: Option<i64> = select.query_row([walk.account_id.blob()], |row| row.get(0)).optional()?;
    let Some(version) = version else {
        return Ok(RoutePage::Read { version: 0, routes: Vec::new(), orderings: Vec::new() });
    };
    if walk.known == Some(version) {
        return Ok(RoutePage::Unchanged);
    }
    let mut select = connection.prepare_cached(ROUTES_AFTER)?;
    let after = blob(walk.after).unwrap_or(START);
    let rows =
        select.query(params![walk.account_id.blob(), after, blob(walk.source_id), walk.limit as i64])?;
    let routes = catalog::routes(rows)?;
    let orderings = catalog::orderings_of(connection, &routes)?;
    Ok(RoutePage::Read { version, routes, orderings })
}

fn expand(connection: &Connection, chunk: &Chunk) -> Result<bool, Trouble> {
    if !take_turn(connection, chunk)? {
        return Ok(false);
    }
    if let Some(facts) = Facts::read(connection, chunk.event_id)? {
        let mut promises = Promises::new(connection)?;
        for delivery in &chunk.deliveries {
            promises.make(&facts, delivery)?;
        }
    }
    if chunk.done {
        end(connection, chunk.event_id)?;
    }
    Ok(true)
}

/// Moves the cursor, if it still stands where this chunk begins.
fn take_turn(connection: &Connection, chunk: &Chunk) -> Result<bool, Trouble> {
    let mut update = connection.prepare_cached(
        "update expansions set cursor = ?3, deliveries = deliveries + ?4 where event_id = ?1 and cursor is ?2",
    )?;
    let count = chunk.deliveries.len() as i64;
    Ok(update.execute(params![chunk.event_id.blob(), blob(chunk.from), blob(chunk.to), count])? == 1)
}

fn end(connection: &Connection, event: EventId) -> Result<(), Trouble> {
    let mut number = connection.prepare_cached(
        "update events set deliveries = (select deliveries from expansions where event_id = ?1) where id = ?1",
    )?;
    number.execute([event.blob()])?;
    connection.prepare_cached("delete from expansions where event_id = ?1")?.execute([event.blob()])?;
    Ok(())
}
