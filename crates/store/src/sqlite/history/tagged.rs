//! Events that have a tag, found by their own table: what has none costs nothing.

use super::{
    super::{
        Trouble,
        statement::{bound, sql},
    },
    events, filter, listed,
};
use crate::{EventFilter, EventRecord, Listed, Page};
use domain::id::{AccountId, EventId};
use rusqlite::Connection;

pub(in super::super) const TAGGED_EVENTS: &str = sql!("tagged_events");

pub(super) fn list(
    connection: &Connection,
    account: AccountId,
    filter: &EventFilter,
    page: Page<EventId>,
) -> Result<Listed<EventRecord, EventId>, Trouble> {
    let tags = filter::list(&filter.tags, String::clone);
    let mut next = connection.prepare_cached(TAGGED_EVENTS)?;
    let (from, mut before) = filter.ids(page.before);
    listed(page.limit, || {
        let found = bound!(TAGGED_EVENTS, account_id: account, before: before, tags: tags)
            .first_on(&mut next, |columns| Ok(columns.optional_id()?))?;
        let Some(id) = found.flatten().filter(|id| *id >= from) else { return Ok(None) };
        before = id;
        Ok(Some((id, events::wanted(connection, account, filter, id)?)))
    })
}
