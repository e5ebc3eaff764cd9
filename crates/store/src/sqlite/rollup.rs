//! Summing up. No index knows when an attempt began: facts are appended as attempts end, so the rows of a minute lie
//! together, and where they begin is found by halving.

use super::{
    SqliteStore,
    row::{self, Key as _},
    trouble::Trouble,
    writer::Turn,
};
use crate::{EventCount, Kind, Mark, Rollup, Rollups, StoreError, Summed, Term, rollup::Fanned};
use async_trait::async_trait;
use domain::{
    id::{AccountId, AttemptId, DestinationId, EventId},
    limits,
    rollup::{FanoutSums, Span, Sums},
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use std::{collections::BTreeMap, time::Duration};

/// Rows looked at to judge a place: one that was written late does not mislead.
const NEIGHBOURS: i64 = 16;
const NEWEST_NEARBY: &str =
    "select max(attempt_id) from (select attempt_id from attempts where rowid >= ?1 order by rowid limit ?2)";
const FACTS: &str =
    "select rowid, attempt_id, account_id, destination_id, number is not null, duration_us, outcome,
       http_status, ending, reason
     from attempts where rowid >= ?1 order by rowid limit ?2";
const COUNT_EVENTS: &str = "select account_id, count(*), coalesce(sum(deliveries), 0) from events
     where id >= ?1 and id < ?2 group by account_id";
const FANOUTS: &str = include_str!("sql/fanouts.sql");

#[async_trait]
impl Rollups for SqliteStore {
    async fn sum_facts(
        &self,
        span: Span,
        from: Timestamp,
        to: Timestamp,
        at: Option<i64>,
    ) -> Result<Summed, StoreError> {
        self.read(move |connection| {
            let slack = slack(span);
            let begin = at.map_or_else(|| first_row(connection, from.minus(slack)), Ok)?;
            let mut sums: BTreeMap<_, Sums> = BTreeMap::new();
            let stop = AttemptId::at(to.plus(slack), 0);
            let next = walk(connection, begin, limits::ROLLUP_FACTS, |fact| {
                if (from..to).contains(&fact.id.made_at()) {
                    fact.add_to(sums.entry((fact.account_id, fact.destination_id)).or_default());
                }
                fact.id < stop
            })?;
            Ok(Summed { sums: sums.into_iter().collect(), next })
        })
        .await
    }

    async fn count_events(&self, from: Timestamp, to: Timestamp) -> Result<Vec<EventCount>, StoreError> {
        self.read(move |connection| {
            let mut select = connection.prepare_cached(COUNT_EVENTS)?;
            let range = [EventId::at(from, 0).blob(), EventId::at(to, 0).blob()];
            let counts = select.query_map(range, |row| {
                let count = |column| row.get::<_, i64>(column).map(i64::unsigned_abs);
                Ok(EventCount { account_id: row::id(row, 0)?, events: count(1)?, deliveries: count(2)? })
            })?;
            Ok(counts.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    async fn sum_fanouts(
        &self,
        from: EventId,
        to: Timestamp,
        limit: usize,
    ) -> Result<(Vec<(AccountId, FanoutSums)>, Option<EventId>), StoreError> {
        self.read(move |connection| {
            let mut select = connection.prepare_cached(FANOUTS)?;
            let range = params![from.blob(), EventId::at(to, 0).blob(), limit as i64 + 1];
            let mut rows = select.query(range)?;
            let mut sums: BTreeMap<AccountId, FanoutSums> = BTreeMap::new();
            let (mut looked_at, mut counted) = (0, 0);
            while let Some(row) = rows.next()? {
                if looked_at == limit || counted >= limits::ROLLUP_FANOUT_DELIVERIES {
                    let next = Some(row::id(row, 0)?);
                    return Ok((sums.into_iter().collect(), next));
                }
                let fanned = fanned(row)?;
                looked_at += 1;
                counted += u64::from(fanned.delivered) + u64::from(fanned.not_delivered);
                fanned.add_to(sums.entry(row::id(row, 1)?).or_default());
            }
            Ok((sums.into_iter().collect(), None))
        })
        .await
    }

    async fn write_rollups(&self, _term: Term, rows: &[Rollup]) -> Result<bool, StoreError> {
        let rows = rows.to_owned();
        self.write(Turn::Bulk, move |connection| {
            let mut write = connection.prepare_cached(
                "insert into rollups (account_id, destination_id, span, starts_at, doc) values (?1, ?2, ?3, ?4, ?5)
                 on conflict (account_id, destination_id, span, starts_at) do update set doc = excluded.doc",
            )?;
            for row in &rows {
                let (account, place) = (row.account_id.blob(), row.place().blob());
                write.execute(params![account, place, row.kind.as_str(), row.starts_at.micros(), row.doc])?;
            }
            Ok(true)
        })
        .await
    }

    async fn write_mark(&self, _term: Term, mark: Mark, until: Timestamp) -> Result<bool, StoreError> {
        self.write(Turn::Bulk, move |connection| {
            connection
                .prepare_cached(
                    "insert into rollup_marks (name, closed_at) values (?1, ?2)
                     on conflict (name) do update set closed_at = excluded.closed_at",
                )?
                .execute(params![mark.name(), until.micros()])?;
            Ok(true)
        })
        .await
    }

    async fn mark(&self, mark: Mark) -> Result<Option<Timestamp>, StoreError> {
        self.read(move |connection| {
            let mut select =
                connection.prepare_cached("select closed_at from rollup_marks where name = ?1")?;
            Ok(select.query_row([mark.name()], |row| row::time(row, 0)).optional()?)
        })
        .await
    }

    async fn oldest_event(&self) -> Result<Option<Timestamp>, StoreError> {
        self.read(|connection| {
            let mut select = connection.prepare_cached("select id from events order by id limit 1")?;
            let id: Option<EventId> = select.query_row([], |row| row::id(row, 0)).optional()?;
            Ok(id.map(EventId::made_at))
        })
        .await
    }

    async fn prune_rollups(
        &self,
        _term: Term,
        kind: Kind,
        before: Timestamp,
        limit: usize,
    ) -> Result<Option<usize>, StoreError> {
        self.write(Turn::Bulk, move |connection| {
            let mut prune = connection.prepare_cached(
                "delete from rollups where (account_id, destination_id, span, starts_at) in
                   (select account_id, destination_id, span, starts_at from rollups
                    where span = ?1 and starts_at < ?2 limit ?3)",
            )?;
            Ok(Some(prune.execute(params![kind.as_str(), before.micros(), limit as i64])?))
        })
        .await
    }

    async fn rollups(
        &self,
        account: AccountId,
        destination: Option<DestinationId>,
        kind: Kind,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<(Timestamp, String)>, StoreError> {
        self.read(move |connection| {
            let mut select = connection.prepare_cached(
                "select starts_at, doc from rollups
                 where account_id = ?1 and destination_id = ?2 and span = ?3 and starts_at >= ?4 and starts_at < ?5
                 order by starts_at",
            )?;
            let place = destination.unwrap_or(DestinationId::MIN).blob();
            let range = params![account.blob(), place, kind.as_str(), from.micros(), to.micros()];
            let found = select.query_map(range, |row| Ok((row::time(row, 0)?, row.get(1)?)))?;
            Ok(found.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    async fn sum_tail(
        &self,
        account: AccountId,
        destination: Option<DestinationId>,
        from: Timestamp,
        limit: usize,
    ) -> Result<Option<Sums>, StoreError> {
        self.read(move |connection| {
            let begin = first_row(connection, from.minus(slack(Span::Minute)))?;
            let mut tail = Sums::default();
            let more = walk(connection, begin, limit, |fact| {
                let asked_for = destination.is_none_or(|id| id == fact.destination_id);
                if fact.account_id == account && asked_for && fact.id.made_at() >= from {
                    fact.add_to(&mut tail);
                }
                true
            })?;
            if more.is_some() {
                return Ok(None);
            }
            if destination.is_none() {
                let mut select = connection.prepare_cached(
                    "select count(*), coalesce(sum(deliveries), 0) from
                       (select deliveries from events where account_id = ?1 and id >= ?2 limit ?3)",
                )?;
                let since = params![account.blob(), EventId::at(from, 0).blob(), limit as i64];
                let counts =
                    select.query_row(since, |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
                (tail.events, tail.deliveries) = (counts.0.unsigned_abs(), counts.1.unsigned_abs());
                if tail.events >= limit as u64 {
                    return Ok(None);
                }
            }
            Ok(Some(tail))
        })
        .await
    }

    async fn count_waiting(&self, account: AccountId, limit: usize) -> Result<u64, StoreError> {
        self.read(move |connection| {
            let mut select = connection.prepare_cached(
                "select count(*) from (select 1 from queue where account_id = ?1 limit ?2)",
            )?;
            let count: i64 = select.query_row(params![account.blob(), limit as i64], |row| row.get(0))?;
            Ok(count.unsigned_abs())
        })
        .await
    }
}

/// How late a fact may be written and still be found.
fn slack(span: Span) -> Duration {
    match span {
        Span::Minute => limits::ROLLUP_MINUTE_AFTER,
        Span::Hour => limits::ROLLUP_HOUR_AFTER,
        Span::Day => limits::ROLLUP_DAY_AFTER,
    }
}

/// The first row near which something began at or after this moment.
pub(super) fn first_row(connection: &Connection, from: Timestamp) -> Result<i64, Trouble> {
    let wanted = AttemptId::at(from, 0).blob();
    let ends = "select (select min(rowid) from attempts), (select max(rowid) from attempts)";
    let (first, last): (Option<i64>, Option<i64>) =
        connection.prepare_cached(ends)?.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let (Some(mut low), Some(last)) = (first, last) else { return Ok(0) };
    let mut high = last + 1;
    let mut newest_nearby = connection.prepare_cached(NEWEST_NEARBY)?;
    while low < high {
        let middle = low + (high - low) / 2;
        let newest: Option<[u8; 16]> = newest_nearby.query_row([middle, NEIGHBOURS], |row| row.get(0))?;
        match newest {
            Some(newest) if newest < wanted => low = middle + 1,
            _ => high = middle,
        }
    }
    // It may be the last of its neighbours.
    Ok(low)
}

/// An attempt, or an ending, or both.
struct Seen<'a> {
    id: AttemptId,
    account_id: AccountId,
    destination_id: DestinationId,
    row: &'a Row<'a>,
}

impl Seen<'_> {
    /// A newer version's words do not count.
    fn add_to(&self, sums: &mut Sums) {
        let add = |sums: &mut Sums| -> Result<(), Trouble> {
            if self.row.get(4)?
                && let Some(outcome) = row::maybe_outcome(self.row, 6)?
            {
                let took = Duration::from_micros(self.row.get::<_, i64>(5)?.unsigned_abs());
                sums.note_attempts(outcome, self.row.get(7)?, took, 1);
            }
            if self.row.get_ref(8)? != rusqlite::types::ValueRef::Null {
                sums.note_endings(row::ending(self.row, 8, 9)?, 1);
            }
            Ok(())
        };
        let _ = add(sums);
    }
}

/// Goes over at most so many facts as long as it is told to go on. Where to continue; None at the end.
fn walk(
    connection: &Connection,
    begin: i64,
    limit: usize,
    mut see: impl FnMut(&Seen<'_>) -> bool,
) -> Result<Option<i64>, Trouble> {
    let mut select = connection.prepare_cached(FACTS)?;
    let mut rows = select.query(params![begin, limit as i64])?;
    let (mut seen, mut last) = (0, begin);
    while let Some(row) = rows.next()? {
        last = row.get(0)?;
        let fact = Seen {
            id: row::id(row, 1)?,
            account_id: row::id(row, 2)?,
            destination_id: row::id(row, 3)?,
            row,
        };
        if !see(&fact) {
            return Ok(None);
        }
        seen += 1;
    }
    Ok((seen == limit).then_some(last + 1))
}

/// id, account_id, received_at, deliveries, waits, delivered, not delivered, last at
fn fanned(row: &Row<'_>) -> Result<Fanned, Trouble> {
    Ok(Fanned {
        received_at: row::time(row, 2)?,
        deliveries: row.get(3)?,
        waits: row.get(4)?,
        delivered: row.get(5)?,
        not_delivered: row.get(6)?,
        last_at: row::maybe_time(row, 7)?,
    })
}
