//! What the engine needs to deliver to a destination.

use super::{
    super::{
        row::{self, Key as _},
        trouble::Trouble,
    },
    accounts,
    table::{self, Kept as _},
};
use crate::Target;
use domain::{destination::Destination, id::DestinationId, route::Route};
use rusqlite::Connection;

pub(super) fn get(connection: &Connection, id: DestinationId) -> Result<Option<Target>, Trouble> {
    let mut select = connection.prepare_cached(
        "select version, doc, paused_at, resumed_at, disabled_at, disabled_reason, deleted_at, account_id, shard
         from destinations where id = ?1",
    )?;
    let mut rows = select.query([id.blob()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let account_id = row::id(row, 7)?;
    // A document that does not read back stops the deliveries of its own destination, nobody else's.
    let (destination, overrides) = match (Destination::read(row), overrides(connection, id)) {
        (Ok(destination), Ok(overrides)) => (Ok(destination), overrides),
        (Err(Trouble::Store(error)), _) | (_, Err(Trouble::Store(error))) => {
            (Err(error.to_string()), Vec::new())
        }
        (Err(trouble), _) | (_, Err(trouble)) => return Err(trouble),
    };
    let data_key = accounts::get(connection, account_id)?.data_key;
    Ok(Some(Target { id, account_id, shard: row.get(8)?, destination, data_key, overrides }))
}

/// Removed routes too: what waits keeps its schedule.
fn overrides(connection: &Connection, id: DestinationId) -> Result<Vec<Route>, Trouble> {
    let mut select = connection.prepare_cached(include_str!("../sql/overrides.sql"))?;
    table::collect(select.query([id.blob()])?, Route::read)
}
