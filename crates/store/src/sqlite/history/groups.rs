//! Dead letters by what they have in common: counted as they come and go, so that a page costs a few looks a group.

use super::super::{
    Trouble,
    row::{self, Key as _},
};
use crate::{DeadLetterGroup, GroupKey};
use domain::{
    id::{AccountId, DeliveryId, DestinationId},
    outcome::DeadReason,
};
use rusqlite::{Connection, OptionalExtension as _, params};

macro_rules! of_group {
    ($rest:literal) => {
        concat!(include_str!("../sql/dead_letter_of_group.sql"), $rest)
    };
}

pub(in super::super) const GROUPS: &str = include_str!("../sql/dead_letter_groups.sql");
pub(in super::super) const OLDEST: &str = of_group!("order by delivery_id limit 1");
pub(in super::super) const NEWEST: &str = of_group!("order by delivery_id desc limit 1");

pub(super) fn list(
    connection: &Connection,
    account: AccountId,
    after: Option<GroupKey>,
    limit: usize,
) -> Result<Vec<DeadLetterGroup>, Trouble> {
    let (destination, reason, http_status) = after.map_or((DestinationId::MIN, "", 0), |key| key.sorts());
    let mut select = connection.prepare_cached(GROUPS)?;
    let behind = params![account.blob(), destination.blob(), reason, http_status, limit as i64];
    let mut rows = select.query(behind)?;
    let mut groups = Vec::new();
    while let Some(row) = rows.next()? {
        let reason: String = row.get(1)?;
        let (destination_id, http_status) = (row::id(row, 0)?, row.get::<_, Option<u16>>(2)?);
        // A reason of a newer version has no name here.
        let Ok(reason) = reason.parse::<DeadReason>() else { continue };
        let key = GroupKey { destination_id, reason, http_status };
        let found = |sql| -> Result<Option<DeliveryId>, Trouble> {
            let of_group = params![account.blob(), destination_id.blob(), reason.as_str(), http_status];
            Ok(connection.prepare_cached(sql)?.query_row(of_group, |row| row::id(row, 0)).optional()?)
        };
        if let (Some(oldest), Some(newest)) = (found(OLDEST)?, found(NEWEST)?) {
            let count = row.get::<_, i64>(3)?.unsigned_abs();
            groups.push(DeadLetterGroup { key, count, oldest, newest });
        }
    }
    Ok(groups)
}
