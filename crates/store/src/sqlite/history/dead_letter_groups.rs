//! Dead letters by what they have in common: counted as they come and go, so that a page costs a few looks a group.

use super::super::{
    Trouble,
    statement::{bound, sql},
};
use crate::{DeadLetterGroup, GroupKey};
use domain::{
    id::{AccountId, DestinationId},
    outcome::DeadReason,
};
use rusqlite::Connection;
use std::ops::ControlFlow;

pub(in super::super) const DEAD_LETTER_GROUPS: &str = sql!("dead_letter_groups");
pub(in super::super) const OLDEST: &str =
    concat!(sql!("dead_letter_of_group"), "order by delivery_id limit 1");
pub(in super::super) const NEWEST: &str =
    concat!(sql!("dead_letter_of_group"), "order by delivery_id desc limit 1");

pub(super) fn list(
    connection: &Connection,
    account: AccountId,
    after: Option<GroupKey>,
    limit: usize,
) -> Result<Vec<DeadLetterGroup>, Trouble> {
    let (destination, reason, http_status) = after.map_or((DestinationId::MIN, "", 0), |key| key.sorts());
    let mut groups = Vec::new();
    bound!(
        DEAD_LETTER_GROUPS,
        account_id: account,
        destination_id: destination,
        reason: reason,
        http_status: http_status,
        limit: limit,
    )
    .each(connection, |columns| {
        let (destination_id, reason) = (columns.id()?, columns.text()?);
        let (http_status, count) = (columns.get()?, columns.count()?);
        // A reason of a newer version has no name here.
        let Ok(reason) = reason.parse::<DeadReason>() else { return Ok(ControlFlow::Continue(())) };
        let key = GroupKey { destination_id, reason, http_status };
        let oldest = bound!(
            OLDEST,
            account_id: account,
            destination_id: destination_id,
            reason: reason.as_str(),
            http_status: http_status,
        )
        .first(connection, |columns| Ok(columns.id()?))?;
        let newest = bound!(
            NEWEST,
            account_id: account,
            destination_id: destination_id,
            reason: reason.as_str(),
            http_status: http_status,
        )
        .first(connection, |columns| Ok(columns.id()?))?;
        if let (Some(oldest), Some(newest)) = (oldest, newest) {
            groups.push(DeadLetterGroup { key, count, oldest, newest });
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(groups)
}
