//! Events that have a tag, found by their own table: what has none costs nothing.

use super::{
    super::{
        pool::Connection,
        statement::{Statement, sql},
    },
    events,
};
use crate::{EventFilter, EventRecord, Listed, Page, StoreError};
use domain::id::{AccountId, EventId};
use std::sync::LazyLock;

static TAGGED_EVENTS: LazyLock<Statement> = sql!("tagged_events" + "events_page");

pub(super) async fn list(
    connection: &Connection,
    account: AccountId,
    filter: &EventFilter,
    page: Page<EventId>,
) -> Result<Listed<EventRecord, EventId>, StoreError> {
    events::list_by(connection, &TAGGED_EVENTS, account, filter, page).await
}
