//! Events whose fan-out is not complete, found by what waits and by what is yet to be made: a long history costs nothing.

use super::{
    super::{
        Trouble,
        row::{self, Key as _},
    },
    events, listed,
};
use crate::{EventFilter, EventRecord, Listed, Page};
use domain::id::{AccountId, EventId};
use rusqlite::{Connection, OptionalExtension as _};

/// One step: the next event, whatever waits of it.
pub(in super::super) const NEXT: &str = "select max(id) from (
       select * from (select event_id as id from queue where event_id < ?1 order by event_id desc limit 1)
       union all
       select * from (select event_id as id from expansions where event_id < ?1 order by event_id desc limit 1))";

pub(super) fn list(
    connection: &Connection,
    account: AccountId,
    filter: &EventFilter,
    page: Page<EventId>,
) -> Result<Listed<EventRecord, EventId>, Trouble> {
    let mut next = connection.prepare_cached(NEXT)?;
    let mut before = page.before.unwrap_or(EventId::MAX);
    listed(page.limit, || {
        let found = next.query_row([before.blob()], |row| row::maybe_id(row, 0)).optional()?.flatten();
        let Some(id) = found else { return Ok(None) };
        before = id;
        Ok(Some((id, events::incomplete_record(connection, account, filter, id)?)))
    })
}
