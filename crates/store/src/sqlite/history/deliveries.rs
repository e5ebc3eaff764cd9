//! Deliveries: those that wait and those that have ended, in one list by id. Both are read in one snapshot, so that one
//! that moves meanwhile is neither lost nor seen twice.

use super::{
    super::{
        Trouble,
        row::{self, DELIVERY_COLUMNS, Key as _},
    },
    listed, one_of, within,
};
use crate::{DeliveryFilter, DeliveryRecord, DeliveryState, Listed, Page, StoreError};
use domain::{
    delivery::Status,
    id::{AccountId, DeliveryId, EventId},
    limits,
};
use rusqlite::{CachedStatement, Connection, Row, Rows, ToSql, params};

macro_rules! waiting {
    ($rest:literal) => {
        concat!(include_str!("../sql/waiting_deliveries.sql"), $rest)
    };
}

macro_rules! ended {
    ($rest:literal) => {
        concat!(include_str!("../sql/ended_deliveries.sql"), $rest)
    };
}

// ?1 whose, ?2 before, ?3 from, ?4 how many
pub(in super::super) const WAITING_BY_ACCOUNT: &str = waiting!(
    "where q.account_id = ?1 and q.delivery_id < ?2 and q.delivery_id >= ?3 order by q.delivery_id desc limit ?4"
);
pub(in super::super) const WAITING_BY_EVENT: &str = waiting!(
    "where q.event_id = ?1 and q.delivery_id < ?2 and q.delivery_id >= ?3 order by q.delivery_id desc limit ?4"
);
pub(in super::super) const ENDED_BY_ACCOUNT: &str = ended!(
    "where a.account_id = ?1 and a.ending is not null and a.delivery_id < ?2 and a.delivery_id >= ?3
     order by a.delivery_id desc limit ?4"
);
pub(in super::super) const ENDED_BY_DESTINATION: &str = ended!(
    "where a.destination_id = ?1 and a.ending is not null and a.delivery_id < ?2 and a.delivery_id >= ?3
     order by a.delivery_id desc limit ?4"
);
pub(in super::super) const ENDED_BY_EVENT: &str = ended!(
    "where a.event_id = ?1 and a.ending is not null and a.delivery_id < ?2 and a.delivery_id >= ?3
     order by a.delivery_id desc limit ?4"
);
// By the ids that the replay has made, as many as a page looks at: each is either waiting or ended.
pub(in super::super) const WAITING_BY_REPLAY: &str = waiting!(
    "where (q.account_id, q.delivery_id) in (
         select r.account_id, d.delivery_id
         from replayed d
         join replays r on r.id = d.replay_id
         where d.replay_id = ?1 and d.delivery_id < ?2 and d.delivery_id >= ?3
         order by d.delivery_id desc limit ?4
     )
     order by q.delivery_id desc limit ?4"
);
pub(in super::super) const ENDED_BY_REPLAY: &str = ended!(
    "where a.ending is not null and a.delivery_id in (
         select delivery_id from replayed where replay_id = ?1 and delivery_id < ?2 and delivery_id >= ?3
         order by delivery_id desc limit ?4
     )
     order by a.delivery_id desc limit ?4"
);
pub(in super::super) const DEAD_BY_ACCOUNT: &str = ended!(
    "where a.account_id = ?1 and a.ending = 'dead_letter' and a.delivery_id < ?2 and a.delivery_id >= ?3
     order by a.delivery_id desc limit ?4"
);
// The same, oldest first: ?1 whose, ?2 below, ?3 after, ?4 how many
pub(in super::super) const ENDED_AFTER_BY_ACCOUNT: &str = ended!(
    "where a.account_id = ?1 and a.ending is not null and a.delivery_id < ?2 and a.delivery_id >= ?3
     order by a.delivery_id limit ?4"
);
pub(in super::super) const ENDED_AFTER_BY_DESTINATION: &str = ended!(
    "where a.destination_id = ?1 and a.ending is not null and a.delivery_id < ?2 and a.delivery_id >= ?3
     order by a.delivery_id limit ?4"
);
pub(in super::super) const ENDED_AFTER_BY_EVENT: &str = ended!(
    "where a.event_id = ?1 and a.ending is not null and a.delivery_id < ?2 and a.delivery_id >= ?3
     order by a.delivery_id limit ?4"
);
pub(in super::super) const DEAD_AFTER_BY_ACCOUNT: &str = ended!(
    "where a.account_id = ?1 and a.ending = 'dead_letter' and a.delivery_id < ?2 and a.delivery_id >= ?3
     order by a.delivery_id limit ?4"
);
const WAITING_ONE: &str = waiting!("where q.account_id = ?1 and q.delivery_id = ?2");
const ENDED_ONE: &str = ended!("where a.delivery_id = ?2 and a.account_id = ?1 and a.ending is not null");

pub(super) fn list(
    connection: &Connection,
    account: AccountId,
    filter: &DeliveryFilter,
    page: Page<DeliveryId>,
) -> Result<Listed<DeliveryRecord, DeliveryId>, Trouble> {
    let range = Range::of(filter, page);
    let ((waiting, waiting_whose), (ended_index, ended_whose)) = indexes(account, filter);
    let mut waiting = connection.prepare_cached(waiting)?;
    let mut waiting = Stream::open(&mut waiting, &waiting_whose, &range, waits(filter), waiting_record)?;
    let mut ended = connection.prepare_cached(ended_index)?;
    let mut ended = Stream::open(&mut ended, &ended_whose, &range, ends(filter), ended_record)?;
    let mut listed = listed(page.limit, || {
        let newest_waits = match (&waiting.head, &ended.head) {
            (Some(waiting), Some(ended)) => waiting.id > ended.id,
            (waiting, _) => waiting.is_some(),
        };
        let record = if newest_waits { waiting.next()? } else { ended.next()? };
        Ok(record.map(|record| {
            let wanted = record.account_id == account && wanted(filter, &record);
            (record.id, wanted.then_some(record))
        }))
    })?;
    if listed.next.is_none() && ended_index == ENDED_BY_REPLAY {
        listed.next = last_looked_up(connection, &ended_whose, &range)?;
    }
    Ok(listed)
}

/// Of what a replay has made only so much is looked up for a page, and what is not wanted leaves a gap in it: where that
/// ended, if there is more.
fn last_looked_up(
    connection: &Connection,
    replay: &[u8; 16],
    range: &Range,
) -> Result<Option<DeliveryId>, Trouble> {
    let mut select = connection.prepare_cached(
        "select delivery_id from replayed where replay_id = ?1 and delivery_id < ?2 and delivery_id >= ?3
         order by delivery_id desc limit 2 offset ?4",
    )?;
    let values: [&dyn ToSql; 4] =
        [replay, &range.before.blob(), &range.from.blob(), &(limits::PAGE_SCAN as i64)];
    let mut rows = select.query(values)?;
    let last = rows.next()?.map(|row| row::id(row, 0)).transpose()?;
    Ok(if rows.next()?.is_some() { last } else { None })
}

pub(super) fn get(
    connection: &Connection,
    account: AccountId,
    id: DeliveryId,
) -> Result<DeliveryRecord, Trouble> {
    let one = |statement, read: Read| -> Result<_, Trouble> {
        let mut select = connection.prepare_cached(statement)?;
        let mut rows = select.query(params![account.blob(), id.blob()])?;
        rows.next()?.map(read).transpose()
    };
    let found = match one(WAITING_ONE, waiting_record)? {
        Some(record) => Some(record),
        None => one(ENDED_ONE, ended_record)?,
    };
    found.ok_or(StoreError::NotFound { what: "delivery" }.into())
}

/// One that has ended.
pub(in super::super) fn ended(
    connection: &Connection,
    account: AccountId,
    id: DeliveryId,
) -> Result<Option<DeliveryRecord>, Trouble> {
    let mut select = connection.prepare_cached(ENDED_ONE)?;
    let mut rows = select.query(params![account.blob(), id.blob()])?;
    rows.next()?.map(ended_record).transpose()
}

/// A statement and whose entries it walks.
type Index = (&'static str, [u8; 16]);
type Read = fn(&Row<'_>) -> Result<DeliveryRecord, Trouble>;

/// The indexes that fit best: one event, else one replay, else dead letters alone, else one destination, else the
/// account. What waits has no order by id within a destination, so there it is the account's.
fn indexes(account: AccountId, filter: &DeliveryFilter) -> (Index, Index) {
    let waiting = (WAITING_BY_ACCOUNT, account.blob());
    match (filter.event_ids.as_slice(), filter.replay_ids.as_slice(), filter.destination_ids.as_slice()) {
        ([event], ..) => ((WAITING_BY_EVENT, event.blob()), (ENDED_BY_EVENT, event.blob())),
        (_, [replay], _) => ((WAITING_BY_REPLAY, replay.blob()), (ENDED_BY_REPLAY, replay.blob())),
        _ if dead_alone(filter) => (waiting, (DEAD_BY_ACCOUNT, account.blob())),
        (_, _, [destination]) => (waiting, (ENDED_BY_DESTINATION, destination.blob())),
        _ => (waiting, (ENDED_BY_ACCOUNT, account.blob())),
    }
}

fn dead_alone(filter: &DeliveryFilter) -> bool {
    !filter.statuses.is_empty() && filter.statuses.iter().all(|status| *status == Status::DeadLetter)
}

/// What has ended, oldest first, by the index that fits a filter best. The filter itself is for whoever reads.
pub(in super::super) struct EndedIndex<'c> {
    statement: CachedStatement<'c>,
    whose: [u8; 16],
    range: Range,
}

impl<'c> EndedIndex<'c> {
    pub(in super::super) fn of(
        connection: &'c Connection,
        account: AccountId,
        filter: &DeliveryFilter,
        below: DeliveryId,
    ) -> Result<Self, Trouble> {
        let (statement, whose) = match (filter.event_ids.as_slice(), filter.destination_ids.as_slice()) {
            ([event], _) => (ENDED_AFTER_BY_EVENT, event.blob()),
            _ if dead_alone(filter) => (DEAD_AFTER_BY_ACCOUNT, account.blob()),
            (_, [destination]) => (ENDED_AFTER_BY_DESTINATION, destination.blob()),
            _ => (ENDED_AFTER_BY_ACCOUNT, account.blob()),
        };
        let range = Range::of(filter, Page { before: Some(below), limit: 0 });
        Ok(Self { statement: connection.prepare_cached(statement)?, whose, range })
    }

    /// Behind the given one, at most so many.
    pub(in super::super) fn after(
        &mut self,
        cursor: Option<DeliveryId>,
        limit: usize,
    ) -> Result<EndedRows<'_>, Trouble> {
        let Range { before, from } = self.range;
        let from = cursor.map_or(from, |cursor| from.max(next_after(cursor)));
        let values: [&dyn ToSql; 4] = [&self.whose, &before.blob(), &from.blob(), &(limit as i64)];
        Ok(EndedRows(self.statement.query(values)?))
    }
}

pub(in super::super) struct EndedRows<'s>(Rows<'s>);

impl EndedRows<'_> {
    pub(in super::super) fn next(&mut self) -> Result<Option<DeliveryRecord>, Trouble> {
        self.0.next()?.map(ended_record).transpose()
    }
}

fn next_after(id: DeliveryId) -> DeliveryId {
    DeliveryId::from_uuid(uuid::Uuid::from_u128(id.uuid().as_u128().saturating_add(1)))
}

/// Ids hold the time of creation: what is too young or too old is not even looked at.
#[derive(Clone, Copy)]
struct Range {
    before: DeliveryId,
    from: DeliveryId,
}

impl Range {
    fn of(filter: &DeliveryFilter, page: Page<DeliveryId>) -> Self {
        let before = page.before.unwrap_or(DeliveryId::MAX);
        let until = filter.until.map_or(DeliveryId::MAX, |until| DeliveryId::at(until, 0));
        let from = filter.since.map_or(DeliveryId::MIN, |since| DeliveryId::at(since, 0));
        Self { before: before.min(until), from }
    }
}

/// Whether what waits can be wanted at all.
fn waits(filter: &DeliveryFilter) -> bool {
    one_of(&filter.statuses, |status| !status.ended()) && filter.reasons.is_empty()
}

fn ends(filter: &DeliveryFilter) -> bool {
    one_of(&filter.statuses, |status| status.ended())
}

/// One of the two halves, read as far as it is asked for.
struct Stream<'s> {
    rows: Option<Rows<'s>>,
    head: Option<DeliveryRecord>,
    read: Read,
}

impl<'s> Stream<'s> {
    fn open(
        statement: &'s mut CachedStatement<'_>,
        whose: &[u8; 16],
        range: &Range,
        wanted: bool,
        read: Read,
    ) -> Result<Self, Trouble> {
        let values: [&dyn ToSql; 4] =
            [whose, &range.before.blob(), &range.from.blob(), &(limits::PAGE_SCAN as i64 + 1)];
        let rows = wanted.then(|| statement.query(values)).transpose()?;
        let mut stream = Self { rows, head: None, read };
        stream.next()?;
        Ok(stream)
    }

    fn next(&mut self) -> Result<Option<DeliveryRecord>, Trouble> {
        let row = match &mut self.rows {
            Some(rows) => rows.next()?,
            None => None,
        };
        let next = row.map(self.read).transpose()?;
        Ok(std::mem::replace(&mut self.head, next))
    }
}

fn waiting_record(row: &Row<'_>) -> Result<DeliveryRecord, Trouble> {
    let delivery = row::delivery(row)?;
    Ok(DeliveryRecord {
        id: delivery.id,
        account_id: delivery.account_id,
        event_id: delivery.event_id,
        event_type: row.get(DELIVERY_COLUMNS)?,
        source_id: row::maybe_id(row, DELIVERY_COLUMNS + 1)?,
        route_id: delivery.route_id,
        destination_id: delivery.destination_id,
        replay_id: delivery.replay_id,
        origin: delivery.origin,
        attempts: delivery.attempts,
        spent: delivery.spent,
        last_outcome: delivery.last_outcome,
        last_http_status: delivery.last_http_status,
        ordering_key: row.get(DELIVERY_COLUMNS + 2)?,
        sequence: delivery.sequence,
        created_at: delivery.created_at,
        state: DeliveryState::Waiting(Box::new(delivery)),
    })
}

fn ended_record(row: &Row<'_>) -> Result<DeliveryRecord, Trouble> {
    let id: DeliveryId = row::id(row, 0)?;
    Ok(DeliveryRecord {
        id,
        account_id: row::id(row, 1)?,
        event_id: row::id::<EventId>(row, 2)?,
        destination_id: row::id(row, 3)?,
        route_id: row::id(row, 4)?,
        replay_id: row::maybe_id(row, 5)?,
        origin: row::id(row, 6)?,
        attempts: row.get(7)?,
        spent: row.get(8)?,
        last_outcome: row::maybe_outcome(row, 9)?,
        last_http_status: row.get(10)?,
        event_type: row.get(14)?,
        source_id: row::maybe_id(row, 15)?,
        ordering_key: row.get(16)?,
        sequence: row.get(17)?,
        created_at: id.made_at(),
        state: DeliveryState::Ended { ending: row::ending(row, 11, 12)?, at: row::time(row, 13)? },
    })
}

pub(in super::super) fn wanted(filter: &DeliveryFilter, record: &DeliveryRecord) -> bool {
    let reason = match &record.state {
        DeliveryState::Ended { ending, .. } => ending.reason(),
        DeliveryState::Waiting(_) => None,
    };
    one_of(&filter.statuses, |status| has_status(record, *status))
        && one_of(&filter.reasons, |wanted| reason == Some(wanted))
        && one_of(&filter.event_ids, |id| record.event_id == *id)
        && one_of(&filter.destination_ids, |id| record.destination_id == *id)
        && one_of(&filter.route_ids, |id| record.route_id == *id)
        && one_of(&filter.source_ids, |id| record.source_id == Some(*id))
        && one_of(&filter.types, |pattern| pattern.matches(&record.event_type))
        && one_of(&filter.http_statuses, |status| record.last_http_status == Some(*status))
        && one_of(&filter.replay_ids, |id| record.replay_id == Some(*id))
        && within(filter.since, filter.until, record.id.made_at())
}

/// Whether a delivery is being tried just now is its owner's knowledge: here it waits.
fn has_status(record: &DeliveryRecord, status: Status) -> bool {
    match &record.state {
        DeliveryState::Ended { ending, .. } => ending.status() == status,
        DeliveryState::Waiting(_) => match status {
            Status::Delivering => true,
            Status::Queued => record.attempts == 0,
            Status::RetryScheduled => record.attempts > 0,
            Status::Delivered | Status::DeadLetter | Status::Cancelled => false,
        },
    }
}
