//! Deliveries: those that wait and those that have ended, in one list by id. Both are read in one snapshot, so that one
//! that moves meanwhile is neither lost nor seen twice.

use super::{
    super::{
        Trouble,
        rows::Columns,
        statement::{Bound, Value, bound, order, sql},
    },
    filter, listed,
};
use crate::{
    DeliveryFilter, DeliveryRecord, DeliveryState, Listed, Page, Resolution, ResolvedBy, StoreError,
};
use domain::{
    delivery::Status,
    id::{AccountId, DeliveryId, ReplayId},
    limits,
    time::Timestamp,
};
use rusqlite::{CachedStatement, Connection, Row, Rows};

/// A statement that looks at deliveries and says of each whether it is wanted.
pub(in super::super) struct DeliveryWalk {
    pub(in super::super) sql: &'static str,
    order: [usize; NAMES.len()],
}

/// What such a statement is asked with: whose index, its range, and the filter.
const NAMES: [&str; 17] = [
    "whose",
    "before",
    "from",
    "limit",
    "account_id",
    "statuses",
    "reasons",
    "event_ids",
    "destination_ids",
    "route_ids",
    "source_ids",
    "http_statuses",
    "replay_ids",
    "types",
    "ended_by",
    "not_of_replay",
    "resolved",
];

impl DeliveryWalk {
    const fn new(sql: &'static str) -> Self {
        Self { sql, order: order(sql, NAMES) }
    }
}

macro_rules! walk {
    ($what:literal, $range:literal) => {
        DeliveryWalk::new(concat!(
            "select ",
            sql!("wanted_delivery"),
            ", looked_at.* from (",
            sql!($what),
            $range,
            ") looked_at"
        ))
    };
}

macro_rules! waiting {
    ($range:literal) => {
        walk!("waiting_deliveries", $range)
    };
}

macro_rules! ended {
    ($range:literal) => {
        walk!("ended_deliveries", $range)
    };
}

pub(in super::super) const WAITING_BY_ACCOUNT: DeliveryWalk = waiting!(
    "where q.account_id = :whose and q.delivery_id < :before and q.delivery_id >= :from
     order by q.delivery_id desc limit :limit"
);
pub(in super::super) const WAITING_BY_EVENT: DeliveryWalk = waiting!(
    "where q.event_id = :whose and q.delivery_id < :before and q.delivery_id >= :from
     order by q.delivery_id desc limit :limit"
);
pub(in super::super) const ENDED_BY_ACCOUNT: DeliveryWalk = ended!(
    "where a.account_id = :whose and a.ending is not null and a.delivery_id < :before and a.delivery_id >= :from
     order by a.delivery_id desc limit :limit"
);
pub(in super::super) const ENDED_BY_DESTINATION: DeliveryWalk = ended!(
    "where a.destination_id = :whose and a.ending is not null and a.delivery_id < :before and a.delivery_id >= :from
     order by a.delivery_id desc limit :limit"
);
pub(in super::super) const ENDED_BY_EVENT: DeliveryWalk = ended!(
    "where a.event_id = :whose and a.ending is not null and a.delivery_id < :before and a.delivery_id >= :from
     order by a.delivery_id desc limit :limit"
);
// By the ids that the replay has made, as many as a page looks at: each is either waiting or ended.
pub(in super::super) const WAITING_BY_REPLAY: DeliveryWalk = waiting!(
    "where (q.account_id, q.delivery_id) in (
         select r.account_id, d.delivery_id
         from replayed d
         join replays r on r.id = d.replay_id
         where d.replay_id = :whose and d.delivery_id < :before and d.delivery_id >= :from
         order by d.delivery_id desc limit :limit
     )
     order by q.delivery_id desc limit :limit"
);
pub(in super::super) const ENDED_BY_REPLAY: DeliveryWalk = ended!(
    "where a.ending is not null and a.delivery_id in (
         select delivery_id from replayed where replay_id = :whose and delivery_id < :before and delivery_id >= :from
         order by delivery_id desc limit :limit
     )
     order by a.delivery_id desc limit :limit"
);
pub(in super::super) const DEAD_BY_ACCOUNT: DeliveryWalk = ended!(
    "where a.account_id = :whose and a.ending = 'dead_letter' and a.delivery_id < :before and a.delivery_id >= :from
     order by a.delivery_id desc limit :limit"
);
// The same, oldest first.
pub(in super::super) const ENDED_AFTER_BY_ACCOUNT: DeliveryWalk = ended!(
    "where a.account_id = :whose and a.ending is not null and a.delivery_id < :before and a.delivery_id >= :from
     order by a.delivery_id limit :limit"
);
pub(in super::super) const ENDED_AFTER_BY_DESTINATION: DeliveryWalk = ended!(
    "where a.destination_id = :whose and a.ending is not null and a.delivery_id < :before and a.delivery_id >= :from
     order by a.delivery_id limit :limit"
);
pub(in super::super) const ENDED_AFTER_BY_EVENT: DeliveryWalk = ended!(
    "where a.event_id = :whose and a.ending is not null and a.delivery_id < :before and a.delivery_id >= :from
     order by a.delivery_id limit :limit"
);
pub(in super::super) const DEAD_AFTER_BY_ACCOUNT: DeliveryWalk = ended!(
    "where a.account_id = :whose and a.ending = 'dead_letter' and a.delivery_id < :before and a.delivery_id >= :from
     order by a.delivery_id limit :limit"
);

const WAITING_DELIVERY: &str =
    concat!(sql!("waiting_deliveries"), "where q.account_id = :account_id and q.delivery_id = :delivery_id");
const ENDED_DELIVERY: &str = concat!(
    sql!("ended_deliveries"),
    "where a.delivery_id = :delivery_id and a.account_id = :account_id and a.ending is not null"
);
const LOOKED_UP_OF_REPLAY: &str = sql!("looked_up_of_replay");

pub(super) fn list(
    connection: &Connection,
    account: AccountId,
    filter: &DeliveryFilter,
    page: Page<DeliveryId>,
) -> Result<Listed<DeliveryRecord, DeliveryId>, Trouble> {
    let query = DeliveryQuery::new(account, filter, page.before.unwrap_or(DeliveryId::MAX));
    let (waiting, ended) = walks(account, filter);
    let mut select_waiting = connection.prepare_cached(waiting.0.sql)?;
    let mut select_ended = connection.prepare_cached(ended.0.sql)?;
    let look_at = limits::PAGE_SCAN + 1;
    let mut waiting = match waits(filter) {
        true => HalfList::of(query.rows(&waiting, look_at, &mut select_waiting)?, waiting_record)?,
        false => HalfList::nothing(),
    };
    let mut half_ended = match ends(filter) {
        true => HalfList::of(query.rows(&ended, look_at, &mut select_ended)?, ended_record)?,
        false => HalfList::nothing(),
    };
    let mut listed = listed(page.limit, || {
        let newest_waits = match (&waiting.next, &half_ended.next) {
            (Some(waiting), Some(ended)) => waiting.id > ended.id,
            (waiting, _) => waiting.is_some(),
        };
        let looked_at = if newest_waits { waiting.take()? } else { half_ended.take()? };
        Ok(looked_at.map(|looked_at| (looked_at.id, looked_at.wanted)))
    })?;
    if let (None, Some(replay)) = (listed.next, of_replay(filter)) {
        listed.next = last_looked_up(connection, replay, &query)?;
    }
    Ok(listed)
}

/// Of what a replay has made only so much is looked up for a page, and what is not wanted leaves a gap in it: where that
/// ended, if there is more.
fn last_looked_up(
    connection: &Connection,
    replay: ReplayId,
    query: &DeliveryQuery,
) -> Result<Option<DeliveryId>, Trouble> {
    let ids = bound!(
        LOOKED_UP_OF_REPLAY,
        replay_id: replay,
        before: query.before,
        from: query.from,
        looked_up: limits::PAGE_SCAN,
    )
    .all(connection, |columns| Ok(columns.id()?))?;
    Ok(if let [last, _more] = ids[..] { Some(last) } else { None })
}

pub(super) fn get(
    connection: &Connection,
    account: AccountId,
    id: DeliveryId,
) -> Result<DeliveryRecord, Trouble> {
    let waiting = bound!(WAITING_DELIVERY, account_id: account, delivery_id: id);
    let found = match waiting.first(connection, waiting_record)? {
        Some(record) => Some(record),
        None => ended(connection, account, id)?,
    };
    found.ok_or(StoreError::NotFound { what: "delivery" }.into())
}

/// One that has ended.
pub(in super::super) fn ended(
    connection: &Connection,
    account: AccountId,
    id: DeliveryId,
) -> Result<Option<DeliveryRecord>, Trouble> {
    bound!(ENDED_DELIVERY, account_id: account, delivery_id: id).first(connection, ended_record)
}

/// A statement and whose entries it walks.
type Index = (&'static DeliveryWalk, [u8; 16]);
type ReadRecord = fn(&mut Columns<'_>) -> Result<DeliveryRecord, Trouble>;

/// The indexes that fit best: one event, else one replay, else dead letters alone, else one destination, else the
/// account. What waits has no order by id within a destination, so there it is the account's.
fn walks(account: AccountId, filter: &DeliveryFilter) -> (Index, Index) {
    let waiting = (&WAITING_BY_ACCOUNT, *account.bytes());
    if let Some(event) = filter::only(&filter.event_ids) {
        return ((&WAITING_BY_EVENT, *event.bytes()), (&ENDED_BY_EVENT, *event.bytes()));
    }
    if let Some(replay) = of_replay(filter) {
        return ((&WAITING_BY_REPLAY, *replay.bytes()), (&ENDED_BY_REPLAY, *replay.bytes()));
    }
    if dead_alone(filter) {
        return (waiting, (&DEAD_BY_ACCOUNT, *account.bytes()));
    }
    match filter::only(&filter.destination_ids) {
        Some(destination) => (waiting, (&ENDED_BY_DESTINATION, *destination.bytes())),
        None => (waiting, (&ENDED_BY_ACCOUNT, *account.bytes())),
    }
}

/// The replay whose list is walked.
fn of_replay(filter: &DeliveryFilter) -> Option<ReplayId> {
    filter::only(&filter.replay_ids).filter(|_| filter.event_ids.len() != 1)
}

fn dead_alone(filter: &DeliveryFilter) -> bool {
    !filter.statuses.is_empty() && filter.statuses.iter().all(|status| *status == Status::DeadLetter)
}

/// Whether the half that waits, or the one that has ended, has anything in it that is asked for.
fn waits(filter: &DeliveryFilter) -> bool {
    filter.statuses.is_empty() || filter.statuses.iter().any(|status| !status.ended())
}

fn ends(filter: &DeliveryFilter) -> bool {
    filter.statuses.is_empty() || filter.statuses.iter().any(|status| status.ended())
}

/// What is asked for, as the statements take it.
struct DeliveryQuery {
    account_id: AccountId,
    /// Ids hold the time of creation: what is too young or too old is not even looked at.
    before: DeliveryId,
    from: DeliveryId,
    statuses: Option<String>,
    reasons: Option<String>,
    event_ids: Option<String>,
    destination_ids: Option<String>,
    route_ids: Option<String>,
    source_ids: Option<String>,
    http_statuses: Option<String>,
    replay_ids: Option<String>,
    types: Option<String>,
    /// Not what ended later, and nothing that this replay has made.
    ended_by: Option<Timestamp>,
    not_of_replay: Option<ReplayId>,
    resolved: Option<bool>,
}

impl DeliveryQuery {
    fn new(account_id: AccountId, filter: &DeliveryFilter, before: DeliveryId) -> Self {
        let until = filter.until.map_or(DeliveryId::MAX, |until| DeliveryId::at(until, 0));
        Self {
            account_id,
            before: before.min(until),
            from: filter.since.map_or(DeliveryId::MIN, |since| DeliveryId::at(since, 0)),
            statuses: filter::list(&filter.statuses, |status| status.as_str()),
            reasons: filter::list(&filter.reasons, String::clone),
            event_ids: filter::ids(&filter.event_ids, |id| id.uuid()),
            destination_ids: filter::ids(&filter.destination_ids, |id| id.uuid()),
            route_ids: filter::ids(&filter.route_ids, |id| id.uuid()),
            source_ids: filter::ids(&filter.source_ids, |id| id.uuid()),
            http_statuses: filter::list(&filter.http_statuses, |status| *status),
            replay_ids: filter::ids(&filter.replay_ids, |id| id.uuid()),
            types: filter::patterns(&filter.types),
            ended_by: None,
            not_of_replay: None,
            resolved: filter.resolved,
        }
    }

    fn rows<'s>(
        &self,
        (walk, whose): &Index,
        limit: usize,
        statement: &'s mut CachedStatement<'_>,
    ) -> rusqlite::Result<Rows<'s>> {
        // In the order of the names.
        let values = [
            whose.value(),
            self.before.value(),
            self.from.value(),
            limit.value(),
            self.account_id.value(),
            self.statuses.value(),
            self.reasons.value(),
            self.event_ids.value(),
            self.destination_ids.value(),
            self.route_ids.value(),
            self.source_ids.value(),
            self.http_statuses.value(),
            self.replay_ids.value(),
            self.types.value(),
            self.ended_by.value(),
            self.not_of_replay.value(),
            self.resolved.value(),
        ];
        Bound::new(walk.sql, &walk.order, values).rows(statement)
    }
}

/// One delivery that was looked at, and its record if it is wanted.
struct LookedAt {
    id: DeliveryId,
    wanted: Option<DeliveryRecord>,
}

impl LookedAt {
    fn read(row: &Row<'_>, read: ReadRecord) -> Result<Self, Trouble> {
        let mut columns = Columns::of(row);
        let wanted: bool = columns.get()?;
        let id: DeliveryId = columns.clone().id()?;
        let wanted = match wanted {
            true => Trouble::leave_out("delivery", id, read(&mut columns))?,
            false => None,
        };
        Ok(Self { id, wanted })
    }
}

/// One of the two halves of a list, read as far as it is asked for.
struct HalfList<'s> {
    rows: Option<Rows<'s>>,
    read: ReadRecord,
    next: Option<LookedAt>,
}

impl<'s> HalfList<'s> {
    fn of(rows: Rows<'s>, read: ReadRecord) -> Result<Self, Trouble> {
        let mut half = Self { rows: Some(rows), read, next: None };
        half.take()?;
        Ok(half)
    }

    fn nothing() -> Self {
        Self { rows: None, read: ended_record, next: None }
    }

    fn take(&mut self) -> Result<Option<LookedAt>, Trouble> {
        let row = match &mut self.rows {
            Some(rows) => rows.next()?,
            None => None,
        };
        let next = row.map(|row| LookedAt::read(row, self.read)).transpose()?;
        Ok(std::mem::replace(&mut self.next, next))
    }
}

/// What has ended, oldest first, by the index that fits a filter best.
pub(in super::super) struct EndedWalk<'c> {
    statement: CachedStatement<'c>,
    index: Index,
    query: DeliveryQuery,
}

impl<'c> EndedWalk<'c> {
    /// Of deliveries below the id that ended by then, and none that this replay has made.
    pub(in super::super) fn new(
        connection: &'c Connection,
        account: AccountId,
        filter: &DeliveryFilter,
        (below, ended_by): (DeliveryId, Timestamp),
        not_of_replay: Option<ReplayId>,
    ) -> Result<Self, Trouble> {
        let index = match (filter::only(&filter.event_ids), filter::only(&filter.destination_ids)) {
            (Some(event), _) => (&ENDED_AFTER_BY_EVENT, *event.bytes()),
            _ if dead_alone(filter) => (&DEAD_AFTER_BY_ACCOUNT, *account.bytes()),
            (_, Some(destination)) => (&ENDED_AFTER_BY_DESTINATION, *destination.bytes()),
            _ => (&ENDED_AFTER_BY_ACCOUNT, *account.bytes()),
        };
        let query = DeliveryQuery {
            ended_by: Some(ended_by),
            not_of_replay,
            ..DeliveryQuery::new(account, filter, below)
        };
        Ok(Self { statement: connection.prepare_cached(index.0.sql)?, index, query })
    }

    /// Behind the given one, at most so many.
    pub(in super::super) fn after(
        &mut self,
        cursor: Option<DeliveryId>,
        limit: usize,
    ) -> Result<EndedRows<'_>, Trouble> {
        if let Some(cursor) = cursor {
            self.query.from = self.query.from.max(filter::next_after(cursor));
        }
        Ok(EndedRows(self.query.rows(&self.index, limit, &mut self.statement)?))
    }
}

pub(in super::super) struct EndedRows<'s>(Rows<'s>);

impl EndedRows<'_> {
    /// The next that was looked at, and its record if it is wanted.
    pub(in super::super) fn next(&mut self) -> Result<Option<(DeliveryId, Option<DeliveryRecord>)>, Trouble> {
        let looked_at = self.0.next()?.map(|row| LookedAt::read(row, ended_record)).transpose()?;
        Ok(looked_at.map(|looked_at| (looked_at.id, looked_at.wanted)))
    }
}

fn waiting_record(columns: &mut Columns<'_>) -> Result<DeliveryRecord, Trouble> {
    let delivery = columns.delivery()?;
    Ok(DeliveryRecord {
        id: delivery.id,
        account_id: delivery.account_id,
        event_id: delivery.event_id,
        event_type: columns.get()?,
        source_id: columns.optional_id()?,
        route_id: delivery.route_id,
        destination_id: delivery.destination_id,
        replay_id: delivery.replay_id,
        origin: delivery.origin,
        attempts: delivery.attempts,
        spent: delivery.spent,
        last_outcome: delivery.last_outcome,
        last_http_status: delivery.last_http_status,
        ordering_key: columns.get()?,
        sequence: delivery.sequence,
        created_at: delivery.created_at,
        state: DeliveryState::Waiting(Box::new(delivery)),
        resolution: None,
    })
}

fn ended_record(columns: &mut Columns<'_>) -> Result<DeliveryRecord, Trouble> {
    let id: DeliveryId = columns.id()?;
    Ok(DeliveryRecord {
        id,
        account_id: columns.id()?,
        event_id: columns.id()?,
        event_type: columns.get()?,
        source_id: columns.optional_id()?,
        route_id: columns.id()?,
        destination_id: columns.id()?,
        replay_id: columns.optional_id()?,
        origin: columns.id()?,
        attempts: columns.get()?,
        spent: columns.get()?,
        last_outcome: columns.optional_outcome()?,
        last_http_status: columns.get()?,
        ordering_key: columns.get()?,
        sequence: columns.get()?,
        created_at: id.made_at(),
        state: DeliveryState::Ended { ending: columns.ending()?, at: columns.time()? },
        resolution: resolution(columns)?,
    })
}

/// None: it is not settled.
fn resolution(columns: &mut Columns<'_>) -> Result<Option<Resolution>, Trouble> {
    let at = columns.optional_time()?;
    let delivered_by = columns.optional_id()?;
    let dismissed_by = columns.optional_text()?.and_then(|holder| holder.parse().ok());
    let by = ResolvedBy::read(delivered_by, dismissed_by, columns.get()?);
    Ok(at.zip(by).map(|(at, by)| Resolution { at, by }))
}
