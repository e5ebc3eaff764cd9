//! Dead letters by destination, reason and HTTP status, from counts that are kept by the day.

use super::super::{
    pool::Connection,
    rows::{Cells, Unreadable},
    statement::{Statement, params, sql},
};
use crate::{DeadLetterGroup, GroupKey, StoreError};
use domain::id::{AccountId, DestinationId};
use std::sync::LazyLock;

static DEAD_LETTER_GROUPS: LazyLock<Statement> = sql!("dead_letter_groups");

pub(super) async fn list(
    connection: &Connection,
    account: AccountId,
    after: Option<GroupKey>,
    limit: usize,
) -> Result<Vec<DeadLetterGroup>, StoreError> {
    let (destination, reason, http_status) = after.map_or((DestinationId::MIN, "", 0), |key| key.sorts());
    let params = params![
        account_id: account.uuid() => UUID, after_destination_id: destination.uuid() => UUID,
        after_reason: reason => TEXT, after_http_status: http_status as i16 => INT2,
        limit: limit as i64 => INT8,
    ];
    let rows = connection.read(&DEAD_LETTER_GROUPS, params).await?;
    Ok(rows.all(group)?.into_iter().flatten().collect())
}

/// A reason of a newer version has no name here.
fn group(cells: &mut Cells<'_, '_>) -> Result<Option<DeadLetterGroup>, Unreadable> {
    let Some(reason) = cells.known_word("reason")? else { return Ok(None) };
    let (destination_id, http_status) = (cells.get("destination_id")?, cells.get("http_status")?);
    Ok(Some(DeadLetterGroup {
        key: GroupKey { destination_id, reason, http_status },
        count: cells.get("count")?,
        oldest: cells.get("oldest")?,
        newest: cells.get("newest")?,
    }))
}
