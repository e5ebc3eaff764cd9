//! Events whose fan-out is not complete: found by what waits and by what is yet to be made, so that a long history costs
//! nothing.

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

static INCOMPLETE_EVENTS: LazyLock<Statement> = sql!("incomplete_events" + "events_page");

pub(super) async fn list(
    connection: &Connection,
    account: AccountId,
    filter: &EventFilter,
    page: Page<EventId>,
) -> Result<Listed<EventRecord, EventId>, StoreError> {
    events::list_by(connection, &INCOMPLETE_EVENTS, account, filter, page).await
}
