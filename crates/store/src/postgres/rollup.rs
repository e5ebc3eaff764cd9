//! Summing up. A minute's facts are found by the block ranges of each day's table, and added up there.

use super::{
    PostgresStore,
    rows::{Cells, Unreadable},
    statement::{Statement, params, sql, sql_file},
};
use crate::{
    EventCount, FreshSums, Rollup, RollupKind, RollupMark, Rollups, StoreError, SumPlace, Summed, SummedTail,
    Term,
    feed::Snapshot,
    rollup::{Fanned, SumProgress},
};
use async_trait::async_trait;
use domain::{
    id::{AccountId, AttemptId, DeliveryId, DestinationId, EventId},
    limits,
    rollup::{FanoutSums, SKETCH_BOUNDS, Span, Sums},
    time::Timestamp,
};
use std::{collections::BTreeMap, sync::LazyLock};
use uuid::Uuid;

static SUM_FACTS: LazyLock<Statement> = sql!("sum_facts");
pub(super) static SUM_FRESH: LazyLock<Statement> = sql!("sum_fresh");
static SUM_TAIL: LazyLock<Statement> = sql!("sum_tail");
/// Waits for less than the time after which the server stops a vacuum that is waited for.
static SUMMARISE: LazyLock<Statement> = LazyLock::new(|| {
    let patience = format!("{}ms", limits::DDL_LOCK.as_millis());
    Statement::new("summarise", &sql_file!("summarise").replace("PATIENCE", &patience))
});
static COUNT_EVENTS: LazyLock<Statement> = sql!("count_events");
pub(super) static FANOUTS: LazyLock<Statement> = sql!("fanouts");
static FANOUT_SIZES: LazyLock<Statement> = sql!("fanout_sizes");
static WRITE_ROLLUPS: LazyLock<Statement> = sql!("write_rollups");
static WRITE_MARK: LazyLock<Statement> = sql!("write_mark");
static MARK: LazyLock<Statement> = sql!("mark": "select closed_at from rollup_marks where name = :mark");
static OLDEST_EVENT: LazyLock<Statement> = sql!("oldest_event": "select id from events order by id limit 1");
static PRUNE_ROLLUPS: LazyLock<Statement> = sql!("prune_rollups");
static ROLLUPS: LazyLock<Statement> = sql!("rollups");
static ROLLUPS_OF_DESTINATIONS: LazyLock<Statement> = sql!("rollups_of_destinations");
static COUNT_WAITING: LazyLock<Statement> = sql!("count_waiting");
static OLDEST_DUE: LazyLock<Statement> = sql!("oldest_due");

impl PostgresStore {
    /// Whatever stands in its way, the sum itself meets it too or can do without.
    async fn summarise(&self) {
        if let Ok(connection) = self.pools.general().await {
            let _ = connection.write(&SUMMARISE, params![]).await;
        }
    }
}

#[async_trait]
impl Rollups for PostgresStore {
    async fn sum_facts(
        &self,
        span: Span,
        from: Timestamp,
        to: Timestamp,
        at: Option<i64>,
    ) -> Result<Summed, StoreError> {
        // A minute at a time, whatever the span.
        let begin = at.map_or(from, Timestamp::from_micros);
        let end = begin.plus(Span::Minute.length()).min(to);
        let oldest = match span {
            Span::Minute => DeliveryId::at(from.minus(limits::ROLLUP_DELIVERY_AGE), 0),
            _ => DeliveryId::MIN,
        };
        let params = params![
            from_attempt_id: AttemptId::at(begin, 0).uuid() => UUID,
            below_attempt_id: AttemptId::at(end, 0).uuid() => UUID, from_delivery_id: oldest.uuid() => UUID,
            bucket_bounds: SKETCH_BOUNDS.to_vec() => INT8_ARRAY,
        ];
        if span == Span::Minute && at.is_none() {
            self.summarise().await;
        }
        let connection = self.pools.general().await?;
        let mut sums: BTreeMap<_, Sums> = BTreeMap::new();
        let rows = connection.read(&SUM_FACTS, params).await?;
        rows.all(|cells| {
            let place = (cells.get("account_id")?, cells.get("destination_id")?);
            add_facts(cells, sums.entry(place).or_default())
        })?;
        Ok(Summed { sums: sums.into_iter().collect(), next: (end < to).then(|| end.micros()) })
    }

    async fn sum_fresh(
        &self,
        from: Timestamp,
        to: Timestamp,
        after: Option<SumPlace>,
    ) -> Result<FreshSums, StoreError> {
        let (mut seen, next) = match after.map(|place| place.0) {
            None => (BTreeMap::new(), None),
            Some(SumProgress::Snapshots { seen, next }) => (seen, next),
            Some(_) => return Err(SumProgress::foreign()),
        };
        if next.is_none() {
            self.summarise().await;
        }
        // A minute at a time, each by a snapshot of its own.
        let minute = next.unwrap_or(from).max(from);
        let end = minute.plus(Span::Minute.length());
        seen.retain(|of, _| *of >= from);
        let known = seen.get(&minute);
        let params = params![
            from_attempt_id: AttemptId::at(minute, 0).uuid() => UUID,
            below_attempt_id: AttemptId::at(end, 0).uuid() => UUID,
            from_delivery_id: DeliveryId::at(minute.minus(limits::ROLLUP_DELIVERY_AGE), 0).uuid() => UUID,
            bucket_bounds: SKETCH_BOUNDS.to_vec() => INT8_ARRAY,
            seen_oldest: known.map(|known| known.oldest) => INT8, seen_next: known.map(|known| known.next) => INT8,
            seen_open: known.map(|known| known.open.clone()) => INT8_ARRAY,
        ];
        let connection = self.pools.general().await?;
        let rows = connection.read(&SUM_FRESH, params).await?;
        let snapshot: String = rows.one(|cells| cells.get("snapshot"))?;
        let mut sums: BTreeMap<_, Sums> = BTreeMap::new();
        rows.joined("count", |cells| {
            let place = (minute, cells.get("account_id")?, cells.get("destination_id")?);
            add_facts(cells, sums.entry(place).or_default())
        })?;
        let unreadable = || StoreError::Unreadable("the server's snapshot does not read as one".into());
        seen.insert(minute, Snapshot::whole(&snapshot).ok_or_else(unreadable)?);
        let next = (end < to).then_some(end);
        let place = SumPlace(SumProgress::Snapshots { seen, next });
        Ok(FreshSums { sums: sums.into_iter().collect(), place, more: next.is_some() })
    }

    async fn count_events(&self, from: Timestamp, to: Timestamp) -> Result<Vec<EventCount>, StoreError> {
        let connection = self.pools.general().await?;
        let params = params![
            from_event_id: EventId::at(from, 0).uuid() => UUID, below_event_id: EventId::at(to, 0).uuid() => UUID,
        ];
        let counts = connection.read(&COUNT_EVENTS, params).await?;
        Ok(counts.all(|cells| {
            Ok(EventCount {
                account_id: cells.get("account_id")?,
                events: cells.get("events")?,
                deliveries: cells.get("deliveries")?,
            })
        })?)
    }

    async fn sum_fanouts(
        &self,
        from: EventId,
        to: Timestamp,
        limit: usize,
    ) -> Result<(Vec<(AccountId, FanoutSums)>, Option<EventId>), StoreError> {
        let connection = self.pools.general().await?;
        let end = EventId::at(to, 0).uuid();
        let params = params![
            from_event_id: from.uuid() => UUID, below_event_id: end => UUID, limit: limit as i64 + 1 => INT8,
        ];
        let sizes = connection.read(&FANOUT_SIZES, params).await?;
        let sizes: Vec<(EventId, Option<i32>)> =
            sizes.all(|cells| Ok((cells.get("id")?, cells.get("deliveries")?)))?;
        let taken = at_once(sizes.iter().take(limit).map(|(_, deliveries)| *deliveries));
        let next = sizes.get(taken).map(|(id, _)| *id);
        // A fan-out's deliveries are made within a day, give or take what clocks differ.
        let oldest = DeliveryId::at(from.made_at().minus(limits::ID_SLACK), 0).uuid();
        let newest = DeliveryId::at(to.plus(limits::ID_SLACK), 0).uuid();
        let below = next.map_or(end, |next| next.uuid());
        let params = params![
            from_event_id: from.uuid() => UUID, below_event_id: below => UUID, limit: limit as i64 => INT8,
            from_delivery_id: oldest => UUID, below_delivery_id: newest => UUID,
        ];
        let mut sums: BTreeMap<AccountId, FanoutSums> = BTreeMap::new();
        connection.read(&FANOUTS, params).await?.all(|cells| {
            let account = cells.get("account_id")?;
            fanned(cells)?.add_to(sums.entry(account).or_default());
            Ok(())
        })?;
        Ok((sums.into_iter().collect(), next))
    }

    async fn write_rollups(&self, term: Term, rows: &[Rollup]) -> Result<bool, StoreError> {
        let column = |of: &dyn Fn(&Rollup) -> Uuid| rows.iter().map(of).collect::<Vec<Uuid>>();
        let accounts = column(&|row| row.account_id.uuid());
        let places = column(&|row| row.place().uuid());
        let spans: Vec<&str> = rows.iter().map(|row| row.kind.as_str()).collect();
        let starts: Vec<i64> = rows.iter().map(|row| row.starts_at.micros()).collect();
        let docs: Vec<&str> = rows.iter().map(|row| row.doc.as_str()).collect();
        let params = params![
            chore: term.chore.as_str() => TEXT, node_id: term.node.uuid() => UUID, term: term.number => INT8,
            account_id: accounts => UUID_ARRAY, destination_id: places => UUID_ARRAY, span: spans => TEXT_ARRAY,
            starts_at: starts => INT8_ARRAY, doc: docs => TEXT_ARRAY,
        ];
        let connection = self.pools.general().await?;
        let written = connection.write(&WRITE_ROLLUPS, params).await?;
        Ok(!written.is_empty())
    }

    async fn write_mark(&self, term: Term, mark: RollupMark, until: Timestamp) -> Result<bool, StoreError> {
        let params = params![
            chore: term.chore.as_str() => TEXT, node_id: term.node.uuid() => UUID, term: term.number => INT8,
            mark: mark.name() => TEXT, closed_at: until.micros() => INT8,
        ];
        let connection = self.pools.general().await?;
        Ok(!connection.write(&WRITE_MARK, params).await?.is_empty())
    }

    async fn mark(&self, mark: RollupMark) -> Result<Option<Timestamp>, StoreError> {
        let connection = self.pools.general().await?;
        Ok(connection.read(&MARK, params![mark: mark.name() => TEXT]).await?.first_value("closed_at")?)
    }

    async fn oldest_event(&self) -> Result<Option<Timestamp>, StoreError> {
        let connection = self.pools.general().await?;
        let oldest: Option<EventId> = connection.read(&OLDEST_EVENT, params![]).await?.first_value("id")?;
        Ok(oldest.map(EventId::made_at))
    }

    async fn prune_rollups(
        &self,
        term: Term,
        kind: RollupKind,
        before: Timestamp,
        limit: usize,
    ) -> Result<Option<usize>, StoreError> {
        let params = params![
            chore: term.chore.as_str() => TEXT, node_id: term.node.uuid() => UUID, term: term.number => INT8,
            span: kind.as_str() => TEXT, starts_before: before.micros() => INT8, limit: limit as i64 => INT8,
        ];
        let connection = self.pools.general().await?;
        Ok(connection.write(&PRUNE_ROLLUPS, params).await?.first_value("gone")?)
    }

    async fn rollups(
        &self,
        account: AccountId,
        destination: Option<DestinationId>,
        kind: RollupKind,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<(Timestamp, String)>, StoreError> {
        let params = params![
            account_id: account.uuid() => UUID,
            destination_id: destination.unwrap_or(DestinationId::MIN).uuid() => UUID,
            span: kind.as_str() => TEXT, starts_since: from.micros() => INT8, starts_before: to.micros() => INT8,
        ];
        let connection = self.pools.general().await?;
        let found = connection.read(&ROLLUPS, params).await?;
        Ok(found.all(|cells| Ok((cells.get("starts_at")?, cells.get("doc")?)))?)
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
        let ids: Vec<Uuid> = destinations.iter().map(|id| id.uuid()).collect();
        let params = params![
            account_id: account.uuid() => UUID, destination_ids: ids => UUID_ARRAY, span: kind.as_str() => TEXT,
            starts_since: from.micros() => INT8, starts_before: to.micros() => INT8, limit: limit as i64 => INT8,
        ];
        let connection = self.pools.general().await?;
        let found = connection.read(&ROLLUPS_OF_DESTINATIONS, params).await?;
        Ok(found
            .all(|cells| Ok((cells.get("destination_id")?, cells.get("starts_at")?, cells.get("doc")?)))?)
    }

    async fn sum_tail(
        &self,
        account: AccountId,
        destination: Option<DestinationId>,
        from: Timestamp,
        limit: usize,
    ) -> Result<SummedTail, StoreError> {
        let params = params![
            account_id: account.uuid() => UUID, destination_id: destination.map(|id| id.uuid()) => UUID,
            from_attempt_id: AttemptId::at(from, 0).uuid() => UUID,
            from_delivery_id: DeliveryId::at(from.minus(limits::ROLLUP_DELIVERY_AGE), 0).uuid() => UUID,
            from_event_id: EventId::at(from, 0).uuid() => UUID, limit: limit as i64 => INT8,
            bucket_bounds: SKETCH_BOUNDS.to_vec() => INT8_ARRAY,
        ];
        let connection = self.pools.general().await?;
        let rows = connection.read(&SUM_TAIL, params).await?;
        let (newest_fact, newest_event): (Option<AttemptId>, Option<EventId>) =
            rows.one(|cells| Ok((cells.get("newest_fact")?, cells.get("newest_event")?)))?;
        let mut until = newest_fact.map(AttemptId::made_at);
        let mut tail = Sums::default();
        if destination.is_none() {
            (tail.events, tail.deliveries) =
                rows.one(|cells| Ok((cells.get("events")?, cells.get("deliveries")?)))?;
            until = until.into_iter().chain(newest_event.map(EventId::made_at)).min();
        }
        rows.joined("count", |cells| add_facts(cells, &mut tail))?;
        Ok(SummedTail { sums: tail, until })
    }

    async fn count_waiting(&self, account: AccountId, limit: usize) -> Result<u64, StoreError> {
        let connection = self.pools.general().await?;
        let params = params![account_id: account.uuid() => UUID, limit: limit as i64 => INT8];
        Ok(connection.read(&COUNT_WAITING, params).await?.value("count")?)
    }

    async fn oldest_due(
        &self,
        account: AccountId,
        now: Timestamp,
        limit: usize,
    ) -> Result<Option<Timestamp>, StoreError> {
        let connection = self.pools.general().await?;
        let params = params![
            account_id: account.uuid() => UUID, now: now.micros() => INT8, limit: limit as i64 => INT8,
        ];
        Ok(connection.read(&OLDEST_DUE, params).await?.value("due_at")?)
    }
}

/// Facts that are alike, and how many they are. A newer version's words do not count.
fn add_facts(cells: &mut Cells<'_, '_>, sums: &mut Sums) -> Result<(), Unreadable> {
    let (attempted, count): (bool, u64) = (cells.get("attempted")?, cells.get("count")?);
    let (outcome, http_status) = (cells.known_word("outcome")?, cells.get("http_status")?);
    let bucket: Option<i32> = cells.get("bucket")?;
    if let (true, Some(outcome)) = (attempted, outcome) {
        *sums.outcomes.entry(outcome).or_default() += count;
        if let Some(status) = http_status {
            *sums.http_statuses.entry(status).or_default() += count;
        }
        sums.latency.note_in(bucket.unwrap_or(0) as u8, count);
    }
    if let Some(ending) = cells.known_ending()? {
        sums.note_endings(ending, count);
        if let Some(bucket) = cells.get::<Option<i32>>("delivery_bucket")? {
            sums.delivery_latency.note_in(bucket as u8, count);
        }
    }
    Ok(())
}

/// How many of these fan-outs are counted in one statement, by their sizes: one at least.
fn at_once(sizes: impl Iterator<Item = Option<i32>>) -> usize {
    let mut counted = 0;
    // One that is being made is as large as any.
    let size = |size: Option<i32>| size.map_or(limits::ROLLUP_FANOUT_DELIVERIES, |size| size as u64);
    sizes
        .take_while(|of| {
            let first = counted == 0;
            counted += size(*of).max(1);
            first || counted <= limits::ROLLUP_FANOUT_DELIVERIES
        })
        .count()
}

fn fanned(cells: &mut Cells<'_, '_>) -> Result<Fanned, Unreadable> {
    Ok(Fanned {
        received_at: cells.get("received_at")?,
        deliveries: cells.get("deliveries")?,
        waits: cells.get("waits")?,
        delivered: cells.get::<u64>("delivered")? as u32,
        not_delivered: cells.get::<u64>("not_delivered")? as u32,
        last_at: cells.get("last_at")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_fan_outs_are_counted_a_few_at_a_time() {
        let check =
            |sizes: &[Option<i32>], taken| assert_eq!(at_once(sizes.iter().copied()), taken, "{sizes:?}");
        check(&[], 0);
        check(&[Some(0); 500], 500);
        check(&[Some(20_000); 5], 2);
        check(&[Some(200_000), Some(1)], 1);
        check(&[Some(1), None, Some(1)], 1);
    }
}
