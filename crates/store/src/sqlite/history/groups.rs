//! Dead letters by what they have in common: a walk that steps from group to group, and counts a bounded number.

use super::super::{
    Trouble,
    row::{self, Key as _},
};
use crate::{DeadLetterGroup, GroupKey};
use domain::{
    id::{AccountId, DeliveryId, DestinationId},
    limits,
    outcome::DeadReason,
};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

macro_rules! first {
    ($rest:literal) => {
        concat!(include_str!("../sql/dead_letter_group.sql"), $rest)
    };
}

pub(in super::super) const NEXT_STATUS: &str = first!(
    "and destination_id = ?2 and reason = ?3 and http_status > ?4 order by http_status, delivery_id limit 1"
);
pub(in super::super) const NEXT_REASON: &str =
    first!("and destination_id = ?2 and reason > ?3 order by reason, http_status, delivery_id limit 1");
pub(in super::super) const NEXT_DESTINATION: &str =
    first!("and destination_id > ?2 order by destination_id, reason, http_status, delivery_id limit 1");
pub(in super::super) const NEWEST: &str = include_str!("../sql/dead_letter_newest.sql");
pub(in super::super) const COUNT: &str = include_str!("../sql/dead_letter_count.sql");

pub(super) fn list(
    connection: &Connection,
    account: AccountId,
    after: Option<GroupKey>,
    limit: usize,
) -> Result<Vec<DeadLetterGroup>, Trouble> {
    let (mut groups, mut left) = (Vec::new(), limits::GROUPS_COUNTED);
    let mut place = after.map(Place::of);
    while groups.len() < limit {
        let Some((next, oldest)) = first_behind(connection, account, place.as_ref())? else { break };
        let at_most = left.clamp(1, limits::GROUP_COUNTED);
        let (counted, newest) = look_at(connection, account, &next, at_most)?;
        let count = counted.min(at_most);
        left = left.saturating_sub(count);
        // A reason of a newer version has no name here.
        if let Ok(reason) = next.reason.parse::<DeadReason>() {
            let key = GroupKey { destination_id: next.destination_id, reason, http_status: next.http_status };
            let exact = counted <= at_most;
            groups.push(DeadLetterGroup { key, count: count as u64, exact, oldest, newest });
        }
        place = Some(next);
    }
    Ok(groups)
}

/// Where the walk stands.
struct Place {
    destination_id: DestinationId,
    reason: String,
    http_status: Option<u16>,
}

impl Place {
    fn of(key: GroupKey) -> Self {
        let GroupKey { destination_id, reason, http_status } = key;
        Self { destination_id, reason: reason.as_str().into(), http_status }
    }

    fn read(row: &Row<'_>) -> rusqlite::Result<(Self, DeliveryId)> {
        let place = Self { destination_id: row::id(row, 0)?, reason: row.get(1)?, http_status: row.get(2)? };
        Ok((place, row::id(row, 3)?))
    }
}

/// The next group and its oldest: another status, else another reason, else another destination.
fn first_behind(
    connection: &Connection,
    account: AccountId,
    place: Option<&Place>,
) -> Result<Option<(Place, DeliveryId)>, Trouble> {
    let account = account.blob();
    if let Some(place) = place {
        let destination = place.destination_id.blob();
        let mut select = connection.prepare_cached(NEXT_STATUS)?;
        let behind = params![account, destination, place.reason, place.http_status.unwrap_or_default()];
        if let Some(found) = select.query_row(behind, Place::read).optional()? {
            return Ok(Some(found));
        }
        let mut select = connection.prepare_cached(NEXT_REASON)?;
        let behind = params![account, destination, place.reason];
        if let Some(found) = select.query_row(behind, Place::read).optional()? {
            return Ok(Some(found));
        }
    }
    let destination = place.map_or(DestinationId::MIN, |place| place.destination_id);
    let mut select = connection.prepare_cached(NEXT_DESTINATION)?;
    Ok(select.query_row(params![account, destination.blob()], Place::read).optional()?)
}

/// How many there are, one more than `at_most` if there are more, and the newest.
fn look_at(
    connection: &Connection,
    account: AccountId,
    place: &Place,
    at_most: usize,
) -> Result<(usize, DeliveryId), Trouble> {
    let Place { destination_id, reason, http_status } = place;
    let (account, destination) = (account.blob(), destination_id.blob());
    let mut count = connection.prepare_cached(COUNT)?;
    let counted: i64 = count
        .query_row(params![account, destination, reason, http_status, at_most as i64 + 1], |row| {
            row.get(0)
        })?;
    let mut newest = connection.prepare_cached(NEWEST)?;
    let newest =
        newest.query_row(params![account, destination, reason, http_status], |row| row::id(row, 0))?;
    Ok((counted as usize, newest))
}
