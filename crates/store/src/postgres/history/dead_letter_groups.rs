//! Dead letters by destination, reason and HTTP status, from counts that are kept by the day.

use super::super::{
    pool::Connection,
    rows::row,
    statement::{Statement, params, sql},
};
use crate::{DeadLetterGroup, GroupKey, StoreError};
use domain::{
    id::{AccountId, DeliveryId, DestinationId},
    outcome::DeadReason,
};
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
    Ok(rows.all()?.into_iter().filter_map(GroupRow::group).collect())
}

row! {
    struct GroupRow<'r> {
        destination_id: DestinationId,
        reason: &'r str,
        http_status: Option<u16>,
        oldest: DeliveryId,
        newest: DeliveryId,
        count: u64,
    }
}

impl GroupRow<'_> {
    /// A reason of a newer version has no name here.
    fn group(self) -> Option<DeadLetterGroup> {
        let key = GroupKey {
            destination_id: self.destination_id,
            reason: self.reason.parse::<DeadReason>().ok()?,
            http_status: self.http_status,
        };
        Some(DeadLetterGroup { key, count: self.count, oldest: self.oldest, newest: self.newest })
    }
}
