//! The read side. A list is one statement that looks at a bounded number of entries, filters them there, and says how
//! far it looked.

use super::{
    PostgresStore,
    planned::{Planned, Statement},
    pool::{Connection, params},
    queue, rows,
};
use crate::{
    AttemptRecord, DeadLetterGroup, DeliveryFilter, DeliveryRecord, DeliveryState, EventFilter, EventRecord,
    FanoutCounts, GroupKey, History, Listed, Page, StoreError, SuccessRate, detail, history::first_counted,
};
use async_trait::async_trait;
use domain::{
    delivery::{Ending, Status},
    event::Event,
    id::{AccountId, AttemptId, DeliveryId, DestinationId, EventId, NodeId, ReplayId, RouteId, SourceId},
    limits,
    outcome::{DeadReason, Outcome},
    pattern::Pattern,
    time::Timestamp,
};
use std::{collections::HashMap, sync::LazyLock, time::Duration};
use tokio_postgres::Row;
use uuid::Uuid;

pub(super) const DEAD_LETTER_GROUPS: &str = include_str!("sql/dead_letter_groups.sql");
const DELIVERIES: &str = concat!(include_str!("sql/deliveries.sql"), include_str!("sql/deliveries_page.sql"));
const DELIVERIES_OF_REPLAY: &str =
    concat!(include_str!("sql/deliveries_of_replay.sql"), include_str!("sql/deliveries_page.sql"));
/// In a busy hour one large fan-out is all that the statistics know, and the planner would look for every other event by
/// reading the table.
const EVENT: &str = include_str!("sql/event.sql");
pub(super) static FANOUT_COUNTS: LazyLock<Planned> = LazyLock::new(|| {
    let statement = Statement {
        name: "fanout_counts",
        sql: include_str!("sql/fanout_counts.sql"),
        kept: false,
        settings: "set enable_seqscan = off set enable_bitmapscan = off",
        gives: "waiting bigint, delivered bigint, dead_letter bigint, cancelled bigint, last_at bigint",
    };
    let (events, from, limit) = (Vec::<Uuid>::new(), Uuid::nil(), None::<i64>);
    Planned::new(statement, params![events => UUID_ARRAY, from => UUID, limit => INT8])
});
pub(super) const EVENTS: &str = concat!(include_str!("sql/events.sql"), include_str!("sql/events_page.sql"));
pub(super) const INCOMPLETE_EVENTS: &str =
    concat!(include_str!("sql/incomplete_events.sql"), include_str!("sql/events_page.sql"));

#[async_trait]
impl History for PostgresStore {
    async fn events(
        &self,
        account: AccountId,
        filter: &EventFilter,
        page: Page<EventId>,
    ) -> Result<Listed<EventRecord, EventId>, StoreError> {
        // An id is made when its event is received, give or take: this spares a list of yesterday all of today.
        let until = filter.until.map(|until| EventId::at(until.plus(limits::ID_SLACK), 0));
        let since = filter.since.map(|since| EventId::at(since.minus(limits::ID_SLACK), 0));
        let below = page.before.unwrap_or(EventId::MAX).min(until.unwrap_or(EventId::MAX)).uuid();
        let from = since.unwrap_or(EventId::MIN).uuid();
        let filters = !filter.types.is_empty()
            || !filter.source_ids.is_empty()
            || !filter.idempotency_keys.is_empty()
            || filter.since.is_some()
            || filter.until.is_some()
            || filter.fanout_complete.is_some();
        let (look_at, limit) = bounds(filters, page.limit);
        let (since, until) = (filter.since.map(Timestamp::micros), filter.until.map(Timestamp::micros));
        let params = params![
            account.uuid() => UUID, below => UUID, from => UUID, look_at => INT8, limit => INT8,
            expressions(&filter.types) => TEXT_ARRAY, uuids(&filter.source_ids, |id| id.uuid()) => UUID_ARRAY,
            some(&filter.idempotency_keys) => TEXT_ARRAY, since => INT8, until => INT8,
            filter.fanout_complete => BOOL,
        ];
        let connection = self.pools.general().await?;
        let sql = match filter.fanout_complete {
            Some(false) => INCOMPLETE_EVENTS,
            _ => EVENTS,
        };
        let read = connection.read(sql, params).await?;
        let (last, looked_at) = (id_at(&read, 13), id_at(&read, 14));
        let found: Vec<&Row> = read.iter().filter(|row| row.get::<_, Option<Uuid>>(0).is_some()).collect();
        let events = event_records(&connection, &found, Some(limits::FANOUT_COUNTED)).await?;
        Ok(listed(
            events,
            |record: &EventRecord| record.event.id.uuid(),
            page.limit,
            last,
            looked_at,
            EventId::from_uuid,
        ))
    }

    async fn event(&self, account: AccountId, id: EventId) -> Result<EventRecord, StoreError> {
        let connection = self.pools.general().await?;
        let params = params![account.uuid() => UUID, id.uuid() => UUID];
        let row = connection.read_opt(EVENT, params).await?;
        let row = row.ok_or(StoreError::NotFound { what: "event" })?;
        let mut found = event_records(&connection, &[&row], None).await?;
        found.pop().ok_or(StoreError::NotFound { what: "event" })
    }

    async fn event_alone(&self, account: AccountId, id: EventId) -> Result<Event, StoreError> {
        let connection = self.pools.general().await?;
        let params = params![account.uuid() => UUID, id.uuid() => UUID];
        let row = connection.read_opt(EVENT, params).await?;
        row.map(|row| rows::event(&row)).ok_or(StoreError::NotFound { what: "event" })
    }

    async fn fanouts(&self, events: &[EventId]) -> Result<Vec<Option<FanoutCounts>>, StoreError> {
        let ids: Vec<Uuid> = events.iter().map(|id| id.uuid()).collect();
        let connection = self.pools.general().await?;
        let sql = "select events.id, events.deliveries from events where events.id = any($1)";
        let totals = connection.read(sql, params![ids => UUID_ARRAY]).await?;
        let totals: HashMap<Uuid, Option<i32>> = totals.iter().map(|row| (row.get(0), row.get(1))).collect();
        let at_most = Some(limits::FANOUT_COUNTED);
        let counts = fanout_counts(&connection, &ids, at_most).await?;
        let of = |(id, counts): (&Uuid, &Row)| Some(fanout(*totals.get(id)?, counts, at_most));
        Ok(ids.iter().zip(&counts).map(of).collect())
    }

    async fn event_payload(&self, account: AccountId, id: EventId) -> Result<Event, StoreError> {
        let connection = self.pools.general().await?;
        let found = queue::stored_event(&connection, id).await?.filter(|event| event.account_id == account);
        found.ok_or(StoreError::NotFound { what: "event" })
    }

    async fn deliveries(
        &self,
        account: AccountId,
        filter: &DeliveryFilter,
        page: Page<DeliveryId>,
    ) -> Result<Listed<DeliveryRecord, DeliveryId>, StoreError> {
        let until = filter.until.map_or(DeliveryId::MAX, |until| DeliveryId::at(until, 0));
        let below = page.before.unwrap_or(DeliveryId::MAX).min(until).uuid();
        let from = filter.since.map_or(DeliveryId::MIN, |since| DeliveryId::at(since, 0)).uuid();
        let Wanted { untried, tried, endings, ended } = Wanted::of(filter);
        let destination = match filter.destination_ids.as_slice() {
            [one] => Some(one.uuid()),
            _ => None,
        };
        // Dead letters alone have an index: all that is looked at is wanted.
        let filters = (!filter.statuses.is_empty() && !dead_alone(filter))
            || !filter.reasons.is_empty()
            || !filter.destination_ids.is_empty()
            || !filter.route_ids.is_empty()
            || !filter.source_ids.is_empty()
            || !filter.types.is_empty()
            || !filter.http_statuses.is_empty()
            || !filter.replay_ids.is_empty();
        let (look_at, limit) = bounds(filters, page.limit);
        let http_statuses: Vec<i16> = filter.http_statuses.iter().map(|status| *status as i16).collect();
        let params = params![
            account.uuid() => UUID, below => UUID, from => UUID, look_at => INT8, limit => INT8,
            untried || tried => BOOL, ended => BOOL, destination => UUID,
            uuids(&filter.event_ids, |id| id.uuid()) => UUID_ARRAY,
            untried => BOOL, tried => BOOL, endings => TEXT_ARRAY, some(&filter.reasons) => TEXT_ARRAY,
            uuids(&filter.destination_ids, |id| id.uuid()) => UUID_ARRAY,
            uuids(&filter.route_ids, |id| id.uuid()) => UUID_ARRAY,
            uuids(&filter.source_ids, |id| id.uuid()) => UUID_ARRAY,
            expressions(&filter.types) => TEXT_ARRAY, some(&http_statuses) => INT2_ARRAY,
            uuids(&filter.replay_ids, |id| id.uuid()) => UUID_ARRAY, dead_alone(filter) => BOOL,
        ];
        let of_replay = filter.event_ids.is_empty() && filter.replay_ids.len() == 1;
        let sql = if of_replay { DELIVERIES_OF_REPLAY } else { DELIVERIES };
        let connection = self.pools.general().await?;
        let read = connection.read(sql, params).await?;
        let (last, looked_at) = (id_at(&read, 0), id_at(&read, 1));
        let found = read.iter().filter(|row| row.get::<_, Option<Uuid>>(3).is_some());
        let found = found.map(|row| delivery_record(row, 2)).collect::<Result<_, _>>()?;
        Ok(listed(
            found,
            |record: &DeliveryRecord| record.id.uuid(),
            page.limit,
            last,
            looked_at,
            DeliveryId::from_uuid,
        ))
    }

    async fn delivery(&self, account: AccountId, id: DeliveryId) -> Result<DeliveryRecord, StoreError> {
        let connection = self.pools.general().await?;
        let params = params![account.uuid() => UUID, id.uuid() => UUID];
        let row = connection.read_opt(include_str!("sql/delivery.sql"), params).await?;
        delivery_record(&row.ok_or(StoreError::NotFound { what: "delivery" })?, 0)
    }

    async fn attempts_of_delivery(
        &self,
        account: AccountId,
        id: DeliveryId,
        limit: usize,
    ) -> Result<Vec<AttemptRecord>, StoreError> {
        let connection = self.pools.general().await?;
        let params = params![account.uuid() => UUID, id.uuid() => UUID, limit as i64 => INT8];
        let rows = connection.read(include_str!("sql/attempts_of_delivery.sql"), params).await?;
        rows.iter().map(attempt_record).collect()
    }

    async fn attempts_of_destination(
        &self,
        account: AccountId,
        id: DestinationId,
        before: Option<(DeliveryId, AttemptId)>,
        limit: usize,
    ) -> Result<Vec<AttemptRecord>, StoreError> {
        let (delivery, attempt) = before.unwrap_or((DeliveryId::MAX, AttemptId::MAX));
        let connection = self.pools.general().await?;
        let params = params![
            account.uuid() => UUID, id.uuid() => UUID, delivery.uuid() => UUID, attempt.uuid() => UUID,
            limit as i64 => INT8,
        ];
        let rows = connection.read(include_str!("sql/attempts_of_destination.sql"), params).await?;
        rows.iter().map(attempt_record).collect()
    }

    async fn dead_letter_groups(
        &self,
        account: AccountId,
        after: Option<GroupKey>,
        limit: usize,
    ) -> Result<Vec<DeadLetterGroup>, StoreError> {
        let (destination, reason, http_status) = after.map_or((DestinationId::MIN, "", 0), |key| key.sorts());
        let params = params![
            account.uuid() => UUID, destination.uuid() => UUID, reason => TEXT, http_status as i16 => INT2,
            limit as i64 => INT8,
        ];
        let connection = self.pools.general().await?;
        let rows = connection.read(DEAD_LETTER_GROUPS, params).await?;
        Ok(rows.iter().filter_map(group).collect())
    }

    async fn success_rates(
        &self,
        destinations: &[DestinationId],
        since: Timestamp,
        limit: usize,
    ) -> Result<Vec<SuccessRate>, StoreError> {
        let ids: Vec<Uuid> = destinations.iter().map(|id| id.uuid()).collect();
        let connection = self.pools.general().await?;
        let params = params![
            ids => UUID_ARRAY, since.micros() => INT8, first_counted(since).uuid() => UUID,
            limit as i64 => INT8,
        ];
        let rows = connection.read(include_str!("sql/success_rates.sql"), params).await?;
        let rate = |row: &Row| SuccessRate { successes: rows::count(row, 0), attempts: rows::count(row, 1) };
        Ok(rows.iter().map(rate).collect())
    }
}

/// How many entries to look at, and rows to give: with nothing to filter, what is looked at is what is given.
fn bounds(filters: bool, limit: usize) -> (i64, i64) {
    let look_at = if filters { limits::PAGE_SCAN } else { limit };
    (look_at as i64, limit as i64)
}

/// A page, and where the next one begins if there is one.
fn listed<T, K>(
    rows: Vec<T>,
    id_of: impl Fn(&T) -> Uuid,
    limit: usize,
    last: Option<Uuid>,
    looked_at: Option<Uuid>,
    key: impl Fn(Uuid) -> K,
) -> Listed<T, K> {
    // A full page goes on where it stopped, a short one where the scan stopped.
    let stopped = if rows.len() == limit { rows.last().map(id_of) } else { looked_at };
    let next = stopped.filter(|stopped| last.is_some_and(|last| last < *stopped)).map(key);
    Listed { rows, next }
}

fn id_at(read: &[Row], column: usize) -> Option<Uuid> {
    read.first().and_then(|row| row.get(column))
}

/// Which deliveries are wanted, by their status.
struct Wanted {
    untried: bool,
    tried: bool,
    /// None: any.
    endings: Option<Vec<&'static str>>,
    ended: bool,
}

impl Wanted {
    fn of(filter: &DeliveryFilter) -> Self {
        // Only what has ended has a reason.
        let may_wait = filter.reasons.is_empty();
        if filter.statuses.is_empty() {
            return Self { untried: may_wait, tried: may_wait, endings: None, ended: true };
        }
        let has = |status| filter.statuses.contains(&status);
        let endings: Vec<_> =
            filter.statuses.iter().filter(|status| status.ended()).map(|status| status.as_str()).collect();
        Self {
            untried: may_wait && (has(Status::Queued) || has(Status::Delivering)),
            tried: may_wait && (has(Status::RetryScheduled) || has(Status::Delivering)),
            ended: !endings.is_empty(),
            endings: Some(endings),
        }
    }
}

/// Whether nothing but dead letters is wanted: they have an index.
pub(super) fn dead_alone(filter: &DeliveryFilter) -> bool {
    !filter.statuses.is_empty() && filter.statuses.iter().all(|status| *status == Status::DeadLetter)
}

/// A reason of a newer version has no name here.
fn group(row: &Row) -> Option<DeadLetterGroup> {
    let key = GroupKey {
        destination_id: DestinationId::from_uuid(row.get(0)),
        reason: row.get::<_, &str>(1).parse::<DeadReason>().ok()?,
        http_status: rows::http_status(row, 2),
    };
    Some(DeadLetterGroup {
        key,
        count: row.get::<_, i64>(5) as u64,
        oldest: DeliveryId::from_uuid(row.get(3)),
        newest: DeliveryId::from_uuid(row.get(4)),
    })
}

/// An empty list is no filter.
pub(super) fn some<T: Clone>(values: &[T]) -> Option<Vec<T>> {
    (!values.is_empty()).then(|| values.to_vec())
}

pub(super) fn uuids<K>(ids: &[K], uuid: impl Fn(&K) -> Uuid) -> Option<Vec<Uuid>> {
    (!ids.is_empty()).then(|| ids.iter().map(uuid).collect())
}

pub(super) fn expressions(patterns: &[Pattern]) -> Option<Vec<String>> {
    (!patterns.is_empty()).then(|| patterns.iter().map(|pattern| expression(pattern.as_str())).collect())
}

/// A pattern as a regular expression that matches the same event types. Its words have no letters to escape.
fn expression(pattern: &str) -> String {
    if pattern == "*" {
        return "^.*$".into();
    }
    let segment = |segment| match segment {
        "*" => "[^.]*",
        "**" => ".*",
        word => word,
    };
    let segments: Vec<&str> = pattern.split('.').map(segment).collect();
    format!("^{}$", segments.join("\\."))
}

/// Events with how far their fan-outs are. In a statement of its own: the events tell in which days their deliveries can
/// be, and a plan for all days of a long retention takes longer than the reading.
async fn event_records(
    connection: &Connection,
    rows: &[&Row],
    at_most: Option<usize>,
) -> Result<Vec<EventRecord>, StoreError> {
    let ids: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
    let counts = fanout_counts(connection, &ids, at_most).await?;
    let record = |(row, counts): (&&Row, &Row)| EventRecord {
        event: rows::event(row),
        size_bytes: rows::count(row, 12).into(),
        fanout: fanout(row.get(11), counts, at_most),
    };
    Ok(rows.iter().zip(&counts).map(record).collect())
}

/// One row per event. Of what waits at most so many are counted, and of what has ended.
async fn fanout_counts(
    connection: &Connection,
    events: &[Uuid],
    at_most: Option<usize>,
) -> Result<Vec<Row>, StoreError> {
    let Some(oldest) = events.iter().min() else { return Ok(Vec::new()) };
    let from = DeliveryId::at(EventId::from_uuid(*oldest).made_at().minus(limits::ID_SLACK), 0).uuid();
    let limit = at_most.map(|most| most as i64);
    let params = params![events => UUID_ARRAY, from => UUID, limit => INT8];
    Ok(connection.read(&FANOUT_COUNTS.call, params).await?)
}

/// `total` is null while an expansion makes them.
fn fanout(total: Option<i32>, counts: &Row, at_most: Option<usize>) -> FanoutCounts {
    let counted = |column| counts.get::<_, i64>(column) as u32;
    let fanout = FanoutCounts {
        waiting: counted(0),
        delivered: counted(1),
        dead_letter: counted(2),
        cancelled: counted(3),
        ..FanoutCounts::default()
    };
    fanout.of(total.map(|total| total as u32), at_most, rows::optional_time(counts, 4))
}

/// A delivery's columns from `at` on, then ending, reason, ended_at, type, source_id, ordering_key.
fn delivery_record(row: &Row, at: usize) -> Result<DeliveryRecord, StoreError> {
    let id = DeliveryId::from_uuid(row.get(at + 1));
    let (created_at, state) = match row.get::<_, Option<&str>>(at + 20) {
        None => {
            let (_, delivery) = rows::delivery(row, at);
            (delivery.created_at, DeliveryState::Waiting(Box::new(delivery)))
        }
        Some(status) => {
            let ending =
                Ending::read(status, row.get(at + 21)).ok_or_else(|| unreadable("ending", status))?;
            (id.made_at(), DeliveryState::Ended { ending, at: rows::time(row, at + 22) })
        }
    };
    Ok(DeliveryRecord {
        id,
        account_id: AccountId::from_uuid(row.get(at + 2)),
        event_id: EventId::from_uuid(row.get(at + 3)),
        event_type: row.get::<_, Option<String>>(at + 23).unwrap_or_default(),
        source_id: row.get::<_, Option<Uuid>>(at + 24).map(SourceId::from_uuid),
        route_id: RouteId::from_uuid(row.get(at + 5)),
        destination_id: DestinationId::from_uuid(row.get(at + 4)),
        replay_id: row.get::<_, Option<Uuid>>(at + 6).map(ReplayId::from_uuid),
        origin: DeliveryId::from_uuid(row.get(at + 7)),
        attempts: rows::count(row, at + 11),
        spent: rows::count(row, at + 12),
        last_outcome: row.get::<_, Option<&str>>(at + 14).and_then(|word| word.parse().ok()),
        last_http_status: rows::http_status(row, at + 15),
        ordering_key: row.get(at + 25),
        sequence: row.get(at + 19),
        created_at,
        state,
    })
}

/// attempt_id, delivery_id, event_id, destination_id, number, started_at, duration_us, outcome, http_status, detail,
/// detail_packed, node_id, late.
fn attempt_record(row: &Row) -> Result<AttemptRecord, StoreError> {
    let outcome: &str = row.get(7);
    Ok(AttemptRecord {
        id: AttemptId::from_uuid(row.get(0)),
        delivery_id: DeliveryId::from_uuid(row.get(1)),
        event_id: EventId::from_uuid(row.get(2)),
        destination_id: DestinationId::from_uuid(row.get(3)),
        number: rows::count(row, 4),
        started_at: rows::time(row, 5),
        duration: Duration::from_micros(row.get::<_, i64>(6).max(0) as u64),
        outcome: outcome.parse::<Outcome>().map_err(|_| unreadable("outcome", outcome))?,
        http_status: rows::http_status(row, 8),
        detail: match row.get::<_, Option<&[u8]>>(10) {
            Some(packed) => detail::of_packed(packed),
            None => detail::of_text(row.get::<_, &str>(9).as_bytes()),
        },
        node: NodeId::from_uuid(row.get(11)),
        late: row.get(12),
    })
}

fn unreadable(what: &str, word: &str) -> StoreError {
    StoreError::Unavailable(format!("the {what} `{word}` was written by a newer version").into())
}

#[cfg(test)]
mod tests {
    use super::expression;

    #[test]
    fn a_pattern_becomes_the_expression_that_matches_the_same() {
        assert_eq!(expression("*"), "^.*$");
        assert_eq!(expression("payment.succeeded"), "^payment\\.succeeded$");
        assert_eq!(expression("*.failed"), "^[^.]*\\.failed$");
        assert_eq!(expression("payment.**"), "^payment\\..*$");
    }
}
