//! Events whose fan-out is not complete, found by what waits and by what is yet to be made: a long history costs nothing.

use super::{
    super::{
        Trouble,
        statement::{bound, sql},
    },
    events, listed,
};
use crate::{EventFilter, EventRecord, Listed, Page};
use domain::id::{AccountId, EventId};
use rusqlite::Connection;

pub(in super::super) const INCOMPLETE_EVENTS: &str = sql!("incomplete_events");

pub(super) fn list(
    connection: &Connection,
    account: AccountId,
    filter: &EventFilter,
    page: Page<EventId>,
) -> Result<Listed<EventRecord, EventId>, Trouble> {
    let mut next = connection.prepare_cached(INCOMPLETE_EVENTS)?;
    let mut before = page.before.unwrap_or(EventId::MAX);
    listed(page.limit, || {
        let found = bound!(INCOMPLETE_EVENTS, before: before)
            .first_on(&mut next, |columns| Ok(columns.optional_id()?))?;
        let Some(id) = found.flatten() else { return Ok(None) };
        before = id;
        Ok(Some((id, events::wanted(connection, account, filter, id)?)))
    })
}
