//! Summing up. No index knows when an attempt began: facts are appended as attempts end, so the rows of a minute lie
//! together, and where they begin is found by halving.

use super::{
    SqliteStore,
    rows::Columns,
    statement::{bound, sql},
    trouble::Trouble,
    writer::Priority,
};
use crate::{
    EventCount, FreshSums, Rollup, RollupKind, RollupMark, Rollups, StoreError, SumPlace, Summed, SummedTail,
    Term,
    rollup::{Fanned, SumProgress},
};
use async_trait::async_trait;
use domain::{
    delivery::Ending,
    id::{AccountId, AttemptId, DestinationId, EventId},
    limits,
    rollup::{FanoutSums, Span, Sums},
    time::Timestamp,
};
use rusqlite::Connection;
use std::{collections::BTreeMap, ops::ControlFlow, time::Duration};

/// Rows looked at to judge a place: one that was written late does not mislead.
const NEIGHBOURS: usize = 16;

const NEARBY_FACTS: &str = sql!("nearby_facts");
const SUM_FACTS: &str = sql!("sum_facts");
const SUM_TAIL: &str = sql!("sum_tail");
const COUNT_EVENTS: &str = sql!("count_events");
const FANOUTS: &str = sql!("fanouts");
const ROLLUPS: &str = sql!("rollups");
const WRITE_ROLLUPS: &str = sql!("write_rollups");
const WRITE_MARK: &str = sql!("write_mark");
const PRUNE_ROLLUPS: &str = sql!("prune_rollups");
const OLDEST_DUE: &str = sql!("oldest_due");

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

    async fn sum_fresh(
        &self,
        from: Timestamp,
        _to: Timestamp,
        after: Option<SumPlace>,
    ) -> Result<FreshSums, StoreError> {
        let seen = match after.map(|place| place.0) {
            None => None,
            Some(SumProgress::Row(row)) => Some(row),
            Some(_) => return Err(SumProgress::foreign()),
        };
        self.read(move |connection| {
            // Where retention took the newest rows, their numbers come again.
            let end = last_row(connection)?.map_or(0, |last| last + 1);
            let begin = match seen {
                Some(row) => row.min(end),
                None => first_row(connection, from.minus(slack(Span::Minute)))?,
            };
            let mut sums: BTreeMap<_, Sums> = BTreeMap::new();
            let mut passed = begin;
            let next = walk(connection, begin, limits::ROLLUP_FACTS, |fact| {
                passed = fact.row + 1;
                let at = fact.id.made_at();
                if at >= from {
                    let place = (Span::Minute.start_of(at), fact.account_id, fact.destination_id);
                    fact.add_to(sums.entry(place).or_default());
                }
                true
            })?;
            let place = SumPlace(SumProgress::Row(passed));
            Ok(FreshSums { sums: sums.into_iter().collect(), place, more: next.is_some() })
        })
        .await
    }

    async fn count_events(&self, from: Timestamp, to: Timestamp) -> Result<Vec<EventCount>, StoreError> {
        self.read(move |connection| {
            bound!(COUNT_EVENTS, from: EventId::at(from, 0), below: EventId::at(to, 0)).all(
                connection,
                |columns| {
                    Ok(EventCount {
                        account_id: columns.id()?,
                        events: columns.count()?,
                        deliveries: columns.count()?,
                    })
                },
            )
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
            let mut sums: BTreeMap<AccountId, FanoutSums> = BTreeMap::new();
            let (mut looked_at, mut counted, mut next) = (0, 0, None);
            bound!(FANOUTS, from: from, below: EventId::at(to, 0), limit: limit + 1).each(
                connection,
                |columns| {
                    let (id, account) = (columns.id()?, columns.id()?);
                    if looked_at == limit || counted >= limits::ROLLUP_FANOUT_DELIVERIES {
                        next = Some(id);
                        return Ok(ControlFlow::Break(()));
                    }
                    let fanned = fanned(columns)?;
                    looked_at += 1;
                    counted += u64::from(fanned.delivered) + u64::from(fanned.not_delivered);
                    fanned.add_to(sums.entry(account).or_default());
                    Ok(ControlFlow::Continue(()))
                },
            )?;
            Ok((sums.into_iter().collect(), next))
        })
        .await
    }

    async fn write_rollups(&self, _term: Term, rows: &[Rollup]) -> Result<bool, StoreError> {
        let rows = rows.to_owned();
        self.write(Priority::Bulk, move |connection| {
            for row in &rows {
                bound!(
                    WRITE_ROLLUPS,
                    account_id: row.account_id,
                    destination_id: row.place(),
                    span: row.kind.as_str(),
                    starts_at: row.starts_at,
                    doc: row.doc,
                )
                .execute(connection)?;
            }
            Ok(true)
        })
        .await
    }

    async fn write_mark(&self, _term: Term, mark: RollupMark, until: Timestamp) -> Result<bool, StoreError> {
        self.write(Priority::Bulk, move |connection| {
            bound!(WRITE_MARK, name: mark.name(), closed_at: until).execute(connection)?;
            Ok(true)
        })
        .await
    }

    async fn mark(&self, mark: RollupMark) -> Result<Option<Timestamp>, StoreError> {
        self.read(move |connection| {
            bound!("select closed_at from rollup_marks where name = :name", name: mark.name())
                .first(connection, |columns| Ok(columns.time()?))
        })
        .await
    }

    async fn oldest_event(&self) -> Result<Option<Timestamp>, StoreError> {
        self.read(|connection| {
            let oldest = bound!("select id from events order by id limit 1")
                .first(connection, |columns| Ok(columns.id::<EventId>()?))?;
            Ok(oldest.map(EventId::made_at))
        })
        .await
    }

    async fn prune_rollups(
        &self,
        _term: Term,
        kind: RollupKind,
        before: Timestamp,
        limit: usize,
    ) -> Result<Option<usize>, StoreError> {
        self.write(Priority::Bulk, move |connection| {
            let pruned = bound!(PRUNE_ROLLUPS, span: kind.as_str(), before: before, limit: limit)
                .execute(connection)?;
            Ok(Some(pruned))
        })
        .await
    }

    async fn rollups(
        &self,
        account: AccountId,
        destination: Option<DestinationId>,
        kind: RollupKind,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<(Timestamp, String)>, StoreError> {
        self.read(move |connection| {
            bound!(
                ROLLUPS,
                account_id: account,
                destination_id: destination.unwrap_or(DestinationId::MIN),
                span: kind.as_str(),
                from: from,
                to: to,
            )
            .all(connection, |columns| Ok((columns.time()?, columns.get()?)))
        })
        .await
    }

    async fn rollups_of_destinations(
        &self,
        account: AccountId,
        destinations: &[DestinationId],
        kind: RollupKind,
        from: Timestamp,
        to: Timestamp,
        limit: usize,
    ) -> Result<Vec<(DestinationId, Timestamp, String)>, StoreError> {
        let destinations = destinations.to_owned();
        self.read(move |connection| {
            let mut found = Vec::new();
            for id in destinations {
                bound!(
                    ROLLUPS,
                    account_id: account,
                    destination_id: id,
                    span: kind.as_str(),
                    from: from,
                    to: to,
                )
                .each(connection, |columns| {
                    if found.len() == limit {
                        return Ok(ControlFlow::Break(()));
                    }
                    found.push((id, columns.time()?, columns.get()?));
                    Ok(ControlFlow::Continue(()))
                })?;
            }
            Ok(found)
        })
        .await
    }

    async fn sum_tail(
        &self,
        account: AccountId,
        destination: Option<DestinationId>,
        from: Timestamp,
        limit: usize,
    ) -> Result<SummedTail, StoreError> {
        self.read(move |connection| {
            let begin = first_row(connection, from.minus(slack(Span::Minute)))?;
            let (mut tail, mut newest) = (Sums::default(), AttemptId::MIN);
            let more = walk(connection, begin, limit, |fact| {
                newest = newest.max(fact.id);
                let asked_for = destination.is_none_or(|id| id == fact.destination_id);
                if fact.account_id == account && asked_for && fact.id.made_at() >= from {
                    fact.add_to(&mut tail);
                }
                true
            })?;
            let mut until = more.map(|_| newest.made_at());
            if destination.is_none() {
                let below = more.map_or(EventId::MAX, |_| EventId::from_uuid(newest.uuid()));
                let last: Option<EventId>;
                (tail.events, tail.deliveries, last) = bound!(
                    SUM_TAIL,
                    account_id: account,
                    from: EventId::at(from, 0),
                    below: below,
                    limit: limit,
                )
                .one(connection, |columns| {
                    Ok((columns.count()?, columns.count()?, columns.optional_id()?))
                })?;
                if tail.events >= limit as u64 {
                    until = until.into_iter().chain(last.map(EventId::made_at)).min();
                }
            }
            Ok(SummedTail { sums: tail, until })
        })
        .await
    }

    async fn count_waiting(&self, account: AccountId, limit: usize) -> Result<u64, StoreError> {
        self.read(move |connection| {
            bound!(
                "select count(*) from (select 1 from queue where account_id = :account_id limit :limit)",
                account_id: account,
                limit: limit,
            )
            .one(connection, |columns| Ok(columns.count()?))
        })
        .await
    }

    async fn oldest_due(
        &self,
        account: AccountId,
        now: Timestamp,
        limit: usize,
    ) -> Result<Option<Timestamp>, StoreError> {
        self.read(move |connection| {
            bound!(OLDEST_DUE, account_id: account, now: now, limit: limit)
                .one(connection, |columns| Ok(columns.optional_time()?))
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

fn last_row(connection: &Connection) -> Result<Option<i64>, Trouble> {
    bound!("select max(rowid) from attempts").one(connection, |columns| Ok(columns.get()?))
}

/// The first row near which something began at or after this moment.
pub(super) fn first_row(connection: &Connection, from: Timestamp) -> Result<i64, Trouble> {
    let wanted = AttemptId::at(from, 0);
    let ends = bound!("select (select min(rowid) from attempts), (select max(rowid) from attempts)");
    let ends = ends.one(connection, |columns| Ok((columns.get()?, columns.get()?)))?;
    let (Some(mut low), Some(last)): (Option<i64>, Option<i64>) = ends else { return Ok(0) };
    let mut high = last + 1;
    let mut select = connection.prepare_cached(NEARBY_FACTS)?;
    while low < high {
        let middle = low + (high - low) / 2;
        let newest = bound!(NEARBY_FACTS, row: middle, neighbours: NEIGHBOURS)
            .first_on(&mut select, |columns| Ok(columns.optional_id::<AttemptId>()?))?;
        match newest.flatten() {
            Some(newest) if newest < wanted => low = middle + 1,
            _ => high = middle,
        }
    }
    // It may be the last of its neighbours.
    Ok(low)
}

/// An attempt, or an ending, or both.
struct SummedFact<'r> {
    row: i64,
    id: AttemptId,
    account_id: AccountId,
    destination_id: DestinationId,
    /// `number is not null, outcome, http_status, duration_us, ending, reason, started_at, delivery_id`
    rest: Columns<'r>,
}

impl SummedFact<'_> {
    /// A newer version's words do not count.
    fn add_to(&self, sums: &mut Sums) {
        let mut columns = self.rest.clone();
        let mut add = || -> Result<(), Trouble> {
            let (attempted, outcome): (bool, _) = (columns.get()?, columns.optional_outcome()?);
            let (http_status, duration) = (columns.get()?, columns.optional_duration()?);
            if let (true, Some(outcome)) = (attempted, outcome) {
                sums.note_attempts(outcome, http_status, duration.unwrap_or_default(), 1);
            }
            if let Some(ending) = columns.optional_ending()? {
                sums.note_endings(ending, 1);
                if let (Ending::Delivered, Some(began)) = (ending, columns.optional_time()?) {
                    sums.note_delivered(columns.id()?, began.plus(duration.unwrap_or_default()));
                }
            }
            Ok(())
        };
        let _ = add();
    }
}

/// Goes over at most so many facts as long as it is told to go on. Where to continue; None at the end.
fn walk(
    connection: &Connection,
    begin: i64,
    limit: usize,
    mut see: impl FnMut(&SummedFact<'_>) -> bool,
) -> Result<Option<i64>, Trouble> {
    let (mut seen, mut last) = (0, begin);
    let mut ended = false;
    bound!(SUM_FACTS, from: begin, limit: limit).each(connection, |columns| {
        last = columns.get()?;
        let (id, account_id, destination_id) = (columns.id()?, columns.id()?, columns.id()?);
        if !see(&SummedFact { row: last, id, account_id, destination_id, rest: columns.clone() }) {
            ended = true;
            return Ok(ControlFlow::Break(()));
        }
        seen += 1;
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((seen == limit && !ended).then_some(last + 1))
}

/// `received_at, deliveries, waits, delivered, not delivered, last at`
fn fanned(columns: &mut Columns<'_>) -> Result<Fanned, Trouble> {
    Ok(Fanned {
        received_at: columns.time()?,
        deliveries: columns.get()?,
        waits: columns.get()?,
        delivered: columns.get()?,
        not_delivered: columns.get()?,
        last_at: columns.optional_time()?,
    })
}
