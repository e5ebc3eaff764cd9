//! Summing up. A minute's facts are found by the block ranges of each day's table, and added up there.

use super::{PostgresStore, pool::params, rows};
use crate::{EventCount, Kind, Mark, Rollup, Rollups, StoreError, Summed, Term, rollup::Fanned};
use async_trait::async_trait;
use domain::{
    delivery::Ending,
    id::{AccountId, AttemptId, DeliveryId, DestinationId, EventId},
    limits,
    rollup::{FanoutSums, SKETCH_BOUNDS, Span, Sums},
    time::Timestamp,
};
use std::{collections::BTreeMap, sync::LazyLock};
use tokio_postgres::Row;
use uuid::Uuid;

pub(super) const SUM_FACTS: &str = include_str!("sql/sum_facts.sql");
pub(super) const SUM_TAIL: &str = include_str!("sql/sum_tail.sql");
/// Waits for less than the time after which the server stops a vacuum that somebody waits for.
static SUMMARISE: LazyLock<String> = LazyLock::new(|| {
    let patience = format!("{}ms", limits::DDL_LOCK.as_millis());
    include_str!("sql/summarise.sql").replace("PATIENCE", &patience)
});
pub(super) const FANOUTS: &str = include_str!("sql/fanouts.sql");
const FANOUT_SIZES: &str =
    "select e.id, e.deliveries from events e where e.id >= $1 and e.id < $2 order by e.id limit $3";

impl PostgresStore {
    /// Whatever stands in its way, the sum itself meets it too or can do without.
    async fn summarise(&self) {
        if let Ok(connection) = self.pools.general().await {
            let _ = connection.write(&SUMMARISE, &[]).await;
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
        let (first, below) = (AttemptId::at(begin, 0).uuid(), AttemptId::at(end, 0).uuid());
        let bounds = SKETCH_BOUNDS.to_vec();
        let params = params![
            first => UUID, below => UUID, oldest.uuid() => UUID, bounds => INT8_ARRAY,
        ];
        if span == Span::Minute && at.is_none() {
            self.summarise().await;
        }
        let connection = self.pools.general().await?;
        let mut sums: BTreeMap<_, Sums> = BTreeMap::new();
        for row in connection.read(SUM_FACTS, params).await? {
            let place = (AccountId::from_uuid(row.get(7)), DestinationId::from_uuid(row.get(8)));
            add(&row, sums.entry(place).or_default());
        }
        Ok(Summed { sums: sums.into_iter().collect(), next: (end < to).then(|| end.micros()) })
    }

    async fn count_events(&self, from: Timestamp, to: Timestamp) -> Result<Vec<EventCount>, StoreError> {
        let connection = self.pools.general().await?;
        let sql = "select account_id, count(*), coalesce(sum(deliveries), 0)::bigint from events \
                   where id >= $1 and id < $2 group by account_id";
        let (first, below) = (EventId::at(from, 0).uuid(), EventId::at(to, 0).uuid());
        let counts = connection.read(sql, params![first => UUID, below => UUID]).await?;
        let count = |row: &Row| EventCount {
            account_id: AccountId::from_uuid(row.get(0)),
            events: row.get::<_, i64>(1) as u64,
            deliveries: row.get::<_, i64>(2) as u64,
        };
        Ok(counts.iter().map(count).collect())
    }

    async fn sum_fanouts(
        &self,
        from: EventId,
        to: Timestamp,
        limit: usize,
    ) -> Result<(Vec<(AccountId, FanoutSums)>, Option<EventId>), StoreError> {
        let connection = self.pools.general().await?;
        let end = EventId::at(to, 0).uuid();
        let params = params![from.uuid() => UUID, end => UUID, limit as i64 + 1 => INT8];
        let sizes = connection.read(FANOUT_SIZES, params).await?;
        let taken = at_once(sizes.iter().take(limit).map(|row| row.get(1)));
        let next = sizes.get(taken).map(|row| EventId::from_uuid(row.get(0)));
        // A fan-out's deliveries are made within a day, give or take what clocks differ.
        let oldest = DeliveryId::at(from.made_at().minus(limits::ID_SLACK), 0).uuid();
        let newest = DeliveryId::at(to.plus(limits::ID_SLACK), 0).uuid();
        let below = next.map_or(end, |next| next.uuid());
        let params = params![
            from.uuid() => UUID, below => UUID, limit as i64 => INT8, oldest => UUID, newest => UUID,
        ];
        let found = connection.read(FANOUTS, params).await?;
        let mut sums: BTreeMap<AccountId, FanoutSums> = BTreeMap::new();
        for row in &found {
            fanned(row).add_to(sums.entry(AccountId::from_uuid(row.get(1))).or_default());
        }
        Ok((sums.into_iter().collect(), next))
    }

    async fn write_rollups(&self, term: Term, rows: &[Rollup]) -> Result<bool, StoreError> {
        let column = |of: &dyn Fn(&Rollup) -> Uuid| rows.iter().map(of).collect::<Vec<Uuid>>();
        let accounts = column(&|row| row.account_id.uuid());
        let places = column(&|row| row.place().uuid());
        let spans: Vec<&str> = rows.iter().map(|row| row.kind.as_str()).collect();
        let starts: Vec<i64> = rows.iter().map(|row| row.starts_at.micros()).collect();
        let docs: Vec<&str> = rows.iter().map(|row| row.doc.as_str()).collect();
        let name = term.chore.as_str();
        let params = params![
            name => TEXT, term.node.uuid() => UUID, term.number => INT8, accounts => UUID_ARRAY,
            places => UUID_ARRAY, spans => TEXT_ARRAY, starts => INT8_ARRAY, docs => TEXT_ARRAY,
        ];
        let connection = self.pools.general().await?;
        let written = connection.write(include_str!("sql/write_rollups.sql"), params).await?;
        Ok(!written.is_empty())
    }

    async fn write_mark(&self, term: Term, mark: Mark, until: Timestamp) -> Result<bool, StoreError> {
        let (name, mark) = (term.chore.as_str(), mark.name());
        let params = params![
            name => TEXT, term.node.uuid() => UUID, term.number => INT8, mark => TEXT, until.micros() => INT8,
        ];
        let connection = self.pools.general().await?;
        Ok(!connection.write(include_str!("sql/write_mark.sql"), params).await?.is_empty())
    }

    async fn mark(&self, mark: Mark) -> Result<Option<Timestamp>, StoreError> {
        let connection = self.pools.general().await?;
        let sql = "select closed_at from rollup_marks where name = $1";
        let found = connection.read_opt(sql, params![mark.name() => TEXT]).await?;
        Ok(found.map(|row| rows::time(&row, 0)))
    }

    async fn oldest_event(&self) -> Result<Option<Timestamp>, StoreError> {
        let connection = self.pools.general().await?;
        let found = connection.read_opt("select id from events order by id limit 1", &[]).await?;
        Ok(found.map(|row| EventId::from_uuid(row.get(0)).made_at()))
    }

    async fn prune_rollups(
        &self,
        term: Term,
        kind: Kind,
        before: Timestamp,
        limit: usize,
    ) -> Result<Option<usize>, StoreError> {
        let (name, kind) = (term.chore.as_str(), kind.as_str());
        let params = params![
            name => TEXT, term.node.uuid() => UUID, term.number => INT8, kind => TEXT,
            before.micros() => INT8, limit as i64 => INT8,
        ];
        let connection = self.pools.general().await?;
        let pruned = connection.write(include_str!("sql/prune_rollups.sql"), params).await?;
        Ok(pruned.first().map(|row| row.get::<_, i64>(0) as usize))
    }

    async fn rollups(
        &self,
        account: AccountId,
        destination: Option<DestinationId>,
        kind: Kind,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<(Timestamp, String)>, StoreError> {
        let (place, kind) = (destination.unwrap_or(DestinationId::MIN).uuid(), kind.as_str());
        let sql = "select starts_at, doc from rollups \
                   where account_id = $1 and destination_id = $2 and span = $3 and starts_at >= $4 and starts_at < $5 \
                   order by starts_at";
        let params = params![
            account.uuid() => UUID, place => UUID, kind => TEXT, from.micros() => INT8, to.micros() => INT8,
        ];
        let connection = self.pools.general().await?;
        let found = connection.read(sql, params).await?;
        Ok(found.iter().map(|row| (rows::time(row, 0), row.get(1))).collect())
    }

    async fn sum_tail(
        &self,
        account: AccountId,
        destination: Option<DestinationId>,
        from: Timestamp,
        limit: usize,
    ) -> Result<Option<Sums>, StoreError> {
        let first = AttemptId::at(from, 0).uuid();
        let oldest = DeliveryId::at(from.minus(limits::ROLLUP_DELIVERY_AGE), 0).uuid();
        let event = EventId::at(from, 0).uuid();
        let (bounds, of, limit) = (SKETCH_BOUNDS.to_vec(), destination.map(|id| id.uuid()), limit as i64);
        let params = params![
            account.uuid() => UUID, of => UUID, first => UUID, oldest => UUID, event => UUID, limit => INT8,
            bounds => INT8_ARRAY,
        ];
        let connection = self.pools.general().await?;
        let mut tail = Sums::default();
        for row in connection.read(SUM_TAIL, params).await? {
            let (facts, events): (i64, i64) = (row.get(7), row.get(8));
            if facts > limit || events > limit {
                return Ok(None);
            }
            if destination.is_none() {
                (tail.events, tail.deliveries) = (events as u64, row.get::<_, i64>(9) as u64);
            }
            if row.get::<_, Option<i64>>(6).is_some() {
                add(&row, &mut tail);
            }
        }
        Ok(Some(tail))
    }

    async fn count_waiting(&self, account: AccountId, limit: usize) -> Result<u64, StoreError> {
        let connection = self.pools.general().await?;
        let sql = "select count(*) from (select from queue where account_id = $1 limit $2) q";
        let rows = connection.read(sql, params![account.uuid() => UUID, limit as i64 => INT8]).await?;
        Ok(rows[0].get::<_, i64>(0) as u64)
    }
}

/// attempted, outcome, http_status, bucket, ending, reason, count. A newer version's words do not count.
fn add(row: &Row, sums: &mut Sums) {
    let count = row.get::<_, i64>(6) as u64;
    if row.get::<_, bool>(0)
        && let Some(outcome) = row.get::<_, Option<&str>>(1).and_then(|word| word.parse().ok())
    {
        *sums.outcomes.entry(outcome).or_default() += count;
        if let Some(status) = rows::http_status(row, 2) {
            *sums.http_statuses.entry(status).or_default() += count;
        }
        sums.latency.note_in(row.get::<_, Option<i32>>(3).unwrap_or(0) as u8, count);
    }
    let ending = row.get::<_, Option<&str>>(4).and_then(|word| Ending::read(word, row.get(5)));
    if let Some(ending) = ending {
        sums.note_endings(ending, count);
    }
}

/// id, account_id, received_at, deliveries, waits, delivered, not delivered, last at
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

fn fanned(row: &Row) -> Fanned {
    Fanned {
        received_at: rows::time(row, 2),
        deliveries: row.get::<_, Option<i32>>(3).map(|made| made as u32),
        waits: row.get(4),
        delivered: row.get::<_, i64>(5) as u32,
        not_delivered: row.get::<_, i64>(6) as u32,
        last_at: rows::optional_time(row, 7),
    }
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
