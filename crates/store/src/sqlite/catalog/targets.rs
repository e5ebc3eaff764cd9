//! What the engine needs to deliver to a destination.

use super::{
    super::{
        gates,
        row::{self, Key as _},
        trouble::{Reach, Trouble},
    },
    accounts,
    table::{self, Kept as _},
};
use crate::{StoreError, Target};
use domain::{
    destination::Destination,
    id::{AccountId, DestinationId},
    route::Route,
    seal::Sealed,
};
use rusqlite::{Connection, Row};

pub(in crate::sqlite) fn get(connection: &Connection, id: DestinationId) -> Result<Option<Target>, Trouble> {
    let mut select = connection.prepare_cached(
        "select version, doc, paused_at, resumed_at, disabled_at, disabled_reason, deleted_at, probed_at, account_id,
           shard
         from destinations where id = ?1",
    )?;
    let mut rows = select.query([id.blob()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    match whole(connection, row, id) {
        // What does not read back stops the deliveries of its own destination, nobody else's.
        Err(trouble) if trouble.reach() == Reach::Row => {
            let reason = StoreError::from(trouble).to_string();
            tracing::error!(destination_id = %id, reason, "a destination does not read back");
            Ok(Some(Target {
                id,
                account_id: row::id(row, 8).unwrap_or(AccountId::MIN),
                account_version: 0,
                shard: id.shard(),
                destination: Err(reason),
                data_key: Sealed::default(),
                overrides: Vec::new(),
                gate: None,
            }))
        }
        target => target.map(Some),
    }
}

fn whole(connection: &Connection, row: &Row<'_>, id: DestinationId) -> Result<Target, Trouble> {
    let account_id = row::id(row, 8)?;
    let account = accounts::get(connection, account_id)?;
    Ok(Target {
        id,
        account_id,
        account_version: account.version,
        shard: row.get(9)?,
        destination: Ok(Destination::read(row)?),
        data_key: account.data_key,
        overrides: overrides(connection, id)?,
        gate: gates::kept(connection, id)?,
    })
}

/// Removed routes too: what waits keeps its schedule.
fn overrides(connection: &Connection, id: DestinationId) -> Result<Vec<Route>, Trouble> {
    let mut select = connection.prepare_cached(include_str!("../sql/overrides.sql"))?;
    table::collect(select.query([id.blob()])?, Route::read)
}
